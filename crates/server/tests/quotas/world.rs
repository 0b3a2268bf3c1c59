//! Servers with quotas, and what is asked of them.

use serde_json::{Value, json};

use crate::common::server::remaining;
use crate::common::{Launch, Server, file_of, noon_zone, wait_for};

/// A quota of each org in a calendar month of a zone where no day ends soon.
pub fn quota(id: &str, limit: u64, rest: &str) -> String {
    let comma = if rest.is_empty() { "" } else { ", " };
    let zone = noon_zone();
    format!(
        "{{id: {id}, scope: org, algorithm: quota, window: day, timezone: {zone}, limit: {limit}{comma}{rest}}}"
    )
}

/// A server on a database, by its own SQLite file without one.
pub fn serve(database: Option<&str>, policies: &[String]) -> Server {
    let mut flags = vec!["--threads", "1"];
    flags.extend(database.iter().flat_map(|database| ["--database", database]));
    Server::launch(&Launch {
        policies: Some(&file_of(policies)),
        flags: &flags,
        ..Launch::default()
    })
}

/// A check of an org.
pub fn org(org: &str) -> Value {
    json!({"orgId": org})
}

/// Checks so often, and says how many were allowed. A ledger that does not answer in time is asked again: that was charged
/// nothing.
pub fn spend(server: &Server, org: &str, times: u64) -> u64 {
    let body = json!({"orgId": org});
    let allowed = || match server.check(&body).status {
        200 => Some(true),
        429 => Some(false),
        503 => None,
        other => panic!("{other}: {}", server.stderr()),
    };
    (0..times).filter(|_| wait_for("the ledger", allowed)).count() as u64
}

/// What is left, seen without taking any. A ledger that does not answer in time is asked again.
pub fn left(server: &Server, org: &str, policy: &str) -> u64 {
    let look = json!({"orgId": org, "cost": 0});
    let decision = wait_for("the ledger", || {
        Some(server.allowed(&look)).filter(|decision| decision["degraded"] == false)
    });
    remaining(&decision, policy)
}
