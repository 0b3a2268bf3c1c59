//! Whoever has used up its quota, is told how long to wait, waits just as long and asks once, is let through; and whoever
//! asks again at whatever moment after the turn has all of its quota.

use crate::book::{Book, Quota, Scope};
use crate::calendar::{Calendar, Window, utc};
use crate::draw::Draw;
use crate::journey::{Journey, told_right, use_up};
use crate::org::Org;
use crate::world::Stores;
use crate::zones::UTC;

/// The month's last second is a Saturday's, so the week does not end.
const TURN: (u32, u32, u32) = (2024, 12, 1);
/// When the polite ones begin, and when they ask: as told, or a little later.
const LEAD: i64 = 40_000;
const POLITE: i64 = 20;
const LATE: i64 = 60;
/// When those ask that have used some of a day.
const DELAYS: [i64; 16] = [
    50, 200, 500, 800, 1_000, 1_200, 1_500, 2_000, 2_500, 3_000, 3_500, 4_000, 4_500, 5_000, 5_500, 6_500,
];

#[test]
fn a_polite_client_is_let_through_with_sqlite() {
    ask_as_told(Stores::Sqlite);
}

#[test]
fn a_polite_client_is_let_through_with_postgres() {
    ask_as_told(Stores::Postgres);
}

#[test]
fn a_polite_client_is_let_through_with_postgres_and_redis() {
    ask_as_told(Stores::Fleet);
}

#[test]
fn a_polite_client_is_let_through_with_redis_alone() {
    ask_as_told(Stores::Redis);
}

fn client(id: &str, window: Window, limit: u64) -> Org {
    let quota = Quota {
        id: format!("{id}-quota"),
        window,
        scope: Scope::Org,
        limit,
        mode: "enforce",
        exact: false,
    };
    Org::new(id, Book::new(Calendar::of(UTC), vec![quota]))
}

fn ask_as_told(stores: Stores) {
    let (year, month, day) = TURN;
    let turn = utc(year, month, day, 0) * 1_000;
    let polite = (0..POLITE).map(|number| client(&format!("polite-{number}"), Window::Month, 50));
    let others = DELAYS
        .iter()
        .map(|delay| client(&format!("after-{delay}"), Window::Day, 100));
    let orgs: Vec<Org> = polite.chain(others).collect();
    let mut journey = Journey::begin(stores, turn, orgs, Draw(0));
    journey.world.clock.set(turn - LEAD);
    let Journey { world, orgs, .. } = &mut journey;
    let (polite, others) = orgs.split_at_mut(usize::try_from(POLITE).unwrap());
    for org in polite.iter_mut() {
        use_up(world, org);
    }
    for org in others.iter_mut() {
        org.check(world, 0, 40);
    }
    // Nobody asks for more than half a minute.
    world.lie_idle(turn);
    let polite = (0..).map(|number| number * LATE).zip(polite);
    let mut comers: Vec<(i64, &mut Org)> = polite.chain(DELAYS.into_iter().zip(others)).collect();
    comers.sort_by_key(|(delay, _)| *delay);
    for (delay, org) in comers {
        world.clock.wait_until(turn + delay);
        org.check(world, 0, 1);
        org.look_at_quotas(world);
    }
    told_right(&journey.faults());
}
