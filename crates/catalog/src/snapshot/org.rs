//! What a snapshot knows of one org.

use jiff::tz::TimeZone;
use tollgate_core::{BillingAnchor, CounterKey, IdHash, KeySeed, Timestamp};

use super::limit::Limit;
use super::policy_values::PolicyValues;
use crate::model::{Org, Reset, Who};
use crate::request::Request;
use crate::route::Router;

#[derive(Debug)]
pub(super) struct OrgEntry {
    pub(super) tier: u32,
    /// A rollout's candidate decides for it.
    pub(super) candidate: bool,
    pub(super) zone: TimeZone,
    pub(super) anchor: BillingAnchor,
    /// Limits that stand in for a tier's; the first that fits wins.
    pub(super) replacements: Vec<Replacement>,
    /// Limits of its own beside the tier's, older ones first.
    pub(super) extras: Vec<Extra>,
    /// Users with a plan of their own.
    pub(super) users: Vec<UserEntry>,
    /// Which of its counters were emptied.
    pub(super) resets: Vec<ResetEntry>,
    /// Routes that no policy of all orgs has, numbered on from theirs.
    pub(super) routes: Option<Box<Router>>,
    /// What its limits leave to the policies that they are for.
    pub(super) left: PolicyValues,
    /// It stands for an org that is known, but whose record can't be read.
    pub(super) unreadable: bool,
}

/// A user whose own limits are those of another tier.
#[derive(Debug)]
pub(super) struct UserEntry {
    pub(super) id: Box<str>,
    pub(super) tier: u32,
    pub(super) anchor: BillingAnchor,
}

/// Counters that were emptied.
#[derive(Debug)]
pub(super) struct ResetEntry {
    policy: Option<Box<str>>,
    who: Who,
    /// What keeps the counters since apart from those before.
    hash: IdHash,
    /// What that is made of.
    pub(super) epoch: u64,
}

impl ResetEntry {
    pub(super) fn of(reset: &Reset, seed: KeySeed) -> Self {
        Self {
            policy: reset.policy.as_deref().map(Into::into),
            who: reset.who.clone(),
            hash: seed.id(&reset.epoch.to_le_bytes()),
            epoch: reset.epoch,
        }
    }

    /// Whether a limit's counter for a request is one of them. Limits that span orgs are no org's to empty.
    pub(super) fn concerns(&self, limit: &Limit, request: &Request<'_>) -> bool {
        limit.scope.within_org()
            && self
                .policy
                .as_deref()
                .is_none_or(|policy| policy == limit.policy_id())
            && self.who.includes(request)
    }
}

#[derive(Debug)]
pub(super) struct Condition {
    pub(super) who: Who,
    pub(super) expires: Option<Timestamp>,
}

#[derive(Debug)]
pub(super) struct Replacement {
    /// The limit it stands in for.
    pub(super) of: u32,
    pub(super) when: Condition,
    pub(super) limit: Box<Limit>,
}

#[derive(Debug)]
pub(super) struct Extra {
    pub(super) when: Condition,
    pub(super) limit: Box<Limit>,
}

impl Extra {
    /// Whether both are for the same callers, routes and permission, and so only one of them counts.
    fn says_the_same(&self, other: &Self) -> bool {
        let (one, other_one) = (&self.limit, &other.limit);
        self.when.who == other.when.who
            && one.id == other_one.id
            && one.pattern == other_one.pattern
            && one.required_scope == other_one.required_scope
    }
}

impl Condition {
    pub(super) fn holds(&self, request: &Request<'_>, now: Timestamp) -> bool {
        self.who.includes(request) && self.expires.is_none_or(|expires| now < expires)
    }
}

impl OrgEntry {
    /// A limit's counter for a request, among those since it was emptied.
    #[inline]
    pub(super) fn after_resets(
        &self,
        mut key: CounterKey,
        limit: &Limit,
        request: &Request<'_>,
    ) -> CounterKey {
        for reset in &self.resets {
            if reset.concerns(limit, request) {
                key = key.and(reset.hash);
            }
        }
        key
    }

    /// The plan of a user who has one of their own.
    #[inline]
    pub(super) fn user(&self, user: Option<&str>) -> Option<&UserEntry> {
        if self.users.is_empty() {
            return None;
        }
        let user = user?;
        self.users.iter().find(|known| &*known.id == user)
    }

    /// An org of a tier, with nothing of its own.
    pub(super) fn plain(org: &Org, tier: u32) -> Self {
        Self {
            tier,
            candidate: false,
            zone: org.zone.clone(),
            anchor: org.anchor,
            replacements: Vec::new(),
            extras: Vec::new(),
            users: Vec::new(),
            resets: Vec::new(),
            routes: None,
            left: PolicyValues::default(),
            unreadable: false,
        }
    }

    /// The limits that are its own.
    pub(super) fn limits(&self) -> impl Iterator<Item = &Limit> {
        let replaced = self.replacements.iter().map(|replacement| &*replacement.limit);
        replaced.chain(self.extras.iter().map(|extra| &*extra.limit))
    }

    pub(super) fn replacement(&self, of: u32, request: &Request<'_>, now: Timestamp) -> Option<&Replacement> {
        let fits = |candidate: &&Replacement| candidate.of == of && candidate.when.holds(request, now);
        self.replacements.iter().find(fits)
    }

    /// The limits of its own that hold for a request. Of several that say the same the newest in force counts.
    pub(super) fn extras_for<'e>(
        &'e self,
        request: &Request<'_>,
        now: Timestamp,
    ) -> impl Iterator<Item = &'e Extra> {
        let in_force = move |extra: &Extra| extra.when.holds(request, now);
        let numbered = self.extras.iter().enumerate();
        let holding = numbered.filter(move |(_, extra)| in_force(extra));
        let newest = holding.filter(move |(place, extra)| {
            let mut newer = self.extras[place + 1..].iter();
            !newer.any(|newer| newer.says_the_same(extra) && in_force(newer))
        });
        newest.map(|(_, extra)| extra)
    }
}
