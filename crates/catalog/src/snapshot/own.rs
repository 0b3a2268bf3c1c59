//! Limits of an org's own: its overrides, each compiled when a request first meets it.
//!
//! Most of what an org has overrides for is asked for as seldom as most orgs are. And what was not compiled yet is
//! nothing to compile anew when a policy is changed.

use std::sync::{Arc, OnceLock};

use tollgate_core::Timestamp;

use super::common::Common;
use super::limit::{Limit, Routes};
use super::policy_values::PolicyValues;
use crate::document::Problems;
use crate::model::{Override, ValueSet, Who};
use crate::request::Request;

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
    /// Limits by their terms, some of them compiled already.
    pub(super) fn new(limits: Vec<(Terms, Option<Limit>)>) -> Self {
        let compiled =
            |limit: Option<Limit>| limit.map_or_else(OnceLock::new, |limit| Arc::new(limit).into());
        let limits = limits.into_iter();
        limits.map(|(terms, limit)| (terms, compiled(limit))).collect()
    }

    /// The same with some more at the end.
    pub(super) fn with(&self, more: impl Iterator<Item = (Terms, Limit)>) -> Self {
        let more = more.map(|(terms, limit)| (terms, Arc::new(limit).into()));
        let known = self.terms.iter().cloned().zip(self.compiled.iter().cloned());
        known.chain(more).collect()
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
        let place = self.terms.iter().position(fits)?;
        Some(OwnLimit {
            terms: &self.terms[place],
            compiled: &self.compiled[place],
        })
    }

    /// Whether some have ended.
    #[inline]
    pub(super) fn have_ended(&self, now: Timestamp) -> bool {
        self.first_end.is_some_and(|first| first <= now)
    }

    /// Those that have ended, and when they did.
    pub(super) fn ended(&self, now: Timestamp) -> impl Iterator<Item = (Timestamp, OwnLimit<'_>)> {
        self.iter().filter_map(move |own| {
            let ended = own.terms.expires.filter(|ends| *ends <= now)?;
            Some((ended, own))
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
        }
    }
}

impl FromIterator<(Terms, Compiled)> for OwnLimits {
    fn from_iter<I: IntoIterator<Item = (Terms, Compiled)>>(limits: I) -> Self {
        let (terms, compiled): (Vec<Terms>, Vec<Compiled>) = limits.into_iter().unzip();
        let bases = terms.iter().filter_map(|terms| terms.base);
        Self {
            bases: bases.fold(0, |bits, base| bits | bit(base)),
            first_end: terms.iter().filter_map(|terms| terms.expires).min(),
            terms: terms.into(),
            compiled: compiled.into(),
        }
    }
}

fn bit(base: u32) -> u64 {
    1 << (base % 64)
}
