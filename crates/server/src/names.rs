//! What counters are called in a store that a fleet shares.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tollgate_catalog::Request;
use tollgate_catalog::model::Accuracy;
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
