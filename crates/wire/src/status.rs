//! Status codes (RFC 9110, section 15) with their lines ready to send.

/// A status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(u16);

macro_rules! statuses {
    ($($code:literal $name:ident $reason:literal,)*) => {
        impl Status {
            $(#[doc = concat!($code, " ", $reason)] pub const $name: Status = Status($code);)*

            /// The reason phrase; empty for a code without a name here.
            pub fn reason(self) -> &'static str {
                match self.0 {
                    $($code => $reason,)*
                    _ => "",
                }
            }

            /// The whole status line, for the codes named here.
            pub(crate) fn line(self) -> Option<&'static [u8]> {
                match self.0 {
                    $($code => Some(concat!("HTTP/1.1 ", $code, " ", $reason, "\r\n").as_bytes()),)*
                    _ => None,
                }
            }
        }
    };
}

statuses! {
    100 CONTINUE "Continue",
    200 OK "OK",
    204 NO_CONTENT "No Content",
    206 PARTIAL_CONTENT "Partial Content",
    301 MOVED_PERMANENTLY "Moved Permanently",
    302 FOUND "Found",
    303 SEE_OTHER "See Other",
    304 NOT_MODIFIED "Not Modified",
    307 TEMPORARY_REDIRECT "Temporary Redirect",
    308 PERMANENT_REDIRECT "Permanent Redirect",
    400 BAD_REQUEST "Bad Request",
    401 UNAUTHORIZED "Unauthorized",
    403 FORBIDDEN "Forbidden",
    404 NOT_FOUND "Not Found",
    405 METHOD_NOT_ALLOWED "Method Not Allowed",
    406 NOT_ACCEPTABLE "Not Acceptable",
    408 REQUEST_TIMEOUT "Request Timeout",
    409 CONFLICT "Conflict",
    410 GONE "Gone",
    411 LENGTH_REQUIRED "Length Required",
    412 PRECONDITION_FAILED "Precondition Failed",
    413 CONTENT_TOO_LARGE "Content Too Large",
    414 URI_TOO_LONG "URI Too Long",
    415 UNSUPPORTED_MEDIA_TYPE "Unsupported Media Type",
    416 RANGE_NOT_SATISFIABLE "Range Not Satisfiable",
    417 EXPECTATION_FAILED "Expectation Failed",
    421 MISDIRECTED_REQUEST "Misdirected Request",
    422 UNPROCESSABLE_CONTENT "Unprocessable Content",
    429 TOO_MANY_REQUESTS "Too Many Requests",
    431 HEADER_FIELDS_TOO_LARGE "Request Header Fields Too Large",
    500 INTERNAL_SERVER_ERROR "Internal Server Error",
    501 NOT_IMPLEMENTED "Not Implemented",
    502 BAD_GATEWAY "Bad Gateway",
    503 SERVICE_UNAVAILABLE "Service Unavailable",
    504 GATEWAY_TIMEOUT "Gateway Timeout",
    505 VERSION_NOT_SUPPORTED "HTTP Version Not Supported",
}

impl Status {
    /// 499, as nginx has it in its log: the client left before it was answered. It is never sent.
    pub const CLIENT_LEFT: Status = Status(499);

    /// The status with this code, if it has three digits as RFC 9110 asks.
    pub fn from_code(code: u16) -> Option<Status> {
        (100..1000).contains(&code).then_some(Status(code))
    }

    /// The code.
    pub fn code(self) -> u16 {
        self.0
    }
}
