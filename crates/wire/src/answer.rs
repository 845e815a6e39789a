//! The head of a response, as a client reads it (RFC 9112, 6.3).

use crate::fields::{Coding, Survey};
use crate::request::FieldStorage;

/// The head of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerHead {
    /// The status code.
    pub code: u16,
    /// How the body is framed.
    pub framing: AnswerFraming,
    /// Whether the connection can be used for another request.
    pub keep_alive: bool,
}

/// How the body of a response is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerFraming {
    /// There is no body.
    None,
    /// This many bytes, at least one.
    Length(u64),
    /// Chunks.
    Chunked,
    /// Everything up to the end of the connection.
    UntilClose,
}

/// What came is no response of HTTP/1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerError(pub &'static str);

/// Reads the head of a response from the start of the input: the head and its length, or `None` if the rest
/// of it has not come yet. `to_head` says that the request was a HEAD, so that no body follows.
///
/// # Errors
/// It is malformed.
pub fn parse_answer<'b>(
    input: &'b [u8],
    storage: &mut FieldStorage<'b>,
    to_head: bool,
) -> Result<Option<(AnswerHead, usize)>, AnswerError> {
    let mut response = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let length = match config.parse_response_with_uninit_headers(&mut response, input, storage.slots()) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(AnswerError("the head of the response is malformed")),
    };
    let code = response.code.unwrap_or(0);
    if !(100..1000).contains(&code) {
        return Err(AnswerError("the status of the response is not a status"));
    }
    let survey = Survey::of(response.headers);
    let framing = framing(code, &survey, to_head)?;
    let persistent =
        if response.version == Some(1) { !survey.close } else { survey.keep_alive && !survey.close };
    Ok(Some((
        AnswerHead { code, framing, keep_alive: persistent && framing != AnswerFraming::UntilClose },
        length,
    )))
}

fn framing(code: u16, survey: &Survey<'_>, to_head: bool) -> Result<AnswerFraming, AnswerError> {
    if to_head || matches!(code, 100..200 | 204 | 304) {
        return Ok(AnswerFraming::None);
    }
    match (survey.coding, survey.length) {
        (Some(_), Some(_)) => {
            Err(AnswerError("the response has both a Content-Length and a Transfer-Encoding"))
        }
        (Some(Coding::Chunked), None) => Ok(AnswerFraming::Chunked),
        (Some(_), None) => Ok(AnswerFraming::UntilClose),
        _ if survey.bad_length => {
            Err(AnswerError("the Content-Length of the response is malformed or repeated"))
        }
        (None, Some(0)) => Ok(AnswerFraming::None),
        (None, Some(length)) => Ok(AnswerFraming::Length(length)),
        (None, None) => Ok(AnswerFraming::UntilClose),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, to_head: bool) -> Result<Option<(AnswerHead, usize)>, AnswerError> {
        parse_answer(text.as_bytes(), &mut FieldStorage::new(), to_head)
    }

    #[test]
    fn framing_and_persistence() {
        use AnswerFraming::*;
        for (text, to_head, code, framing, keep_alive) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false, 200, Length(5), true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true, 200, None, true),
            ("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", false, 204, None, true),
            ("HTTP/1.1 304 Not Modified\r\n\r\n", false, 304, None, true),
            ("HTTP/1.1 100 Continue\r\n\r\n", false, 100, None, true),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
                false,
                200,
                Chunked,
                false,
            ),
            ("HTTP/1.1 200 OK\r\n\r\n", false, 200, UntilClose, false),
            ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n", false, 200, Length(1), false),
            (
                "HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\n",
                false,
                200,
                Length(1),
                true,
            ),
        ] {
            let head = AnswerHead { code, framing, keep_alive };
            assert_eq!(parse(text, to_head), Ok(Some((head, text.len()))), "{text}");
        }
    }

    #[test]
    fn parts_are_waited_for_and_nonsense_is_refused() {
        assert_eq!(parse("HTTP/1.1 200 OK\r\nConte", false), Ok(None));
        for text in [
            "SSH-2.0-OpenSSH\r\n\r\n",
            "HTTP/1.1 2 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        ] {
            assert!(parse(text, false).is_err(), "{text}");
        }
    }
}
