//! The head's rules once more, written down as simply as they can be, against what is really used: on generated messages,
//! good and bad, both must come to the same.

use proptest::prelude::*;
use wire::{Framing, Limits, Version, parse_request};

/// What a head comes to.
#[derive(Debug, PartialEq)]
struct Meaning {
    method: String,
    target: String,
    path: String,
    query: Option<String>,
    version: Version,
    fields: usize,
    framing: Framing,
    keep_alive: bool,
    expects_continue: bool,
}

/// The rules of RFC 9112 for one whole head, without regard to speed; `None` is a refusal.
fn reference(head: &[u8]) -> Option<Meaning> {
    let text: String = head.iter().map(|byte| char::from(*byte)).collect();
    let text = text.strip_suffix("\r\n\r\n")?;
    let mut lines = text.split("\r\n").skip_while(|line| line.is_empty());
    let line = lines.next()?;
    let [method, target, version] = line.split(' ').collect::<Vec<_>>().try_into().ok()?;
    let version = match version {
        "HTTP/1.0" => Version::Http10,
        _ => {
            let minor = version.strip_prefix("HTTP/1.")?;
            (minor.len() == 1 && ("1"..="9").contains(&minor)).then_some(Version::Http11)?
        }
    };
    let origin = target.starts_with('/') || (target == "*" && method == "OPTIONS");
    let scheme = target.split_once("://").map(|(scheme, rest)| (scheme.to_ascii_lowercase(), rest));
    let absolute = scheme.is_some_and(|(scheme, rest)| {
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        ["http", "https"].contains(&scheme.as_str()) && !authority.is_empty() && is_authority(authority)
    });
    if !is_token(method)
        || method == "CONNECT"
        || method.len() > 32
        || !(origin || absolute)
        || target.contains('#')
        || target.bytes().any(|byte| byte <= b' ' || byte == 0x7f)
    {
        return None;
    }
    let fields: Vec<(String, &str)> = lines.map(field).collect::<Option<_>>()?;
    let values = |name: &str| -> Vec<&str> {
        fields.iter().filter(|(other, _)| *other == name).map(|(_, value)| *value).collect()
    };
    match (values("host").as_slice(), version) {
        ([], Version::Http10) => {}
        ([host], _) if host.is_empty() || is_authority(host) => {}
        _ => return None,
    }
    let framing = match (values("content-length").as_slice(), values("transfer-encoding").as_slice(), version)
    {
        ([], [], _) => Framing::None,
        ([length], [], _) if !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit()) => {
            match length.parse().ok()? {
                0 => Framing::None,
                length => Framing::Length(length),
            }
        }
        ([], [coding], Version::Http11) if coding.eq_ignore_ascii_case("chunked") => Framing::Chunked,
        _ => return None,
    };
    let expectations = values("expect");
    if expectations.iter().any(|expectation| !expectation.eq_ignore_ascii_case("100-continue")) {
        return None;
    }
    let connection = values("connection").join(",").to_ascii_lowercase();
    let has = |option: &str| connection.split(',').any(|other| other.trim_matches([' ', '\t']) == option);
    let (path, query) = path_and_query(target);
    Some(Meaning {
        method: method.into(),
        target: target.into(),
        path,
        query,
        version,
        fields: fields.len(),
        framing,
        keep_alive: !has("close") && (version == Version::Http11 || has("keep-alive")),
        expects_continue: version == Version::Http11 && !expectations.is_empty(),
    })
}

/// What a target that keeps to the rules asks for: behind the authority, if it has one, and parted at the first question mark.
fn path_and_query(target: &str) -> (String, Option<String>) {
    let at = match target.split_once("://") {
        Some((_, behind)) if !target.starts_with('/') => {
            target.len() - behind.len() + behind.find(['/', '?']).unwrap_or(behind.len())
        }
        _ => 0,
    };
    let (path, query) = match target[at..].split_once('?') {
        Some((path, query)) => (path, Some(query.into())),
        None => (&target[at..], None),
    };
    (if path.is_empty() { "/" } else { path }.into(), query)
}

/// `uri-host [ ":" port ]` with a host that is not empty (RFC 3986, 3.2.2 and 3.2.3), rule by rule.
fn is_authority(text: &str) -> bool {
    // The port is what stands behind the last colon, if that is of digits and no bracket comes behind the colon.
    let host = match text.rsplit_once(':') {
        Some((host, port)) if port.chars().all(|char| char.is_ascii_digit()) && !host.is_empty() => host,
        _ => text,
    };
    // Inside of brackets the colon was none of a port.
    let host = if text.starts_with('[') && !host.ends_with(']') { text } else { host };
    match host.strip_prefix('[').map(|rest| rest.strip_suffix(']')) {
        Some(None) => false,
        Some(Some(literal)) => is_ipv6(literal) || is_ip_future(literal),
        None => is_reg_name(host),
    }
}

fn is_plain(char: char) -> bool {
    char.is_ascii_alphanumeric() || "-._~!$&'()*+,;=".contains(char)
}

/// `*( unreserved / pct-encoded / sub-delims )`, and here at least one.
fn is_reg_name(text: &str) -> bool {
    let mut parts = text.split('%');
    let first = parts.next().unwrap_or_default();
    !text.is_empty()
        && first.chars().all(is_plain)
        && parts.all(|part| {
            let chars: Vec<char> = part.chars().collect();
            chars.len() >= 2
                && chars[..2].iter().all(char::is_ascii_hexdigit)
                && chars[2..].iter().all(|char| is_plain(*char))
        })
}

/// `IPv6address`: groups of up to four digits, eight of them unless `::` stands for one or more; the last two may be written
/// as IPv4.
fn is_ipv6(text: &str) -> bool {
    let count = |side: &str, is_last: bool| -> Option<usize> {
        let groups: Vec<&str> = if side.is_empty() { Vec::new() } else { side.split(':').collect() };
        let mut count = 0;
        for (at, group) in groups.iter().enumerate() {
            let is_h16 = (1..=4).contains(&group.len()) && group.chars().all(|char| char.is_ascii_hexdigit());
            count += match is_h16 {
                true => 1,
                false if is_last && at + 1 == groups.len() && is_ipv4(group) => 2,
                false => return None,
            };
        }
        Some(count)
    };
    match text.split_once("::") {
        None => count(text, true) == Some(8),
        Some((before, behind)) => {
            let counts = (count(before, false), count(behind, true));
            matches!(counts, (Some(before), Some(behind)) if before + behind <= 7)
        }
    }
}

fn is_ipv4(text: &str) -> bool {
    let octets: Vec<&str> = text.split('.').collect();
    // `dec-octet` has no zeros in front.
    octets.len() == 4 && octets.iter().all(|octet| (0..=255).any(|number: u16| *octet == number.to_string()))
}

/// `"v" 1*HEXDIG "." 1*( unreserved / sub-delims / ":" )`
fn is_ip_future(text: &str) -> bool {
    let Some((version, address)) = text.split_once('.') else { return false };
    let digits = version.strip_prefix(['v', 'V']).unwrap_or_default();
    !digits.is_empty()
        && digits.chars().all(|char| char.is_ascii_hexdigit())
        && !address.is_empty()
        && address.chars().all(|char| is_plain(char) || char == ':')
}

fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// The name, in small letters, and the value of a field line.
fn field(line: &str) -> Option<(String, &str)> {
    let (name, value) = line.split_once(':')?;
    let is_text = |char: char| char == '\t' || (char >= ' ' && char != '\x7f');
    (is_token(name) && value.chars().all(is_text))
        .then(|| (name.to_ascii_lowercase(), value.trim_matches([' ', '\t'])))
}

/// What is really used.
fn used(head: &[u8]) -> Option<Meaning> {
    match parse_request(head, &Limits::default()) {
        Ok(Some((parsed, length))) => {
            assert_eq!(length, head.len());
            Some(Meaning {
                method: parsed.method_text.into(),
                target: parsed.target.into(),
                path: parsed.path().into(),
                query: parsed.query().map(String::from),
                version: parsed.version,
                fields: parsed.fields().count(),
                framing: parsed.framing,
                keep_alive: parsed.keep_alive,
                expects_continue: parsed.expects_continue,
            })
        }
        _ => None,
    }
}

/// Hosts and ports, and what is nearly one.
fn authority() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "host",
        ".",
        ":",
        ":",
        "::",
        "[",
        "]",
        "1",
        "80",
        "12345",
        "f",
        "%",
        "%41",
        "%4",
        "v1",
        "v",
        "@",
        "_",
        "~",
        "\\",
        "127.0.0.1",
        "256.1.1.1",
        "01.1.1.1",
        "1:2:3:4:5:6",
        "ffff:",
    ]);
    let pieces = prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat());
    let group =
        prop::sample::select(vec!["0", "1:", "ab:", "::", ":", "12cd", "1.2.3.4", "g", "v2.x", "%25e"]);
    let literal = prop::collection::vec(group, 0..10).prop_map(|groups| groups.concat());
    let port = prop::sample::select(vec!["", "", ":", ":80", ":x", "80", "]"]);
    prop_oneof![pieces, (literal, port).prop_map(|(literal, port)| format!("[{literal}]{port}"))]
}

/// Messages that are good for the most part.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let method = prop::sample::select(vec!["GET", "POST", "OPTIONS", "BREW", "G<T", "", "CONNECT"]);
    let target = prop_oneof![
        prop::sample::select(vec![
            "/",
            "/a?b",
            "/a?b?c",
            "/a#b",
            "/a?b#c",
            "/a://b?c",
            "*",
            "*?",
            "http://a",
            "http://a/",
            "https://a?b/c",
            "http://a#b",
            "http:///",
            "a",
            "/%zz",
            "",
            "/a b",
        ])
        .prop_map(String::from),
        authority().prop_map(|authority| format!("HTTP://{authority}/x")),
    ];
    let version = prop::sample::select(vec!["HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/1.2", "http/1.1", ""]);
    let plain = prop::sample::select(vec![
        "Host: a",
        "Host: a:80",
        "hOST:\tb  ",
        "Host: a b",
        "Host:",
        "Content-Length: 0",
        "Content-Length: 12",
        "content-length: 012",
        "Content-Length: +1",
        "Content-Length: 99999999999999999999",
        "Content-Length : 1",
        "Transfer-Encoding: chunked",
        "Transfer-Encoding: CHUNKED",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding:",
        "Transfer-Encoding: chunked,",
        "Transfer-Encoding: ,chunked",
        "Transfer-Encoding: ,",
        "Expect: 100-continue",
        "Expect: 100-Continue",
        "Expect: tea",
        "Connection: close",
        "Connection: Keep-Alive",
        "Connection: x, CLOSE",
        "Connection: keep-alive ,, y",
        "Connection: closed",
        "Connection:",
        "Accept: */*",
        "X-Odd: \u{e9}\u{ff}",
        "X-Tab: a\tb",
        "X-Bad: a\u{1}b",
        "X-Bad: a\rb",
        "X-Bad: a\nb",
        " X-Folded: a",
        "X Bad: a",
        ": nothing",
        "nothing",
    ]);
    let field = prop_oneof![
        4 => plain.prop_map(String::from),
        1 => authority().prop_map(|authority| format!("Host: {authority}")),
    ];
    let end = prop::sample::select(vec!["\r\n", "\r\n", "\r\n", "\r\n", "\n", "\r", "\r\r\n"]);
    let noise = prop::option::weighted(0.3, (any::<prop::sample::Index>(), any::<u8>()));
    (method, target, version, prop::collection::vec((field, end), 0..5), any::<bool>(), noise).prop_map(
        |(method, target, version, fields, has_host, noise)| {
            let mut text = format!("{method} {target} {version}\r\n");
            if has_host {
                text += "Host: example.org\r\n";
            }
            fields.iter().for_each(|(line, end)| text.extend([line, *end]));
            text += "\r\n";
            let mut bytes: Vec<u8> = text.chars().map(|char| char as u8).collect();
            if let Some((at, byte)) = noise {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    #[test]
    fn a_head_means_what_the_rules_say(message in message()) {
        // A head ends with its first empty line; what stands behind is another matter.
        let start = message.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let end = message[start..].windows(4).position(|bytes| bytes == b"\r\n\r\n");
        if let Some(end) = end {
            let head = &message[..start + end + 4];
            // A target outside of ASCII is nobody's habit; what is refused then is left open here.
            let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
            if !line.is_ascii() {
                return Ok(());
            }
            prop_assert_eq!(used(head), reference(head), "{}", head.escape_ascii());
        }
    }
}
