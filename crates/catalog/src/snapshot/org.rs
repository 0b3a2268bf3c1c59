//! What a snapshot knows of one org.

use std::sync::Arc;

use jiff::tz::TimeZone;
use tollgate_core::{BillingAnchor, CounterKey, IdHash, KeySeed, Timestamp};

use super::common::Common;
use super::limit::Limit;
use super::own::OwnLimits;
use super::policy_values::PolicyValues;
use crate::model::{Dimension, Org, Reset, ValueSet, Who};
use crate::request::Request;
use crate::route::{Matches, Router};

/// Copied when some of its limits are to be compiled anew; that shares all the rest.
#[derive(Debug, Clone)]
pub(super) struct OrgEntry {
    pub(super) tier: u32,
    /// A rollout's candidate decides for it.
    pub(super) candidate: bool,
    pub(super) zone: TimeZone,
    pub(super) anchor: BillingAnchor,
    /// Limits that stand in for a tier's; the first that fits wins.
    pub(super) replacements: OwnLimits,
    /// Limits of its own beside the tier's, older ones first.
    pub(super) extras: OwnLimits,
    /// Users with a plan of their own, by their ids.
    pub(super) users: Arc<[UserEntry]>,
    /// Which of its counters were emptied.
    pub(super) resets: Arc<[ResetEntry]>,
    /// Routes that no policy of all orgs has, numbered on from theirs.
    pub(super) routes: Option<Arc<Router>>,
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
    quotas: bool,
    /// What keeps the counters since apart from those before.
    hash: IdHash,
    /// What that is made of.
    pub(super) epoch: u64,
    at: Timestamp,
}

/// A limit of which there are counts.
#[derive(Clone, Copy)]
pub(super) struct Counting<'l> {
    pub(super) limit: &'l Limit,
    /// Nothing is counted any more.
    pub(super) ended: bool,
}

impl<'l> Counting<'l> {
    pub(super) fn on(limit: &'l Limit) -> Self {
        let ended = false;
        Self { limit, ended }
    }
}

impl ResetEntry {
    pub(super) fn of(reset: &Reset, seed: KeySeed) -> Self {
        Self {
            policy: reset.policy.as_deref().map(Into::into),
            who: reset.who.clone(),
            quotas: reset.quotas,
            hash: seed.id(&reset.epoch.to_le_bytes()),
            epoch: reset.epoch,
            at: reset.at,
        }
    }

    /// Whether a limit's counter for a request is one of them. Limits that span orgs are no org's to empty.
    pub(super) fn concerns(&self, limit: &Limit, request: &Request<'_>) -> bool {
        self.is_of(limit) && self.who.includes(request)
    }

    /// Whether it emptied some of a limit's counters: those of an app, key or user only where these are counted apart, or
    /// they would have a count of their own from then on beside one that all have together.
    pub(super) fn is_of(&self, limit: &Limit) -> bool {
        let policy = self.policy.as_deref();
        let has = |dimension| limit.scope.dimensions().contains(&dimension);
        limit.scope.within_org()
            && policy.is_none_or(|policy| policy == limit.policy_id())
            && (self.quotas || !limit.is_quota())
            && match self.who {
                Who::Org => true,
                // A key is an app's.
                Who::App(_) => has(Dimension::App) || has(Dimension::Key),
                Who::Key(_) => has(Dimension::Key),
                Who::User(_) => has(Dimension::User),
            }
    }

    /// Whether it emptied a limit's counter for a request no earlier than at an instant.
    pub(super) fn empties(&self, limit: &Limit, request: &Request<'_>, since: Timestamp) -> bool {
        self.at >= since && self.at > Timestamp::EPOCH && self.concerns(limit, request)
    }
}

impl OrgEntry {
    /// Whether its tier's limits are for it as they are, and it has none of their counters but the first.
    #[inline]
    pub(super) fn has_only_what_its_tier_has(&self) -> bool {
        self.replacements.is_empty() && self.resets.is_empty()
    }

    /// A limit's counter for a request, among those since it was emptied.
    #[inline]
    pub(super) fn after_resets(&self, key: CounterKey, limit: &Limit, request: &Request<'_>) -> CounterKey {
        if self.resets.is_empty() {
            return key;
        }
        self.apart_since_resets(key, limit, request)
    }

    #[inline(never)]
    fn apart_since_resets(&self, mut key: CounterKey, limit: &Limit, request: &Request<'_>) -> CounterKey {
        for reset in self.resets.iter() {
            if reset.concerns(limit, request) {
                key = key.and(reset.hash);
            }
        }
        key
    }

    /// Whether a limit's counter for a request was emptied since an instant.
    pub(super) fn was_reset_since(&self, at: Timestamp, limit: &Limit, request: &Request<'_>) -> bool {
        self.resets.iter().any(|reset| reset.empties(limit, request, at))
    }

    /// The plan of a user who has one of their own.
    #[inline]
    pub(super) fn user(&self, user: Option<&str>) -> Option<&UserEntry> {
        if self.users.is_empty() {
            return None;
        }
        self.find_user(user?)
    }

    #[inline(never)]
    fn find_user(&self, user: &str) -> Option<&UserEntry> {
        let place = self.users.partition_point(|known| &*known.id < user);
        self.users.get(place).filter(|known| &*known.id == user)
    }

    /// An org of a tier, with nothing of its own.
    pub(super) fn plain(org: &Org, tier: u32) -> Self {
        Self {
            tier,
            candidate: false,
            zone: org.zone.clone(),
            anchor: org.anchor,
            replacements: OwnLimits::default(),
            extras: OwnLimits::default(),
            users: Arc::default(),
            resets: Arc::default(),
            routes: None,
            unreadable: false,
        }
    }

    /// The limits that are counted for it at an instant: its own and those of its tier.
    pub(super) fn in_force<'e>(
        &'e self,
        common: &'e Common,
        now: Timestamp,
    ) -> impl Iterator<Item = &'e Limit> {
        let own = self.limits(common, now).filter(|counting| !counting.ended);
        let of_tier = common.tiers[self.tier as usize].limits.iter();
        let of_tier = of_tier.filter_map(|index| common.limits.get(*index as usize));
        own.map(|counting| counting.limit).chain(of_tier)
    }

    /// All limits that are its own at an instant, compiled, and those that ended so lately that their counts matter.
    pub(super) fn limits<'e>(
        &'e self,
        common: &'e Common,
        now: Timestamp,
    ) -> impl Iterator<Item = Counting<'e>> {
        let all = [&self.replacements, &self.extras].into_iter();
        let all = all.flat_map(OwnLimits::iter);
        all.filter_map(move |own| match own.terms.expires {
            Some(ended) if ended <= now => {
                let (limit, base) = (own.limit(common), common.limits.get(own.terms.base? as usize)?);
                let matters = limit.matters_to(base, ended, now);
                matters.then_some(Counting { limit, ended: true })
            }
            _ => Some(Counting::on(own.limit(common))),
        })
    }

    /// What its limits leave to the policies that they are for.
    pub(super) fn left(&self) -> impl Iterator<Item = (u32, ValueSet)> {
        let all = [&self.replacements, &self.extras].into_iter();
        all.flat_map(|limits| limits.iter().filter_map(|own| own.terms.left()))
    }

    /// The same after a change of some values of policies, to be compiled where that shows.
    pub(super) fn after(&self, changed: &PolicyValues) -> Self {
        Self {
            replacements: self.replacements.after(changed),
            extras: self.extras.after(changed),
            ..self.clone()
        }
    }

    #[inline]
    pub(super) fn replacement<'e>(
        &'e self,
        of: u32,
        request: &Request<'_>,
        now: Timestamp,
        common: &'e Common,
    ) -> Option<&'e Limit> {
        Some(self.replacements.first(of, request, now)?.limit(common))
    }

    /// The limits of its own that hold for a request, whatever its routes.
    pub(super) fn extras_for<'e>(
        &'e self,
        request: &Request<'_>,
        now: Timestamp,
        common: &'e Common,
    ) -> impl Iterator<Item = &'e Limit> {
        let counting = self.extras.counting(request, now, common);
        counting.map(|extra| extra.limit(common))
    }

    /// Those of them that may be for its routes.
    pub(super) fn extras_on<'e>(
        &'e self,
        routes: (&Matches, Option<u32>),
        request: &Request<'_>,
        now: Timestamp,
        common: &'e Common,
    ) -> impl Iterator<Item = &'e Limit> {
        let met = self.extras.on(routes, request, now, common);
        met.into_iter().map(|extra| extra.limit(common))
    }
}
