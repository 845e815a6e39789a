//! How urgent a request is, by the start of its path.

use engine::Class;

use crate::handler::{Handler, Place, Request, Response};
use crate::prefixes::Prefixes;

/// An application whose requests have classes.
pub struct Classes<H> {
    inner: H,
    routes: Prefixes<Class>,
}

impl<H> Classes<H> {
    /// Gives the requests of `inner` the class of the longest route that their path begins with.
    pub fn new(inner: H, routes: Vec<(String, Class)>) -> Self {
        Classes { inner, routes: routes.into_iter().collect() }
    }

    /// The application itself.
    pub fn inner(&self) -> &H {
        &self.inner
    }
}

impl<H: Handler> Handler for Classes<H> {
    fn handle(&self, request: &Request<'_>, response: &mut Response) {
        self.inner.handle(request, response);
    }

    fn place(&self, request: &Request<'_>) -> Place {
        self.inner.place(request)
    }

    fn wants_body(&self, request: &Request<'_>) -> bool {
        self.inner.wants_body(request)
    }

    fn class(&self, request: &Request<'_>) -> Class {
        self.routes.of(request.head.path()).copied().unwrap_or_else(|| self.inner.class(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_route_says_it() {
        let routes = [("/", Class::Low), ("/api/", Class::Normal), ("/api/health", Class::High)];
        let routes = routes.map(|(route, class)| (route.to_owned(), class)).to_vec();
        let classes = Classes::new(|_: &Request<'_>, _: &mut Response| (), routes);
        for (path, class) in [
            ("/index.html", Class::Low),
            ("/api/pages", Class::Normal),
            ("/api/healthy", Class::High),
            ("/api", Class::Low),
            ("//api/health", Class::High),
            ("/api/health/../pages", Class::Normal),
        ] {
            assert_eq!(classes.routes.of(path), Some(&class), "{path}");
        }
    }
}
