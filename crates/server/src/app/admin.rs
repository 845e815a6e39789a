//! The operator's side: health, readiness and metrics, on a listener of its own.

use engine::Stop;
use wire::{Method, Status, accepts};

use crate::handler::{Body, Handler, Request, Response};
use crate::metrics::{Snapshot, prometheus};

/// The page that follows a server: it looks at /metrics.json once a second.
const STATUS: &str = include_str!("../../assets/status.html");

/// Answers the operator's questions about a server.
pub struct Admin {
    snapshot: Box<dyn Fn() -> Snapshot + Send + Sync>,
    /// The server's own: once it is set it takes no more work.
    stop: Stop,
}

impl Admin {
    /// Answers from what `snapshot` says; ready until `stop` is set.
    pub fn new(snapshot: impl Fn() -> Snapshot + Send + Sync + 'static, stop: Stop) -> Self {
        Admin { snapshot: Box::new(snapshot), stop }
    }
}

impl Handler for Admin {
    fn handle(&self, request: &Request<'_>, response: &mut Response) {
        if !matches!(request.head.method, Method::Get | Method::Head) {
            response.plain(Status::METHOD_NOT_ALLOWED).field("Allow", b"GET, HEAD");
            return;
        }
        // Each answer is about this moment.
        response.field("Cache-Control", b"no-store");
        match request.head.path() {
            "/healthz" => text(response, Status::OK, "text/plain; charset=utf-8", "ok\n"),
            "/readyz" if self.stop.is_set() => {
                text(response, Status::SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", "stopping\n");
            }
            "/readyz" => text(response, Status::OK, "text/plain; charset=utf-8", "ready\n"),
            "/metrics" => {
                let page = prometheus(&(self.snapshot)());
                text(response, Status::OK, "text/plain; version=0.0.4; charset=utf-8", page);
            }
            "/metrics.json" => json(response, &(self.snapshot)()),
            "/status" => {
                response.field("Vary", b"Accept");
                let (page, data) =
                    (accepts(request.head, "text/html"), accepts(request.head, "application/json"));
                if data > page {
                    json(response, &(self.snapshot)().headroom);
                } else {
                    text(response, Status::OK, "text/html; charset=utf-8", STATUS);
                }
            }
            "/" => text(
                response,
                Status::OK,
                "text/plain; charset=utf-8",
                "/healthz       200 while the process lives\n\
                 /readyz        200 while it takes work, 503 once it is stopping\n\
                 /metrics       everything it counts, for Prometheus\n\
                 /metrics.json  the same as JSON\n\
                 /status        how it is doing, as a page that follows it; how much more it carries, as JSON by Accept\n",
            ),
            _ => _ = response.plain(Status::NOT_FOUND),
        }
    }
}

fn json(response: &mut Response, value: &impl serde::Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(page) => text(response, Status::OK, "application/json", page),
        Err(error) => text(response, Status::INTERNAL_SERVER_ERROR, "text/plain", error.to_string()),
    }
}

fn text(response: &mut Response, status: Status, media: &str, text: impl Into<String>) {
    response
        .status(status)
        .field("Content-Type", media.as_bytes())
        .body(Body::Owned(text.into().into_bytes()));
}
