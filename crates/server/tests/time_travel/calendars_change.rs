//! An org's time zone or billing anchor is changed: the periods that run keep their ends, and the next ones are those of the
//! new calendar.

use serde_json::json;

use crate::book::{Book, Quota, Scope};
use crate::calendar::{Calendar, Window, utc};
use crate::draw::Draw;
use crate::journey::{Journey, told_right};
use crate::org::Org;
use crate::world::Stores;
use crate::zones::{CHATHAM, NEW_YORK, UTC};

#[test]
fn the_next_periods_are_those_of_the_new_calendar_with_sqlite() {
    move_house(Stores::Sqlite);
}

#[test]
fn the_next_periods_are_those_of_the_new_calendar_with_postgres() {
    move_house(Stores::Postgres);
}

#[test]
fn the_next_periods_are_those_of_the_new_calendar_with_postgres_and_redis() {
    move_house(Stores::Fleet);
}

#[test]
fn the_next_periods_are_those_of_the_new_calendar_with_redis_alone() {
    move_house(Stores::Redis);
}

/// What an org does between the change and the end of its day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    Nothing,
    Asks,
    /// Nothing, for longer than half a minute.
    Idle,
}

fn mover(id: &str, exact: bool) -> Org {
    let quota = |window: Window, scope| Quota {
        id: format!("{id}-{}", window.word()),
        window,
        scope,
        limit: 100,
        mode: "enforce",
        exact,
    };
    let quotas = vec![quota(Window::Day, Scope::Org), quota(Window::Billing, Scope::Key)];
    let calendar = Calendar {
        day: 18,
        ..Calendar::of(UTC)
    };
    Org::new(id, Book::new(calendar, quotas))
}

fn move_house(stores: Stores) {
    let turn = utc(2024, 11, 18, 0) * 1_000;
    let kinds = [Meanwhile::Nothing, Meanwhile::Asks, Meanwhile::Idle];
    let redis = stores == Stores::Redis;
    let west = Calendar {
        day: 5,
        ..Calendar::of(NEW_YORK)
    };
    let east = Calendar {
        zone: CHATHAM,
        day: 31,
        time: 9_000,
    };
    let mut movers = Vec::new();
    for (number, (kind, calendar)) in kinds
        .into_iter()
        .flat_map(|kind| [(kind, west), (kind, east)])
        .enumerate()
    {
        movers.push((
            mover(&format!("mover-{number}"), redis || number % 2 == 0),
            kind,
            calendar,
        ));
    }
    let (orgs, plans): (Vec<Org>, Vec<(Meanwhile, Calendar)>) = movers
        .into_iter()
        .map(|(org, kind, calendar)| (org, (kind, calendar)))
        .unzip();
    // Orgs of the control plane, not of the file: the file's can't be put.
    let mut journey = Journey::with_orgs_to_put(stores, turn, orgs, Draw(0));
    let Journey { world, orgs, .. } = &mut journey;
    let put = |world: &crate::world::World, org: &Org| {
        let calendar = &org.book.calendar;
        let body =
            json!({"tier": org.id, "timezone": calendar.zone.name, "billingAnchor": calendar.anchor()});
        world
            .server
            .platform_admin()
            .set(&format!("/v1/orgs/{}", org.id), &body);
    };
    for org in orgs.iter() {
        put(world, org);
    }
    world.clock.set(turn - 60_000);
    for (org, (kind, calendar)) in orgs.iter_mut().zip(&plans) {
        if *kind == Meanwhile::Idle {
            org.check(world, 0, 7);
            org.book.calendar = *calendar;
            put(world, org);
        }
    }
    world.lie_idle(turn - 5_750);
    for (org, (kind, calendar)) in orgs.iter_mut().zip(&plans) {
        if *kind != Meanwhile::Idle {
            org.check(world, 0, 7);
            org.book.calendar = *calendar;
            put(world, org);
        }
        if *kind == Meanwhile::Asks {
            org.check(world, 0, 3);
        }
    }
    world.jump(turn - 250);
    world.clock.wait_until(turn + 700);
    for org in orgs.iter_mut() {
        org.check(world, 0, 1);
        org.look_at_quotas(world);
    }
    // And the ones after those.
    let next = orgs
        .iter()
        .map(|org| org.book.calendar.period(Window::Day, turn / 1_000).1);
    let next = next.max().unwrap() * 1_000;
    world.lie_idle(next);
    world.clock.wait_until(next + 300);
    for org in orgs.iter_mut() {
        org.check(world, 0, 1);
        org.look_at_quotas(world);
    }
    told_right(&journey.faults());
}
