//! Limits of an org's own: its overrides, each compiled when a request first meets it.
//!
//! Most of what an org has overrides for is asked for as seldom as most orgs are. And what was not compiled yet is
//! nothing to compile anew when a policy is changed.

mod index;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;
use tollgate_core::{KeySeed, Nanos, Timestamp};

use super::common::Common;
use super::limit::{Limit, Routes};
use super::matched::Matched;
use super::overriding::id_beside;
use super::policy_values::PolicyValues;
use crate::document::Problems;
use crate::model::{Override, Policy, ValueSet, Who};
use crate::request::Request;
use index::{Index, Listed, MANY, What};

/// What there is to know of a limit before it is compiled.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    /// The policy it is made from; `None` if it is all its own.
    pub(super) base: Option<u32>,
    /// For whom, beside the rest of it: it is looked at for each request.
    pub(super) who: Who,
    pub(super) expires: Option<Timestamp>,
    pub(super) routes: Routes,
    /// What it leaves to the policy.
    left: ValueSet,
    /// The least limit that may be in force once it has ended.
    pub(super) then: u64,
    pub(super) change: Arc<Override>,
}

impl Terms {
    pub(super) fn new(base: Option<u32>, routes: Routes, change: Arc<Override>) -> Self {
        Self {
            base,
            who: change.who.clone(),
            expires: change.expires,
            routes,
            left: ValueSet::left_by(&change.values),
            then: u64::MAX,
            change,
        }
    }

    #[inline]
    pub(super) fn hold(&self, request: &Request<'_>, now: Timestamp) -> bool {
        self.who.includes(request) && self.in_force(now)
    }

    pub(super) fn in_force(&self, now: Timestamp) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }

    fn policy<'c>(&self, common: &'c Common) -> Option<&'c Policy> {
        common.policies.get(self.base? as usize)
    }

    /// On which routes it is to be looked at. One that is for a descriptor is so on all of them, since even where it is off
    /// it may say something.
    fn met_on(&self, common: &Common) -> Routes {
        let descriptor = self.policy(common).is_some_and(|policy| policy.path.is_some());
        if descriptor { Routes::Any } else { self.routes }
    }

    fn listed<S>(&self, place: u32, what: What, same: S) -> Listed<'_, S> {
        Listed {
            place,
            what,
            who: &self.who,
            ends: self.expires,
            same,
        }
    }

    /// What they leave to a policy.
    pub(super) fn left(&self) -> Option<(u32, ValueSet)> {
        Some((self.base?, self.left))
    }
}

type Compiled = OnceLock<Arc<Limit>>;

/// Some of an org's limits, in their order.
#[derive(Debug, Clone, Default)]
pub(super) struct OwnLimits {
    /// A bit for each policy that one of them is made from; those 64 apart share one.
    bases: u64,
    /// When the first of them ends.
    first_end: Option<Timestamp>,
    terms: Arc<[Terms]>,
    compiled: Box<[Compiled]>,
    /// Where to look, if there are many.
    index: Option<Arc<Index>>,
    /// Where those are that end, by when they do.
    endings: Arc<[u32]>,
    /// The longest that a count of one of these can matter, once somebody has asked.
    longest: OnceLock<Nanos>,
}

/// One of them.
pub(super) struct OwnLimit<'e> {
    pub(super) terms: &'e Terms,
    compiled: &'e Compiled,
}

impl<'e> OwnLimit<'e> {
    #[inline]
    pub(super) fn limit(&self, common: &'e Common) -> &'e Limit {
        match self.compiled.get() {
            Some(limit) => limit,
            None => self.compile(common),
        }
    }

    /// If it is compiled, whether it is this very one.
    pub(super) fn is(&self, limit: &Limit) -> bool {
        self.compiled
            .get()
            .is_some_and(|own| std::ptr::eq(&raw const **own, limit))
    }

    /// Whether both are for the same callers, routes and permission, and so only one of them counts.
    pub(super) fn says_the_same(&self, other: &Self, common: &'e Common) -> bool {
        let same = |one: &Limit, other: &Limit| {
            one.id == other.id && one.pattern == other.pattern && one.required_scope == other.required_scope
        };
        self.terms.who == other.terms.who && same(self.limit(common), other.limit(common))
    }

    #[cold]
    fn compile(&self, common: &Common) -> &'e Limit {
        let compile = || Arc::new(common.compile_limit(self.terms, &mut Problems::default()));
        self.compiled.get_or_init(compile)
    }
}

impl OwnLimits {
    /// Limits that stand in for others, by their terms, some of them compiled already. The first that fits counts.
    pub(super) fn standing_in(limits: Vec<(Terms, Option<Limit>)>, seed: KeySeed) -> Self {
        limits
            .into_iter()
            .map(in_parts)
            .collect::<Self>()
            .found_by_policy(seed)
    }

    /// Limits that stand beside others. Of several that say the same the last that fits counts.
    pub(super) fn beside(limits: Vec<(Terms, Option<Limit>)>, common: &Common) -> Self {
        limits
            .into_iter()
            .map(in_parts)
            .collect::<Self>()
            .found_by_routes(common)
    }

    /// The same of those that stand in for others, with some more at the end.
    pub(super) fn with(&self, more: impl Iterator<Item = (Terms, Limit)>, seed: KeySeed) -> Self {
        let more = more.map(|(terms, limit)| in_parts((terms, Some(limit))));
        let known = self.terms.iter().cloned().zip(self.compiled.iter().cloned());
        known.chain(more).collect::<Self>().found_by_policy(seed)
    }

    fn found_by_policy(mut self, seed: KeySeed) -> Self {
        if self.terms.len() >= MANY {
            let listed = (0..).zip(&*self.terms).filter_map(|(place, terms)| {
                let base = terms.base?;
                Some(terms.listed(place, What::Policy(base), (base, &terms.who)))
            });
            self.index = Some(Arc::new(Index::new(seed, listed)));
        }
        self
    }

    fn found_by_routes(mut self, common: &Common) -> Self {
        if self.terms.len() >= MANY {
            let numbered = (0..).zip(&*self.terms).collect::<Vec<(u32, &Terms)>>();
            let listed = numbered.into_iter().rev().map(|(place, terms)| {
                let base = terms.policy(common);
                let change = &*terms.change;
                let pattern = change.pattern.as_ref().or(base.map(|base| &base.pattern));
                let required = base.map_or(&change.required_scope, |base| &base.required_scope);
                let same = (&terms.who, id_beside(base, change), pattern, required);
                terms.listed(place, What::Routes(terms.met_on(common)), same)
            });
            self.index = Some(Arc::new(Index::new(common.seed, listed)));
        }
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The first that is made from a policy and holds for a request.
    #[inline]
    pub(super) fn first(&self, base: u32, request: &Request<'_>, now: Timestamp) -> Option<OwnLimit<'_>> {
        if self.bases & bit(base) == 0 {
            return None;
        }
        self.search(base, request, now)
    }

    #[inline(never)]
    fn search(&self, base: u32, request: &Request<'_>, now: Timestamp) -> Option<OwnLimit<'_>> {
        let fits = |terms: &Terms| terms.base == Some(base) && terms.hold(request, now);
        let place = match &self.index {
            None => self.terms.iter().position(fits),
            Some(index) => {
                let found = index.find(std::iter::once(What::Policy(base)), request, now);
                found.filter(|place| fits(&self.terms[*place])).min()
            }
        };
        Some(self.at(place?))
    }

    fn at(&self, place: usize) -> OwnLimit<'_> {
        OwnLimit {
            terms: &self.terms[place],
            compiled: &self.compiled[place],
        }
    }

    /// Those that hold for a request and may be for its routes, in their order.
    pub(super) fn on<'e>(
        &'e self,
        matched: &Matched,
        request: &Request<'_>,
        now: Timestamp,
        common: &'e Common,
    ) -> SmallVec<[OwnLimit<'e>; 4]> {
        let Some(index) = &self.index else {
            // Those that say the same are for the same routes, so that which of them counts can be asked afterwards.
            let meets = |terms: &Terms| matched.meets(terms.met_on(common));
            return self.counting_where(meets, request, now, common).collect();
        };
        let whats = matched.all().map(What::Routes);
        let mut places: SmallVec<[usize; 8]> = index.find(whats, request, now).collect();
        places.sort_unstable();
        // Hashes of two of the things that it was looked for by may be one.
        places.dedup();
        let found = places.into_iter().map(|place| self.at(place));
        found.filter(|own| own.terms.hold(request, now)).collect()
    }

    /// Those that hold for a request, whatever its routes.
    pub(super) fn counting<'e>(
        &'e self,
        request: &Request<'_>,
        now: Timestamp,
        common: &'e Common,
    ) -> impl Iterator<Item = OwnLimit<'e>> {
        self.counting_where(|_| true, request, now, common)
    }

    fn counting_where<'e>(
        &'e self,
        fits: impl Fn(&Terms) -> bool,
        request: &Request<'_>,
        now: Timestamp,
        common: &'e Common,
    ) -> impl Iterator<Item = OwnLimit<'e>> {
        self.newest_where(move |terms| terms.hold(request, now), fits, now, common)
    }

    /// Those in force at an instant, whomever they are for.
    pub(super) fn in_force<'e>(
        &'e self,
        now: Timestamp,
        common: &'e Common,
    ) -> impl Iterator<Item = OwnLimit<'e>> {
        self.newest_where(move |terms| terms.in_force(now), |_| true, now, common)
    }

    /// Of several that say the same the newest that holds counts.
    fn newest_where<'e>(
        &'e self,
        holds: impl Fn(&Terms) -> bool,
        fits: impl Fn(&Terms) -> bool,
        now: Timestamp,
        common: &'e Common,
    ) -> impl Iterator<Item = OwnLimit<'e>> {
        let numbered = (0..).zip(self.iter());
        let newest = numbered.filter(move |(place, own)| {
            let says_the_same = |newer: &OwnLimit<'_>| holds(newer.terms) && newer.says_the_same(own, common);
            holds(own.terms)
                && fits(own.terms)
                && match &self.index {
                    Some(index) => !index.waits(*place, now),
                    None => !self
                        .iter()
                        .skip(*place as usize + 1)
                        .any(|newer| says_the_same(&newer)),
                }
        });
        newest.map(|(_, own)| own)
    }

    /// Whether some have ended.
    #[inline]
    pub(super) fn have_ended(&self, now: Timestamp) -> bool {
        self.first_end.is_some_and(|first| first <= now)
    }

    /// Those that have ended so lately that they may matter to limits whose counts do for so long, and when they did.
    pub(super) fn ended<'e>(
        &'e self,
        now: Timestamp,
        others: Nanos,
        common: &'e Common,
    ) -> impl Iterator<Item = (Timestamp, OwnLimit<'e>)> {
        let end_of = |place: u32| self.terms[place as usize].expires;
        let over = |place: &u32| end_of(*place).is_some_and(|ends| ends <= now);
        let ended = &self.endings[..self.endings.partition_point(over)];
        let longest = others.max(self.longest(common));
        let ended = ended.iter().rev().filter_map(move |place| {
            let own = self.at(*place as usize);
            Some((own.terms.expires?, own))
        });
        ended.take_while(move |(ended, _)| now < ended.saturating_add(longest))
    }

    fn longest(&self, common: &Common) -> Nanos {
        *self.longest.get_or_init(|| {
            let ending = self.endings.iter().map(|place| self.at(*place as usize));
            let horizons = ending.map(|own| own.limit(common).rule.horizon_ns());
            horizons.max().unwrap_or(0)
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = OwnLimit<'_>> {
        let limits = self.terms.iter().zip(&self.compiled);
        limits.map(|(terms, compiled)| OwnLimit { terms, compiled })
    }

    /// The same after a change of some values of policies, to be compiled where that shows.
    pub(super) fn after(&self, changed: &PolicyValues) -> Self {
        let shows = |terms: &Terms| {
            terms
                .left()
                .is_some_and(|(base, left)| changed.of(base).meets(left))
        };
        let limits = self.iter().map(|own| {
            if shows(own.terms) {
                return OnceLock::new();
            }
            own.compiled.clone()
        });
        Self {
            bases: self.bases,
            first_end: self.first_end,
            terms: self.terms.clone(),
            compiled: limits.collect(),
            index: self.index.clone(),
            endings: self.endings.clone(),
            longest: OnceLock::new(),
        }
    }
}

impl FromIterator<(Terms, Compiled)> for OwnLimits {
    fn from_iter<I: IntoIterator<Item = (Terms, Compiled)>>(limits: I) -> Self {
        let (terms, compiled): (Vec<Terms>, Vec<Compiled>) = limits.into_iter().unzip();
        let bases = terms.iter().filter_map(|terms| terms.base);
        let numbered = (0..).zip(&terms);
        let ending = numbered.filter_map(|(place, terms)| Some((terms.expires?, place)));
        let mut ending: Vec<(Timestamp, u32)> = ending.collect();
        ending.sort_unstable();
        Self {
            bases: bases.fold(0, |bits, base| bits | bit(base)),
            first_end: terms.iter().filter_map(|terms| terms.expires).min(),
            terms: terms.into(),
            compiled: compiled.into(),
            index: None,
            endings: ending.into_iter().map(|(_, place)| place).collect(),
            longest: OnceLock::new(),
        }
    }
}

fn in_parts((terms, limit): (Terms, Option<Limit>)) -> (Terms, Compiled) {
    let compiled = limit.map_or_else(OnceLock::new, |limit| Arc::new(limit).into());
    (terms, compiled)
}

fn bit(base: u32) -> u64 {
    1 << (base % 64)
}
