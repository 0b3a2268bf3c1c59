//! Clocks that are wrong: far ahead, and set back.

use crate::calendar::{Calendar, Window, utc};
use crate::draw::Draw;
use crate::journey::{Journey, STATES, Way, told_right, use_up};
use crate::org::Org;
use crate::plan::{org, seed};
use crate::world::Stores;
use crate::zones::{APIA, UTC};

#[test]
fn a_clock_jumps_over_several_periods_with_sqlite() {
    jump(Stores::Sqlite);
}

#[test]
fn a_clock_jumps_over_several_periods_with_postgres() {
    jump(Stores::Postgres);
}

#[test]
fn a_clock_jumps_over_several_periods_with_redis_alone() {
    jump(Stores::Redis);
}

/// One org in each state.
fn orgs(calendar: Calendar, window: Window, redis: bool) -> Vec<Org> {
    let mut draw = Draw(seed());
    let org = |number| org(&mut draw, &format!("org-{number}"), calendar, window, redis);
    (0..STATES.len()).map(org).collect()
}

/// Over three days, over two months, and over the day that Apia left out.
fn jump(stores: Stores) {
    let turn = utc(2024, 2, 29, 0) * 1_000;
    let calendar = Calendar {
        day: 29,
        ..Calendar::of(UTC)
    };
    let redis = stores == Stores::Redis;
    let mut journey = Journey::begin(stores, turn, orgs(calendar, Window::Day, redis), Draw(1));
    journey.cross(turn, Way::Over(3 * 86_400_000 + 5_000), &STATES);
    let turn = utc(2024, 5, 1, 0) * 1_000;
    journey.cross(turn, Way::Over(800), &STATES);
    told_right(&journey.faults());
}

#[test]
fn a_day_that_was_left_out_is_over_at_once() {
    let turn = 1_325_239_200_000;
    let mut journey = Journey::begin(
        Stores::Sqlite,
        turn,
        orgs(Calendar::of(APIA), Window::Day, false),
        Draw(2),
    );
    journey.cross(turn, Way::Idle, &STATES);
    told_right(&journey.faults());
}

#[test]
fn a_clock_is_set_back_over_a_turn_with_sqlite() {
    set_back(Stores::Sqlite);
}

#[test]
fn a_clock_is_set_back_over_a_turn_with_postgres() {
    set_back(Stores::Postgres);
}

#[test]
fn a_clock_is_set_back_over_a_turn_with_postgres_and_redis() {
    set_back(Stores::Fleet);
}

/// Who has asked after the turn goes on in the later period, and who has not in the earlier one. Nobody has more than one
/// limit in either.
fn set_back(stores: Stores) {
    let turn = utc(2024, 6, 1, 0) * 1_000;
    let mut journey = Journey::begin(stores, turn, orgs(Calendar::of(UTC), Window::Day, false), Draw(3));
    let Journey { world, orgs, .. } = &mut journey;
    world.clock.set(turn - 45_000);
    for (number, org) in orgs.iter_mut().enumerate() {
        if number % 2 == 0 {
            use_up(world, org);
        } else {
            org.check(world, 0, 5);
        }
    }
    world.lie_idle(turn);
    // Long enough that what lay idle over the turn is no longer looked after.
    world.clock.wait_until(turn + 1_500);
    for org in &mut orgs[..4] {
        org.check(world, 0, 3);
    }
    let latest = world.clock.now();
    world.clock.set(turn - 20_000);
    for org in orgs.iter_mut() {
        org.book.latest = Some(latest);
        org.check(world, 0, 1);
        org.look_at_quotas(world);
    }
    world.clock.set(turn + 100);
    for org in orgs.iter_mut() {
        org.check(world, 0, 1);
        org.look_at_quotas(world);
        use_up(world, org);
    }
    told_right(&journey.faults());
}
