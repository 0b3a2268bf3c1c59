//! Where among many limits of an org's own those are that a request may meet: by what each is for, and for whom.
//!
//! It knows places and no limits: what it finds is yet to be held against the request. Of several that say the same only
//! one counts, the first of them that is in force; which that is at what time is worked out once, when the org is compiled.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

use tollgate_core::{KeySeed, Timestamp};

use super::super::limit::Routes;
use crate::model::Who;
use crate::request::Request;

/// So many limits are looked up. Of fewer each is looked at, which takes no longer, and no memory.
pub(super) const MANY: usize = 16;

/// The end of what has none.
const NEVER: Timestamp = Timestamp::from_nanos(u64::MAX);

/// What a limit is for, beside whom: what a request is looked up by.
#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    /// To stand in for this policy.
    Policy(u32),
    /// Requests on these routes.
    Routes(Routes),
}

/// A limit that is to be found.
pub(super) struct Listed<'t, S> {
    pub(super) place: u32,
    pub(super) what: What,
    pub(super) who: &'t Who,
    pub(super) ends: Option<Timestamp>,
    /// What is equal for all that say the same.
    pub(super) same: S,
}

#[derive(Debug)]
pub(super) struct Index {
    seed: KeySeed,
    /// For what and whom, hashed, and at which place; in their order.
    places: Box<[(u32, u32)]>,
    /// Those that count only once another has ended that says the same, and when it does; by their places.
    waiting: Box<[(u32, Timestamp)]>,
}

impl Index {
    /// Of these limits. Where several say the same, the one that is to count comes first.
    pub(super) fn new<'t, S: Hash + Eq>(seed: KeySeed, limits: impl Iterator<Item = Listed<'t, S>>) -> Self {
        let (mut places, mut waiting) = (Vec::new(), Vec::new());
        // When the last of those ends that say so.
        let mut last_end: HashMap<S, Timestamp> = HashMap::new();
        for limit in limits {
            let ends = limit.ends.unwrap_or(NEVER);
            let mut counts = true;
            match last_end.entry(limit.same) {
                Entry::Vacant(none) => {
                    none.insert(ends);
                }
                Entry::Occupied(mut last) => {
                    let before = *last.get();
                    counts = before < ends;
                    waiting.push((limit.place, if counts { before } else { NEVER }));
                    *last.get_mut() = before.max(ends);
                }
            }
            if counts {
                let caller = hash_of(seed, id_of(limit.who));
                places.push((together(caller, limit.what), limit.place));
            }
        }
        places.sort_unstable();
        waiting.sort_unstable();
        Self {
            seed,
            places: places.into(),
            waiting: waiting.into(),
        }
    }

    /// Where those are that may be for these things and a request, in no order.
    pub(super) fn find(
        &self,
        whats: impl Iterator<Item = What> + Clone,
        request: &Request<'_>,
        now: Timestamp,
    ) -> impl Iterator<Item = usize> {
        let callers = callers(request).map(|caller| hash_of(self.seed, caller));
        let hashes = callers.flat_map(move |caller| whats.clone().map(move |what| together(caller, what)));
        let places = hashes.flat_map(|hash| {
            let from = self.places.partition_point(|(known, _)| *known < hash);
            let alike = self.places[from..].iter();
            alike.take_while(move |(known, _)| *known == hash)
        });
        let places = places.map(|(_, place)| *place);
        places
            .filter(move |place| !self.waits(*place, now))
            .map(|place| place as usize)
    }

    /// Whether another counts in place of one.
    pub(super) fn waits(&self, place: u32, now: Timestamp) -> bool {
        let found = self.waiting.binary_search_by_key(&place, |(place, _)| *place);
        found.is_ok_and(|at| now < self.waiting[at].1)
    }
}

/// Whom limits may be for that are for a request: of each kind its number and an id.
fn callers<'r>(request: &Request<'r>) -> impl Iterator<Item = (u32, &'r str)> + use<'r> {
    let of = |kind, id: Option<&'r str>| id.map(|id| (kind, id));
    let callers = [
        Some((0, "")),
        of(1, request.app),
        of(2, request.user),
        of(3, request.key),
    ];
    callers.into_iter().flatten()
}

fn id_of(who: &Who) -> (u32, &str) {
    match who {
        Who::Org => (0, ""),
        Who::App(id) => (1, id),
        Who::User(id) => (2, id),
        Who::Key(id) => (3, id),
    }
}

/// Ids are hashed under the secret, so that nobody can choose many that meet.
fn hash_of(seed: KeySeed, (kind, id): (u32, &str)) -> u64 {
    seed.id(id.as_bytes()).short().rotate_left(kind)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "half of a hash is enough to look by"
)]
fn together(caller: u64, what: What) -> u32 {
    let (kind, number) = match what {
        What::Policy(number) => (0, number),
        What::Routes(Routes::Any) => (1, 0),
        What::Routes(Routes::Class(number)) => (2, number),
        What::Routes(Routes::Route(number)) => (3, number),
    };
    let what = (kind << 32 | u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let both = caller ^ what;
    (both ^ both >> 32) as u32
}
