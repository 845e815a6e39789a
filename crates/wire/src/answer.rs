//! The head of a response, as a client reads it (RFC 9112, 6.3).

use crate::fields::{Coding, Survey};
use crate::lines::{Halt, LineEnd, Lines};

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
pub fn parse_answer(input: &[u8], to_head: bool) -> Result<Option<(AnswerHead, usize)>, AnswerError> {
    match read(input) {
        Ok((line, survey, length)) => Ok(Some((judge(line, &survey, to_head)?, length))),
        Err(Halt::Incomplete) => Ok(None),
        Err(Halt::Malformed(reason)) => Err(AnswerError(reason)),
    }
}

/// The parts of a status line.
struct StatusLine {
    /// The digit behind `HTTP/1.`.
    minor: u8,
    code: u16,
}

/// Reads a whole head, and how long it is.
fn read(input: &[u8]) -> Result<(StatusLine, Survey<'_>, usize), Halt> {
    let mut lines = Lines::new(input, LineEnd::Lenient);
    lines.skip_empty()?;
    let line = status_line(&mut lines)?;
    let mut survey = Survey::default();
    while let Some((name, value)) = lines.field()? {
        survey.note(name, value);
    }
    Ok((line, survey, input.len() - lines.rest().len()))
}

/// Reads the status line (RFC 9112, section 4); many servers leave out the space where there is no reason.
fn status_line(lines: &mut Lines<'_>) -> Result<StatusLine, Halt> {
    const MALFORMED: &str = "the head of the response is malformed";
    lines.literal(b"HTTP/1.", MALFORMED)?;
    let minor = match lines.word(|byte| byte.is_ascii_digit())? {
        [minor @ (b'0' | b'1')] => minor - b'0',
        _ => return Err(Halt::Malformed(MALFORMED)),
    };
    lines.literal(b" ", MALFORMED)?;
    let code = match lines.word(|byte| byte.is_ascii_digit())? {
        digits @ [b'1'..=b'9', _, _] => {
            digits.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0'))
        }
        _ => return Err(Halt::Malformed("the status of the response is not a status")),
    };
    if !matches!(lines.word(|byte| byte == b'\t' || !byte.is_ascii_control())?, [] | [b' ', ..]) {
        return Err(Halt::Malformed(MALFORMED));
    }
    lines.line_end()?;
    Ok(StatusLine { minor, code })
}

/// Applies the rules that need the whole head.
fn judge(line: StatusLine, survey: &Survey<'_>, to_head: bool) -> Result<AnswerHead, AnswerError> {
    let framing = framing(line.code, survey, to_head)?;
    let persistent = if line.minor == 1 { !survey.close } else { survey.keep_alive && !survey.close };
    let keep_alive = persistent && framing != AnswerFraming::UntilClose;
    Ok(AnswerHead { code: line.code, framing, keep_alive })
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
        (Some(Coding::Empty), None) => Err(AnswerError("a Transfer-Encoding of the response is empty")),
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
        parse_answer(text.as_bytes(), to_head)
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
            // No reason, an odd one, and lines that end with LF.
            ("HTTP/1.1 404\r\nContent-Length: 0\r\n\r\n", false, 404, None, true),
            ("HTTP/1.1 299 \tSehr schön\nContent-Length: 2\n\n", false, 299, Length(2), true),
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
            "HTTP/1.1 2000 OK\r\n\r\n",
            "HTTP/1.1 200:OK\r\n\r\n",
            "HTTP/1.1 200 OK\rX\n\n",
            "HTTP/1.2 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked,\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        ] {
            assert!(parse(text, false).is_err(), "{text}");
        }
    }
}
