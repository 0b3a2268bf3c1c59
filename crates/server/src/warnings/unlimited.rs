//! Requests that meet no limit at all.

use tollgate_catalog::model::DEFAULT_TIER;
use tollgate_catalog::snapshot::{Limit, Snapshot};
use tollgate_core::Mode;

use crate::data_plane::RequiredIdentity;

/// Stands in every such warning, so that it can be looked for.
pub const NO_LIMIT_APPLIES: &str = "NO LIMIT APPLIES";

/// Says which requests nothing limits: those of orgs of the tier `default`, or those without an org where such are
/// decided.
///
/// A limit that applies on some routes or under conditions counts as one.
pub fn unlimited(snapshot: &Snapshot, required: RequiredIdentity) -> Option<String> {
    let tier = snapshot.tier(DEFAULT_TIER)?;
    let enforced = || snapshot.limits_of(tier).filter(|limit| is_enforced(limit));
    let anonymous = required == RequiredIdentity::Nothing;
    if enforced().next().is_none() {
        let too = if anonymous {
            ", nor to requests without an org"
        } else {
            ""
        };
        return Some(format!(
            "{NO_LIMIT_APPLIES} to orgs of the tier `{DEFAULT_TIER}`, which every unknown org has{too}: no \
             enforced policy is for it"
        ));
    }
    let nameless = |limit: &Limit| !limit.scope.within_org();
    (anonymous && !enforced().any(nameless)).then(|| {
        format!(
            "{NO_LIMIT_APPLIES} to requests without an org: no enforced policy has the scope global, endpoint \
             or ip. Add one, or refuse them (--require-identity org)"
        )
    })
}

/// True if a limit can refuse a request.
pub fn is_enforced(limit: &Limit) -> bool {
    limit.mode == Some(Mode::Enforce)
}
