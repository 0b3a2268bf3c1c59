//! What of its own org's overrides and changes a tenant sees: nothing that names a policy that is hidden from clients or
//! only being tried, which protects the service or is the platform's own business.

use std::collections::HashMap;

use serde_json::Value;
use tollgate_catalog::repository::Kind;
use tollgate_core::Mode;

use super::ask::Ask;

/// What a caller sees.
pub(super) struct Sight {
    /// The policies, for a tenant; whoever runs the platform sees everything.
    policies: Option<HashMap<Box<str>, Shown>>,
}

/// How a policy is shown to clients.
#[derive(Clone, Copy)]
struct Shown {
    expose: bool,
    shadow: bool,
}

impl Sight {
    /// The caller's.
    pub(super) fn of(ask: &Ask) -> Self {
        let tenant = ask.caller.role.within_org();
        let snapshot = ask.plane.engine.snapshot_full();
        let policies = || {
            let limits = snapshot.limits().iter();
            let shown = limits.map(|limit| {
                let shown = Shown {
                    expose: limit.expose,
                    shadow: limit.mode == Some(Mode::Shadow),
                };
                (Box::from(limit.policy_id()), shown)
            });
            shown.collect()
        };
        Self {
            policies: tenant.then(policies),
        }
    }

    /// Whether the caller sees an override, of this policy if it is for one.
    pub(super) fn of_override(&self, policy: Option<&str>, body: &Value) -> bool {
        let Some(policies) = &self.policies else {
            return true;
        };
        let base = match policy {
            // Of one that is there no more nobody knows whether it was to be seen.
            Some(policy) => match policies.get(policy) {
                Some(shown) => *shown,
                None => return false,
            },
            None => Shown {
                expose: true,
                shadow: false,
            },
        };
        let expose = body["expose"].as_bool().unwrap_or(base.expose);
        let shadow = body["mode"].as_str().map_or(base.shadow, |mode| mode == "shadow");
        expose && !shadow
    }

    /// Whether the caller sees a change of something that was, or is now, of this body.
    pub(super) fn of_change(&self, kind: Kind, body: &Value) -> bool {
        let policy = body["policyId"].as_str();
        match kind {
            Kind::Override => self.of_override(policy, body),
            // A reset of one policy, or a correction of one quota.
            _ => policy.is_none() || self.of_override(policy, &Value::Null),
        }
    }
}
