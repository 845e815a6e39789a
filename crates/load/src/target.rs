//! Where a load goes: a URL taken apart, and the bytes of the request for it.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::error::Error;
use crate::plan::Plan;
use crate::template::Template;

/// How long each of several addresses of a host may take to answer at the start.
const TRIAL: Duration = Duration::from_secs(1);

/// An `http` URL taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Host and port as they stand in the URL, for the Host field.
    authority: String,
    host: String,
    port: u16,
    /// Path and query.
    path: String,
}

impl Target {
    pub(crate) fn parse(url: &str) -> Result<Self, Error> {
        let bad = |problem: &str| Error::Plan(format!("URL {url:?}: {problem}"));
        let rest = match url.split_once("://") {
            Some(("http", rest)) => rest,
            Some(("https", _)) => return Err(bad("https is not spoken yet; give an http:// URL")),
            Some(_) => return Err(bad("the scheme must be http")),
            None => return Err(bad("must begin with http://")),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(bad("user names in URLs are not supported; give an Authorization field"));
        }
        let (host, port) = match authority.rsplit_once(':') {
            // Within brackets a colon belongs to an IPv6 address.
            Some((host, port)) if !port.contains(']') => {
                (host, port.parse().map_err(|_| bad("the port must be a number from 1 to 65535"))?)
            }
            _ => (authority, 80),
        };
        if host.is_empty() || port == 0 {
            return Err(bad("there is no host, or the port is 0"));
        }
        if url.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(bad("there is a space or a control byte in it; write them with %"));
        }
        let path = if path.starts_with('/') { path.into() } else { format!("/{path}") };
        Ok(Target { authority: authority.into(), host: host.trim_matches(['[', ']']).into(), port, path })
    }

    /// The address of the host; where it has several, the first that takes a connection.
    pub(crate) fn resolve(&self) -> Result<SocketAddr, Error> {
        let failed = |cause| Error::Resolve { host: self.host.clone(), cause };
        let addresses: Vec<_> = (self.host.as_str(), self.port).to_socket_addrs().map_err(failed)?.collect();
        reachable(&addresses).ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))
    }

    /// A request of HTTP/1.0, which ends with its connection.
    pub(crate) fn request_of_1_0(&self) -> Vec<u8> {
        format!("GET {} HTTP/1.0\r\nHost: {}\r\n\r\n", self.path, self.authority).into_bytes()
    }

    /// The plan's request, for another path than the URL's if there is one.
    ///
    /// # Errors
    /// A place in it is not known.
    pub(crate) fn request(&self, plan: &Plan, path: Option<&str>) -> Result<Request, String> {
        let mut head = format!("{} {} HTTP/1.1\r\n", plan.method, path.unwrap_or(&self.path));
        if !plan.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head.push_str(&format!("Host: {}\r\n", self.authority));
        }
        for (name, value) in &plan.fields {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if plan.close {
            head.push_str("Connection: close\r\n");
        }
        // A server may wait for a content that such a method has, unless it is told that there is none (RFC 9110, 8.6).
        let has_content = ["POST", "PUT", "PATCH"].contains(&plan.method.as_str());
        if plan.body.is_empty() && has_content {
            head.push_str("Content-Length: 0\r\n");
        }
        let template = Templates { head: Template::parse(&head)?, body: Template::parse(&plan.body)? };
        if template.head.is_plain() && template.body.is_plain() {
            // It does not matter which number and dice it is made with.
            return Ok(Request::Same(template.fill(0, &mut ChaCha8Rng::seed_from_u64(0))));
        }
        Ok(Request::Template(template))
    }
}

/// The first of some addresses that takes a connection, or the first of all if none does: `localhost` may be `::1` as well as
/// 127.0.0.1, and a server may listen on one of them alone. A single one is not tried.
fn reachable(addresses: &[SocketAddr]) -> Option<SocketAddr> {
    let takes = |address: &&SocketAddr| TcpStream::connect_timeout(address, TRIAL).is_ok();
    let first = addresses.first()?;
    match addresses.iter().all(|address| address == first) {
        true => Some(*first),
        false => addresses.iter().find(takes).or(Some(first)).copied(),
    }
}

/// A request.
#[derive(Debug)]
pub(crate) enum Request {
    /// It is the same each time.
    Same(Vec<u8>),
    /// It is made each time.
    Template(Templates),
}

/// A request with places that are filled in.
#[derive(Debug)]
pub(crate) struct Templates {
    head: Template,
    body: Template,
}

impl Templates {
    /// The bytes of the request with this number.
    pub(crate) fn fill(&self, number: u64, dice: &mut ChaCha8Rng) -> Vec<u8> {
        let (mut request, mut body) = (String::new(), String::new());
        self.head.fill(&mut request, number, dice);
        self.body.fill(&mut body, number, dice);
        if !body.is_empty() {
            request.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        request.push_str("\r\n");
        request.push_str(&body);
        request.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (url, authority, host, port, path) in [
            ("http://localhost", "localhost", "localhost", 80, "/"),
            ("http://127.0.0.1:8080/a?b=c#d", "127.0.0.1:8080", "127.0.0.1", 8080, "/a?b=c"),
            ("http://[::1]:81/x", "[::1]:81", "::1", 81, "/x"),
            ("http://[::1]/", "[::1]", "::1", 80, "/"),
            ("http://host?q", "host", "host", 80, "/?q"),
        ] {
            let expected = Target { authority: authority.into(), host: host.into(), port, path: path.into() };
            assert_eq!(Target::parse(url).unwrap(), expected, "{url}");
        }
    }

    #[test]
    fn of_several_addresses_it_is_the_one_that_is_listened_on() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let other: SocketAddr = ([0, 0, 0, 0, 0, 0, 0, 1], address.port()).into();
        assert_eq!(reachable(&[other, address]), Some(address));
        assert_eq!(reachable(&[address, other]), Some(address));
        drop(listener);
        assert_eq!(
            (reachable(&[other, address]), reachable(&[other]), reachable(&[])),
            (Some(other), Some(other), None)
        );
    }

    #[test]
    fn a_url_that_cannot_be_loaded_is_explained() {
        for (url, expected) in [
            ("localhost:80", "must begin with http://"),
            ("https://x/", "https is not spoken yet; give an http:// URL"),
            ("ftp://x/", "the scheme must be http"),
            ("http:///x", "there is no host, or the port is 0"),
            ("http://x:0/", "there is no host, or the port is 0"),
            ("http://x:99999/", "the port must be a number from 1 to 65535"),
            ("http://a@x/", "user names in URLs are not supported; give an Authorization field"),
            ("http://x/a b", "there is a space or a control byte in it; write them with %"),
        ] {
            let error = Target::parse(url).unwrap_err().to_string();
            assert_eq!(error, format!("URL {url:?}: {expected}"));
        }
    }

    #[test]
    fn the_request_has_one_host() {
        let mut plan = Plan::new("http://127.0.0.1:8080/x?y");
        let target = Target::parse(&plan.url).unwrap();
        let request = |plan: &Plan| match target.request(plan, None) {
            Ok(Request::Same(bytes)) => bytes,
            other => panic!("{other:?}"),
        };
        assert_eq!(request(&plan), b"GET /x?y HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n");
        plan.method = "POST".into();
        assert_eq!(
            request(&plan),
            b"POST /x?y HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Length: 0\r\n\r\n"
        );
        (plan.close, plan.method) = (true, "GET".into());
        plan.fields = vec![("host".into(), "example.org".into())];
        assert_eq!(request(&plan), b"GET /x?y HTTP/1.1\r\nhost: example.org\r\nConnection: close\r\n\r\n");
    }
}
