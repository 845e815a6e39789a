//! Why a request came to nothing.

use crate::outcome::Errors;

/// Why a request got no complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    ConnectRefused,
    ConnectTimeout,
    ConnectFailed,
    SendTimeout,
    FirstByteTimeout,
    TransferTimeout,
    Reset,
    ShortResponse,
    ClosedEarly,
    Malformed,
    BadStatus,
    BadBody,
    Other,
}

impl Fault {
    /// Whether the request ran out of time.
    pub(crate) fn is_late(self) -> bool {
        use Fault::{ConnectTimeout, FirstByteTimeout, SendTimeout, TransferTimeout};
        matches!(self, ConnectTimeout | SendTimeout | FirstByteTimeout | TransferTimeout)
    }
}

impl Errors {
    pub(crate) fn count(&mut self, fault: Fault) {
        *match fault {
            Fault::ConnectRefused => &mut self.connect_refused,
            Fault::ConnectTimeout => &mut self.connect_timeout,
            Fault::ConnectFailed => &mut self.connect_failed,
            Fault::SendTimeout => &mut self.send_timeout,
            Fault::FirstByteTimeout => &mut self.first_byte_timeout,
            Fault::TransferTimeout => &mut self.transfer_timeout,
            Fault::Reset => &mut self.reset,
            Fault::ShortResponse => &mut self.short_response,
            Fault::ClosedEarly => &mut self.closed_early,
            Fault::Malformed => &mut self.malformed,
            Fault::BadStatus => &mut self.bad_status,
            Fault::BadBody => &mut self.bad_body,
            Fault::Other => &mut self.other,
        } += 1;
    }
}
