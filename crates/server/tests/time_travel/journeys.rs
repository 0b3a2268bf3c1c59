//! Journeys drawn at random: zones, windows, anchors, states, ways over the turn.

use crate::book::Fault;
use crate::calendar::{Calendar, WINDOWS, Window, text};
use crate::draw::Draw;
use crate::journey::{Journey, STATES, State, Way, told_right};
use crate::org::Org;
use crate::plan::{between, calendar, one, org, seed, zone};
use crate::world::Stores;
use crate::zones::{END, Zone};

const DAY: i64 = 86_400;
const ORGS: usize = 9;
/// Turns that the same server crosses.
const TURNS: usize = 2;

#[test]
fn journeys_with_sqlite() {
    travel(Stores::Sqlite);
}

#[test]
fn journeys_with_postgres() {
    travel(Stores::Postgres);
}

#[test]
fn journeys_with_postgres_and_redis() {
    travel(Stores::Fleet);
}

#[test]
fn journeys_with_redis_alone() {
    travel(Stores::Redis);
}

fn travel(stores: Stores) {
    let travels = std::env::var("TOLLGATE_TRAVELS").map_or(1, |travels| travels.parse().unwrap());
    let journeys = (0..travels).map(|_| one_journey(stores, seed()));
    let faults: Vec<Fault> = journeys.flatten().collect();
    told_right(&faults);
}

fn one_journey(stores: Stores, seed: u64) -> Vec<Fault> {
    let mut draw = Draw(seed);
    let (calendar, mut turn) = first_turn(&mut draw);
    let orgs = (0..ORGS).map(|number| traveller(&mut draw, number, calendar, turn, stores));
    let orgs: Vec<Org> = orgs.collect();
    let plan = Draw(draw.below(u64::MAX >> 33));
    let mut journey = Journey::begin(stores, turn * 1_000, orgs, plan);
    for _ in 0..TURNS {
        let way = way(&mut draw);
        let states: Vec<State> = (0..ORGS).map(|_| one(&mut draw, &STATES)).collect();
        println!(
            "{stores:?}: {} in {} {way:?} {states:?}",
            text(turn),
            calendar.zone.name
        );
        journey.cross(turn * 1_000, way, &states);
        // The next one is the first that may come within the time of a test, or one after several that nobody saw.
        let later = turn + DAY * one(&mut draw, &[0, 0, 0, 3, 40]);
        turn = calendar.period(Window::Day, later + 1).1;
    }
    journey.faults()
}

/// A calendar, and a turn of one of its periods: near to a change of clocks, to a month's end, or anywhere.
fn first_turn(draw: &mut Draw) -> (Calendar, i64) {
    let zone: Zone = zone(draw);
    let calendar = calendar(draw, zone);
    let (first, last) = (zone.offsets[0].0 + 60 * DAY, END - 120 * DAY);
    let any = first + i64::try_from(draw.below(u64::try_from(last - first).unwrap())).unwrap();
    let changes: Vec<i64> = zone
        .offsets
        .iter()
        .map(|(at, _)| *at)
        .filter(|at| *at > first && *at < last)
        .collect();
    let near = match draw.below(3) {
        0 if !changes.is_empty() => one(draw, &changes) - i64::try_from(draw.below(2)).unwrap(),
        // A leap day is in this period.
        1 => crate::calendar::utc(2024, 2, 28, 0) + i64::try_from(between(draw, 0, 2 * 86_400)).unwrap(),
        _ => any,
    };
    let window = one(draw, &WINDOWS);
    (calendar, calendar.period(window, near).1)
}

/// An org. Most have a period that ends at this turn; the others are somewhere else, and nothing turns for them.
fn traveller(draw: &mut Draw, number: usize, calendar: Calendar, turn: i64, stores: Stores) -> Org {
    let turning = |window: &Window| calendar.period(*window, turn - 1).1 == turn;
    let turning: Vec<Window> = WINDOWS.into_iter().filter(turning).collect();
    let id = format!("org-{number}");
    let redis = stores == Stores::Redis;
    if draw.below(5) > 0 {
        let tight = one(draw, &turning);
        return org(draw, &id, calendar, tight, redis);
    }
    let place = zone(draw);
    let elsewhere = crate::plan::calendar(draw, place);
    let tight = one(draw, &WINDOWS);
    org(draw, &id, elsewhere, tight, redis)
}

fn way(draw: &mut Draw) -> Way {
    match draw.below(6) {
        0 => Way::Running,
        1 | 2 => Way::Idle,
        3 => Way::Over(one(draw, &[1, 40, 700, 5_000, 31_000])),
        4 => Way::Ended("TERM"),
        _ => Way::Ended("KILL"),
    }
}
