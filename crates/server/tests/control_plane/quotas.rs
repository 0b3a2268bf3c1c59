//! What was used of quotas, and corrections of it by hand.

use serde_json::{Value, json};

use crate::common::{Admin, Server, noon_zone};
use crate::{POLICIES, empty};

const QUOTAS: &str = "/v1/orgs/acme/quotas";

/// An org with a quota of a hundred a day for all of it and one of ten for each app, in a zone where it is noon.
fn world() -> (Server, Admin) {
    let (server, admin) = empty();
    let quota = |id: &str, scope: &str, limit: u64| json!({"id": id, "scope": scope, "algorithm": "quota", "window": "day", "limit": limit, "timezone": noon_zone()});
    admin.set(POLICIES, &quota("org-day", "org", 100));
    admin.set(POLICIES, &quota("app-day", "app", 10));
    admin.set("/v1/orgs/acme", &json!({}));
    (server, admin)
}

fn of<'i>(items: &'i [Value], policy: &str) -> &'i Value {
    let found = items.iter().find(|item| item["policyId"] == policy);
    found.unwrap_or_else(|| panic!("{policy} is not among {items:?}"))
}

#[test]
fn what_was_used_is_shown() {
    let (server, admin) = world();
    let items = admin.items(QUOTAS);
    // Apps are not known before they call.
    assert_eq!(items.len(), 1);
    let org = of(&items, "org-day");
    assert_eq!((&org["used"], &org["remaining"]), (&json!(0), &json!(100)));
    assert_eq!(
        (&org["quotaId"], &org["projectedEnd"]),
        (&Value::Null, &Value::Null)
    );
    let end = org["periodEnd"].clone();

    server.allowed(&json!({"orgId": "acme", "appId": "web", "cost": 3}));
    server.allowed(&json!({"orgId": "acme", "cost": 90}));
    let items = admin.items(QUOTAS);
    let (org, app) = (of(&items, "org-day"), of(&items, "app-day"));
    assert_eq!(
        (&org["used"], &org["remaining"], &org["limit"]),
        (&json!(93), &json!(7), &json!(100))
    );
    assert_eq!(
        (&app["used"], &app["appId"], &app["scope"]),
        (&json!(3), &json!("web"), &json!("app"))
    );
    assert_eq!((&org["periodEnd"], &org["nextReset"]), (&end, &end));
    assert_eq!(org["reserved"], 0);
    let at = |name: &str| org[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    // It began less than a day ago, and at this pace it will be used up before the day ends.
    assert!(
        at("periodStart") < at("projectedEnd") && at("projectedEnd") < at("periodEnd"),
        "{org}"
    );
    let page = admin.get(&format!("{QUOTAS}?limit=1")).expect(200);
    let next = page["nextCursor"].as_str().unwrap();
    let rest = admin.items(&format!("{QUOTAS}?limit=9&cursor={next}"));
    assert_eq!(rest.len(), 1);
    assert_ne!(rest[0]["quotaId"], page["items"][0]["quotaId"]);
    assert!(admin.items(&format!("{QUOTAS}?cursor=nonsense")).is_empty());
}

#[test]
fn a_tenant_sees_its_own_but_not_what_is_only_tried() {
    let (server, admin) = world();
    let tried = json!({"id": "tried", "algorithm": "quota", "window": "week", "limit": 9, "mode": "shadow"});
    admin.set(POLICIES, &tried);
    server.allowed(&json!({"orgId": "acme"}));
    let names = |who: &Admin| {
        let items = who.items(QUOTAS);
        let mut names: Vec<String> = items
            .iter()
            .map(|item| item["policyId"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(&admin), ["org-day", "tried"]);
    assert_eq!(
        names(&admin.with_role("tenant-viewer", Some("acme"))),
        ["org-day"]
    );
}

#[test]
fn what_was_used_is_corrected_with_a_reason() {
    let (mut server, admin) = world();
    let spend = json!({"orgId": "acme", "cost": 50});
    server.allowed(&spend);
    server.allowed(&spend);
    server.denied(&spend);
    let items = admin.items(QUOTAS);
    let target = format!(
        "{QUOTAS}/{}/corrections",
        of(&items, "org-day")["quotaId"].as_str().unwrap()
    );
    for (body, problem) in [
        (json!({"grant": 10}), "`reason` is missing"),
        (json!({"reason": "why"}), "One of `used` and `grant` is missing"),
        (json!({"used": 1, "grant": 1, "reason": "why"}), "Give one of"),
        (json!({"used": -1, "reason": "why"}), "must be a whole number"),
        (
            json!({"grant": 101, "reason": "why"}),
            "`grant` is more than was used, 100",
        ),
    ] {
        let said = admin.post(&target, &body).problem(422);
        assert!(said.contains(problem), "{said}");
    }
    let grant = json!({"grant": 60, "reason": "an outage of ours"});
    let before = admin.changes();
    let tried = admin.post(&format!("{target}?dryRun=true"), &grant).expect(200);
    assert_eq!((&tried["used"], admin.changes()), (&json!(40), before));
    server.denied(&spend);

    let once = || {
        let ask = admin.ask("POST", &target).header("Idempotency-Key", "grant-1");
        ask.body(grant.to_string()).send().expect(200)
    };
    assert_eq!(once()["used"], 40);
    assert_eq!(once()["used"], 40);
    let audit = admin.items("/v1/orgs/acme/audit");
    assert_eq!(
        (&audit[0]["kind"], &audit[0]["reason"]),
        (&json!("quota"), &json!("an outage of ours"))
    );
    assert_eq!(
        (&audit[0]["before"]["used"], &audit[0]["after"]["used"]),
        (&json!(100), &json!(40))
    );
    assert_eq!(admin.changes(), before + 1);
    // At once, and for good.
    server.allowed(&spend);
    server.denied(&spend);
    server.restart("TERM");
    let decision = server.denied(&spend);
    assert_eq!(decision["remaining"], 10);
    let admin = server.platform_admin();
    let absent = format!("{QUOTAS}/00000000000000000000000000000000/corrections");
    admin.post(&absent, &grant).problem(404);
}

#[test]
fn what_nothing_is_counted_in_any_more_is_neither_shown_nor_corrected() {
    let (server, admin) = world();
    server.allowed(&json!({"orgId": "acme", "appId": "web", "cost": 7}));
    let used = |policy: &str| {
        let items = admin.items(QUOTAS);
        let of_policy = items.iter().filter(|item| item["policyId"] == policy);
        of_policy.map(|item| item["used"].clone()).collect::<Vec<_>>()
    };
    let target = |policy: &str| {
        let id = of(&admin.items(QUOTAS), policy)["quotaId"].clone();
        format!("{QUOTAS}/{}/corrections", id.as_str().unwrap())
    };
    assert_eq!(
        (used("org-day"), used("app-day")),
        (vec![json!(7)], vec![json!(7)])
    );
    let before = target("org-day");
    let reset = json!({"policyId": "org-day", "reason": "a trial"});
    admin.post("/v1/orgs/acme/ratelimit/reset", &reset).expect(200);
    assert_eq!(
        (used("org-day"), used("app-day")),
        (vec![json!(0)], vec![json!(7)])
    );
    let correction = json!({"used": 99, "reason": "why"});
    admin.post(&before, &correction).problem(404);
    server.allowed(&json!({"orgId": "acme", "appId": "web", "cost": 2}));
    assert_eq!(used("org-day"), [json!(2)]);
    admin.post(&target("org-day"), &correction).expect(200);
    server.denied(&json!({"orgId": "acme", "appId": "web", "cost": 2}));

    let gone = target("app-day");
    admin.ask("DELETE", &format!("{POLICIES}/app-day")).send();
    assert!(used("app-day").is_empty());
    admin.post(&gone, &correction).problem(404);
}
