//! Generated conversations, good and bad: however they are cut into packets, and whatever the writes, the answers and the
//! counts are the same.

use engine::Stop;
use engine::driver::memory::Script;
use proptest::prelude::*;
use server::{Body, Handler, HeadLimits, Limits, Request, Response};

use crate::common::{Seen, converse_within, handler};

/// Takes the bodies of some requests, and not those of others.
pub(crate) struct Choosy;

impl Handler for Choosy {
    fn handle(&self, request: &Request<'_>, response: &mut Response) {
        match request.head.path() {
            "/echo" => drop(response.body(Body::Owned(request.body.to_vec()))),
            _ => handler(request, response),
        }
    }

    fn wants_body(&self, request: &Request<'_>) -> bool {
        request.head.path() == "/echo"
    }
}

/// Bounds so narrow that a conversation of a few hundred bytes passes all of them.
pub(crate) fn narrow() -> Limits {
    Limits {
        head: HeadLimits { head_bytes: 200, target_bytes: 60, fields: 5 },
        body_bytes: 80,
        discard_bytes: 50,
        requests_per_connection: 7,
        ..Limits::default()
    }
}

/// A body of so many bytes in chunks, or nearly so.
fn chunked() -> impl Strategy<Value = String> {
    let chunk = prop::sample::select(vec![
        "5\r\nhello\r\n",
        "5 ;x=y\r\nhello\r\n",
        "000a\r\nGET / HTTP\r\n",
        "14\r\nabcdefghijklmnopqrst\r\n",
    ]);
    let end = prop::sample::select(vec![
        "0\r\n\r\n",
        "0\r\n\r\n",
        "0\r\nTrailer: x\r\n\r\n",
        "zz\r\n",
        "5\r\nhell\r\n0\r\n\r\n",
        "0\n\r\n",
        "",
    ]);
    (prop::collection::vec(chunk, 0..5), end).prop_map(|(chunks, end)| chunks.concat() + end)
}

/// One request, or something like it.
fn message() -> impl Strategy<Value = String> {
    let method = prop::sample::select(vec!["GET", "GET", "HEAD", "POST", "OPTIONS", "A".repeat(40).leak()]);
    let target = prop::sample::select(vec![
        "/hello",
        "/echo",
        "/x",
        "*",
        "http://a:80/hello",
        "http://u@a/",
        "/x".repeat(40).leak(),
    ]);
    let version =
        prop::sample::select(vec!["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/1.7", "HTTP/3.0"]);
    let field = prop::sample::select(vec![
        "",
        "X: y\r\n",
        "X: y\r\nX: y\r\nX: y\r\nX: y\r\nX: y\r\n",
        "Connection: close\r\n",
        "Connection: keep-alive\r\n",
        "Expect: 100-continue\r\n",
        "X-Long: abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnop\r\n",
        "Host: again\r\n",
        "Bad field: x\r\n",
        "\r\n",
    ]);
    let body = prop_oneof![
        4 => Just("\r\n".to_owned()),
        3 => (0..100usize).prop_map(|length| format!("Content-Length: {length}\r\n\r\n{}", "b".repeat(length))),
        3 => chunked().prop_map(|body| format!("Transfer-Encoding: chunked\r\n\r\n{body}")),
    ];
    let before = prop::sample::select(vec!["", "", "", "\r\n", "\r\n\r\n", "\r\n\r\n\r\n\r\n"]);
    (before, method, target, version, prop::option::weighted(0.4, field), body).prop_map(
        |(before, method, target, version, field, body)| {
            let field = field.unwrap_or_default();
            format!("{before}{method} {target} {version}\r\nHost: a\r\n{field}{body}")
        },
    )
}

/// Several of them in one stream, in some of which a byte is not what it was.
pub(crate) fn conversation() -> impl Strategy<Value = Vec<u8>> {
    let noise = prop::option::weighted(0.2, (any::<prop::sample::Index>(), any::<u8>()));
    (prop::collection::vec(message(), 1..9), noise).prop_map(|(messages, noise)| {
        let mut bytes = messages.concat().into_bytes();
        if let Some((at, byte)) = noise {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    })
}

/// What a conversation came to. Whether a client that would wait for a 100 gets one does depend on whether its body is there
/// already (RFC 9110, 10.1.1).
fn outcome(seen: &Seen) -> (String, [u64; 6]) {
    let totals = &seen.totals;
    let counts = [
        totals.requests,
        totals.heads_refused,
        totals.bodies_refused,
        totals.bodies_not_discarded,
        totals.requests_cut_short,
        totals.last_requests,
    ];
    (seen.text.replace("HTTP/1.1 100 Continue\r\n\r\n", ""), counts)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_conversation_is_answered_the_same_in_any_packets(
        bytes in conversation(),
        cuts in prop::collection::vec(1usize..80, 0..40),
        most_per_send in prop_oneof![Just(0usize), 1usize..300],
        lazy: bool,
    ) {
        let whole = converse_within(
            Choosy, narrow(), Stop::default(), Script::sends([bytes.clone()]).then_ends(), |_| ());
        let (mut rest, mut packets) = (&bytes[..], Vec::new());
        for cut in cuts {
            let (packet, behind) = rest.split_at(cut.min(rest.len()));
            packets.push(packet.to_vec());
            rest = behind;
        }
        packets.push(rest.to_vec());
        packets.retain(|packet| !packet.is_empty());
        let script = Script { most_per_send, ..Script::sends(packets).then_ends() };
        let cut = converse_within(Choosy, narrow(), Stop::default(), script, |driver| driver.set_lazy(lazy));
        prop_assert_eq!(outcome(&cut), outcome(&whole), "{}", bytes.escape_ascii());
    }
}
