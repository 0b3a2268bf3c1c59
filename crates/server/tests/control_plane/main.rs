//! The control plane on the admin address, as those who use it see it: each module is named for what of it is
//! tried.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

#[path = "../common/mod.rs"]
mod common;

mod apps_and_keys;
mod audit;
mod browser;
mod conditions;
mod conformance;
mod crowds;
mod dropped;
mod effective;
mod eras;
mod file_and_api;
mod limits;
mod matrix;
mod openapi;
mod orgs;
mod overrides;
mod policies;
mod quotas;
mod reset;
mod restart;
mod rollout_rules;
mod rollouts;
mod sizes;
mod tiers;
mod tokens_and_roles;
mod users;

use common::{Admin, Launch, Server};
use serde_json::{Value, json};

const POLICIES: &str = "/v1/ratelimit/policies";
const ROLLOUTS: &str = "/v1/ratelimit/rollouts";
const CLASSES: &str = "/v1/ratelimit/endpoint-classes";

/// A server without a policy file and with an empty database, and whoever may do everything on it.
fn empty() -> (Server, Admin) {
    let server = Server::launch(&Launch::default());
    let admin = server.platform_admin();
    (server, admin)
}

/// The same, to be asked as often as a test likes.
fn unlimited() -> (Server, Admin) {
    let server = Server::launch(&Launch {
        flags: &["--admin-limits", "off"],
        ..Launch::default()
    });
    let admin = server.platform_admin();
    (server, admin)
}

/// The same as the first with a tier `gold`, whose orgs may call three times an hour, and on it the org `acme`.
fn golden() -> (Server, Admin) {
    let (server, admin) = empty();
    admin.set("/v1/tiers/gold", &json!({}));
    admin.set(POLICIES, &hourly("gold-org", "gold", "org", 3));
    admin.set("/v1/orgs/acme", &json!({"tier": "gold"}));
    (server, admin)
}

/// A policy that counts in an hour that begins with the first request.
fn hourly(id: &str, tier: &str, scope: &str, limit: u64) -> Value {
    json!({
        "id": id,
        "orgTier": tier,
        "scope": scope,
        "algorithm": "fixed_window",
        "anchor": "first",
        "limit": limit,
        "window": "1h",
    })
}
