//! What a rollout may be, who may make one, and what is refused while one is open.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::common::server::{applied, limit};
use crate::common::{Admin, Answer, Server};
use crate::rollouts::{close, early, summer};
use crate::{CLASSES, POLICIES, ROLLOUTS, golden, hourly};

fn with(admin: &Admin, method: &str, target: &str, header: (&str, &str), body: &Value) -> Answer {
    let ask = admin.ask(method, target).header(header.0, header.1);
    ask.body(body.to_string()).send()
}

#[test]
fn what_is_no_candidate_is_refused_with_its_reason_and_changes_nothing() {
    let (server, admin) = golden();
    let made = admin.post(
        "/v1/orgs/acme/ratelimit/overrides",
        &json!({"policyId": "gold-org", "limit": 9}),
    );
    made.expect(201);
    let before = (admin.changes(), admin.get(POLICIES).expect(200));
    let policy = hourly("rate", "*", "org", 1);
    let with = |name: &str, value: Value| {
        let mut rollout = summer(10, &policy);
        rollout[name] = value;
        rollout
    };
    let changed = |name: &str, value: Value| {
        let mut policy = policy.clone();
        policy[name] = value;
        with("policies", json!([policy]))
    };
    for (rollout, reason) in [
        (with("id", json!("a/b")), "id: `a/b` is not an id"),
        (with("id", json!("")), "id: must not be empty"),
        (with("id", json!("active")), "id: `active` stands for the set"),
        (
            with("percent", json!(101)),
            "percent: must be a whole number from 0 to 100",
        ),
        (with("percent", json!(-1)), "percent"),
        (with("percent", json!(0.5)), "percent"),
        (with("percent", json!("10")), "percent"),
        (with("policies", json!([])), "changes nothing"),
        (with("policies", Value::Null), "changes nothing"),
        (with("policies", json!({})), "policies: must be a list"),
        (with("policies", json!([7])), "policies[0]: must be a mapping"),
        (
            with("policies", json!([policy, policy])),
            "policies[1]: the id `rate` is there twice",
        ),
        (with("removes", json!("gold-org")), "removes: must be a list"),
        (with("removes", json!([7])), "`removes[0]` must be text"),
        (
            with("removes", json!(["rate"])),
            "`rate` is among the policies too",
        ),
        (
            with("removes", json!(["nothing"])),
            "There is no policy `nothing`",
        ),
        (
            with("removes", json!(["gold-org"])),
            "1 overrides are for the policy `gold-org`",
        ),
        (with("state", json!("promoted")), "`state` can only be open"),
        (with("state", json!("shut")), "state: `shut` is not one of"),
        (
            with("percnt", json!(5)),
            "percnt: is not a known field; did you mean `percent`?",
        ),
        (with("reason", json!(["x"])), "reason: must be text"),
        (changed("limit", json!("3")), "policies[0].limit"),
        (changed("window", json!("1x")), "policies[0].window"),
        (changed("orgTier", json!("bronze")), "There is no tier `bronze`"),
        (
            changed("endpointPattern", json!("class:heavy")),
            "there is no endpoint class `heavy`",
        ),
        (changed("limt", json!(3)), "policies[0].limt"),
    ] {
        for target in [ROLLOUTS.to_owned(), format!("{ROLLOUTS}?dryRun=true")] {
            let said = admin.post(&target, &rollout).problem(422);
            assert!(said.contains(reason), "{rollout}: {said}");
        }
    }
    assert_eq!((admin.changes(), admin.get(POLICIES).expect(200)), before);
    assert_eq!(admin.items(ROLLOUTS), [json!(null); 0]);
    assert_eq!(applied(&server.allowed(&early())), ["gold-org"]);
    for body in ["[]", "{", "7"] {
        admin.ask("POST", ROLLOUTS).body(body).send().problem(400);
    }
    admin
        .put(&format!("{ROLLOUTS}/other"), &summer(0, &policy))
        .problem(422);
    admin
        .put(&format!("{ROLLOUTS}/a%20b"), &with("id", Value::Null))
        .problem(422);
}

#[test]
fn one_rollout_is_open_at_a_time_and_closed_ones_stay_as_they_are() {
    let (_server, admin) = golden();
    let policy = hourly("rate", "*", "org", 1);
    admin.post(ROLLOUTS, &summer(0, &policy)).expect(201);
    let other = json!({"id": "winter", "policies": [policy]});
    for answer in [
        admin.post(ROLLOUTS, &other),
        admin.put(&format!("{ROLLOUTS}/winter"), &other),
    ] {
        let said = answer.problem(409);
        assert!(said.contains("`summer` is open"), "{said}");
    }
    let said = admin.post(ROLLOUTS, &summer(0, &policy)).problem(409);
    assert!(said.contains("There is a rollout `summer` already"), "{said}");
    admin.delete(&format!("{ROLLOUTS}/summer")).problem(409);
    close(&admin, "rollback");
    for answer in [
        admin.put(&format!("{ROLLOUTS}/summer"), &summer(5, &policy)),
        admin.post(&format!("{ROLLOUTS}/summer/promote"), &json!({})),
        admin.post(&format!("{ROLLOUTS}/summer/rollback"), &json!({})),
        admin.post(ROLLOUTS, &summer(0, &policy)),
    ] {
        answer.problem(409);
    }
    // One without an id gets one.
    let mut unnamed = summer(0, &hourly("", "*", "org", 1));
    unnamed.as_object_mut().unwrap().remove("id");
    unnamed["policies"][0].as_object_mut().unwrap().remove("id");
    let made = admin.post(ROLLOUTS, &unnamed).expect(201);
    assert_eq!(made["policies"][0]["id"], "all-org-any-fixed_window-1h");
    let id = made["id"].as_str().unwrap();
    admin
        .post(&format!("{ROLLOUTS}/{id}/promote"), &json!({}))
        .expect(200);
    admin
        .get(&format!("{POLICIES}/all-org-any-fixed_window-1h"))
        .expect(200);
    admin.remove(&format!("{ROLLOUTS}/summer"));
    admin.get(&format!("{ROLLOUTS}/summer")).problem(404);
    for answer in [
        admin.delete(&format!("{ROLLOUTS}/summer")),
        admin.post(&format!("{ROLLOUTS}/summer/promote"), &json!({})),
    ] {
        answer.problem(404);
    }
}

#[test]
fn of_many_who_open_one_at_once_one_does() {
    let (_server, admin) = golden();
    let mut seen: BTreeMap<u16, usize> = BTreeMap::new();
    std::thread::scope(|scope| {
        let open = |id: usize| {
            let rollout = json!({"id": format!("r{id}"), "policies": [hourly("rate", "*", "org", 1)]});
            admin.post(ROLLOUTS, &rollout).status
        };
        let threads: Vec<_> = (0..8).map(|id| scope.spawn(move || open(id))).collect();
        for thread in threads {
            *seen.entry(thread.join().unwrap()).or_default() += 1;
        }
    });
    assert_eq!(seen, BTreeMap::from([(201, 1), (409, 7)]));
}

#[test]
fn what_an_open_rollout_changes_or_needs_stays_till_it_is_closed() {
    let (_server, admin) = golden();
    admin.set("/v1/tiers/silver", &json!({}));
    admin.set(CLASSES, &json!([{"pattern": "/v1/slow", "class": "slow"}]));
    admin.set(POLICIES, &hourly("gone", "gold", "app", 9));
    admin.set(POLICIES, &hourly("free", "gold", "key", 9));
    let mut new = hourly("new", "silver", "org", 1);
    new["endpointPattern"] = json!("class:slow");
    let rollout = json!({
        "id": "summer",
        "policies": [hourly("gold-org", "gold", "org", 1), new],
        "removes": ["gone"],
    });
    admin.post(ROLLOUTS, &rollout).expect(201);
    for (id, tier) in [("gold-org", "gold"), ("new", "silver"), ("gone", "gold")] {
        let said = admin.put(POLICIES, &hourly(id, tier, "org", 7)).problem(409);
        assert!(said.contains("`summer` is open"), "{said}");
    }
    admin.delete(&format!("{POLICIES}/gone")).problem(409);
    let said = admin.delete("/v1/tiers/silver").problem(409);
    assert!(said.contains("policies of the rollout"), "{said}");
    let said = admin.put(CLASSES, &json!([])).problem(422);
    assert!(said.contains("`slow`"), "{said}");
    // All else can be changed.
    admin.set(POLICIES, &hourly("free", "gold", "key", 8));
    admin.remove(&format!("{POLICIES}/free"));
    admin.set("/v1/orgs/globex", &json!({"tier": "silver"}));
    close(&admin, "rollback");
    admin.set(POLICIES, &hourly("gold-org", "gold", "org", 7));
    admin.remove(&format!("{POLICIES}/gone"));
    admin.remove("/v1/orgs/globex");
    admin.remove("/v1/tiers/silver");
}

#[test]
fn what_overrides_have_come_to_be_for_is_not_removed() {
    let (server, admin) = golden();
    let mut rollout = summer(0, &hourly("rate", "*", "org", 1));
    rollout["removes"] = json!(["gold-org"]);
    admin.post(ROLLOUTS, &rollout).expect(201);
    let overrides = "/v1/orgs/acme/ratelimit/overrides";
    let before = admin.changes();
    // Whichever set decides for the org, and whether the policy is named or found.
    for percent in [0, 100] {
        rollout["percent"] = json!(percent);
        admin.set(&format!("{ROLLOUTS}/summer"), &rollout);
        for body in [
            json!({"policyId": "gold-org", "limit": 9}),
            json!({"scope": "org", "window": "1h", "limit": 9}),
        ] {
            for query in ["", "?dryRun=true"] {
                let said = admin.post(&format!("{overrides}{query}"), &body).problem(409);
                assert!(said.contains("`summer` is open and removes"), "{said}");
            }
        }
    }
    // Twice the rollout, and once when its set was chosen for somebody.
    assert_eq!(admin.changes(), before + 3, "only the rollout was changed");
    // A rollout that leaves the policy in place leaves it to overrides.
    rollout["removes"] = json!([]);
    admin.set(&format!("{ROLLOUTS}/summer"), &rollout);
    let made = admin.post(overrides, &json!({"policyId": "gold-org", "limit": 9}));
    let id = made.expect(201)["id"].as_str().unwrap().to_owned();
    assert_eq!(server.left("gold-org", &early()), 9);
    rollout["removes"] = json!(["gold-org"]);
    let put = |rollout: &Value| admin.put(&format!("{ROLLOUTS}/summer"), rollout);
    assert!(put(&rollout).problem(422).contains("1 overrides"));
    admin.remove(&format!("{overrides}/{id}"));
    put(&rollout).expect(200);
    close(&admin, "promote");
    assert_eq!(applied(&server.allowed(&early())), ["rate"]);
}

#[test]
fn the_policies_of_a_file_are_not_a_rollouts_to_change() {
    let file = crate::common::file_of(&[crate::common::hourly("of-file", "org", 3, "")]);
    let server = Server::start(&file, &[]);
    let admin = server.platform_admin();
    let said = admin
        .post(ROLLOUTS, &summer(0, &hourly("of-file", "*", "org", 1)))
        .problem(409);
    assert!(said.contains("policy file owns policy `of-file`"), "{said}");
    let removes = json!({"id": "summer", "removes": ["of-file"]});
    let answer = admin.post(ROLLOUTS, &removes);
    assert!(answer.problem(409).contains("policy file"));
    // What it comes to name later is the file's, in both sets.
    admin
        .post(ROLLOUTS, &summer(100, &hourly("rate", "*", "org", 1)))
        .expect(201);
    assert_eq!(applied(&server.allowed(&early())), ["of-file", "rate"]);
    let own = crate::common::hourly("rate", "org", 8, "");
    server.reload(&crate::common::file_of(&[
        crate::common::hourly("of-file", "org", 3, ""),
        own,
    ]));
    let decision = server.allowed(&early());
    assert_eq!(limit(&decision, "rate")["limit"], 8);
    admin
        .post(&format!("{ROLLOUTS}/summer/promote"), &json!({}))
        .problem(409);
    close(&admin, "rollback");
}

#[test]
fn only_a_platform_admin_writes_and_only_the_platform_reads() {
    let (_server, admin) = golden();
    let rollout = summer(0, &hourly("rate", "*", "org", 1));
    let one = format!("{ROLLOUTS}/summer");
    admin.post(ROLLOUTS, &rollout).expect(201);
    for (role, org, reads) in [
        ("operator", None, 200),
        ("tenant-admin", Some("acme"), 403),
        ("tenant-viewer", Some("acme"), 403),
    ] {
        let other = admin.with_role(role, org);
        assert_eq!(other.get(ROLLOUTS).status, reads, "{role}");
        assert_eq!(other.get(&one).status, reads, "{role}");
        for answer in [
            other.post(ROLLOUTS, &rollout),
            other.put(&one, &rollout),
            other.delete(&one),
            other.post(&format!("{one}/promote"), &json!({})),
            other.post(&format!("{one}/rollback"), &json!({})),
        ] {
            answer.problem(403);
        }
    }
}

#[test]
fn a_trial_says_what_promoting_would_change_and_changes_nothing() {
    let (server, admin) = golden();
    admin.set(POLICIES, &hourly("gone", "gold", "app", 9));
    let before = (admin.changes(), server.counted("tollgate_policy_revision"));
    let rollout = json!({
        "id": "summer",
        "percent": 100,
        "policies": [hourly("gold-org", "gold", "org", 1), hourly("new", "gold", "key", 1)],
        "removes": ["gone"],
    });
    let plan = admin
        .post(&format!("{ROLLOUTS}?dryRun=true"), &rollout)
        .expect(200);
    let change = |id: &str, before: Value, after: Value| json!({"kind": "policy", "orgId": null, "id": id, "before": before, "after": after});
    let changes = json!([
        change(
            "gold-org",
            hourly("gold-org", "gold", "org", 3),
            hourly("gold-org", "gold", "org", 1)
        ),
        change("new", Value::Null, hourly("new", "gold", "key", 1)),
        change("gone", hourly("gone", "gold", "app", 9), Value::Null),
    ]);
    assert_eq!(plan["dryRun"], true);
    assert_eq!(plan["changes"][0]["kind"], "rollout");
    assert_eq!(plan["changes"][0]["before"], Value::Null);
    assert_eq!(plan["changes"][0]["after"]["state"], "open");
    assert_eq!(plan["onPromote"], changes);
    let after = (admin.changes(), server.counted("tollgate_policy_revision"));
    assert_eq!(after, before);
    server.allowed(&early());

    admin.post(ROLLOUTS, &rollout).expect(201);
    let before = admin.changes();
    let plan = admin
        .post(&format!("{ROLLOUTS}/summer/promote?dryRun=true"), &json!({}))
        .expect(200);
    let told = plan["changes"].as_array().unwrap();
    assert_eq!(told[..3], changes.as_array().unwrap()[..]);
    assert_eq!(told[3]["after"]["state"], "promoted");
    let plan = admin
        .post(&format!("{ROLLOUTS}/summer/rollback?dryRun=true"), &json!({}))
        .expect(200);
    assert_eq!(plan["changes"].as_array().unwrap().len(), 1);
    assert_eq!(admin.changes(), before);
    server.denied(&early());
}

#[test]
fn the_same_again_is_done_once_and_a_stale_tag_stops_it() {
    let (_server, admin) = golden();
    let rollout = summer(0, &hourly("rate", "*", "org", 1));
    let one = format!("{ROLLOUTS}/summer");
    let opened = |_: usize| with(&admin, "POST", ROLLOUTS, ("Idempotency-Key", "open"), &rollout);
    let answers: Vec<Answer> = (0..3).map(opened).collect();
    assert!(answers.iter().all(|answer| answer.status == 201));
    let tag = answers[0].header("etag").unwrap().to_owned();
    assert_eq!(admin.get(&one).header("etag"), Some(&*tag));
    let wider = summer(20, &hourly("rate", "*", "org", 1));
    let put = with(&admin, "PUT", &one, ("If-Match", &tag), &wider);
    put.expect(200);
    with(&admin, "PUT", &one, ("If-Match", &tag), &rollout).problem(412);
    for how in ["promote", "rollback"] {
        with(
            &admin,
            "POST",
            &format!("{one}/{how}"),
            ("If-Match", &tag),
            &json!({}),
        )
        .problem(412);
    }
    let promote = || {
        let ask = admin
            .ask("POST", &format!("{one}/promote"))
            .header("Idempotency-Key", "promote");
        ask.header("If-Match", put.header("etag").unwrap()).send()
    };
    let promoted = promote();
    assert_eq!(promoted.expect(200)["state"], "promoted");
    let before = admin.changes();
    let again = promote();
    assert_eq!(again.expect(200), promoted.json());
    assert_eq!(again.header("etag"), promoted.header("etag"));
    assert_eq!(admin.get(&one).header("etag"), promoted.header("etag"));
    assert_eq!(admin.changes(), before);
    for body in [json!({"reason": 7}), json!({"percent": 100})] {
        admin.post(&format!("{one}/rollback"), &body).problem(422);
    }
}

#[test]
fn the_audit_tells_each_change_of_a_promotion() {
    let (_server, admin) = golden();
    admin.set(POLICIES, &hourly("gone", "gold", "app", 9));
    let mut rollout = summer(0, &hourly("gold-org", "gold", "org", 1));
    rollout["removes"] = json!(["gone"]);
    rollout["reason"] = json!("fewer calls");
    admin.post(ROLLOUTS, &rollout).expect(201);
    let opened = &admin.items("/v1/audit")[0];
    assert_eq!(
        (&opened["kind"], &opened["reason"]),
        (&json!("rollout"), &json!("fewer calls"))
    );
    let target = format!("{ROLLOUTS}/summer/promote");
    admin.post(&target, &json!({"reason": "all is well"})).expect(200);
    let rows = admin.items("/v1/audit");
    let told: Vec<[&Value; 4]> = rows
        .iter()
        .take(3)
        .map(|row| [&row["kind"], &row["id"], &row["reason"], &row["route"]])
        .collect();
    let route = json!(format!("POST {target}"));
    let why = json!("all is well");
    let row = |kind: &str, id: &str| [json!(kind), json!(id), why.clone(), route.clone()];
    let wanted = [
        row("rollout", "summer"),
        row("policy", "gone"),
        row("policy", "gold-org"),
    ];
    assert_eq!(told, wanted.each_ref().map(<[Value; 4]>::each_ref));
    assert_eq!(rows[0]["after"]["state"], "promoted");
    assert_eq!(
        (&rows[1]["before"]["limit"], &rows[1]["after"]),
        (&json!(9), &Value::Null)
    );
    assert_eq!(
        (&rows[2]["before"]["limit"], &rows[2]["after"]["limit"]),
        (&json!(3), &json!(1))
    );
    admin.changes();
}
