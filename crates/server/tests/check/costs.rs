//! What a request costs, in requests and in other units.

use serde_json::json;

use crate::common::server::remaining;
use crate::common::{Server, file_of, hourly};

#[test]
fn a_policy_with_a_unit_counts_that_cost_and_no_other() {
    let policies = file_of(&[
        hourly("requests", "org", 100, ""),
        hourly("tokens", "org", 1_000, "unit: tokens"),
        hourly("bytes", "org", 5_000, "unit: bytes"),
    ]);
    let server = Server::start(&policies, &[]);
    let decision = server.allowed(&json!({"orgId": "acme", "cost": 2, "costs": {"tokens": 300, "bytes": 0}}));
    assert_eq!(remaining(&decision, "requests"), 98);
    assert_eq!(remaining(&decision, "tokens"), 700);
    assert_eq!(remaining(&decision, "bytes"), 5_000);
    let decision = server.allowed(&json!({"orgId": "acme"}));
    assert_eq!(remaining(&decision, "requests"), 97);
    assert_eq!(
        remaining(&decision, "tokens"),
        700,
        "a unit that is not given costs nothing"
    );
}

#[test]
fn a_unit_that_runs_out_denies_all_of_the_request() {
    let policies = file_of(&[
        hourly("requests", "org", 100, ""),
        hourly("tokens", "org", 1_000, "unit: tokens"),
    ]);
    let server = Server::start(&policies, &[]);
    server.allowed(&json!({"orgId": "acme", "costs": {"tokens": 900}}));
    let denial = server.denied(&json!({"orgId": "acme", "costs": {"tokens": 101}}));
    assert_eq!(denial["policyId"], "tokens");
    assert_eq!(remaining(&denial, "requests"), 99);
    let denial = server.denied(&json!({"orgId": "acme", "costs": {"tokens": 1_001}}));
    assert_eq!(denial["error"], "cost_exceeds_limit");
    server.allowed(&json!({"orgId": "acme", "costs": {"tokens": 100}}));
}

#[test]
fn a_plain_cost_of_zero_still_takes_other_units() {
    let policies = file_of(&[
        hourly("requests", "org", 100, ""),
        hourly("tokens", "org", 1_000, "unit: tokens"),
    ]);
    let server = Server::start(&policies, &[]);
    let decision = server.allowed(&json!({"orgId": "acme", "cost": 0, "costs": {"tokens": 400}}));
    assert_eq!(remaining(&decision, "requests"), 100);
    assert_eq!(remaining(&decision, "tokens"), 600);
}

#[test]
fn policies_that_share_a_counter_charge_it_once() {
    let policies = file_of(&[
        hourly("first", "org", 10, "counter: shared"),
        hourly("second", "org", 20, "counter: shared"),
    ]);
    let server = Server::start(&policies, &[]);
    let decision = server.allowed(&json!({"orgId": "acme", "cost": 3}));
    assert_eq!(remaining(&decision, "first"), 7);
    assert_eq!(remaining(&decision, "second"), 17);
    let decision = server.allowed(&json!({"orgId": "acme", "cost": 3}));
    assert_eq!(remaining(&decision, "first"), 4);
    assert_eq!(remaining(&decision, "second"), 14);
}
