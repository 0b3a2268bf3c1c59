//! Orgs in all sorts of states that cross the turn of a period together.

use crate::book::Fault;
use crate::common::file_of;
use crate::draw::Draw;
use crate::org::Org;
use crate::plan::{between, one};
use crate::world::{Stores, World};

/// How an org comes to the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Some of its quota is used.
    Half,
    /// All of it is.
    UsedUp,
    /// Something is reserved, and settled after the turn.
    Reserved,
    /// A check is refunded before the turn, and another after it.
    Refunded,
    /// What was used was corrected by hand.
    Corrected,
    /// It has never asked.
    New,
    /// It asks all the time.
    Busy,
    /// The same, and is refused before the turn.
    Refused,
}

pub const STATES: [State; 8] = [
    State::Half,
    State::UsedUp,
    State::Reserved,
    State::Refunded,
    State::Corrected,
    State::New,
    State::Busy,
    State::Refused,
];

/// How the clock comes over the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It runs, for seconds.
    Running,
    /// It is moved to just before the turn, so that nobody has asked for longer than half a minute.
    Idle,
    /// It is moved over the turn, so many milliseconds past it.
    Over(i64),
    /// The server is ended by a signal before the turn, and started again after it.
    Ended(&'static str),
}

/// How long before the turn orgs begin, in milliseconds.
const LEAD: i64 = 45_000;
const SHORT_LEAD: i64 = 4_000;
/// How long after the turn the first request of an org comes.
const DELAYS: [i64; 13] = [
    30, 60, 120, 250, 400, 600, 800, 1_000, 1_300, 1_700, 2_400, 3_300, 5_200,
];

/// A world and its orgs.
pub struct Journey {
    pub world: World,
    pub orgs: Vec<Org>,
    draw: Draw,
}

impl Journey {
    /// A server that starts well before the first turn, in milliseconds.
    pub fn begin(stores: Stores, turn: i64, orgs: Vec<Org>, draw: Draw) -> Self {
        let listed = orgs.iter().map(|org| format!("  - {}\n", org.line()));
        let file = format!("orgs:\n{}", listed.collect::<String>());
        Self::on(stores, turn, &file, orgs, draw)
    }

    /// The same, of orgs that are not in the policy file but made with the control plane.
    pub fn with_orgs_to_put(stores: Stores, turn: i64, orgs: Vec<Org>, draw: Draw) -> Self {
        let tiers = orgs.iter().map(|org| format!("  - {{tier: {}}}\n", org.id));
        let file = format!("tiers:\n{}", tiers.collect::<String>());
        Self::on(stores, turn, &file, orgs, draw)
    }

    fn on(stores: Stores, turn: i64, head: &str, orgs: Vec<Org>, draw: Draw) -> Self {
        let policies: Vec<String> = orgs.iter().flat_map(Org::policies).collect();
        let file = format!("{head}{}", file_of(&policies));
        Self {
            world: World::start(stores, turn - LEAD - 60_000, &file),
            orgs,
            draw,
        }
    }

    /// Crosses one turn with each org in a state.
    pub fn cross(&mut self, turn: i64, way: Way, states: &[State]) {
        let lead = if way == Way::Running { SHORT_LEAD } else { LEAD };
        self.world.jump(turn - lead);
        let Self { world, orgs, draw } = self;
        for (org, state) in orgs.iter_mut().zip(states) {
            come(draw, world, org, *state);
        }
        self.go(turn, way, states);
        self.arrive(turn);
    }

    /// Brings the clock over the turn; who is busy asks meanwhile.
    fn go(&mut self, turn: i64, way: Way, states: &[State]) {
        let Self { world, orgs, .. } = self;
        match way {
            Way::Running => {}
            Way::Idle => world.lie_idle(turn),
            Way::Over(past) => world.jump(turn + past),
            Way::Ended(signal) => {
                world.server.end(signal);
                world.clock.set(turn - 100);
                world.server.start_again();
                for org in orgs.iter_mut() {
                    org.killed |= signal == "KILL";
                    org.moved = true;
                    if !world.stores.has_records() {
                        org.forget_reserved();
                    }
                }
            }
        }
        while world.clock.now() < turn + DELAYS[0] {
            let busy = orgs
                .iter_mut()
                .zip(states)
                .filter(|(_, state)| **state == State::Busy);
            for (org, _) in busy {
                org.check(world, 0, 1);
            }
            world.clock.wait_until(world.clock.now() + 10);
        }
    }

    /// Each org comes back after a while of its own, and has all of its quota.
    fn arrive(&mut self, turn: i64) {
        let Self { world, orgs, draw } = self;
        let mut comers: Vec<(i64, &mut Org)> = orgs.iter_mut().map(|org| (one(draw, &DELAYS), org)).collect();
        comers.sort_by_key(|(delay, _)| *delay);
        for (delay, org) in &mut comers {
            world.clock.wait_until(turn + *delay);
            match draw.below(5) {
                0 => org.look_at_quotas(world),
                1 => org.check(world, 0, 0),
                2 => org.settle(world),
                _ => {}
            }
            org.check(world, 0, 1);
        }
        for (_, org) in &mut comers {
            if draw.below(2) == 0 {
                use_up(world, org);
            }
            org.settle(world);
            org.refund(world);
            if org.moved {
                org.wait_for_quotas(world);
            }
            org.check(world, 1, 0);
            org.look_at_quotas(world);
        }
        for org in orgs {
            org.look_at_statements(world);
        }
    }

    /// Says which orgs were told something wrong.
    pub fn faults(self) -> Vec<Fault> {
        self.orgs.into_iter().filter_map(|org| org.fault).collect()
    }
}

/// Fails if some orgs were told something wrong.
pub fn told_right(faults: &[Fault]) {
    let count = faults.len();
    assert!(
        count == 0,
        "{count} orgs were told something wrong:\n{}",
        faults.join("\n")
    );
}

/// Brings an org into a state.
fn come(draw: &mut Draw, world: &World, org: &mut Org, state: State) {
    let part = org.book.quotas[0].limit / 4;
    if state == State::New {
        return;
    }
    org.check(world, 0, between(draw, 1, part));
    org.check(world, 1, 1);
    match state {
        State::UsedUp | State::Refused => use_up(world, org),
        State::Reserved => org.reserve(world, 0, part),
        State::Refunded => {
            org.check_keyed(world, 0, part);
            org.refund(world);
            org.check_keyed(world, 0, part);
        }
        State::Corrected if world.stores.has_ledger() => org.correct(world, 0, between(draw, 0, 2 * part)),
        _ => {}
    }
    if draw.below(3) == 0 {
        org.look_at_quotas(world);
    }
}

/// Takes all that is left of an org's tight quota, and is refused the next one.
pub fn use_up(world: &World, org: &mut Org) {
    let place = org.book.place(0, 0);
    let used = org.book.count(place, world.clock.now()).used;
    let left = org.book.quotas[0].limit.saturating_sub(used);
    if left > 0 {
        org.check(world, 0, left);
    }
    org.check(world, 0, 1);
}
