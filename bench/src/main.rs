//! Tollgate beside its peers. Every figure is a ratio of two things measured in the same run, in turns, on
//! the same core. `bench/run` builds, pins and prints it all.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_precision_loss
)]

mod baseline;
mod catalogue;
mod fleet;
mod grpc;
mod keys;
mod ledger;
mod memory;
mod peers;
#[path = "../../crates/catalog/tests/repository/postgres.rs"]
mod postgres;
mod profile;
mod rounds;
mod stacks;
mod threads;

fn main() {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        None | Some("all") => {
            peers::run();
            stacks::run();
            memory::run();
            threads::run();
            catalogue::run();
            ledger::run();
            fleet::run(None);
        }
        Some("peers") => peers::run(),
        Some("counters") => stacks::run(),
        Some("memory") => memory::run(),
        Some("memory-child") => memory::child(),
        Some("threads") => threads::run(),
        Some("catalogue") => catalogue::run(),
        Some("catalogue-child") => catalogue::child(),
        Some("ledger") => ledger::run(),
        Some("fleet") => fleet::run(arguments.next().as_deref()),
        Some("baseline") => baseline::serve(),
        Some("grpc-nothing") => grpc::nothing(),
        Some("grpc-limitador") => grpc::limitador(),
        Some("profile") => {
            let levels = arguments.next().unwrap_or_default();
            let count = arguments
                .next()
                .and_then(|count| count.parse().ok())
                .unwrap_or(1_000_000);
            match levels.as_str() {
                "org" => profile::compile(count),
                "quota" | "window" => ledger::profile(&levels, count),
                levels => profile::run(levels, count),
            }
        }
        Some(other) => {
            eprintln!(
                "there is no benchmark `{other}`; there are peers, counters, memory, threads, catalogue, ledger, fleet [hot|rate|steady|http], profile LEVELS|org|quota|window COUNT"
            );
            std::process::exit(2);
        }
    }
}
