//! Tiers, orgs, policies and overrides as an operator writes them, checked field by field.

mod id;
mod org;
mod overrides;
mod policy;
mod scope;
mod window;

pub use id::{MAX_ID_BYTES, check_id, check_policy_id};
pub use org::{Org, OrgRecord, read_zone};
pub use overrides::{Override, Who};
pub use policy::{Accuracy, Descriptor, FailMode, Policy, PolicyMode, Values, Zone};
pub use scope::{Dimension, Scope};
pub use window::Window;

use crate::route::Pattern;

/// The tier of orgs the catalogue does not know, and of requests without an org.
pub const DEFAULT_TIER: &str = "default";

/// Routes that are counted together under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointClass {
    /// The routes.
    pub pattern: Pattern,
    /// The name.
    pub class: String,
}

/// All that a policy file, or the catalogue, holds.
#[derive(Debug, Clone, Default)]
pub struct PolicySet {
    /// The tiers, by name.
    pub tiers: Vec<String>,
    /// The orgs.
    pub orgs: Vec<Org>,
    /// Endpoint classes; the first match wins.
    pub endpoint_classes: Vec<EndpointClass>,
    /// The policies.
    pub policies: Vec<Policy>,
    /// The overrides, older ones first.
    pub overrides: Vec<Override>,
}
