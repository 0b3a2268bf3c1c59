//! What a call costs Redis, beside the least that a script could do for a stack of three.
//!
//! `cargo run -p tollgate-counters --example script_cost -- redis://127.0.0.1:6379`, with a server that nobody
//! else uses. Time is the server's own, on its main thread; rounds take turns, and the best of each counts.
#![allow(clippy::unwrap_used, reason = "a failed measurement is none")]

use redis::{Cmd, Connection};
use tollgate_core::Mode;
use tollgate_counters::Commit;
use tollgate_counters::redis::{CALL, INSTALL, Keys, Owner, Script, Tag, encode, install};
use tollgate_counters::shared::call::{Call, Kind, LeaseId, Name, Need, Part, Subject, Terms, Want};

const ROUNDS: usize = 7;
const BATCHES: usize = 1_500;
const PIPELINE: usize = 16;

static LEAST: Script = Script::new(
    "least",
    "for i = 1, 3 do
       local count = (tonumber(redis.call('GET', KEYS[i])) or 0) + 1
       redis.call('SET', KEYS[i], count)
     end
     return 1",
);
static TIMED: Script = Script::new(
    "timed",
    "local time = redis.call('TIME')
     for i = 1, 3 do
       local count = (tonumber(redis.call('GET', KEYS[i])) or 0) + 1
       redis.call('SET', KEYS[i], count, 'PX', 60000)
     end
     return time[1]",
);

fn main() {
    let address = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let mut connection = redis::Client::open(address).unwrap().get_connection().unwrap();
    for script in [&LEAST, &TIMED, &CALL, &INSTALL] {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD")
            .arg(script.source())
            .exec(&mut connection)
            .unwrap();
    }
    let keys = Keys::new("cost");
    let owner = Owner::new(&"a".repeat(40), &"b".repeat(40));
    let tag = Tag::org("acme");
    let slots = install(&owner, &keys, [tag.slot()]);
    INSTALL.call(&slots).exec(&mut connection).unwrap();

    let mut plain = tollgate_counters::redis::Parts::new();
    for name in 11..14 {
        plain.key(keys.counter(&tag, Name([name; 16])));
    }
    let ours = |call: &Call| CALL.call(&encode(call, &owner, &keys, &tag, tag.slot()));
    let rows: Vec<(&str, Cmd)> = vec![
        ("GET, add, SET for each of three keys", LEAST.call(&plain)),
        ("the same with TIME and an expiry", TIMED.call(&plain)),
        (
            "a stack of three buckets",
            ours(&stack(1, Kind::Token, 1_000_000, 1)),
        ),
        (
            "a stack of three windows",
            ours(&stack(4, Kind::First, 1 << 40, 1)),
        ),
        ("three buckets, denied", ours(&denied())),
        (
            "16 stacks of three buckets",
            ours(&stack(1, Kind::Token, 1_000_000, 16)),
        ),
        ("three buckets, a need and leases of each", ours(&leased())),
        ("a log", ours(&log())),
    ];
    let mut best = vec![f64::MAX; rows.len()];
    for _ in 0..ROUNDS {
        for ((_, command), best) in rows.iter().zip(&mut best) {
            *best = best.min(cost(&mut connection, command));
        }
    }
    println!("| call | µs | to the first | to the second |\n|---|---|---|---|");
    for ((name, _), cost) in rows.iter().zip(&best) {
        println!(
            "| {name} | {cost:.1} | {:.2} | {:.2} |",
            cost / best[0],
            cost / best[1]
        );
    }
}

/// One need, or several alike, of three counters.
fn stack(first: u8, kind: Kind, limit: u64, needs: usize) -> Call {
    let subjects = (first..first + 3)
        .map(|name| subject(name, kind, limit))
        .collect();
    let parts = (0..3).map(|subject| part(subject, limit)).collect();
    let need = Need {
        commit: Commit::Charge,
        parts,
    };
    Call {
        not_after: u64::MAX,
        subjects,
        needs: vec![need; needs],
        ..Call::default()
    }
}

fn denied() -> Call {
    let mut call = stack(14, Kind::Token, 1, 1);
    for subject in &mut call.subjects {
        subject.terms.window = 366 * 86_400_000_000;
    }
    call
}

fn leased() -> Call {
    let mut call = stack(1, Kind::Token, 1_000_000, 1);
    call.wants = (0..3)
        .map(|subject| Want {
            subject,
            amount: 10,
            hold: 1_000,
            lease: LeaseId { node: 1, number: 1 },
            most: u64::from(u32::MAX),
            needed: false,
        })
        .collect();
    call
}

fn log() -> Call {
    let mut call = stack(7, Kind::Log, 100_000, 1);
    call.subjects.truncate(1);
    call.needs[0].parts.truncate(1);
    call.needs[0].parts[0].mode = Mode::Soft;
    call
}

fn subject(name: u8, kind: Kind, limit: u64) -> Subject {
    Subject {
        name: Name([name; 16]),
        terms: Terms {
            kind,
            limit,
            capacity: limit,
            window: 1_000_000,
            revision: 1,
            period: [0; 3],
        },
        formers: Vec::new(),
        left: 0,
    }
}

fn part(subject: usize, limit: u64) -> Part {
    Part {
        subject,
        limit,
        capacity: limit,
        cost: 1,
        mode: Mode::Enforce,
    }
}

/// Microseconds of the server's main thread for one call.
#[expect(clippy::cast_precision_loss, reason = "it is a small number")]
fn cost(connection: &mut Connection, command: &Cmd) -> f64 {
    let mut pipe = redis::pipe();
    for _ in 0..PIPELINE {
        pipe.add_command(command.clone()).ignore();
    }
    let before = spent(connection);
    for _ in 0..BATCHES {
        pipe.exec(connection).unwrap();
    }
    (spent(connection) - before) * 1e6 / (BATCHES * PIPELINE) as f64
}

fn spent(connection: &mut Connection) -> f64 {
    let cpu: String = redis::cmd("INFO").arg("cpu").query(connection).unwrap();
    let times = ["used_cpu_user_main_thread:", "used_cpu_sys_main_thread:"];
    let time = |name: &str| -> f64 {
        let line = cpu.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().parse().unwrap()
    };
    times.into_iter().map(time).sum()
}
