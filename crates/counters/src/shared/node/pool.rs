//! What a node holds of one counter.

use smallvec::SmallVec;
use tollgate_core::{Algorithm, Cell, CounterKey, Level, Mode, Rule, Timestamp};

use super::super::call::{LeaseId, MOST, Micros, Name, most_of};
use super::claim::{Kept, Source};
use super::owing::Owing;
use super::size::{Sizes, nanos};
use super::{LEASE_IDLE, Mono};

/// Tokens on loan.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lease {
    pub(super) id: LeaseId,
    pub(super) left: u64,
    /// What was spent of it at once and is on no record by which it may go back.
    pub(super) spent: u64,
    /// Nothing of it is spent from then on.
    pub(super) deadline: Mono,
    /// When it was asked for.
    pub(super) sent: Mono,
    /// When it was lent, in the store's time.
    pub(super) lent: Micros,
    /// The end of the window that it was lent of, and the generation.
    pub(super) of: (Micros, Micros),
    /// When something of it was last spent.
    pub(super) last: Mono,
    /// No more was counted with it: whoever has a lesser limit on the same count can't spend of it.
    pub(super) most: u64,
}

/// A denial that holds until it could change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refusal {
    /// For this cost and greater ones.
    pub(super) cost: u64,
    /// By this limit on the count, and lesser ones.
    pub(super) most: u64,
    pub(super) until: Mono,
}

impl Refusal {
    /// Whether it is for a request, by a limit.
    fn holds(&self, cost: u64, most: u64, now: Mono) -> bool {
        cost >= self.cost && most <= self.most && now < self.until
    }
}

/// How a level stands with what is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// There are tokens for it.
    Held,
    /// It has no room, and nothing could have changed that yet.
    Refused,
    /// The store has to be asked.
    Unknown,
}

/// What a node holds, and last heard, of one counter.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) name: Name,
    /// The store's numbers when last heard of, with all that is leased counted as used.
    pub(super) cell: Cell,
    pub(super) heard: Option<Mono>,
    pub(super) leases: SmallVec<[Lease; 2]>,
    pub(super) refusal: Option<Refusal>,
    /// The policies that the refusal and what follows are of.
    pub(super) revision: Option<u64>,
    pub(super) rule: Rule,
    /// How much may be counted by it. Of several limits on the count the least is borrowed by: what it lends, all of them
    /// can spend.
    pub(super) most: u64,
    /// When such a limit was last asked about.
    pub(super) least_used: Mono,
    pub(super) accuracy: u16,
    pub(super) sizes: Sizes,
    /// Tokens a second, as of late.
    pub(super) rate: u64,
    /// Spent since `marked`.
    spent: u64,
    marked: Mono,
    /// What ended unspent, and when that was true.
    lost: (u64, Mono),
    /// It is not asked for more before.
    pub(super) sated_until: Mono,
    /// When it was last asked about.
    pub(super) used: Mono,
    /// Let through while the store was unavailable, and not reported to it yet.
    pub(super) owing: Option<Box<Owing>>,
}

/// The shortest time over which a rate is measured, and that of few tokens.
const MEASURED_OVER: Mono = nanos(5_000);
const SELDOM: Mono = nanos(100_000);
/// Fewer tokens say little about a rate.
const MANY: u64 = 8;
/// What was heard of a counter is shown so long without asking again.
const FRESH: Mono = nanos(50_000);

impl Pool {
    pub(super) fn new(name: Name, rule: &Rule, now: Mono) -> Self {
        Self {
            name,
            cell: Cell::default(),
            heard: None,
            leases: SmallVec::new(),
            refusal: None,
            revision: None,
            rule: rule.clone(),
            most: 0,
            least_used: now,
            accuracy: 0,
            sizes: Sizes::default(),
            rate: 0,
            spent: 0,
            marked: now,
            lost: (0, now),
            sated_until: 0,
            used: now,
            owing: None,
        }
    }

    /// Tokens that can be spent.
    pub(super) fn held(&self, now: Mono) -> u64 {
        let live = self.leases.iter().filter(|lease| lease.is_live(now));
        live.map(|lease| lease.left).sum()
    }

    /// Tokens that can be spent under a limit.
    fn held_under(&self, most: u64, now: Mono) -> u64 {
        let live = self.leases.iter().filter(|lease| lease.serves(most, now));
        live.map(|lease| lease.left).sum()
    }

    /// Is told of a limit on the count, by which it will be borrowed unless there is a lesser one.
    pub(super) fn heed(&mut self, level: &Level<'_>, revision: u64, accuracy: u16, now: Mono) {
        let most = most_of(level.rule.capacity, level.mode);
        let is_new = self.revision != Some(revision);
        if is_new || most < self.most || now.saturating_sub(self.least_used) > LEASE_IDLE {
            if is_new || self.rule != *level.rule {
                self.refusal = None;
                self.rule = level.rule.clone();
            }
            self.revision = Some(revision);
            self.most = most;
            self.accuracy = accuracy;
        }
        if most == self.most {
            self.least_used = now;
        }
        self.used = now;
    }

    pub(super) fn standing(&self, cost: u64, most: u64, now: Mono) -> Standing {
        if cost == 0 {
            let fresh = self.heard.is_some_and(|heard| now < heard.saturating_add(FRESH));
            return if fresh { Standing::Held } else { Standing::Unknown };
        }
        if self.held_under(most, now) >= cost {
            return Standing::Held;
        }
        match self.refusal {
            Some(refusal) if refusal.holds(cost, most, now) => Standing::Refused,
            _ => Standing::Unknown,
        }
    }

    /// Where tokens lie that are about to be spent: in one window, and of what can be given back. A bucket has none, and
    /// nobody knows where a log will have them.
    pub(super) fn lies(&self, cost: u64, most: u64, now: Mono) -> Option<(Micros, Micros)> {
        if self.counts_what_ended() {
            return None;
        }
        let (mut owed, mut of) = (cost, None);
        for lease in self.leases.iter().filter(|lease| lease.serves(most, now)) {
            let taken = lease.left.min(owed);
            if taken > 0 && *of.get_or_insert(lease.of) != lease.of {
                return None;
            }
            owed -= taken;
        }
        of
    }

    /// Spends tokens that are held for a limit, those that end first, and says when the first of the touched leases ends.
    pub(super) fn spend(&mut self, cost: u64, most: u64, now: Mono, on_record: bool) -> Mono {
        let (mut owed, mut deadline) = (cost, Mono::MAX);
        for lease in self.leases.iter_mut().filter(|lease| lease.serves(most, now)) {
            let taken = lease.left.min(owed);
            if taken > 0 {
                lease.left -= taken;
                if !on_record {
                    lease.spent += taken;
                }
                lease.last = now;
                deadline = deadline.min(lease.deadline);
                owed -= taken;
            }
        }
        debug_assert_eq!(owed, 0, "more was spent than is held");
        self.note_spent(cost);
        deadline
    }

    /// Puts back what was spent, no more than was of leases that have not ended. It is as if it had not been spent yet.
    pub(super) fn give_back(&mut self, amount: u64, now: Mono) {
        let mut rest = amount;
        for lease in self.leases.iter_mut().filter(|lease| lease.is_live(now)) {
            let back = lease.spent.min(rest);
            lease.left += back;
            lease.spent -= back;
            rest -= back;
        }
    }

    /// Takes tokens that are held out of their leases, for a request that is not decided yet, and says when the
    /// first of them ends.
    pub(super) fn keep(
        &mut self,
        home: u64,
        key: CounterKey,
        (cost, most): (u64, u64),
        now: Mono,
    ) -> (Mono, SmallVec<[Kept; 1]>) {
        let (mut owed, mut deadline) = (cost, Mono::MAX);
        let mut kept = SmallVec::new();
        for lease in self.leases.iter_mut().filter(|lease| lease.serves(most, now)) {
            let amount = lease.left.min(owed);
            if amount > 0 {
                lease.left -= amount;
                lease.last = now;
                deadline = deadline.min(lease.deadline);
                owed -= amount;
                kept.push(Kept {
                    home,
                    key,
                    lease: lease.id,
                    amount,
                    source: Source::Held,
                });
            }
        }
        debug_assert_eq!(owed, 0, "more was kept than is held");
        self.note_spent(cost);
        (deadline, kept)
    }

    /// What was spent at `now` was so no later than `then`.
    pub(super) fn spent_by(&mut self, now: Mono, then: Mono) {
        for lease in self.leases.iter_mut().filter(|lease| lease.last == now) {
            lease.last = then;
        }
    }

    /// Puts tokens back where they came from. If that lease has ended they are gone with it.
    pub(super) fn put_back(&mut self, lease: LeaseId, amount: u64) {
        if let Some(lease) = self.leases.iter_mut().find(|known| known.id == lease) {
            lease.left += amount;
        }
    }

    /// Notes what was spent, here or in the store, by which the rate is measured. What no lease could have served
    /// is no reason to borrow more.
    pub(super) fn note_spent(&mut self, cost: u64) {
        if cost <= self.sizes.cap {
            self.spent = self.spent.saturating_add(cost);
        }
    }

    /// Brings the rate up to date.
    fn measure(&mut self, now: Mono) {
        let elapsed = now.saturating_sub(self.marked);
        let least = if self.spent < MANY { SELDOM } else { MEASURED_OVER };
        if elapsed < least {
            return;
        }
        let lately = u128::from(self.spent) * u128::from(nanos(1_000_000)) / u128::from(elapsed);
        let lately = u64::try_from(lately).unwrap_or(u64::MAX);
        // Quickly up, slowly down.
        self.rate = lately.max(self.rate / 2 + lately / 2);
        self.spent = 0;
        self.marked = now;
    }

    /// Drops leases of which everything was spent, for which a bucket or a log waits.
    pub(super) fn take_spent(&mut self) -> SmallVec<[Lease; 2]> {
        let mut spent = SmallVec::new();
        if self.counts_what_ended() {
            self.leases.retain(|lease| {
                if lease.left == 0 {
                    spent.push(*lease);
                }
                lease.left > 0
            });
        }
        spent
    }

    /// Drops leases that have ended, and says what of them can be given back.
    pub(super) fn take_ended(&mut self, now: Mono, all: bool) -> SmallVec<[Lease; 2]> {
        let mut ended = SmallVec::new();
        let mut lost = 0;
        self.leases.retain(|lease| {
            let keep = lease.is_live(now) && !all;
            if !keep && lease.left > 0 {
                ended.push(*lease);
                if !lease.is_live(now) {
                    lost += lease.left;
                }
            }
            keep
        });
        if lost > 0 && self.counts_what_ended() {
            self.lost = (self.lost(now) + lost, now);
        }
        ended
    }

    /// The counter as it looks from here: what is held is not used yet.
    pub(super) fn view(&self, level: &Level<'_>, at: Timestamp, now: Mono) -> Cell {
        let soft = level.mode == Mode::Soft;
        let cell = level.rule.advance(self.cell, level.calendar, at, soft);
        level.rule.uncharge(cell, self.held(now))
    }

    /// Whether there is something to do about it: it runs low.
    pub(super) fn runs_low(&self, now: Mono) -> bool {
        now >= self.sated_until && self.held(now) < self.sizes.low(self.rate)
    }

    /// How much to hold, in a fleet of so many nodes whose calls take so long.
    pub(super) fn target(&mut self, nodes: u64, trip: Micros, at: Timestamp, now: Mono) -> u64 {
        self.measure(now);
        self.sizes = Sizes::of(&self.rule, self.accuracy, nodes, trip);
        let target = self.sizes.target(self.rate);
        if self.most >= MOST || self.is_bucket() {
            return target;
        }
        // The less is left of a window, the less may lie unused.
        let left = self.rule.remaining(self.cell, at).saturating_add(self.held(now));
        target.min(self.sizes.share(left))
    }

    /// How much more to borrow of what is to be held.
    pub(super) fn want(&self, target: u64, now: Mono) -> u64 {
        let held = self.held(now);
        // A pool that is nearly full is left alone.
        if now < self.sated_until || held * 4 >= target * 3 {
            return 0;
        }
        let mut unused = held.saturating_add(self.lost(now));
        if self.counts_what_ended() || self.rule.algorithm == Algorithm::SlidingCounter {
            // Also what has ended and nobody has looked at since: a window may be over that goes on counting it.
            let ended = self.leases.iter().filter(|lease| !lease.is_live(now));
            unused += ended.map(|lease| lease.left).sum::<u64>();
        }
        (target - held).min(self.sizes.cap.saturating_sub(unused))
    }

    /// Whether what ended unspent counts as spent: a window gets it back, a bucket or a log has counted it by then.
    fn counts_what_ended(&self) -> bool {
        self.is_bucket() || self.rule.algorithm == Algorithm::SlidingLog
    }

    pub(super) fn is_bucket(&self) -> bool {
        self.rule.algorithm.is_bucket()
    }

    /// What ended unspent and is still counted as used. In a bucket as much as may lie unused comes back in the time
    /// in which the whole limit does.
    fn lost(&self, now: Mono) -> u64 {
        let (lost, at) = self.lost;
        if self.rule.algorithm == Algorithm::SlidingLog {
            // Nothing of it leaves before its window has passed, and what is entered late leaves a little later.
            let stays = self.rule.horizon_ns() + u128::from(nanos(self.sizes.hold));
            let gone = u128::from(now.saturating_sub(at)) >= stays;
            return if gone { 0 } else { lost };
        }
        let back = u128::from(self.sizes.cap) * u128::from(now.saturating_sub(at));
        let back = back / self.rule.horizon_ns().max(1);
        lost.saturating_sub(u64::try_from(back).unwrap_or(u64::MAX))
    }
}

impl Lease {
    pub(super) fn is_live(&self, now: Mono) -> bool {
        now < self.deadline
    }

    /// Whether it can be spent under a limit.
    fn serves(&self, most: u64, now: Mono) -> bool {
        self.most <= most && self.is_live(now)
    }

    /// No later than this was anything of it spent, in the store's time: it was lent after it was asked for, and
    /// the clock may be a little slow.
    pub(super) fn last_spent(&self) -> Micros {
        let since = self.last.saturating_sub(self.sent);
        self.lent + (since + since / 1_000).div_ceil(nanos(1))
    }
}
