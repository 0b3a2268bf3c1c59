//! From a request to its stack.

use smallvec::SmallVec;
use tollgate_core::{CounterKey, Former, IdHash, Level, Timestamp};

use super::common::Common;
use super::descriptors::Place;
use super::explain::Skip;
use super::ids::Ids;
use super::limit::{Limit, Routes};
use super::matched::Matched;
use super::next::Last;
use super::org::{OrgEntry, ResetEntry, UserEntry};
use super::{Catalogue, Snapshot, Tier};
use crate::model::Policy;
use crate::request::Request;

/// The stack of a request: the limits that apply, from broad to narrow, each with its counter.
pub struct Stack<'s> {
    /// What the store decides on.
    pub levels: SmallVec<[Level<'s>; 4]>,
    /// The limits behind the levels, in the same order.
    pub limits: SmallVec<[&'s Limit; 4]>,
    /// Counters that some levels replaced a short while ago.
    pub formers: SmallVec<[Former<'s>; 0]>,
    /// What those counters were limited by, and when they were emptied.
    pub(super) past: SmallVec<[(&'s Limit, &'s [ResetEntry]); 0]>,
    /// When the org's counters were emptied.
    pub(super) resets: &'s [ResetEntry],
    /// The org's tier.
    pub tier: &'s Tier,
    /// The tier's number.
    pub tier_index: u32,
    /// The number of the endpoint's class; of one that can be read in several ways, of the first that has one.
    pub class: Option<u32>,
    /// The org's own zone, in which times are told to it.
    pub zone: &'s jiff::tz::TimeZone,
    /// What the request's descriptor leads to is not limited: the policy there is off.
    pub unlimited: bool,
    /// Policies that do not count for the request, because others say so that do.
    pub replaced: SmallVec<[&'s str; 0]>,
    /// The org is known, but its record can't be read: what is here are the limits of the default tier.
    pub unreadable: bool,
    /// It was last filled for a request of the same org and app.
    pub again: bool,
    /// What for, if another may be much the same.
    pub(super) last: Option<Last<'s>>,
}

/// What of a request is looked up once before the limits are gone through.
pub(super) struct Lookup<'s, 'l, 'a> {
    pub(super) ids: &'l Ids<'l, 'a>,
    pub(super) org: &'s OrgEntry,
    /// The policy set that decides for the org.
    pub(super) common: &'s Common,
    pub(super) matched: &'l Matched,
    /// Where its descriptor leads.
    pub(super) place: Option<Place>,
}

impl Snapshot {
    /// A stack of nothing, to be filled by [`Self::resolve`].
    #[inline]
    pub fn blank(&self) -> Stack<'_> {
        self.catalogue.blank()
    }

    /// Fills a blank stack with what applies to a request at an instant. In place: a stack is large enough for
    /// each move of it to show.
    #[inline]
    pub fn resolve<'s>(&'s self, request: &Request<'_>, now: Timestamp, stack: &mut Stack<'s>) {
        self.catalogue.resolve(request, now, stack);
        for past in &self.formers {
            if now < past.until {
                let times = (past.left, now);
                let before = past.catalogue.resolve_past(request, times, &self.catalogue);
                stack.remember(&before, request, past.left);
            }
        }
    }
}

impl Snapshot {
    /// A limit that no policy of the set is: one that a request brings itself. It is for whomever it is asked about.
    pub fn limit_of(&self, policy: &Policy) -> Limit {
        Limit::new(policy, Routes::Any, self.catalogue.sets.active.seed)
    }

    /// The stack of a request that only a limit of its own applies to.
    pub fn resolve_own<'s>(&'s self, limit: &'s Limit, request: &Request<'_>) -> Stack<'s> {
        let mut stack = self.blank();
        let (mut ids, mut matched) = (self.catalogue.ids(request), Matched::default());
        let lookup = self.catalogue.look_up(&mut ids, &mut matched);
        let org = lookup.org;
        stack.push(limit, org, request, &lookup);
        stack
    }
}

impl Catalogue {
    #[inline]
    pub(super) fn blank(&self) -> Stack<'_> {
        Stack {
            levels: SmallVec::new(),
            limits: SmallVec::new(),
            formers: SmallVec::new(),
            past: SmallVec::new(),
            resets: &[],
            tier: &self.sets.active.tiers[0],
            tier_index: 0,
            class: None,
            zone: &self.sets.active.stranger.zone,
            unlimited: false,
            replaced: SmallVec::new(),
            unreadable: false,
            again: false,
            last: None,
        }
    }

    /// A request's ids, of which the org's is made.
    #[inline]
    pub(super) fn ids<'r, 'a>(&'r self, request: &'r Request<'a>) -> Ids<'r, 'a> {
        Ids::of_org(&self.sets.active.seed, request)
    }

    /// Fills a stack by these policies alone.
    pub(super) fn resolve<'s>(&'s self, request: &Request<'_>, now: Timestamp, stack: &mut Stack<'s>) {
        let (mut ids, mut matched) = (self.ids(request), Matched::default());
        let lookup = self.look_up(&mut ids, &mut matched);
        let (org, common) = (lookup.org, lookup.common);
        stack.tier = &common.tiers[org.tier as usize];
        stack.tier_index = org.tier;
        stack.class = lookup.matched.classes.first().copied();
        stack.zone = &org.zone;
        stack.unreadable = org.unreadable;
        stack.resets = &org.resets;
        let user = org.user(request.user);
        let bare = user.is_none() && org.has_only_what_its_tier_has();
        let cost = request.cost.min(tollgate_core::MAX_LIMIT + 1);
        for index in &stack.tier.limits {
            let limit = &common.limits[*index as usize];
            if bare && let Some(member) = limit.plain {
                if let Some(counter) = limit.member_key(member, lookup.ids) {
                    stack.levels.push(limit.level(org, counter, cost));
                    stack.limits.push(limit);
                }
                continue;
            }
            if user.is_some() && limit.counts_users() {
                continue;
            }
            let limit = org.replacement(*index, request, now, common).unwrap_or(limit);
            stack.push(limit, org, request, &lookup);
        }
        if user.is_some() || !org.extras.is_empty() {
            push_own(user, request, now, &lookup, stack);
        } else if !bare && !stack.limits.is_sorted_by_key(|limit| sort_key(limit)) {
            // What an org has in place of a limit that all orgs share is narrower than that.
            stack.sort();
        }
        if !stack.replaced.is_empty() {
            stack.leave_out_replaced();
        }
        if org.replacements.have_ended(now) {
            stack.start_from_ended(request, now, &lookup);
        }
        if common.remembers {
            stack.start_from_former(org, request, now, lookup.ids);
        }
    }

    /// The ids that are yet to be made are, and what matches the request's endpoint is found into `matched`.
    #[inline]
    pub(super) fn look_up<'s, 'l, 'a>(
        &'s self,
        ids: &'l mut Ids<'_, 'a>,
        matched: &'l mut Matched,
    ) -> Lookup<'s, 'l, 'a> {
        let request = ids.request;
        let (org, common) = self.find(ids.org(), request.org);
        ids.add_members();
        if let Some(endpoint) = &request.endpoint {
            matched.find(endpoint, org, common);
        }
        let is_descriptor = request.is_descriptor;
        let place = is_descriptor.then(|| common.descriptors.find(&request.descriptors));
        Lookup {
            ids,
            org,
            common,
            matched,
            place: place.flatten(),
        }
    }

    /// What an org is, as it is known or else as a stranger, and the set that decides for it.
    #[inline]
    pub(super) fn find(&self, hash: IdHash, id: Option<&str>) -> (&OrgEntry, &Common) {
        let sets = &*self.sets;
        let org = id.and_then(|id| self.orgs.get(hash, id, sets));
        sets.deciding(org, id)
    }
}

/// Adds what an org has beside its tier: the limits on users of the tier that a user is on by themselves, and limits of
/// its own.
#[inline(never)]
fn push_own<'s>(
    user: Option<&'s UserEntry>,
    request: &Request<'_>,
    now: Timestamp,
    lookup: &Lookup<'s, '_, '_>,
    stack: &mut Stack<'s>,
) {
    let (org, common) = (lookup.org, lookup.common);
    if let Some(user) = user {
        for index in &common.tiers[user.tier as usize].limits {
            let limit = &common.limits[*index as usize];
            if !limit.counts_users() {
                continue;
            }
            let limit = org.replacement(*index, request, now, common).unwrap_or(limit);
            let before = stack.levels.len();
            stack.push(limit, org, request, lookup);
            if let Some(level) = stack.levels.get_mut(before) {
                level.calendar.anchor = &user.anchor;
            }
        }
    }
    for extra in org.extras_on(lookup.matched, request, now, common) {
        stack.push(extra, org, request, lookup);
    }
    stack.sort();
}

impl<'s> Stack<'s> {
    /// Blank again.
    pub(super) fn clear(&mut self) {
        self.last = None;
        self.again = false;
        self.levels.clear();
        self.limits.clear();
        self.formers.clear();
        self.past.clear();
        self.replaced.clear();
        self.unlimited = false;
    }

    fn push(
        &mut self,
        limit: &'s Limit,
        org: &'s OrgEntry,
        request: &Request<'_>,
        lookup: &Lookup<'_, '_, '_>,
    ) {
        let Some((key, home)) = self.counter(limit, request, lookup) else {
            return;
        };
        if !limit.replaces.is_empty() {
            self.note_replaced(limit);
        }
        let counter = (org.after_resets(key, limit, request), home);
        self.levels.push(limit.level(org, counter, limit.cost(request)));
        self.limits.push(limit);
    }

    /// The counter of a limit, if it applies.
    fn counter(
        &mut self,
        limit: &'s Limit,
        request: &Request<'_>,
        lookup: &Lookup<'_, '_, '_>,
    ) -> Option<(CounterKey, u64)> {
        let applies = limit.applies(request, lookup.ids, lookup.matched, lookup.place);
        if matches!(applies, Err(Skip::Off)) && limit.place.is_some() {
            // A limit of 0 that is off says that there is none, not that there is no end.
            self.unlimited = limit.rule.limit > 0;
            self.note_replaced(limit);
        }
        applies.ok()
    }

    #[inline(never)]
    fn note_replaced(&mut self, limit: &'s Limit) {
        self.replaced.extend(limit.replaces.iter().map(String::as_str));
    }

    /// Takes out what others replace.
    #[inline(never)]
    fn leave_out_replaced(&mut self) {
        let replaced = &self.replaced;
        let counts = |limit: &Limit| !replaced.contains(&limit.policy_id());
        let all = self.limits.iter().copied().zip(self.levels.iter().copied());
        let (limits, levels) = all.filter(|(limit, _)| counts(limit)).unzip();
        (self.limits, self.levels) = (limits, levels);
    }

    /// Puts the levels in order after limits of the org's own joined the tier's.
    fn sort(&mut self) {
        let mut order: SmallVec<[usize; 8]> = (0..self.limits.len()).collect();
        order.sort_by_key(|place| sort_key(self.limits[*place]));
        self.levels = order.iter().map(|place| self.levels[*place]).collect();
        self.limits = order.iter().map(|place| self.limits[*place]).collect();
    }
}

/// From broad to narrow, then by id.
pub(super) fn sort_key(limit: &Limit) -> (u8, &str) {
    (limit.scope.breadth(), &limit.id)
}
