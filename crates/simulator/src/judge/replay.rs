//! A bucket as it would be had it known at once of what fallbacks let through: by exact arithmetic, from the first of
//! those that were not settled when it began.

/// What happened to a bucket: when, how much, and which of a fallback's it is.
#[derive(Debug, Clone, Copy)]
struct Event {
    at: u64,
    cost: u64,
    let_through: Option<u64>,
    counts: bool,
    /// What the bucket can't hold then is forgiven.
    cuts: bool,
}

/// The store's clock shows whole microseconds.
const RESOLUTION: u64 = 2_000;

/// What happened since.
#[derive(Debug)]
pub struct Replay {
    at: u64,
    owed: u128,
    events: Vec<Event>,
    /// Something else happened to the bucket as well. Then only what fallbacks let through is replayed.
    disturbed: bool,
    /// The clock was set. Then nobody knows how much drained.
    clock_was_set: bool,
    /// By how much the store's clock was behind the true time, at first.
    behind: Option<u64>,
}

/// The numbers of a bucket, in parts of a token.
#[derive(Debug, Clone, Copy)]
pub struct Bucket {
    pub limit: u64,
    pub capacity: u64,
    pub window: u64,
}

impl Replay {
    /// Begins with what a bucket owes.
    pub fn new(at: u64, owed: u128) -> Self {
        Self {
            at,
            owed,
            events: Vec::new(),
            disturbed: false,
            clock_was_set: false,
            behind: None,
        }
    }

    /// The store's clock shows this at an instant of true time. One that was set back stands still until it is right.
    pub fn tick(&mut self, at: u64, stamp: u64) {
        let behind = at.wrapping_sub(stamp);
        let before = *self.behind.get_or_insert(behind);
        let change = behind.wrapping_sub(before).cast_signed().unsigned_abs();
        self.clock_was_set |= change > RESOLUTION;
    }

    /// A fallback let something through.
    pub fn let_through(&mut self, at: u64, cost: u64, id: u64) {
        self.events.push(Event {
            at,
            cost,
            let_through: Some(id),
            counts: false,
            cuts: true,
        });
    }

    /// The bucket let something through.
    pub fn admitted(&mut self, at: u64, cost: u64) {
        self.events.push(Event {
            at,
            cost,
            let_through: None,
            counts: true,
            cuts: false,
        });
    }

    /// Its numbers or its memory changed.
    pub fn disturb(&mut self) {
        self.disturbed = true;
    }

    /// Its clock was set.
    pub fn set_clock(&mut self) {
        self.clock_was_set = true;
    }

    /// The store heard of these. Says what the bucket owes by now.
    pub fn settled(&mut self, ids: &[u64], bucket: Bucket, owed: u128, now: u64) -> u128 {
        let is_it = |event: &Event| event.let_through.is_some_and(|id| ids.contains(&id));
        if self.clock_was_set {
            self.events.retain(|event| !is_it(event));
            return owed;
        }
        if self.disturbed {
            let alone = self.events.iter().filter(|event| is_it(event));
            let alone = replay(0, 0, alone, bucket, now);
            self.events.retain(|event| !is_it(event));
            return owed + alone;
        }
        for event in &mut self.events {
            event.counts |= is_it(event);
        }
        self.events.push(Event {
            at: now,
            cost: 0,
            let_through: None,
            counts: true,
            cuts: true,
        });
        let counted = self.events.iter().filter(|event| event.counts);
        replay(self.at, self.owed, counted, bucket, now)
    }

    /// Whether nothing is left to be settled.
    pub fn is_over(&self) -> bool {
        self.events.iter().all(|event| event.counts)
    }
}

fn replay<'a>(
    mut at: u64,
    mut owed: u128,
    events: impl Iterator<Item = &'a Event>,
    bucket: Bucket,
    now: u64,
) -> u128 {
    let window = u128::from(bucket.window);
    let mut events: Vec<_> = events.collect();
    events.sort_by_key(|event| event.at);
    for event in events {
        let then = event.at.max(at);
        owed = owed.saturating_sub(u128::from(bucket.limit) * u128::from(then - at));
        (at, owed) = (then, owed + u128::from(event.cost) * window);
        if event.cuts {
            owed = owed.min(u128::from(bucket.capacity) * window);
        }
    }
    owed.saturating_sub(u128::from(bucket.limit) * u128::from(now.max(at) - at))
}
