//! What counters are called where others see them: in a store that a fleet shares, and in the ledger.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use tollgate_catalog::Request;
use tollgate_catalog::model::{Accuracy, Dimension};
use tollgate_catalog::snapshot::Stack;
use tollgate_counters::Commit;
use tollgate_counters::shared::call::Name;
use tollgate_counters::shared::node::{Asked, Details, LANES};

/// A resolved request, for whoever asks after its counters' names.
pub(crate) struct Names<'a, 's, 'r> {
    /// What applies.
    pub(crate) stack: &'a Stack<'s>,
    /// To whom.
    pub(crate) request: &'a Request<'r>,
    /// By which version of the policies.
    pub(crate) revision: u64,
}

impl Names<'_, '_, '_> {
    /// The request as a node is asked.
    pub(crate) fn asked(&self, commit: Commit) -> Asked<'_> {
        Asked {
            levels: &self.stack.levels,
            formers: &self.stack.formers,
            revision: self.revision,
            commit,
            details: self,
        }
    }
}

impl Names<'_, '_, '_> {
    /// Whose a level's counter is; empty where it is nobody's.
    pub(crate) fn org(&self, place: usize) -> &str {
        let org = self.request.org.filter(|_| self.stack.is_within_org(place));
        org.unwrap_or_default()
    }

    /// What a level's counter is about, as JSON for people.
    pub(crate) fn label(&self, place: usize) -> String {
        let (limit, request) = (self.stack.limits[place], self.request);
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

impl Details for Names<'_, '_, '_> {
    fn name(&self, place: usize) -> Name {
        Name(self.stack.name(place, self.request))
    }

    fn tag(&self, place: usize) -> Arc<str> {
        match self.request.org {
            Some(org) if self.stack.is_within_org(place) => org.into(),
            // A counter that spans orgs is by itself.
            _ => URL_SAFE_NO_PAD
                .encode(self.stack.name(place, self.request))
                .into(),
        }
    }

    fn accuracy(&self, place: usize) -> u16 {
        match self.stack.limits[place].accuracy {
            Accuracy::Exact => 0,
            Accuracy::Within(parts) => u16::try_from(parts).unwrap_or(u16::MAX),
        }
    }

    fn lane(&self, place: usize) -> usize {
        // Counters that span orgs are everybody's, and have one for themselves.
        if self.request.org.is_some() && self.stack.is_within_org(place) {
            1 + self.stack.tier_index as usize % (LANES - 1)
        } else {
            0
        }
    }

    fn former(&self, place: usize) -> Name {
        Name(self.stack.former_name(place, self.request))
    }
}
