//! Whose plan a policy is of: the org's tier, or for limits on users that of a user who has one of their own.

use smallvec::SmallVec;

use super::common::Common;
use super::org::{OrgEntry, UserEntry};
use super::own::Terms;
use crate::model::Who;
use crate::request::Request;

/// The tiers of an org and of its users.
pub(super) struct Plans<'e> {
    /// The org's.
    pub(super) tier: u32,
    users: &'e [UserEntry],
    /// Those of its users, each once.
    pub(super) of_users: SmallVec<[u32; 2]>,
}

impl<'e> Plans<'e> {
    /// The plans of an org of a tier, with these users, in the order of their ids.
    pub(super) fn new(tier: u32, users: &'e [UserEntry]) -> Self {
        let mut of_users: SmallVec<[u32; 2]> = SmallVec::new();
        for user in users {
            if user.tier != tier && !of_users.contains(&user.tier) {
                of_users.push(user.tier);
            }
        }
        Self {
            tier,
            users,
            of_users,
        }
    }

    /// The policies that an override for some may be found among by what it carries: for a user on a plan of their own, those
    /// that apply to them; else those of the org's tier.
    pub(super) fn policies_for(&self, who: &Who, common: &Common) -> Vec<u32> {
        let of = |tier: u32| common.tiers[tier as usize].limits.iter().copied();
        let Some(user) = self.user(who) else {
            return of(self.tier).collect();
        };
        let on_users = |index: &u32| common.limits[*index as usize].counts_users();
        let of_org = of(self.tier).filter(|index| !on_users(index));
        of_org.chain(of(user.tier).filter(on_users)).collect()
    }

    /// True if a policy applies to requests of some that an override may be for.
    pub(super) fn have(&self, policy: u32, who: &Who, common: &Common) -> bool {
        let has = |tier: u32| common.tiers[tier as usize].limits.contains(&policy);
        let on_users = common.limits[policy as usize].counts_users();
        match self.user(who) {
            Some(user) if on_users => has(user.tier),
            _ if has(self.tier) => true,
            _ => on_users && !matches!(who, Who::User(_)) && self.of_users.iter().any(|tier| has(*tier)),
        }
    }

    fn user(&self, who: &Who) -> Option<&'e UserEntry> {
        match who {
            Who::User(id) => find(self.users, id),
            _ => None,
        }
    }
}

impl OrgEntry {
    /// The plan of a user who has one of their own.
    #[inline]
    pub(super) fn user(&self, user: Option<&str>) -> Option<&UserEntry> {
        if self.users.is_empty() {
            return None;
        }
        find(&self.users, user?)
    }

    /// The plans of it and of its users.
    pub(super) fn plans(&self) -> Plans<'_> {
        Plans::new(self.tier, &self.users)
    }

    /// True if the policy that a limit of the org's own stands beside is of the plan that a request is counted by.
    pub(super) fn counts_beside(&self, terms: &Terms, request: &Request<'_>, common: &Common) -> bool {
        let base = terms.base.and_then(|base| common.limits.get(base as usize));
        let Some(base) = base.filter(|_| !self.users.is_empty()) else {
            return true;
        };
        let user = self.user(request.user).filter(|_| base.counts_users());
        let plan = &common.tiers[user.map_or(self.tier, |user| user.tier) as usize];
        base.origin.tier.as_ref().is_none_or(|tier| *tier == plan.name)
    }
}

#[inline(never)]
fn find<'e>(users: &'e [UserEntry], id: &str) -> Option<&'e UserEntry> {
    let place = users.partition_point(|known| &*known.id < id);
    users.get(place).filter(|known| &*known.id == id)
}
