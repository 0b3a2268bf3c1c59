//! Which of the rules of [`role`](super::role) a route asks, as the OpenAPI document says it.
//!
//! What is said of a role is found by asking the rule itself, so the document can't promise what the rule refuses.

use serde_json::{Map, Value};

use super::role::{Caller, Role};

/// Who may call a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// Whoever reaches the address: no token is asked for.
    Anyone,
    /// Whoever may see the platform.
    ReadPlatform,
    /// Whoever may change the platform.
    WritePlatform,
    /// Whoever may see the org in the path, or else what belongs to an org of those in the answer.
    ReadOrg,
    /// Whoever may change the plan of the org in the path.
    WriteOrgPlan,
    /// Whoever may change the apps and keys of the org in the path.
    WriteOrgThings,
    /// Whoever may make or revoke tokens of an org.
    MakeTokens,
}

impl Rule {
    /// Each role that may call the route, and where: `everywhere`, or only for its `own-org`.
    pub(super) fn roles(self) -> Value {
        let roles = Role::ALL.into_iter().filter_map(|role| {
            let caller = Caller {
                actor: String::new(),
                role,
                org: Some("own".to_owned()),
                until_ms: None,
            };
            let place = match (self.allows(&caller, "other"), self.allows(&caller, "own")) {
                (true, _) => "everywhere",
                (false, true) => "own-org",
                (false, false) => return None,
            };
            Some((role.name().to_owned(), place.into()))
        });
        Value::Object(roles.collect::<Map<_, _>>())
    }

    /// Whether a role is refused openly, with 403, at least by a part of the orgs it may see.
    pub(super) fn forbids_some(self) -> bool {
        !matches!(self, Self::Anyone | Self::ReadOrg)
    }

    fn allows(self, caller: &Caller, org: &str) -> bool {
        match self {
            Self::Anyone => true,
            Self::ReadPlatform => caller.may_read_platform(),
            Self::WritePlatform => caller.may_write_platform(),
            Self::ReadOrg => caller.may_read_org(org),
            Self::WriteOrgPlan => caller.may_write_org_plan(org),
            Self::WriteOrgThings => caller.may_write_org_things(org),
            Self::MakeTokens => caller.may_make_token(Role::TenantViewer, Some(org)),
        }
    }
}
