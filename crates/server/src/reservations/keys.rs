//! `Idempotency-Key`s: what was answered to each, for an hour, so that a request that is sent again counts once.
//!
//! Each org has its own, and so many of them; its newer ones push out its older ones, and nobody else's.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tollgate_core::{IdHash, KeySeed, Timestamp};
use tollgate_counters::MemoryStore;

use super::bill::Bill;
use super::{MOST, MOST_OF_ORG, OrgMark, SHARDS};

/// How long an answer is kept.
pub const KEPT: Duration = Duration::from_hours(1);

/// An answer as it was given: over HTTP its head and body, over gRPC a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The status.
    pub status: u16,
    /// Header lines.
    pub head: Box<[u8]>,
    /// The body.
    pub body: Box<[u8]>,
}

enum State {
    InFlight,
    Done(Arc<Said>),
}

struct Entry {
    fingerprint: IdHash,
    number: u64,
    since: Timestamp,
    /// When it is forgotten: a denial sooner than the others.
    until: Timestamp,
    state: State,
    undo: Undo,
}

/// What can be taken back of a request.
#[derive(Debug)]
pub enum Undo {
    /// Nothing: it was no plain check.
    Nothing,
    /// A check that was not charged.
    Free,
    /// A check's charge.
    Charge(Arc<Bill>),
    /// The charge of a check that another node decided: what the fleet has on record of it.
    Elsewhere,
    /// It was taken back.
    Done,
}

impl Undo {
    /// Whether a fleet has it on record, so that any node may take it back.
    fn is_on_record(&self) -> bool {
        match self {
            Self::Charge(bill) => bill.is_recorded(),
            Self::Elsewhere => true,
            Self::Nothing | Self::Free | Self::Done => false,
        }
    }
}

#[derive(Default)]
struct Org {
    entries: HashMap<IdHash, Entry>,
    /// By age.
    ages: BTreeMap<u64, IdHash>,
}

/// The keys that this node remembers.
pub struct Keys {
    seed: KeySeed,
    store: Arc<MemoryStore>,
    shards: Vec<Mutex<HashMap<OrgMark, Org>>>,
    count: AtomicUsize,
    next: AtomicU64,
    swept: AtomicUsize,
}

/// What a key leads to.
pub enum Claimed {
    /// Nobody has used it: the request is to be carried out.
    New(Claim),
    /// It was, and this is the answer.
    Done(Arc<Said>),
    /// The same of a check that a fleet has on record: another node may have refunded it. There is no answer if it was for
    /// another request.
    OnRecord(Option<Arc<Said>>),
    /// It was for another request.
    Other,
    /// Somebody is at it.
    InFlight,
    /// There is no room to remember it.
    Full,
}

/// A key for whose request an answer is being made; without one, it is as if it had never been used.
pub struct Claim {
    keys: Arc<Keys>,
    org: OrgMark,
    key: IdHash,
    number: u64,
    kept: bool,
}

/// What can be refunded of a check.
pub enum Refund {
    /// This; nothing if it was not charged.
    Of(Option<Arc<Bill>>),
    /// It was refunded.
    Gone,
    /// It is being decided.
    InFlight,
    /// The key was no plain check's.
    Other,
    /// The key is not known.
    Unknown,
}

impl Keys {
    /// None yet, of charges in this store.
    pub fn new(seed: KeySeed, store: Arc<MemoryStore>) -> Self {
        Self {
            seed,
            store,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            count: AtomicUsize::new(0),
            next: AtomicU64::new(0),
            swept: AtomicUsize::new(0),
        }
    }

    /// Claims a key of an org for a request.
    pub fn claim(self: &Arc<Self>, org: OrgMark, key: &str, fingerprint: IdHash, now: Timestamp) -> Claimed {
        let key = self.seed.id(key.as_bytes());
        let mut shard = self.lock(org);
        let known = shard.entry(org).or_default();
        let mut dropped = Vec::new();
        if known.entries.get(&key).is_some_and(|entry| entry.is_free(now)) {
            dropped.extend(self.remove(known, key));
        }
        if let Some(entry) = known.entries.get(&key) {
            let same = entry.fingerprint == fingerprint;
            return match &entry.state {
                State::Done(said) if entry.undo.is_on_record() => {
                    Claimed::OnRecord(same.then(|| said.clone()))
                }
                _ if !same => Claimed::Other,
                State::InFlight => Claimed::InFlight,
                State::Done(said) => Claimed::Done(said.clone()),
            };
        }
        if known.entries.len() >= MOST_OF_ORG
            && let Some((_, oldest)) = known.ages.first_key_value()
        {
            let oldest = *oldest;
            dropped.extend(self.remove(known, oldest));
        }
        if self.count.load(Ordering::Relaxed) >= MOST {
            drop(shard);
            self.leave(dropped, now);
            return Claimed::Full;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        known.ages.insert(number, key);
        let entry = Entry {
            fingerprint,
            number,
            since: now,
            until: now.saturating_add(KEPT.as_nanos()),
            state: State::InFlight,
            undo: Undo::Nothing,
        };
        known.entries.insert(key, entry);
        self.count.fetch_add(1, Ordering::Relaxed);
        drop(shard);
        self.leave(dropped, now);
        Claimed::New(Claim {
            keys: self.clone(),
            org,
            key,
            number,
            kept: false,
        })
    }

    /// Claims a key that the fleet says is free again, whatever was answered to it.
    pub fn claim_anew(
        self: &Arc<Self>,
        org: OrgMark,
        key: &str,
        fingerprint: IdHash,
        now: Timestamp,
    ) -> Claimed {
        let hash = self.seed.id(key.as_bytes());
        let mut shard = self.lock(org);
        let known = shard.get_mut(&org);
        let on_record = |known: &&mut Org| {
            let entry = known.entries.get(&hash);
            entry.is_some_and(|entry| entry.undo.is_on_record())
        };
        // What was charged, whoever has refunded it has given back, but for what is held here.
        let dropped = known.filter(on_record).and_then(|known| self.remove(known, hash));
        drop(shard);
        self.leave(dropped.into_iter().collect(), now);
        self.claim(org, key, fingerprint, now)
    }

    /// Takes out what a check was charged that carried a key of an org, to give it back. The key is free from then on; that
    /// it was refunded is known until it is used again.
    pub fn refund(&self, org: OrgMark, key: &str, now: Timestamp) -> Refund {
        let key = self.seed.id(key.as_bytes());
        let mut shard = self.lock(org);
        let entry = shard.get_mut(&org).and_then(|known| known.entries.get_mut(&key));
        let Some(entry) = entry.filter(|entry| !entry.is_over(now)) else {
            return Refund::Unknown;
        };
        if matches!(entry.state, State::InFlight) {
            return Refund::InFlight;
        }
        match std::mem::replace(&mut entry.undo, Undo::Done) {
            Undo::Nothing => {
                entry.undo = Undo::Nothing;
                Refund::Other
            }
            Undo::Elsewhere => {
                entry.undo = Undo::Elsewhere;
                Refund::Unknown
            }
            Undo::Free => Refund::Of(None),
            Undo::Charge(bill) => Refund::Of(Some(bill)),
            Undo::Done => Refund::Gone,
        }
    }

    /// Forgets keys that are too old, of some orgs at a time.
    pub fn sweep(&self, now: Timestamp) {
        let next = self.swept.fetch_add(1, Ordering::Relaxed) % SHARDS;
        let mut dropped = Vec::new();
        let mut shard = self.shards[next].lock().unwrap_or_else(PoisonError::into_inner);
        shard.retain(|_, known| {
            while let Some((_, oldest)) = known.ages.first_key_value() {
                let oldest = *oldest;
                if known.entries.get(&oldest).is_some_and(|entry| !entry.is_old(now)) {
                    break;
                }
                dropped.extend(self.remove(known, oldest));
            }
            !known.entries.is_empty()
        });
        drop(shard);
        self.leave(dropped, now);
    }

    /// How many are remembered.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// What is refunded no longer is charged for good.
    fn leave(&self, bills: Vec<Arc<Bill>>, now: Timestamp) {
        for bill in bills {
            bill.leave(&self.store, now);
        }
    }

    fn remove(&self, known: &mut Org, key: IdHash) -> Option<Arc<Bill>> {
        let entry = known.entries.remove(&key)?;
        known.ages.remove(&entry.number);
        self.count.fetch_sub(1, Ordering::Relaxed);
        match entry.undo {
            Undo::Charge(bill) => Some(bill),
            _ => None,
        }
    }

    fn lock(&self, org: OrgMark) -> MutexGuard<'_, HashMap<OrgMark, Org>> {
        let shard = &self.shards[org.shard()];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// Whether its answer is not given any more.
    fn is_over(&self, now: Timestamp) -> bool {
        !matches!(self.state, State::InFlight) && self.until <= now
    }

    /// Whether its key may be used for another request.
    fn is_free(&self, now: Timestamp) -> bool {
        self.is_over(now) || matches!(self.undo, Undo::Done)
    }

    fn is_old(&self, now: Timestamp) -> bool {
        let age = now.nanos().saturating_sub(self.since.nanos());
        u128::from(age) >= KEPT.as_nanos()
    }
}

impl Claim {
    /// Keeps the answer until then at the latest, and what can be taken back of it.
    pub fn keep(mut self, said: Said, until: Option<Timestamp>, undo: Undo) {
        self.kept = true;
        let bill = match &undo {
            Undo::Charge(bill) => Some(bill.clone()),
            _ => None,
        };
        let known = self.own(|known, key| {
            if let Some(entry) = known.entries.get_mut(&key) {
                entry.state = State::Done(Arc::new(said));
                entry.undo = undo;
                entry.until = until.map_or(entry.until, |until| until.min(entry.until));
            }
        });
        if let Some(bill) = bill.filter(|_| !known) {
            // Others have pushed it out meanwhile.
            bill.leave(&self.keys.store, bill.at());
        }
    }

    /// Does something to its entry, if that is still there.
    fn own(&self, change: impl FnOnce(&mut Org, IdHash)) -> bool {
        let mut shard = self.keys.lock(self.org);
        let Some(known) = shard.get_mut(&self.org) else {
            return false;
        };
        let there = known
            .entries
            .get(&self.key)
            .is_some_and(|entry| entry.number == self.number);
        if there {
            change(known, self.key);
        }
        there
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.kept {
            self.own(|known, key| {
                let _ = self.keys.remove(known, key);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: KeySeed = KeySeed::new(1, 2);

    fn keys() -> Arc<Keys> {
        Arc::new(Keys::new(SEED, Arc::new(MemoryStore::new(100))))
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos((1_700_000_000 + seconds) * 1_000_000_000)
    }

    fn claim(keys: &Arc<Keys>, org: &str, key: &str, seconds: u64) -> Claimed {
        keys.claim(OrgMark::of(SEED, Some(org)), key, SEED.id(b"body"), at(seconds))
    }

    fn answer(claimed: Claimed, until: Option<Timestamp>) {
        let Claimed::New(claim) = claimed else {
            panic!("it was used");
        };
        let said = Said {
            status: 200,
            head: Box::default(),
            body: Box::default(),
        };
        claim.keep(said, until, Undo::Nothing);
    }

    #[test]
    fn one_is_in_flight_at_a_time() {
        let keys = keys();
        let first = claim(&keys, "acme", "k", 0);
        assert!(matches!(claim(&keys, "acme", "k", 1), Claimed::InFlight));
        let other = keys.claim(OrgMark::of(SEED, Some("acme")), "k", SEED.id(b"other"), at(1));
        assert!(matches!(other, Claimed::Other));
        // Without an answer it is as if it had never been.
        drop(first);
        answer(claim(&keys, "acme", "k", 2), None);
        assert!(matches!(claim(&keys, "acme", "k", 3), Claimed::Done(_)));
        assert_eq!(keys.count(), 1);
    }

    #[test]
    fn an_answer_is_kept_for_an_hour_or_as_long_as_it_holds() {
        let keys = keys();
        answer(claim(&keys, "acme", "k", 0), None);
        answer(claim(&keys, "acme", "denied", 0), Some(at(10)));
        assert!(matches!(claim(&keys, "acme", "denied", 9), Claimed::Done(_)));
        assert!(matches!(claim(&keys, "acme", "denied", 10), Claimed::New(_)));
        assert!(matches!(claim(&keys, "acme", "k", 3_599), Claimed::Done(_)));
        assert!(matches!(claim(&keys, "acme", "k", 3_600), Claimed::New(_)));
        answer(claim(&keys, "acme", "k", 3_600), None);
        for _ in 0..SHARDS {
            keys.sweep(at(7_200));
        }
        assert_eq!(keys.count(), 0);
    }

    #[test]
    fn one_org_pushes_out_its_own_keys_only() {
        let keys = keys();
        answer(claim(&keys, "other", "k", 0), None);
        for number in 0..=MOST_OF_ORG {
            answer(claim(&keys, "acme", &number.to_string(), 1), None);
        }
        assert!(matches!(claim(&keys, "acme", "0", 2), Claimed::New(_)));
        assert!(matches!(claim(&keys, "acme", "2", 2), Claimed::Done(_)));
        assert!(matches!(claim(&keys, "other", "k", 2), Claimed::Done(_)));
        for number in keys.count()..MOST {
            answer(claim(&keys, &format!("org-{number}"), "k", 2), None);
        }
        assert!(matches!(claim(&keys, "another", "k", 3), Claimed::Full));
    }
}
