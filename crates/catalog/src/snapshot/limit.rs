//! A policy ready to be resolved: its rule, its conditions, and the name its counters are kept under.

use std::sync::Arc;

use jiff::tz::TimeZone;
use tollgate_core::{Calendar, CounterKey, IdHash, KeySeed, Level, Mode, Period, Rule, Timestamp};

use super::descriptors::Place;
use super::explain::Skip;
use super::ids::{Ids, Member};
use super::matched::Matched;
use super::name::{self, CounterName};
use super::org::OrgEntry;
use super::own::Terms;
use crate::model::{
    Accuracy, Descriptor, Dimension, FailMode, Override, Past, Policy, PolicyMode, Scope, Window, Zone,
};
use crate::request::Request;
use crate::route::Pattern;

/// Which routes a limit is for, by the numbers of the snapshot's routers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Routes {
    Any,
    Class(u32),
    Route(u32),
}

/// Where a limit's values came from.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The policy's line in its file; 0 where it has none.
    pub line: usize,
    /// The tier the policy is for; `None` for all.
    pub tier: Option<Box<str>>,
    /// The override that set some of them.
    pub overridden: Option<Arc<Override>>,
    /// True if `failMode: closed` was written out.
    pub fails_closed_by_choice: bool,
    /// The policy set it is of, if that is not the one that decides.
    pub other_set: Option<Box<OtherSet>>,
}

/// The set that a limit is of while a rollout is open and the other one decides.
#[derive(Debug, Clone)]
pub struct OtherSet {
    /// The policy's id there.
    pub policy: Box<str>,
    /// The rollout.
    pub rollout: Box<str>,
    /// Whether it is the candidate, or the active one.
    pub candidate: bool,
}

/// A compiled policy.
#[derive(Debug, Clone)]
pub struct Limit {
    /// The policy's id.
    pub id: Box<str>,
    /// What is counted together.
    pub scope: Scope,
    /// The scope as it is shown.
    pub scope_name: Box<str>,
    /// The numbers.
    pub rule: Rule,
    /// What it does; `None` if it is off.
    pub mode: Option<Mode>,
    /// The routes it is for.
    pub pattern: Pattern,
    /// The window.
    pub window: Window,
    /// Whose midnight a quota resets at.
    pub zone: Zone,
    /// What of the request it counts; `None` for its cost.
    pub unit: Option<Box<str>>,
    /// What its count is called, if the policy says so.
    pub count: Option<Box<str>>,
    /// Whether clients may see it.
    pub expose: bool,
    /// What happens when a shared store is away.
    pub fail_mode: FailMode,
    /// How much may lie unused in a shared store's leases.
    pub accuracy: Accuracy,
    /// How far apart clients are told to come back.
    pub reset_jitter_ns: u64,
    /// Where its values came from.
    pub origin: Origin,
    pub(super) required_scope: Option<Box<str>>,
    pub(super) descriptors: Vec<Descriptor>,
    pub(super) routes: Routes,
    /// The place of the descriptor it is for.
    pub(super) place: Option<Place>,
    /// Policies that do not count where it does.
    pub(super) replaces: Box<[String]>,
    /// Of the descriptors of a request that have such a limit, only all together can refuse it.
    pub quota_mode: bool,
    /// It is on, and for every route, permission and descriptor: nothing to look at but its dimensions.
    unconditional: bool,
    pub(super) prefixes: (u8, u8),
    /// Whom it counts by, if that is one id and no more.
    member: Option<Member>,
    /// The same if that is all there is to look at of a request: it is on, unconditional, counts requests by their cost,
    /// and no other limit stands back for it.
    pub(super) plain: Option<Member>,
    /// The dimensions in the order in which they make up a key.
    pub(super) dimensions: Vec<Dimension>,
    /// The hash of all that makes its counts its own.
    pub(super) counter: IdHash,
    /// The same of all whose counts would be one but for whom they count apart.
    common_counter: IdHash,
    /// The same for a store that others share.
    pub(super) name: CounterName,
    /// How it counted before, as long as that matters.
    pub(super) formers: Vec<FormerLimit>,
}

/// A limit as it counted before.
#[derive(Debug, Clone)]
pub(super) struct FormerLimit {
    pub(super) limit: Limit,
    pub(super) left: Timestamp,
    pub(super) until: Timestamp,
}

impl Limit {
    pub(super) fn new(policy: &Policy, routes: Routes, seed: KeySeed) -> Self {
        let values = &policy.values;
        let rule = policy.rule();
        let quota = rule.is_quota();
        let mut dimensions = policy.scope.dimensions().to_vec();
        dimensions.sort();
        let unconditional = values.mode != Some(PolicyMode::Off)
            && routes == Routes::Any
            && policy.required_scope.is_none()
            && policy.descriptors.is_empty()
            && policy.path.is_none();
        let member = policy.scope.single().and_then(Member::of);
        let counter = seed.id(counter_name(policy.count_name(), policy.since).as_bytes());
        let common_counter = policy.apart.as_ref().map_or(counter, |_| {
            seed.id(counter_name(policy.common_count_name(), policy.since).as_bytes())
        });
        let alone = unconditional && policy.replaces.is_empty() && values.unit.is_none();
        Self {
            id: policy.id.as_str().into(),
            scope_name: policy.scope.to_string().into(),
            rule,
            mode: match values.mode {
                None => Some(Mode::Enforce),
                Some(PolicyMode::On(mode)) => Some(mode),
                Some(PolicyMode::Off) => None,
            },
            pattern: policy.pattern.clone(),
            window: values.window.unwrap_or(Window::Length(1)),
            zone: policy.zone(),
            unit: values.unit.as_deref().map(Into::into),
            count: values.counter.as_deref().map(Into::into),
            expose: values
                .expose
                .unwrap_or(policy.scope.single() != Some(&Dimension::Global)),
            fail_mode: values
                .fail_mode
                .unwrap_or(if quota { FailMode::Closed } else { FailMode::Local }),
            accuracy: values.accuracy.unwrap_or(Accuracy::Within(500)),
            reset_jitter_ns: values.reset_jitter_ns.unwrap_or(0),
            origin: Origin {
                line: policy.line,
                tier: policy.tier.as_deref().map(Into::into),
                overridden: None,
                fails_closed_by_choice: values.fail_mode == Some(FailMode::Closed),
                other_set: None,
            },
            required_scope: policy.required_scope.as_deref().map(Into::into),
            descriptors: policy.descriptors.clone(),
            routes,
            place: None,
            replaces: policy.replaces.as_slice().into(),
            quota_mode: policy.quota_mode,
            unconditional,
            prefixes: (values.ipv4_prefix.unwrap_or(32), values.ipv6_prefix.unwrap_or(64)),
            counter,
            common_counter,
            name: name::hash(&[counter_name(policy.count_name(), policy.shared_since).as_bytes()]),
            formers: Vec::new(),
            plain: member.filter(|_| alone),
            member,
            dimensions,
            scope: policy.scope.clone(),
        }
    }

    /// The same for the descriptor at a place.
    pub(super) fn at(mut self, place: Option<Place>) -> Self {
        self.place = place;
        self
    }

    /// The same, knowing how it counted before.
    pub(super) fn after(mut self, pasts: impl Iterator<Item = Past>, seed: KeySeed) -> Self {
        let formers = pasts.map(|past| FormerLimit {
            limit: Self::new(&past.policy, Routes::Any, seed),
            left: past.left,
            until: past.until,
        });
        self.formers = formers.collect();
        self
    }

    /// Whether what it counted until an instant may still matter to another limit in its place, which may hold more of it.
    pub(super) fn matters_to(&self, other: &Self, ended: Timestamp, now: Timestamp) -> bool {
        let horizon = self.rule.horizon_ns().max(other.rule.horizon_ns());
        now < ended.saturating_add(horizon)
    }

    /// Whether it goes on with another limit's count under a new name, since one of them counts someone apart.
    pub(super) fn goes_on_for(&self, other: &Self) -> bool {
        self.common_counter == other.common_counter
    }

    /// Whether one of its counters has all that one of another limit's would have: it tells apart no requests that the
    /// other counts together.
    pub(super) fn is_no_narrower_than(&self, other: &Self) -> bool {
        self.dimensions.iter().all(|dimension| match dimension {
            Dimension::Global | Dimension::Endpoint => true,
            Dimension::Org => other.scope.within_org(),
            Dimension::Ip => {
                let ((v4, v6), (other_v4, other_v6)) = (self.prefixes, other.prefixes);
                other.dimensions.contains(dimension) && v4 <= other_v4 && v6 <= other_v6
            }
            _ => {
                let within_org = !dimension.within_org() || other.scope.within_org();
                other.dimensions.contains(dimension) && within_org
            }
        })
    }

    /// Its counter for a request that has such an id.
    #[inline]
    pub(super) fn member_key(&self, member: Member, ids: &Ids<'_, '_>) -> Option<(CounterKey, u64)> {
        let id = ids.member(member)?;
        let mut key = CounterKey::new(self.counter);
        if member != Member::Org {
            key = key.and(ids.org());
        }
        Some((key.and(id), ids.org().short()))
    }

    /// What a request costs it.
    #[inline]
    pub(super) fn cost(&self, request: &Request<'_>) -> u64 {
        let cost = request.cost_in(self.unit.as_deref());
        cost.min(tollgate_core::MAX_LIMIT + 1)
    }

    /// Its level in the stack of an org's request.
    #[inline]
    pub(super) fn level<'l>(
        &'l self,
        org: &'l OrgEntry,
        (key, home): (CounterKey, u64),
        cost: u64,
    ) -> Level<'l> {
        Level {
            rule: &self.rule,
            calendar: Calendar {
                zone: self.zone_of(org),
                anchor: &org.anchor,
            },
            mode: self.mode.unwrap_or_default(),
            cost,
            key,
            home,
        }
    }

    /// Whether the limit applies, and if so to which counter.
    pub(super) fn applies(
        &self,
        request: &Request<'_>,
        ids: &Ids<'_, '_>,
        matched: &Matched,
        place: Option<Place>,
    ) -> Result<(CounterKey, u64), Skip> {
        if self.unconditional {
            return self.key(request, ids);
        }
        if self.place.is_some() && self.place != place {
            return Err(Skip::OtherDescriptor);
        }
        if self.mode.is_none() {
            return Err(Skip::Off);
        }
        if !matched.meets(self.routes) {
            let lacks = request
                .endpoint
                .is_none()
                .then_some(Skip::Lacks(Dimension::Endpoint));
            return Err(lacks.unwrap_or(Skip::Endpoint));
        }
        if let Some(wanted) = &self.required_scope
            && !request.scopes.contains(&&**wanted)
        {
            return Err(Skip::RequiredScope);
        }
        for descriptor in &self.descriptors {
            let value = request.descriptor(&descriptor.name);
            let fits = |value: &str| {
                let rest = value.strip_prefix(descriptor.value.as_str());
                rest.is_some_and(|rest| descriptor.prefix || rest.is_empty())
            };
            if !value.is_some_and(fits) {
                return Err(Skip::Descriptor(descriptor.name.clone()));
            }
        }
        self.key(request, ids)
    }

    /// Its counter for a request, whether it is for the request or not.
    pub(super) fn key(&self, request: &Request<'_>, ids: &Ids<'_, '_>) -> Result<(CounterKey, u64), Skip> {
        if let Some(member) = self.member {
            let lacks = || Skip::Lacks(self.dimensions[0].clone());
            return self.member_key(member, ids).ok_or_else(lacks);
        }
        let mut key = CounterKey::new(self.counter);
        let mut within_org = false;
        for dimension in &self.dimensions {
            match dimension {
                Dimension::Global => {}
                Dimension::Endpoint if request.endpoint.is_some() => {}
                Dimension::Endpoint => return Err(Skip::Lacks(Dimension::Endpoint)),
                dimension => {
                    let Some(id) = ids.get(dimension, self.prefixes) else {
                        return Err(Skip::Lacks(dimension.clone()));
                    };
                    if dimension.within_org() {
                        within_org = true;
                        if *dimension != Dimension::Org {
                            key = key.and(ids.org());
                        }
                    }
                    key = key.and(id);
                }
            }
        }
        let home = if within_org { ids.org().short() } else { key.home() };
        Ok((key, home))
    }

    /// Whether it counts, under the same counters, whatever another limit does.
    pub(super) fn counts_all_of(&self, other: &Self) -> bool {
        let tier = self.origin.tier.as_ref();
        self.counter == other.counter
            && self.mode.is_some()
            && tier.is_none_or(|tier| other.origin.tier.as_ref() == Some(tier))
            && (self.unconditional
                || self.routes == other.routes
                    && self.required_scope == other.required_scope
                    && self.place == other.place
                    && self.descriptors == other.descriptors)
    }

    /// The zone whose midnight counts for an org.
    #[inline]
    pub(super) fn zone_of<'l>(&'l self, org: &'l OrgEntry) -> &'l TimeZone {
        match &self.zone {
            Zone::Fixed(zone) => zone,
            Zone::Org => &org.zone,
        }
    }

    /// Gives it a mode in which it refuses nothing, or does away with it.
    pub(super) fn refuse_nothing(&mut self, mode: Option<Mode>) {
        self.mode = mode;
        self.unconditional &= mode.is_some();
        self.plain = self.plain.filter(|_| mode.is_some());
    }

    /// The id of the policy it comes from, of whichever set.
    pub fn policy_id(&self) -> &str {
        let other = self.origin.other_set.as_ref();
        other.map_or(&*self.id, |other| &*other.policy)
    }

    /// The permission a request must carry.
    pub fn required_scope(&self) -> Option<&str> {
        self.required_scope.as_deref()
    }

    /// Its conditions on descriptors.
    pub fn descriptors(&self) -> &[Descriptor] {
        &self.descriptors
    }

    /// How many bits of an IPv4 and of an IPv6 address are counted apart, if it counts by address.
    pub fn prefixes(&self) -> Option<(u8, u8)> {
        self.dimensions.contains(&Dimension::Ip).then_some(self.prefixes)
    }

    /// Whether it stands in a file, or the override does that set some of its values: only there are lines.
    pub fn is_of_file(&self) -> bool {
        let note = self.origin.overridden.as_ref();
        note.map_or(self.origin.line, |note| note.line) > 0
    }

    /// The kind of limit, as the 429's `limit_type` names it.
    pub fn limit_type(&self) -> &'static str {
        let endpoint = self.scope.single() == Some(&Dimension::Endpoint);
        let pair = match self.window {
            Window::Calendar(Period::Day) => ["daily_quota", "endpoint_daily_quota"],
            Window::Calendar(Period::Week) => ["weekly_quota", "endpoint_weekly_quota"],
            Window::Calendar(_) => ["monthly_quota", "endpoint_monthly_quota"],
            Window::Length(1_000_000_000) => ["per_second", "endpoint_per_second"],
            Window::Length(60_000_000_000) => ["per_minute", "endpoint_per_minute"],
            Window::Length(3_600_000_000_000) => ["per_hour", "endpoint_per_hour"],
            Window::Length(86_400_000_000_000) => ["per_day", "endpoint_per_day"],
            Window::Length(_) => ["window", "endpoint_window"],
        };
        pair[usize::from(endpoint)]
    }

    /// Whether it applies to every request that has its dimensions.
    pub fn is_unconditional(&self) -> bool {
        self.unconditional
    }

    /// Whether it counts users apart.
    pub(super) fn counts_users(&self) -> bool {
        self.dimensions.contains(&Dimension::User)
    }

    /// Makes it last for what comes after it: what a bucket owes when an override ends may take longer to be paid.
    pub(super) fn foresee(&mut self, terms: &Terms) {
        if terms.expires.is_some() {
            let times = self.rule.limit.div_ceil(terms.then.max(1));
            self.rule = self.rule.clone().lingering(times);
        }
    }

    /// Whether it is a bucket, which refills all the time.
    pub fn is_bucket(&self) -> bool {
        self.rule.algorithm.is_bucket()
    }

    /// Whether it counts by calendar.
    pub fn is_quota(&self) -> bool {
        self.rule.is_quota()
    }
}

/// The name of a count, and its era if that is not the first.
pub(super) fn counter_name(name: String, since: u64) -> String {
    match since {
        0 => name,
        since => format!("{name}\0since {since}"),
    }
}
