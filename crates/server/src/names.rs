//! What counters are called where others see them: in a store that a fleet shares, and in the ledger.

use std::cell::RefCell;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use tollgate_catalog::Request;
use tollgate_catalog::model::{Accuracy, Dimension};
use tollgate_catalog::snapshot::{Limit, Snapshot, Stack};
use tollgate_core::{Former, Level, Timestamp};
use tollgate_counters::Commit;
use tollgate_counters::shared::call::Name;
use tollgate_counters::shared::node::{Asked, Charges, Details, LANES};

use crate::engine::{Joined, Selection};

/// A resolved request, or several that are decided as one, for whoever asks after their counters' names. Places are
/// those of the levels that are asked about.
pub(crate) struct Names<'a, 's, 'r> {
    /// What applies.
    pub(crate) stack: &'a Stack<'s>,
    /// The levels of it that are asked about, if not all.
    pub(crate) only: Option<&'a Selection<'s>>,
    /// To whom.
    pub(crate) whose: Whose<'a, 's, 'r>,
    /// By which version of the policies.
    pub(crate) revision: u64,
    /// Where it is noted what a store that a fleet shares charges.
    pub(crate) charges: Option<&'a RefCell<Charges>>,
}

/// Whose counters they are.
#[derive(Clone, Copy)]
pub(crate) enum Whose<'a, 's, 'r> {
    /// A request's.
    One(&'a Request<'r>),
    /// Those of several.
    Several(&'a Joined<'a, 's, 'r>),
}

impl<'a, 's, 'r> Names<'a, 's, 'r> {
    /// What is asked about.
    pub(crate) fn levels(&self) -> &'a [Level<'s>] {
        self.only.map_or(&self.stack.levels, |only| &only.levels)
    }

    /// The counters that it replaces.
    pub(crate) fn formers(&self) -> &'a [Former<'s>] {
        self.only.map_or(&self.stack.formers, |only| &only.formers)
    }

    /// The limit behind a level.
    pub(crate) fn limit(&self, place: usize) -> &'s Limit {
        self.stack.limits[self.in_stack(place)]
    }

    /// The request that a level is of.
    pub(crate) fn request(&self, place: usize) -> &'a Request<'r> {
        self.at(place).1
    }

    /// Where a level is in the stack.
    fn in_stack(&self, place: usize) -> usize {
        self.only.map_or(place, |only| only.places[place])
    }

    /// The stack and the request that a level is of, and its place there.
    fn at(&self, place: usize) -> (&'a Stack<'s>, &'a Request<'r>, usize) {
        let place = self.in_stack(place);
        match self.whose {
            Whose::One(request) => (self.stack, request, place),
            Whose::Several(joined) => joined.level(place),
        }
    }

    /// The request as a node is asked.
    pub(crate) fn asked(&self, commit: Commit) -> Asked<'_> {
        Asked {
            levels: self.levels(),
            formers: self.formers(),
            revision: self.revision,
            commit,
            refused: false,
            charges: self.charges,
            details: self,
        }
    }
}

impl Names<'_, '_, '_> {
    /// Whose a level's counter is; empty where it is nobody's.
    pub(crate) fn org(&self, place: usize) -> &str {
        let (stack, request, place) = self.at(place);
        let org = request.org.filter(|_| stack.is_within_org(place));
        org.unwrap_or_default()
    }

    /// What a level's counter is about, as JSON for people.
    pub(crate) fn label(&self, place: usize) -> String {
        let (stack, request, place) = self.at(place);
        let limit = stack.limits[place];
        let mut label = json!({
            "policyId": limit.policy_id(),
            "scope": limit.scope_name,
            "endpointPattern": limit.pattern.to_string(),
            "window": limit.window.to_string(),
            "unit": limit.unit,
            "environment": if request.test { "test" } else { "live" },
        });
        for dimension in limit.scope.dimensions() {
            let (name, value) = match dimension {
                Dimension::App => ("appId", request.app.map(str::to_owned)),
                Dimension::Key => ("keyId", request.key.map(str::to_owned)),
                Dimension::User => ("userId", request.user.map(str::to_owned)),
                Dimension::Ip => ("ip", request.ip.map(|ip| ip.to_string())),
                Dimension::Descriptor(name) => (name.as_str(), request.descriptor(name).map(str::to_owned)),
                Dimension::Global | Dimension::Endpoint | Dimension::Org => continue,
            };
            label[name] = json!(value);
        }
        label.to_string()
    }
}

/// The lane of an org's tier.
pub(crate) fn lane_of(stack: &Stack<'_>) -> usize {
    1 + stack.tier_index as usize % (LANES - 1)
}

/// The same of an org.
pub(crate) fn lane_of_org(snapshot: &Snapshot, org: Option<&str>, now: Timestamp) -> usize {
    let request = Request {
        org,
        ..Request::default()
    };
    let mut stack = snapshot.blank();
    snapshot.resolve(&request, now, &mut stack);
    lane_of(&stack)
}

impl Details for Names<'_, '_, '_> {
    fn name(&self, place: usize) -> Name {
        let (stack, request, place) = self.at(place);
        Name(stack.name(place, request))
    }

    fn tag(&self, place: usize) -> Arc<str> {
        let (stack, request, place) = self.at(place);
        if stack.is_within_org(place) {
            // Those of nobody's org live together, as an org's do.
            return request.org.unwrap_or_default().into();
        }
        // A counter that spans orgs is by itself.
        URL_SAFE_NO_PAD.encode(stack.name(place, request)).into()
    }

    fn accuracy(&self, place: usize) -> u16 {
        match self.limit(place).accuracy {
            Accuracy::Exact => 0,
            Accuracy::Within(parts) => u16::try_from(parts).unwrap_or(u16::MAX),
        }
    }

    fn lane(&self, place: usize) -> usize {
        let (stack, request, place) = self.at(place);
        // Counters that span orgs are everybody's, and have one for themselves.
        if request.org.is_some() && stack.is_within_org(place) {
            lane_of(stack)
        } else {
            0
        }
    }

    fn former(&self, place: usize) -> Name {
        let place = self.only.map_or(place, |only| only.former_places[place]);
        let (stack, request, place) = match self.whose {
            Whose::One(request) => (self.stack, request, place),
            Whose::Several(joined) => joined.former(place),
        };
        Name(stack.former_name(place, request))
    }
}
