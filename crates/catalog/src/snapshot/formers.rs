//! Counters that levels replace: those of a past snapshot, of overrides that have ended, and of policies that counted
//! otherwise. What they have left is all that a level begins with.

use std::collections::HashSet;

use tollgate_core::{Calendar, Former, IdHash, Level, Timestamp};

use super::Catalogue;
use super::ids::Ids;
use super::limit::Limit;
use super::matched::Matched;
use super::org::{OrgEntry, ResetEntry};
use super::resolve::{Lookup, Stack};
use crate::request::Request;

impl Catalogue {
    /// The stack of a request by policies that were left for others, with the counters of what was for other callers
    /// then and is for nobody now.
    pub(super) fn resolve_past<'s>(
        &'s self,
        request: &Request<'_>,
        (left, now): (Timestamp, Timestamp),
        present: &Self,
    ) -> Stack<'s> {
        let mut stack = self.blank();
        self.resolve(request, now, &mut stack);
        let (mut ids, mut matched) = (self.ids(request), Matched::default());
        let lookup = self.look_up(&mut ids, &mut matched);
        let others = lookup.org.replacements.iter();
        let others = others.filter(|own| own.terms.in_force(now) && !own.terms.who.includes(request));
        let mut counting: Option<HashSet<IdHash>> = None;
        for own in others.map(|own| own.limit(lookup.common)) {
            let Some(level) = stack.limits.iter().position(|limit| limit.id == own.id) else {
                continue;
            };
            let counting = counting.get_or_insert_with(|| {
                let (org, common) = present.find(lookup.ids.org(), request.org);
                let in_force = org.limits(common, now).filter(|known| !known.ended);
                in_force.map(|known| known.limit.counter).collect()
            });
            if !counting.contains(&own.counter) {
                stack.begin_with_own(level, own, false, request, &lookup, left);
            }
        }
        stack
    }
}

impl<'s> Stack<'s> {
    /// Notes the counters of a past stack that levels of this one replace.
    pub(super) fn remember(&mut self, past: &Stack<'s>, request: &Request<'_>, left: Timestamp) {
        for (level, limit) in past.levels.iter().zip(&past.limits) {
            let here = self.limits.iter().position(|known| known.id == limit.id);
            if let Some(here) = here.filter(|here| self.levels[*here].key != level.key) {
                self.begin_with(here, (*limit, past.resets), level, request, left);
            }
        }
        // A counter that is still untouched began with those, and was never told what they have left.
        for (former, known) in past.formers.iter().zip(&past.past) {
            let id = &past.limits[former.level].id;
            let here = self.limits.iter().position(|known| known.id == *id);
            let emptied = |here: &usize| self.was_emptied(*here, request, former.left);
            let here = here.filter(|here| self.levels[*here].key != former.key && !emptied(here));
            if let Some(level) = here {
                self.formers.push(Former { level, ..*former });
                self.past.push(*known);
            }
        }
    }

    /// Notes a counter that one level replaces since another limit was left for its own. What was emptied since then is not
    /// to be gone on with.
    fn begin_with(
        &mut self,
        level: usize,
        past: (&'s Limit, &'s [ResetEntry]),
        former: &Level<'s>,
        request: &Request<'_>,
        left: Timestamp,
    ) {
        let limit = self.limits[level];
        if self.was_emptied(level, request, left) {
            return;
        }
        let goes_on = limit.goes_on_for(past.0);
        self.formers.push(Former {
            level,
            // Where it is one count by two names, another limit leaves what it differs by.
            rule: if goes_on {
                self.levels[level].rule
            } else {
                former.rule
            },
            calendar: former.calendar,
            key: former.key,
            home: former.home,
            left,
            goes_on,
            whole: past.0.is_no_narrower_than(limit),
        });
        self.past.push(past);
    }

    /// Lets levels begin with no more room than what stood in for them has left, if that ended a short while ago. It may have
    /// been for others: what is counted by key is one count for all apps.
    #[inline(never)]
    pub(super) fn start_from_ended(
        &mut self,
        request: &Request<'_>,
        now: Timestamp,
        lookup: &Lookup<'s, '_, '_>,
    ) {
        let (org, common) = (lookup.org, lookup.common);
        let horizons = self.limits.iter().map(|limit| limit.rule.horizon_ns());
        let longest = horizons.max().unwrap_or(0);
        for (ended, own) in org.replacements.ended(now, longest, common) {
            let whose = own.terms.who.includes(request);
            let own = own.limit(common);
            let here = self.limits.iter().position(|limit| limit.id == own.id);
            let matters = |here: &usize| own.matters_to(self.limits[*here], ended, now);
            if let Some(level) = here.filter(matters) {
                self.begin_with_own(level, own, whose, request, lookup, ended);
            }
        }
    }

    fn was_emptied(&self, level: usize, request: &Request<'_>, since: Timestamp) -> bool {
        let limit = self.limits[level];
        let mut resets = self.resets.iter();
        resets.any(|reset| reset.empties(limit, request, since))
    }

    /// Notes the counter that a limit of an org's own has for a request.
    fn begin_with_own(
        &mut self,
        level: usize,
        own: &'s Limit,
        whose: bool,
        request: &Request<'_>,
        lookup: &Lookup<'s, '_, '_>,
        left: Timestamp,
    ) {
        if !whose && !own.is_no_narrower_than(self.limits[level]) {
            return;
        }
        let org = lookup.org;
        if let Ok((key, home)) = own.key(request, lookup.ids) {
            let counter = (org.after_resets(key, own, request), home);
            if counter.0 != self.levels[level].key {
                let former = own.level(org, counter, 0);
                self.begin_with(level, (own, &org.resets), &former, request, left);
            }
        }
    }

    /// Lets levels that count otherwise than before begin with no more room than their old counts have left.
    #[inline(never)]
    pub(super) fn start_from_former(
        &mut self,
        org: &'s OrgEntry,
        request: &Request<'_>,
        now: Timestamp,
        ids: &Ids<'_, '_>,
    ) {
        for (level, limit) in self.limits.iter().enumerate() {
            let own = (self.levels[level].key, self.levels[level].home);
            for former in limit.formers.iter().filter(|former| now < former.until) {
                let whole = former.limit.is_no_narrower_than(limit);
                if !whole && org.was_reset_since(former.left, limit, request) {
                    continue;
                }
                // What a policy used up under another pattern it has used up.
                let (key, home) = match former.limit.key(request, ids) {
                    Ok(found) => found,
                    Err(_) if whole => continue,
                    // The request was in none of those counters, others of the same org were.
                    Err(_) => own,
                };
                self.formers.push(Former {
                    level,
                    rule: &former.limit.rule,
                    calendar: Calendar {
                        zone: former.limit.zone_of(org),
                        anchor: self.levels[level].calendar.anchor,
                    },
                    key: org.after_resets(key, &former.limit, request),
                    home,
                    left: former.left,
                    goes_on: false,
                    whole,
                });
                self.past.push((&former.limit, self.resets));
            }
        }
    }
}
