//! How much one org may have: what each of its tenants' writes costs grows with it.

use clap::Args;
use serde_json::Value;
use tollgate_catalog::repository::{Kind, Place};

use super::ask::Ask;
use crate::answer::Problem;
use crate::catalogue::{Turn, WriteError};

/// The flags.
#[derive(Debug, Clone, Default, Args)]
pub struct OrgCapFlags {
    /// Let one org have at most this many apps [default: 1000]
    #[arg(long, env = "TOLLGATE_MAX_ORG_APPS", value_name = "NUMBER")]
    pub max_org_apps: Option<usize>,
    /// Let one org have at most this many API keys [default: 10000]
    #[arg(long, env = "TOLLGATE_MAX_ORG_KEYS", value_name = "NUMBER")]
    pub max_org_keys: Option<usize>,
    /// Let one org have at most this many tokens of its tenants [default: 1000]
    #[arg(long, env = "TOLLGATE_MAX_ORG_TOKENS", value_name = "NUMBER")]
    pub max_org_tokens: Option<usize>,
    /// Let one org have at most this many overrides made by API [default: 50000]
    #[arg(long, env = "TOLLGATE_MAX_ORG_OVERRIDES", value_name = "NUMBER")]
    pub max_org_overrides: Option<usize>,
    /// Let one org have at most this many users with a plan of their own [default: 100000]
    #[arg(long, env = "TOLLGATE_MAX_ORG_USERS", value_name = "NUMBER")]
    pub max_org_users: Option<usize>,
}

/// How many of each an org may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrgCaps {
    apps: usize,
    keys: usize,
    tokens: usize,
    overrides: usize,
    users: usize,
}

impl OrgCapFlags {
    /// These flags where they are given, else those of the file.
    #[must_use]
    pub fn over(self, file: Self) -> Self {
        Self {
            max_org_apps: self.max_org_apps.or(file.max_org_apps),
            max_org_keys: self.max_org_keys.or(file.max_org_keys),
            max_org_tokens: self.max_org_tokens.or(file.max_org_tokens),
            max_org_overrides: self.max_org_overrides.or(file.max_org_overrides),
            max_org_users: self.max_org_users.or(file.max_org_users),
        }
    }

    /// The caps.
    pub fn caps(&self) -> OrgCaps {
        OrgCaps {
            apps: self.max_org_apps.unwrap_or(1_000),
            keys: self.max_org_keys.unwrap_or(10_000),
            tokens: self.max_org_tokens.unwrap_or(1_000),
            overrides: self.max_org_overrides.unwrap_or(50_000),
            users: self.max_org_users.unwrap_or(100_000),
        }
    }
}

impl OrgCaps {
    /// How many of a kind, what they are called, and the flag that says so.
    fn of(&self, kind: Kind) -> Option<(usize, &'static str, &'static str)> {
        Some(match kind {
            Kind::App => (self.apps, "apps", "--max-org-apps"),
            Kind::Key => (self.keys, "API keys", "--max-org-keys"),
            Kind::Token => (self.tokens, "tokens", "--max-org-tokens"),
            Kind::Override => (self.overrides, "overrides", "--max-org-overrides"),
            Kind::User => (self.users, "users with a plan of their own", "--max-org-users"),
            _ => return None,
        })
    }
}

impl Ask {
    /// Refuses to make something that its org has enough of.
    pub(super) async fn check_room(
        &self,
        turn: &Turn<'_>,
        place: &Place,
        body: &Value,
    ) -> Result<(), Problem> {
        let Some((most, what, flag)) = self.plane.org_caps.of(place.kind) else {
            return Ok(());
        };
        let org = match place.kind {
            Kind::Token => body["orgId"].as_str().unwrap_or_default(),
            _ => place.org.as_str(),
        };
        let known = match place.kind {
            // Tokens of the platform belong to no org.
            Kind::Token if org.is_empty() => return Ok(()),
            Kind::Token => turn.tokens().count(org),
            kind => {
                let most = i64::try_from(most).unwrap_or(i64::MAX);
                let count = self.plane.catalogue.repository().count(kind, org, most).await;
                usize::try_from(count.map_err(WriteError::from)?).unwrap_or(usize::MAX)
            }
        };
        if known < most {
            return Ok(());
        }
        Err(Problem::conflict(format!(
            "The org `{org}` has {known} {what}, and one org may have {most} ({flag}): delete some first."
        )))
    }
}
