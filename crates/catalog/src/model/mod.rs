//! Tiers, orgs, policies and overrides as an operator writes them, checked field by field.

mod count;
mod derived_id;
mod descriptor_path;
mod eras;
mod id;
mod org;
mod overrides;
mod policy;
mod reset;
mod rollout;
mod scope;
mod user;
mod value_set;
mod ways;
mod window;
mod written;

pub use descriptor_path::{DescriptorEntry, DescriptorPath};
pub use eras::{Eras, Past};
pub use id::{MAX_ID_BYTES, check_id, check_policy_id};
pub use org::{Org, OrgRecord, read_zone};
pub use overrides::{KeptOverride, Override, Who};
pub use policy::{Accuracy, Descriptor, FailMode, Policy, PolicyMode, Values, Zone, anchor_name};
pub use reset::Reset;
pub(crate) use rollout::ACTIVE;
pub use rollout::{Rollout, RolloutState, Share};
pub use scope::{Dimension, Scope};
pub use user::UserPlan;
pub(crate) use value_set::ValueSet;
pub use ways::InForce;
pub use window::Window;

use crate::document::{Fields, Problems};
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

impl EndpointClass {
    /// Reads `{pattern, class}`.
    pub fn read(mut fields: Fields<'_>, problems: &mut Problems) -> Option<Self> {
        let pattern = fields.parsed("pattern", problems, |text| match Pattern::parse(text)? {
            Pattern::Class(_) => Err("a class is made of routes, not of classes".to_owned()),
            pattern => Ok(pattern),
        });
        let class = fields.parsed("class", problems, |text| {
            check_id(text).map(|()| text.to_owned()).map_err(str::to_owned)
        });
        for name in ["pattern", "class"] {
            if !fields.has(name) {
                fields.problem(problems, name, "is missing");
            }
        }
        fields.finish(problems);
        Some(Self {
            pattern: pattern?,
            class: class?,
        })
    }
}

/// Reads a tier, `{tier}`: all there is to it is its name.
pub fn read_tier(mut fields: Fields<'_>, problems: &mut Problems) -> Option<String> {
    let name = fields.parsed("tier", problems, tier_name);
    if !fields.has("tier") {
        fields.problem(problems, "tier", "is missing");
    }
    fields.finish(problems);
    name
}

/// The name of one tier.
fn tier_name(text: &str) -> Result<String, String> {
    match check_id(text) {
        Ok(()) if text == "*" => Err("`*` stands for every tier and can't name one".to_owned()),
        Ok(()) => Ok(text.to_owned()),
        Err(problem) => Err(problem.to_owned()),
    }
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
    /// The rollout that is open. A policy file has none.
    pub rollout: Option<Rollout>,
    /// How policies counted until a short while ago.
    pub pasts: Vec<Past>,
}

impl PolicySet {
    /// Its policies, and those of its rollout.
    pub fn in_force(&self) -> InForce<'_> {
        InForce {
            active: self.policies.iter().collect(),
            rollout: self.rollout.as_ref(),
        }
    }
}
