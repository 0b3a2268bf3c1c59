//! The reservations that are open on this node.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_catalog::repository::LedgerName;
use tollgate_core::{KeySeed, Timestamp};
use tollgate_counters::MemoryStore;
use tollgate_counters::shared::record::RecordName;

use super::bill::Bill;
use super::id::{FleetId, ReservationId};
use super::{MOST, MOST_OF_ORG, OrgMark, SHARDS};

/// One that is open.
struct Open {
    bill: Arc<Bill>,
    until: Timestamp,
    /// Somebody is about to settle it.
    settling: bool,
    /// What the fleet calls it, if that is its name: it can't be guessed, its number here can.
    record: Option<RecordName>,
}

#[derive(Default)]
struct Shard {
    orgs: HashMap<OrgMark, HashMap<u64, Open>>,
    /// By when they end.
    ends: BTreeSet<(Timestamp, OrgMark, u64)>,
}

/// All that are open. One that is not here any more was settled, or has expired.
pub struct Reservations {
    seed: KeySeed,
    store: Arc<MemoryStore>,
    shards: Vec<Mutex<Shard>>,
    count: AtomicUsize,
    next: AtomicU64,
    swept: AtomicUsize,
}

/// What a name leads to.
pub enum Found {
    /// One that may be settled now, by whoever has this.
    Open(Settling),
    /// Somebody else is at it.
    Busy,
    /// One that a fleet has on record, if anybody has.
    Recorded(FleetId),
    /// It was settled, or has expired.
    Gone,
    /// This node gave nobody that name.
    Unknown,
}

/// A reservation that is about to be settled; if that is not done, it stays as it was.
pub struct Settling {
    reservations: Arc<Reservations>,
    id: ReservationId,
    /// What it was charged.
    pub bill: Arc<Bill>,
}

impl Reservations {
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

    /// Whether an org may have one more.
    pub fn has_room(&self, org: Option<&str>) -> bool {
        let org = OrgMark::of(self.seed, org);
        let shard = self.lock(org);
        let held = shard.orgs.get(&org).map_or(0, HashMap::len);
        held < MOST_OF_ORG && self.count.load(Ordering::Relaxed) < MOST
    }

    /// Opens one, and says its name.
    pub fn open(&self, org: Option<&str>, bill: Arc<Bill>, until: Timestamp) -> String {
        let id = ReservationId {
            org: OrgMark::of(self.seed, org),
            until,
            number: self.next.fetch_add(1, Ordering::Relaxed),
        };
        self.insert(id, bill, None);
        id.text(self.seed)
    }

    /// Opens one that a fleet is to have on record, and says its name.
    pub fn open_in_fleet(
        &self,
        org: Option<&str>,
        bill: Arc<Bill>,
        until: Timestamp,
    ) -> Result<(FleetId, String), getrandom::Error> {
        let id = FleetId::new(org, until)?;
        self.insert(id.own(self.seed), bill, Some(id.record));
        let text = id.text();
        Ok((id, text))
    }

    /// Takes out what this node remembers of one that was settled in the fleet's record.
    pub fn take(&self, id: &FleetId) -> Option<Arc<Bill>> {
        let (record, id) = (Some(id.record), id.own(self.seed));
        let mut shard = self.lock(id.org);
        let open = shard.orgs.get(&id.org)?.get(&id.number)?;
        if open.record != record {
            return None;
        }
        self.remove(&mut shard, id.until, id.org, id.number)
    }

    fn insert(&self, id: ReservationId, bill: Arc<Bill>, record: Option<RecordName>) {
        let until = id.until;
        let open = Open {
            bill,
            until,
            settling: false,
            record,
        };
        let mut shard = self.lock(id.org);
        shard.orgs.entry(id.org).or_default().insert(id.number, open);
        shard.ends.insert((until, id.org, id.number));
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// The org that a name is for, if this node or one of its fleet may have given it.
    pub fn org_of(&self, name: &str) -> Option<OrgMark> {
        let own = ReservationId::read(name, self.seed);
        let own = own.or_else(|| FleetId::read(name).map(|id| id.own(self.seed)));
        own.map(|id| id.org)
    }

    /// Finds one, to settle it.
    pub fn find(self: &Arc<Self>, name: &str, now: Timestamp) -> Found {
        let fleets = FleetId::read(name);
        let own = ReservationId::read(name, self.seed);
        let Some(id) = own.or_else(|| fleets.as_ref().map(|id| id.own(self.seed))) else {
            return Found::Unknown;
        };
        let mut shard = self.lock(id.org);
        let open = shard
            .orgs
            .get_mut(&id.org)
            .and_then(|org| org.get_mut(&id.number))
            .filter(|open| open.record == fleets.as_ref().map(|id| id.record));
        match (open, fleets) {
            (Some(open), Some(id)) if open.bill.is_recorded() => Found::Recorded(id),
            (None, Some(id)) => Found::Recorded(id),
            (open, _) => self.settling(open, id, now),
        }
    }

    fn settling(self: &Arc<Self>, open: Option<&mut Open>, id: ReservationId, now: Timestamp) -> Found {
        match open {
            Some(open) if open.settling => Found::Busy,
            Some(open) if now < open.until => {
                open.settling = true;
                Found::Open(Settling {
                    reservations: self.clone(),
                    id,
                    bill: open.bill.clone(),
                })
            }
            _ => Found::Gone,
        }
    }

    /// What an org has reserved of each quota here, leaving out what the fleet has on record if somebody knows that: of
    /// which, in the period that ends when, how much.
    pub fn reserved(&self, org: &str, now: Timestamp, recorded: bool) -> HashMap<(LedgerName, u64), u64> {
        let org = OrgMark::of(self.seed, Some(org));
        let shard = self.lock(org);
        let open = shard.orgs.get(&org).into_iter().flat_map(HashMap::values);
        let mut reserved = HashMap::new();
        for (name, end, cost) in open
            .filter(|open| now < open.until && (recorded || !open.bill.is_recorded()))
            .flat_map(|open| open.bill.quotas())
        {
            let known: &mut u64 = reserved.entry((name, end)).or_default();
            *known = known.saturating_add(cost);
        }
        reserved
    }

    /// How many are open.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Ends those of some orgs whose time has come: they are charged in full.
    pub fn sweep(&self, now: Timestamp) {
        let next = self.swept.fetch_add(1, Ordering::Relaxed) % SHARDS;
        let mut over = Vec::new();
        let mut shard = self.shards[next].lock().unwrap_or_else(PoisonError::into_inner);
        let ends = shard.ends.iter().take_while(|(until, ..)| *until <= now);
        let ends: Vec<_> = ends.copied().collect();
        for (until, org, number) in ends {
            let open = shard.orgs.get(&org).and_then(|org| org.get(&number));
            if open.is_none_or(|open| !open.settling) {
                over.extend(self.remove(&mut shard, until, org, number));
            }
        }
        drop(shard);
        for bill in over {
            bill.leave(&self.store, now);
        }
    }

    fn remove(&self, shard: &mut Shard, until: Timestamp, org: OrgMark, number: u64) -> Option<Arc<Bill>> {
        shard.ends.remove(&(until, org, number));
        let of_org = shard.orgs.get_mut(&org)?;
        let open = of_org.remove(&number)?;
        if of_org.is_empty() {
            shard.orgs.remove(&org);
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some(open.bill)
    }

    fn lock(&self, org: OrgMark) -> MutexGuard<'_, Shard> {
        let shard = &self.shards[org.shard()];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Settling {
    /// It is settled: it is open no longer.
    pub fn done(self) {
        let Self { reservations, id, .. } = &self;
        let mut shard = reservations.lock(id.org);
        let _ = reservations.remove(&mut shard, id.until, id.org, id.number);
    }
}

impl Drop for Settling {
    fn drop(&mut self) {
        let mut shard = self.reservations.lock(self.id.org);
        let org = shard.orgs.get_mut(&self.id.org);
        if let Some(open) = org.and_then(|org| org.get_mut(&self.id.number)) {
            open.settling = false;
        }
    }
}
