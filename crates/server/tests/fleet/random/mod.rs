//! Fleets in random trouble: real nodes on a real Redis, policies that change in every way, and Redis or nodes that stop,
//! die and forget. What is let through is counted here and held against each limit's own inequality.
//!
//! Each run draws a fresh seed and prints it. `TOLLGATE_FLEET_SEED` repeats one, and `TOLLGATE_FLEET_ROUNDS` says how many
//! fleets there are; without it as many as begin within half a minute.

mod book;
mod policy;
mod world;

use std::time::{Duration, Instant};

use crate::draw::Draw;
use crate::postgres::Postgres;
use world::World;

/// The time in which new fleets begin, if nobody says how many there are to be.
const BUDGET: Duration = Duration::from_secs(25);

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}: `{text}` is not a number")),
    )
}

fn play(cluster: bool, default: Option<u64>) {
    let rounds = number("TOLLGATE_FLEET_ROUNDS").or(default);
    let seed =
        number("TOLLGATE_FLEET_SEED").unwrap_or_else(|| tollgate::clock::now().nanos() % 1_000_000_000);
    let postgres = Postgres::start();
    let began = Instant::now();
    let (mut round, mut decisions) = (0, 0);
    let more = |round| rounds.map_or(began.elapsed() < BUDGET, |rounds| round < rounds);
    while more(round) {
        // Seeds that follow each other are those of other fleets.
        let seed = seed + round;
        println!("fleet {round}: TOLLGATE_FLEET_SEED={seed} TOLLGATE_FLEET_ROUNDS=1");
        let draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        decisions += World::start(draw, seed, cluster, &postgres.create()).play();
        round += 1;
    }
    println!("{round} fleets, {decisions} decisions, {:?}", began.elapsed());
}

#[test]
fn no_fleet_in_trouble_lets_more_through_than_its_limits() {
    play(false, None);
}

#[test]
fn nor_does_one_on_a_cluster() {
    play(true, Some(1));
}
