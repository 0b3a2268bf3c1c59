//! `/v1/orgs/{orgId}/users`: users with a plan of their own.

use serde_json::{Value, json};

use crate::common::server::limit;
use crate::common::{Admin, Server};
use crate::{POLICIES, golden, hourly};

const USERS: &str = "/v1/orgs/acme/users";
const ANN: &str = "/v1/orgs/acme/users/ann";

/// Users may call twice an hour on the org's tier, five times on the tier `plus`.
fn with_plans() -> (Server, Admin) {
    let (server, admin) = golden();
    admin.set("/v1/tiers/plus", &json!({}));
    admin.set(POLICIES, &hourly("gold-user", "gold", "user", 2));
    admin.set(POLICIES, &hourly("plus-user", "plus", "user", 5));
    (server, admin)
}

fn users(server: &Server, user: &str) -> Value {
    server.allowed(&json!({"orgId": "acme", "userId": user, "cost": 0}))
}

#[test]
fn a_user_has_the_limits_of_the_tier_they_are_put_on_and_then_those_of_the_org() {
    let (server, admin) = with_plans();
    assert_eq!(limit(&users(&server, "ann"), "gold-user")["limit"], 2);
    let made = admin.put(ANN, &json!({"tier": "plus", "billingAnchor": "2024-01-31"}));
    let shown = made.expect(201);
    assert_eq!(
        shown,
        json!({"userId": "ann", "tier": "plus", "billingAnchor": "2024-01-31"})
    );
    let again = admin.get(ANN);
    assert_eq!(again.expect(200), shown);
    assert_eq!(again.header("etag"), made.header("etag"));
    assert_eq!(admin.items(USERS), [shown]);
    let decision = users(&server, "ann");
    assert_eq!(limit(&decision, "plus-user")["limit"], 5);
    let limits = decision["limits"].as_array().unwrap();
    assert!(
        limits.iter().all(|limit| limit["policyId"] != "gold-user"),
        "{decision}"
    );
    // The org's own limit stays, and so do those of other users.
    assert_eq!(limit(&decision, "gold-org")["limit"], 3);
    assert_eq!(limit(&users(&server, "bob"), "gold-user")["limit"], 2);
    admin.put(ANN, &json!({"tier": "plus"})).expect(200);
    admin.remove(ANN);
    admin.get(ANN).problem(404);
    admin.delete(ANN).problem(404);
    assert_eq!(limit(&users(&server, "ann"), "gold-user")["limit"], 2);
}

#[test]
fn a_tier_that_a_user_is_on_stays() {
    let (_server, admin) = with_plans();
    admin.set(ANN, &json!({"tier": "plus"}));
    admin.remove(&format!("{POLICIES}/plus-user"));
    let said = admin.delete("/v1/tiers/plus").problem(409);
    assert!(said.contains("plus"), "{said}");
    admin.remove(ANN);
    admin.remove("/v1/tiers/plus");
}

#[test]
fn what_is_no_plan_is_refused_by_the_field_and_changes_nothing() {
    let (_server, admin) = with_plans();
    let before = admin.changes();
    for (body, field) in [
        (json!({}), "tier"),
        (json!({"tier": null}), "tier"),
        (json!({"tier": ""}), "tier"),
        (json!({"tier": 5}), "tier"),
        (json!({"tier": "nothing"}), "nothing"),
        (
            json!({"tier": "plus", "billingAnchor": "2024-02-30"}),
            "billingAnchor",
        ),
        (json!({"tier": "plus", "billingAnchor": 31}), "billingAnchor"),
        (json!({"tier": "plus", "userId": "bob"}), "userId"),
        (json!({"tier": "plus", "timezone": "UTC"}), "timezone"),
        (json!({"tier": "plus", "limit": 5}), "limit"),
    ] {
        let said = admin.put(ANN, &body).problem(422);
        assert!(said.contains(field), "{body}: {said}");
    }
    for body in ["", "{", "[]", "\"plus\""] {
        admin.ask("PUT", ANN).body(body).send().problem(400);
    }
    let plan = json!({"tier": "plus"});
    let said = admin.put(&format!("{USERS}/a%0Ab"), &plan).problem(422);
    assert!(said.contains("userId"), "{said}");
    admin
        .put(&format!("{USERS}/{}", "x".repeat(257)), &plan)
        .problem(422);
    admin.put("/v1/orgs/absent/users/ann", &plan).problem(404);
    admin.get("/v1/orgs/absent/users").problem(404);
    assert_eq!(admin.changes(), before);
    assert!(admin.items(USERS).is_empty());
}
