//! What the site leaves to a worker though its route is the reactor's, since it has seen that it takes long.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use engine::{Model, Settings};
use server::app::workload::{Work, Workloads};
use server::app::{Links, Root, Site, SiteSettings};
use server::{Handler, Http, Limits, Place, Request, Response};

use crate::common::{decoded, field, status, touch};

/// An application that a reactor has learned to handle by itself.
struct Learned<H>(H);

impl<H: Handler> Handler for Learned<H> {
    fn handle(&self, request: &Request<'_>, response: &mut Response) {
        self.0.handle(request, response);
    }

    fn place(&self, _: &Request<'_>) -> Place {
        Place::Reactor
    }
}

/// The head and the body of the answer to a request.
fn ask(address: SocketAddr, path: &str, fields: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
    let body = answer.split_off(head);
    (String::from_utf8(answer).unwrap(), body)
}

/// Serves an application on a reactor that has workers, until the test is over.
fn serving<H: Handler>(application: H, test: impl FnOnce(&Http<Learned<H>>, SocketAddr)) {
    let topology = Model::ReactorPool.row(2, 16);
    let http = Arc::new(Http::on(Learned(application), Limits::default(), &topology).unwrap());
    let settings = Settings { memory: None, ..Settings::new(topology, ([127, 0, 0, 1], 0).into()) };
    let running = engine::start(&settings, http.clone()).unwrap();
    test(&http, running.address());
    running.stop().set();
    running.join().unwrap();
    http.finish();
}

/// How many requests were handed to workers.
fn submitted<H: Handler>(http: &Http<H>) -> u64 {
    http.pools()[0].counters().submitted.load(Relaxed)
}

const TEXT: &str = "all work and no play ";

/// A site that has these files with text, which were changed a while ago.
fn site(dir: &Path, names: &[&str]) -> Site {
    fs::create_dir(dir.join("sub")).unwrap();
    for name in names {
        fs::write(dir.join(name), TEXT.repeat(40_000)).unwrap();
        touch(dir, name, 784_111_777);
    }
    // They settle by the kernel's time, so that what becomes of them is kept.
    std::thread::sleep(Duration::from_millis(1_100));
    let settings = SiteSettings { listing: true, threads: 4, ..SiteSettings::default() };
    Site::new(Root::open(dir, Links::Within).unwrap(), settings)
}

#[test]
fn compressing_and_listing_is_left_to_workers_and_what_came_of_it_is_sent_by_the_reactor() {
    let dir = tempfile::tempdir().unwrap();
    let site = site(dir.path(), &["page.html", "new.html", "sub/file.txt"]);
    serving(site, |http, address| {
        for (path, fields, left) in [
            ("/page.html", "", 0),
            ("/page.html", "Accept-Encoding: gzip\r\n", 1),
            ("/page.html", "Accept-Encoding: gzip\r\n", 1),
            ("/new.html", "Accept-Encoding: gzip\r\n", 2),
            ("/page.html", "Accept-Encoding: gzip\r\n", 2),
            ("/new.html", "Accept-Encoding: gzip\r\n", 2),
        ] {
            let (head, body) = ask(address, path, fields);
            assert_eq!((status(&head), submitted(http)), (200, left), "{path}, {fields}");
            let coding = field(&head, "Content-Encoding");
            assert_eq!(coding.is_some(), !fields.is_empty(), "{path}");
            let plain = coding.map_or(body.clone(), |coding| decoded(coding, &body));
            assert!(plain == TEXT.repeat(40_000).as_bytes(), "{path}");
        }
        let (head, body) = ask(address, "/sub/", "");
        assert_eq!((status(&head), submitted(http)), (200, 3));
        assert!(String::from_utf8(body).unwrap().contains("file.txt"));
        assert_eq!(status(&ask(address, "/missing", "Accept-Encoding: gzip\r\n").0), 404);
        assert_eq!((submitted(http), http.totals().requests), (3, 8));
    });
}

#[test]
fn a_request_whose_business_time_was_taken_is_left_to_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let work = Work { spin: Duration::from_micros(10), ..Work::NONE };
    let application = Workloads::new(site(dir.path(), &["page.html"]), work, None);
    serving(application, |http, address| {
        let (head, _) = ask(address, "/page.html", "Accept-Encoding: gzip\r\n");
        assert_eq!((status(&head), field(&head, "Content-Encoding")), (200, Some("gzip")));
        assert_eq!(submitted(http), 0);
    });
}
