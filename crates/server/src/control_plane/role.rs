//! Who may do what in the control plane: roles, and the rules that follow from a role and an org.
//!
//! The rules are questions that a caller answers without looking anything up, so that every route asks the
//! same ones. Each is there twice: as a yes or no, and as a [`Refusal`] that says which answer to give.

use std::fmt;
use std::str::FromStr;

/// What a caller is to the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Runs the platform, and may do everything.
    PlatformAdmin,
    /// Looks after the platform: sees everything, changes nothing.
    Operator,
    /// Looks after one org's apps and keys.
    TenantAdmin,
    /// Sees one org.
    TenantViewer,
}

/// A name is no role's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownRole(pub String);

/// Whoever calls the control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Who it is, as the audit names it.
    pub actor: String,
    /// What it may do.
    pub role: Role,
    /// The org that a tenant belongs to. It means nothing to the other roles.
    pub org: Option<String>,
    /// When its token ends, in Unix milliseconds; `None` for one that does not.
    pub until_ms: Option<i64>,
}

/// How a caller is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// As if the thing were not there: the caller may not even know of it.
    Absent,
    /// Openly: the caller may know of the thing, but not do this.
    Forbidden,
}

impl Role {
    /// Every role, from the one that may do most.
    pub const ALL: [Self; 4] = [
        Self::PlatformAdmin,
        Self::Operator,
        Self::TenantAdmin,
        Self::TenantViewer,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::PlatformAdmin => "platform-admin",
            Self::Operator => "operator",
            Self::TenantAdmin => "tenant-admin",
            Self::TenantViewer => "tenant-viewer",
        }
    }

    /// Whether it means something only within an org.
    pub fn within_org(self) -> bool {
        matches!(self, Self::TenantAdmin | Self::TenantViewer)
    }
}

impl Caller {
    /// Whether it may see tiers, policies, endpoint classes, tokens and everyone's audit.
    pub fn may_read_platform(&self) -> bool {
        matches!(self.role, Role::PlatformAdmin | Role::Operator)
    }

    /// Whether it may change tiers, policies, endpoint classes and tokens.
    pub fn may_write_platform(&self) -> bool {
        self.role == Role::PlatformAdmin
    }

    /// Whether it may see an org and all that belongs to it.
    pub fn may_read_org(&self, org: &str) -> bool {
        match self.role {
            Role::PlatformAdmin | Role::Operator => true,
            Role::TenantAdmin | Role::TenantViewer => self.belongs_to(org),
        }
    }

    /// Whether it may change what an org is granted: its tier, overrides, resets and quotas.
    pub fn may_write_org_plan(&self, _org: &str) -> bool {
        // A tenant that could change its own plan would have none.
        self.role == Role::PlatformAdmin
    }

    /// Whether it may change what an org owns: its apps and keys.
    pub fn may_write_org_things(&self, org: &str) -> bool {
        match self.role {
            Role::PlatformAdmin => true,
            Role::TenantAdmin => self.belongs_to(org),
            Role::Operator | Role::TenantViewer => false,
        }
    }

    /// Whether it may make a token of a role, for an org or for none. Nobody makes a token that may do more
    /// than they may themselves.
    pub fn may_make_token(&self, role: Role, org: Option<&str>) -> bool {
        match self.role {
            Role::PlatformAdmin => true,
            Role::TenantAdmin => role.within_org() && org.is_some_and(|org| self.belongs_to(org)),
            Role::Operator | Role::TenantViewer => false,
        }
    }

    /// Lets it [see the platform](Self::may_read_platform), or refuses. Everyone knows that there is one.
    pub fn read_platform(&self) -> Result<(), Refusal> {
        allow(self.may_read_platform(), Refusal::Forbidden)
    }

    /// Lets it [change the platform](Self::may_write_platform), or refuses.
    pub fn write_platform(&self) -> Result<(), Refusal> {
        allow(self.may_write_platform(), Refusal::Forbidden)
    }

    /// Lets it [see an org](Self::may_read_org), or refuses.
    pub fn read_org(&self, org: &str) -> Result<(), Refusal> {
        allow(self.may_read_org(org), Refusal::Absent)
    }

    /// Lets it [change an org's plan](Self::may_write_org_plan), or refuses.
    pub fn write_org_plan(&self, org: &str) -> Result<(), Refusal> {
        // An org it may not see stays absent, or a write would tell which orgs there are.
        self.read_org(org)?;
        allow(self.may_write_org_plan(org), Refusal::Forbidden)
    }

    /// Lets it [change an org's apps and keys](Self::may_write_org_things), or refuses.
    pub fn write_org_things(&self, org: &str) -> Result<(), Refusal> {
        self.read_org(org)?;
        allow(self.may_write_org_things(org), Refusal::Forbidden)
    }

    /// The id of the token that it calls with, if it is one of Tollgate's own.
    pub fn token(&self) -> Option<&str> {
        token_id(&self.actor)
    }

    fn belongs_to(&self, org: &str) -> bool {
        self.org.as_deref() == Some(org)
    }
}

/// The actor that stands for a token.
pub fn token_actor(id: &str) -> String {
    format!("token:{id}")
}

/// The id of the token that an actor stands for.
pub fn token_id(actor: &str) -> Option<&str> {
    actor.strip_prefix("token:")
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        let known = Self::ALL.into_iter().find(|role| role.name() == text);
        known.ok_or_else(|| UnknownRole(text.to_owned()))
    }
}

impl fmt::Display for UnknownRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Role::ALL.map(Role::name).join(", ");
        write!(f, "`{}` is not one of {names}", self.0)
    }
}

impl std::error::Error for UnknownRole {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "there is no such thing for this caller",
            Self::Forbidden => "this caller may not do that",
        })
    }
}

impl std::error::Error for Refusal {}

fn allow(allowed: bool, refusal: Refusal) -> Result<(), Refusal> {
    if allowed { Ok(()) } else { Err(refusal) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: Result<(), Refusal> = Ok(());
    const ABSENT: Result<(), Refusal> = Err(Refusal::Absent);
    const FORBIDDEN: Result<(), Refusal> = Err(Refusal::Forbidden);

    /// Asks a rule about the org `acme`. A row for each role, in the order of [`Role::ALL`]; columns for callers
    /// that belong to that org, to another and to none.
    fn assert_rule<T: PartialEq + fmt::Debug>(rule: impl Fn(&Caller) -> T, expected: [[T; 3]; 4]) {
        for (role, row) in Role::ALL.into_iter().zip(expected) {
            for (org, expected) in [Some("acme"), Some("acm"), None].into_iter().zip(row) {
                let caller = Caller {
                    actor: "someone".to_owned(),
                    role,
                    org: org.map(str::to_owned),
                    until_ms: None,
                };
                assert_eq!(rule(&caller), expected, "{caller:?}");
            }
        }
    }

    #[test]
    fn a_role_is_read_as_it_is_shown() {
        let names = ["platform-admin", "operator", "tenant-admin", "tenant-viewer"];
        for (role, name) in Role::ALL.into_iter().zip(names) {
            assert_eq!(role.to_string(), name);
            assert_eq!(name.parse(), Ok(role));
        }
        for text in ["", "admin", "Operator", " operator", "platform_admin"] {
            assert_eq!(text.parse::<Role>(), Err(UnknownRole(text.to_owned())));
        }
        assert_eq!(
            UnknownRole("admin".to_owned()).to_string(),
            "`admin` is not one of platform-admin, operator, tenant-admin, tenant-viewer"
        );
    }

    #[test]
    fn the_platform_is_seen_by_those_who_run_it_and_changed_by_its_admin() {
        assert_rule(
            Caller::may_read_platform,
            [[true; 3], [true; 3], [false; 3], [false; 3]],
        );
        assert_rule(
            Caller::may_write_platform,
            [[true; 3], [false; 3], [false; 3], [false; 3]],
        );
        assert_rule(
            Caller::read_platform,
            [[OK; 3], [OK; 3], [FORBIDDEN; 3], [FORBIDDEN; 3]],
        );
        assert_rule(
            Caller::write_platform,
            [[OK; 3], [FORBIDDEN; 3], [FORBIDDEN; 3], [FORBIDDEN; 3]],
        );
    }

    #[test]
    fn an_org_is_seen_by_its_tenants_and_absent_for_others() {
        let (yes, own) = ([true; 3], [true, false, false]);
        assert_rule(|caller| caller.may_read_org("acme"), [yes, yes, own, own]);
        let own = [OK, ABSENT, ABSENT];
        assert_rule(|caller| caller.read_org("acme"), [[OK; 3], [OK; 3], own, own]);
    }

    #[test]
    fn an_orgs_plan_is_changed_by_the_platform_admin_alone() {
        assert_rule(
            |caller| caller.may_write_org_plan("acme"),
            [[true; 3], [false; 3], [false; 3], [false; 3]],
        );
        let own = [FORBIDDEN, ABSENT, ABSENT];
        assert_rule(
            |caller| caller.write_org_plan("acme"),
            [[OK; 3], [FORBIDDEN; 3], own, own],
        );
    }

    #[test]
    fn an_orgs_apps_and_keys_are_changed_by_its_admin_too() {
        assert_rule(
            |caller| caller.may_write_org_things("acme"),
            [[true; 3], [false; 3], [true, false, false], [false; 3]],
        );
        assert_rule(
            |caller| caller.write_org_things("acme"),
            [
                [OK; 3],
                [FORBIDDEN; 3],
                [OK, ABSENT, ABSENT],
                [FORBIDDEN, ABSENT, ABSENT],
            ],
        );
    }

    #[test]
    fn a_token_never_may_more_than_its_maker() {
        let admin_only = [[true; 3], [false; 3], [false; 3], [false; 3]];
        for role in Role::ALL {
            let for_its_org = if role.within_org() {
                [[true; 3], [false; 3], [true, false, false], [false; 3]]
            } else {
                admin_only
            };
            assert_rule(|caller| caller.may_make_token(role, Some("acme")), for_its_org);
            assert_rule(|caller| caller.may_make_token(role, None), admin_only);
        }
    }

    #[test]
    fn the_refusals_agree_with_the_rules() {
        for org in ["acme", "acm", ""] {
            for (role, own) in Role::ALL
                .into_iter()
                .flat_map(|role| [Some("acme"), None].map(|own| (role, own)))
            {
                let caller = Caller {
                    actor: "someone".to_owned(),
                    role,
                    org: own.map(str::to_owned),
                    until_ms: None,
                };
                for (refusal, allowed) in [
                    (caller.read_platform(), caller.may_read_platform()),
                    (caller.write_platform(), caller.may_write_platform()),
                    (caller.read_org(org), caller.may_read_org(org)),
                    (caller.write_org_plan(org), caller.may_write_org_plan(org)),
                    (caller.write_org_things(org), caller.may_write_org_things(org)),
                ] {
                    assert_eq!(refusal.is_ok(), allowed, "{caller:?} {org}");
                }
            }
        }
    }
}
