//! Hosts with their ports, as the Host field and targets in absolute-form have them (RFC 3986, 3.2.2 and 3.2.3).

use std::net::Ipv6Addr;

use crate::response::byte_table;

/// Unreserved characters and sub-delimiters (RFC 3986, 2.2 and 2.3), which a name is made of as they are.
const IS_NAME: [bool; 256] = byte_table(b"-._~!$&'()*+,;=");

/// Whether this is `uri-host [ ":" port ]` (RFC 9110, 7.2). It may be empty, as the Host field of a target without an
/// authority is; a port needs a host in front of it (RFC 9110, 4.2.1), and user information is refused (4.2.4).
#[inline]
pub(crate) fn is_authority(text: &[u8]) -> bool {
    // Nearly every host is a name without anything special, and perhaps a port: that is looked at once.
    let end = text.iter().position(|byte| !IS_NAME[usize::from(*byte)]).unwrap_or(text.len());
    match &text[end..] {
        [] => true,
        [b':', port @ ..] if end > 0 => is_port(port),
        _ => is_host_and_port(text),
    }
}

/// Of any number of digits, also none.
fn is_port(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_digit)
}

/// The same for every host that there can be.
#[cold]
fn is_host_and_port(text: &[u8]) -> bool {
    let (is_host, behind) = if let [b'[', literal @ ..] = text {
        let Some(end) = literal.iter().position(|byte| *byte == b']') else { return false };
        (is_ip_literal(&literal[..end]), &literal[end + 1..])
    } else {
        let end = text.iter().position(|byte| *byte == b':').unwrap_or(text.len());
        (end > 0 && is_name(&text[..end]), &text[end..])
    };
    is_host
        && match behind {
            [] => true,
            [b':', port @ ..] => is_port(port),
            _ => false,
        }
}

/// `reg-name`, which IPv4 addresses are too.
fn is_name(mut text: &[u8]) -> bool {
    loop {
        text = match text {
            [] => return true,
            [b'%', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => rest,
            [byte, rest @ ..] if IS_NAME[usize::from(*byte)] => rest,
            _ => return false,
        }
    }
}

/// What stands between the brackets: `IPv6address / IPvFuture`.
fn is_ip_literal(text: &[u8]) -> bool {
    let [b'v' | b'V', future @ ..] = text else {
        return str::from_utf8(text).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok());
    };
    let Some(dot) = future.iter().position(|byte| *byte == b'.') else { return false };
    let (version, address) = (&future[..dot], &future[dot + 1..]);
    let is_part = |byte: &u8| *byte == b':' || IS_NAME[usize::from(*byte)];
    !version.is_empty()
        && version.iter().all(u8::is_ascii_hexdigit)
        && !address.is_empty()
        && address.iter().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports() {
        let plain = "a a-b_c.example a: a:80 1.2.3.4:65536 %41:1 a!$&'()*+,;=~";
        let literals = "[::] [::1]:80 [1:2:3:4:5:6:7::]: [::ffff:1.2.3.4] [v1.a:b]:1 [VF.~]";
        for text in plain.split(' ').chain(literals.split(' ')).chain([""]) {
            assert!(is_authority(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn what_is_none() {
        let plain = ": :80 a:b a:1:2 a:-1 ::1 ::1] %zz a% a%4 u@h u:p@h a/b a\\b a[ a]:1 \u{e9}";
        let literals = "[::1 [] [a] [1.2.3.4] [::1]a [::1]80 [::1%25eth0] [fe80::1%eth0] [::1]:b [:::] [12345::] \
                        [1:2:3:4:5:6:7:8::] [v.a] [v1.] [v1] [vg.a] [v1.%41]";
        for text in plain.split(' ').chain(literals.split(' ')).chain([" ", "a b", "a: 1", "a:1 "]) {
            assert!(!is_authority(text.as_bytes()), "{text}");
        }
    }
}
