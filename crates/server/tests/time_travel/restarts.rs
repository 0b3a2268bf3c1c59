//! A server that is not there when a period turns: stopped or killed before it, started after it.

use crate::calendar::{Calendar, Window, utc};
use crate::draw::Draw;
use crate::journey::{Journey, STATES, Way, told_right};
use crate::plan::{org, seed};
use crate::world::Stores;
use crate::zones::CAIRO;

#[test]
fn a_server_is_stopped_and_killed_over_turns_with_sqlite() {
    end(Stores::Sqlite);
}

#[test]
fn a_server_is_stopped_and_killed_over_turns_with_postgres() {
    end(Stores::Postgres);
}

#[test]
fn a_server_is_stopped_and_killed_over_turns_with_postgres_and_redis() {
    end(Stores::Fleet);
}

/// Clocks in Cairo go back on the evening before November.
fn end(stores: Stores) {
    let calendar = Calendar {
        day: 31,
        ..Calendar::of(CAIRO)
    };
    let first = calendar.period(Window::Month, utc(2024, 10, 31, 0)).1;
    let mut draw = Draw(seed());
    let org = |number| org(&mut draw, &format!("org-{number}"), calendar, Window::Day, false);
    let orgs = (0..STATES.len()).map(org).collect();
    let mut journey = Journey::begin(stores, first * 1_000, orgs, Draw(4));
    journey.cross(first * 1_000, Way::Ended("TERM"), &STATES);
    let second = calendar.period(Window::Day, first).1;
    journey.cross(second * 1_000, Way::Ended("KILL"), &STATES);
    told_right(&journey.faults());
}
