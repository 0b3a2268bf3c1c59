//! Time travel: servers whose clock is moved (libfaketime) over the turns of quota periods, judged by a calendar and a
//! book of this suite's own.
//!
//! What is drawn at random is drawn anew each time; `TOLLGATE_TRAVEL_SEED` plays it again. `TOLLGATE_TRAVELS=50` plays more
//! journeys on each kind of store.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/draw.rs"]
mod draw;
#[path = "../../../catalog/tests/repository/postgres.rs"]
mod postgres;
#[path = "../../../counters/tests/redis/servers.rs"]
mod servers;

mod book;
mod calendar;
mod journey;
mod org;
mod plan;
mod world;
mod zones;

mod calendars_change;
mod clocks;
mod journeys;
mod polite;
mod restarts;
