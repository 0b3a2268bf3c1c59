//! The routes and classes that a request's endpoint is of.

use smallvec::SmallVec;

use super::common::Common;
use super::limit::Routes;
use super::org::OrgEntry;
use crate::route::{Endpoint, Matches};

/// The routes and classes of an endpoint, by their numbers; none of a request without one.
#[derive(Default)]
pub(super) struct Matched {
    /// Of all readings of the path.
    pub(super) routes: Matches,
    /// The class of each reading that has one, the normal one's first. Most paths have one reading.
    pub(super) classes: SmallVec<[u32; 4]>,
}

impl Matched {
    /// Finds them for an org's request.
    #[inline(never)]
    pub(super) fn find(&mut self, endpoint: &Endpoint<'_>, org: &OrgEntry, common: &Common) {
        self.routes = common.routes.matches(endpoint);
        if let Some(own) = &org.routes {
            self.routes.extend(own.matches(endpoint));
        }
        for entry in common.classes.first_matches(endpoint) {
            let class = common.class_of[entry as usize];
            if !self.classes.contains(&class) {
                self.classes.push(class);
            }
        }
    }

    /// True if a limit for these routes is for the request.
    #[inline]
    pub(super) fn meets(&self, wanted: Routes) -> bool {
        match wanted {
            Routes::Any => true,
            Routes::Class(class) => self.classes.contains(&class),
            Routes::Route(route) => self.routes.contains(&route),
        }
    }

    /// All that a limit for the request may be for.
    pub(super) fn all(&self) -> impl Iterator<Item = Routes> + Clone {
        let classes = self.classes.iter().copied().map(Routes::Class);
        let routes = self.routes.iter().copied().map(Routes::Route);
        [Routes::Any].into_iter().chain(classes).chain(routes)
    }
}
