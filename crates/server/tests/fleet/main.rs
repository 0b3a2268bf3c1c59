//! Several nodes on one Redis, over HTTP: one limit for all of them, whatever happens.
#![allow(missing_docs)]

#[path = "../common/mod.rs"]
mod common;

#[path = "../../../counters/tests/redis/servers.rs"]
mod servers;

mod cluster;
mod limits;
mod load;
mod losses;
mod outages;
mod told;
