//! How much somebody may write, how much a page has, and how much an org may have.

use serde_json::{Value, json};

use crate::common::{Admin, Launch, Server};
use crate::{ROLLOUTS, golden, hourly};

#[test]
fn names_descriptions_and_reasons_have_lengths() {
    let (_server, admin) = golden();
    let app = "/v1/orgs/acme/apps/web";
    let text = |characters: usize| "ü".repeat(characters);
    admin.set(app, &json!({"name": text(256), "description": text(1_024)}));
    let override_to = |reason: String| json!({"policyId": "gold-org", "limit": 2, "reason": reason});
    let overrides = "/v1/orgs/acme/ratelimit/overrides";
    admin.post(overrides, &override_to(text(1_024))).expect(201);
    let before = admin.changes();
    let policies = json!([hourly("gold-org", "gold", "org", 2)]);
    for (method, target, body, field) in [
        ("PUT", app, json!({"name": text(257)}), "name"),
        ("PUT", app, json!({"description": text(1_025)}), "description"),
        (
            "POST",
            "/v1/tokens",
            json!({"role": "operator", "name": text(257)}),
            "name",
        ),
        ("POST", overrides, override_to(text(1_025)), "reason"),
        (
            "POST",
            "/v1/orgs/acme/ratelimit/reset",
            json!({"reason": text(1_025)}),
            "reason",
        ),
        (
            "POST",
            ROLLOUTS,
            json!({"id": "r", "policies": policies, "reason": text(1_025)}),
            "reason",
        ),
    ] {
        let said = admin
            .ask(method, target)
            .body(body.to_string())
            .send()
            .problem(422);
        assert!(said.contains(field) && said.contains("characters"), "{said}");
    }
    assert_eq!(admin.changes(), before);
}

/// Goes through a list to its end.
fn pages(admin: &Admin, target: &str) -> Vec<Vec<Value>> {
    let (mut all, mut next) = (Vec::new(), target.to_owned());
    loop {
        let page = admin.get(&next);
        assert!(page.body.len() < 6 << 20, "{} bytes", page.body.len());
        let page = page.expect(200);
        all.push(page["items"].as_array().unwrap().clone());
        let Some(cursor) = page["nextCursor"].as_str() else {
            return all;
        };
        next = format!("{target}&cursor={cursor}");
    }
}

#[test]
fn a_page_ends_after_some_bytes_and_goes_on() {
    let (_server, admin) = golden();
    // What a platform's admin writes may be large, and is in the audit before and after.
    let classes = |count: usize| {
        let class =
            |number: usize| json!({"pattern": format!("GET /{}/{number}", "x".repeat(200)), "class": "c"});
        (0..count).map(class).collect::<Value>()
    };
    for count in 0..12 {
        admin.set(crate::CLASSES, &classes(3_000 + count));
    }
    let audit = pages(&admin, "/v1/audit?limit=1000");
    assert!(audit.len() > 2, "{} pages", audit.len());
    let revisions: Vec<u64> = audit
        .concat()
        .iter()
        .map(|row| row["revision"].as_u64().unwrap())
        .collect();
    let all: Vec<u64> = (1..=admin.changes()).rev().collect();
    assert_eq!(revisions, all);
}

#[test]
fn an_org_has_room_for_so_much_and_no_more() {
    let caps = [
        "--max-org-apps=2",
        "--max-org-keys=2",
        "--max-org-tokens=2",
        "--max-org-overrides=2",
        "--max-org-users=2",
    ];
    let server = Server::launch(&Launch {
        flags: &caps,
        ..Launch::default()
    });
    let admin = server.platform_admin();
    admin.set(crate::POLICIES, &hourly("rate", "*", "org", 3));
    for org in ["acme", "globex"] {
        admin.set(&format!("/v1/orgs/{org}"), &json!({}));
    }
    let override_of = |user: &str| json!({"policyId": "rate", "userId": user, "limit": 1});
    let make = |org: &str, number: u32| {
        let number = number.to_string();
        let app = admin.put(&format!("/v1/orgs/{org}/apps/{number}"), &json!({}));
        let keys = format!("/v1/orgs/{org}/apps/1/keys");
        let key = admin.post(&keys, &json!({"keyId": number}));
        let token = admin.post("/v1/tokens", &json!({"role": "tenant-viewer", "orgId": org}));
        let overrides = format!("/v1/orgs/{org}/ratelimit/overrides");
        let change = admin.post(&overrides, &override_of(&number));
        let user = admin.put(
            &format!("/v1/orgs/{org}/users/{number}"),
            &json!({"tier": "default"}),
        );
        [app, key, token, change, user]
    };
    for number in 1..=2 {
        for made in make("acme", number) {
            made.expect(201);
        }
    }
    for (refused, what) in make("acme", 3)
        .iter()
        .zip(["apps", "keys", "tokens", "overrides", "users"])
    {
        let said = refused.problem(409);
        assert!(
            said.contains("acme") && said.contains(&format!("--max-org-{what}")),
            "{said}"
        );
    }
    // Others have room of their own, what is there can be replaced, and what is deleted leaves its room.
    for made in make("globex", 1) {
        made.expect(201);
    }
    admin.set("/v1/orgs/acme/apps/2", &json!({"name": "two"}));
    admin.remove("/v1/orgs/acme/apps/2");
    admin.set("/v1/orgs/acme/apps/3", &json!({}));
    admin.with_role("operator", None);
}

/// Deletes an org with as many keys as it may have: in a time that grows as their number does.
#[test]
fn deleting_an_org_costs_what_it_has() {
    let server = Server::launch(&Launch {
        flags: &["--admin-limits=off"],
        ..Launch::default()
    });
    let admin = server.platform_admin();
    let time = |tokens: usize| {
        admin.set("/v1/orgs/acme", &json!({}));
        for _ in 0..tokens {
            admin.with_role("tenant-viewer", Some("acme"));
        }
        let began = std::time::Instant::now();
        admin.remove("/v1/orgs/acme");
        began.elapsed()
    };
    let (few, many) = (time(100), time(800));
    assert!(
        many < few * 40 + std::time::Duration::from_millis(200),
        "{few:?} {many:?}"
    );
    assert_eq!(admin.items("/v1/tokens").len(), 0);
}
