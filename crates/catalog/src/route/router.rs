//! All patterns an endpoint matches, found in one walk down its segments.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::endpoint::Endpoint;
use super::pattern::{Route, Segment};

/// The numbers of the routes that match, in ascending order.
pub type Matches = SmallVec<[u32; 8]>;

/// Routes by number, as a tree of segments.
#[derive(Debug, Default)]
pub struct Router {
    nodes: Vec<Node>,
}

#[derive(Debug, Default)]
struct Node {
    texts: HashMap<Box<[u8]>, usize>,
    param: Option<usize>,
    /// Routes that end here.
    ends: Vec<(Option<Box<str>>, u32)>,
    /// Routes that go on with anything from here.
    opens: Vec<(Option<Box<str>>, u32)>,
}

impl Router {
    /// Adds a route under a number.
    pub fn add(&mut self, route: &Route, number: u32) {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let mut at = 0;
        for segment in &route.segments {
            let fresh = self.nodes.len();
            let node = &mut self.nodes[at];
            at = match segment {
                Segment::Text(text) => *node.texts.entry(text.as_bytes().into()).or_insert(fresh),
                Segment::Param(_) => *node.param.get_or_insert(fresh),
            };
            if at == fresh {
                self.nodes.push(Node::default());
            }
        }
        let method = route.method.as_deref().map(Box::from);
        let node = &mut self.nodes[at];
        let list = if route.open {
            &mut node.opens
        } else {
            &mut node.ends
        };
        list.push((method, number));
    }

    /// The numbers of all routes that match, in whichever reading of the path.
    pub fn matches(&self, endpoint: &Endpoint<'_>) -> Matches {
        let mut found = Matches::new();
        self.walk(endpoint.segments(), endpoint.method(), &mut found);
        for reading in endpoint.other_readings() {
            self.walk(reading, endpoint.method(), &mut found);
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The least number of those that match, of each reading of the path: the normal one's first.
    pub fn first_matches(&self, endpoint: &Endpoint<'_>) -> Matches {
        let mut found = Matches::new();
        self.walk(endpoint.segments(), endpoint.method(), &mut found);
        let mut firsts: Matches = found.iter().min().copied().into_iter().collect();
        for reading in endpoint.other_readings() {
            found.clear();
            self.walk(reading, endpoint.method(), &mut found);
            if let Some(first) = found.iter().min().filter(|first| !firsts.contains(first)) {
                firsts.push(*first);
            }
        }
        firsts
    }

    fn walk<'e>(&self, segments: impl Iterator<Item = &'e [u8]>, method: Option<&str>, found: &mut Matches) {
        if self.nodes.is_empty() {
            return;
        }
        // Every node is reached by one path of the tree, so the walk visits none twice.
        let mut here: SmallVec<[usize; 8]> = SmallVec::from_slice(&[0]);
        let mut next: SmallVec<[usize; 8]> = SmallVec::new();
        for segment in segments {
            for at in &here {
                let node = &self.nodes[*at];
                collect(&node.opens, method, found);
                next.extend(node.texts.get(segment).copied());
                // A parameter is not empty in any service's router.
                next.extend(node.param.filter(|_| !segment.is_empty()));
            }
            here.clear();
            std::mem::swap(&mut here, &mut next);
            if here.is_empty() {
                break;
            }
        }
        for at in &here {
            collect(&self.nodes[*at].ends, method, found);
            collect(&self.nodes[*at].opens, method, found);
        }
    }
}

/// A route without a method fits all; one with a method fits only requests that have it. Services answer `HEAD` by what
/// they have for `GET`.
fn collect(routes: &[(Option<Box<str>>, u32)], method: Option<&str>, found: &mut Matches) {
    let fits = |wanted: &str| method == Some(wanted) || (wanted == "GET" && method == Some("HEAD"));
    let fitting = routes
        .iter()
        .filter(|(wanted, _)| wanted.as_deref().is_none_or(fits));
    found.extend(fitting.map(|(_, number)| *number));
}

#[cfg(test)]
mod tests {
    use super::super::pattern::Pattern;
    use super::*;

    fn router(patterns: &[&str]) -> Router {
        let mut router = Router::default();
        for (number, pattern) in (0..).zip(patterns) {
            let Pattern::Route(route) = Pattern::parse(pattern).unwrap() else {
                panic!("{pattern} is not a route");
            };
            router.add(&route, number);
        }
        router
    }

    #[test]
    fn finds_all_that_match() {
        let router = router(&[
            "/*",
            "GET /users/{id}",
            "/users/me",
            "/users/{id}/posts",
            "POST /users/*",
            "/",
            "/users/{id}/*",
        ]);
        for (endpoint, expected) in [
            ("GET /users/7", &[0, 1, 6][..]),
            ("GET /users/me", &[0, 1, 2, 6]),
            ("/users/me", &[0, 2, 6]),
            ("POST /users", &[0, 4]),
            ("POST /users/7/posts", &[0, 3, 4, 6]),
            ("GET /", &[0, 5]),
            ("GET /other", &[0]),
            ("GET /users/a%2Fb", &[0, 1, 6]),
            ("POST /users%2f7/posts", &[0, 3, 4, 6]),
            ("GET /users/a%5cposts", &[0, 1, 3, 6]),
            ("HEAD /users/7", &[0, 1, 6]),
            ("GET /users/;x", &[0, 1, 6]),
            ("GET /users/..%3B/7", &[0, 6]),
        ] {
            let endpoint = Endpoint::parse(endpoint).unwrap();
            assert_eq!(router.matches(&endpoint).as_slice(), expected, "{endpoint}");
        }
    }

    #[test]
    fn finds_the_first_of_each_reading() {
        let router = router(&["GET /v1/{resource}", "/v1/exports/*", "/v1/*"]);
        for (endpoint, expected) in [
            ("GET /v1/exports", &[0][..]),
            ("GET /v1/exports/a", &[1]),
            ("GET /v1/exports%2Fa", &[1, 0]),
            ("POST /v1/x%2Fy%2Fz", &[2]),
            ("GET /other", &[]),
        ] {
            let endpoint = Endpoint::parse(endpoint).unwrap();
            assert_eq!(router.first_matches(&endpoint).as_slice(), expected, "{endpoint}");
        }
    }
}
