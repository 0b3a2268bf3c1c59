//! `/v1/orgs/{orgId}/apps` and the keys below: what a secret stands for, and that nobody sees it twice.

use serde_json::{Value, json};

use crate::common::server::applied;
use crate::common::{Admin, Server, wait_for};
use crate::{POLICIES, golden, hourly};

const APP: &str = "/v1/orgs/acme/apps/web";
const KEYS: &str = "/v1/orgs/acme/apps/web/keys";

/// The org `acme` with an app `web`, and limits for orgs, apps and keys.
fn shop() -> (Server, Admin) {
    let (server, admin) = golden();
    admin.set(POLICIES, &hourly("gold-app", "gold", "app", 50));
    admin.set(POLICIES, &hourly("gold-key", "gold", "key", 40));
    admin.set(APP, &json!({"name": "The shop"}));
    (server, admin)
}

#[test]
fn an_app_is_made_shown_and_deleted_with_its_keys() {
    let (server, admin) = shop();
    let app = json!({"appId": "web", "name": "The shop"});
    assert_eq!(admin.get(APP).expect(200), app);
    assert_eq!(admin.items("/v1/orgs/acme/apps"), [app]);
    let replaced = admin.put(APP, &json!({"description": "all of it"})).expect(200);
    assert_eq!(replaced, json!({"appId": "web", "description": "all of it"}));
    for (body, field) in [
        (json!({"name": 3}), "name"),
        (json!({"appId": "other"}), "appId"),
        (json!({"title": "x"}), "title"),
        (json!({"name": "a\0"}), "name"),
    ] {
        let said = admin.put(APP, &body).problem(422);
        assert!(said.contains(field), "{said}");
    }
    admin.put("/v1/orgs/absent/apps/web", &json!({})).problem(404);
    admin.get("/v1/orgs/absent/apps").problem(404);
    admin.set("/v1/orgs/acme/apps/other", &json!({}));
    let (_, secret) = admin.key("acme", "web", "live");
    let (_, spared) = admin.key("acme", "other", "live");
    admin.remove(APP);
    server.check(&json!({"apiKey": secret})).problem(401);
    server.allowed(&json!({"apiKey": spared}));
    for target in [APP, KEYS] {
        admin.get(target).problem(404);
    }
    admin.post(KEYS, &json!({"environment": "live"})).problem(404);
}

#[test]
fn a_secret_stands_for_its_org_app_and_key_until_it_is_revoked() {
    let (server, admin) = shop();
    let (key, secret) = admin.key("acme", "web", "live");
    assert!(secret.starts_with("tgk_live_"), "{secret}");
    let decision = server.allowed(&json!({"apiKey": secret}));
    let mut policies = applied(&decision);
    policies.sort_unstable();
    assert_eq!(policies, ["gold-app", "gold-key", "gold-org"]);
    let same = json!({"orgId": "acme", "appId": "web", "keyId": key});
    assert_eq!(server.left("gold-key", &same), 39);
    assert_eq!(server.left("gold-org", &same), 2);
    server.allowed(&json!({"apiKey": secret, "orgId": "acme", "appId": "web", "keyId": key, "cost": 0}));
    for (name, other) in [("orgId", "globex"), ("appId", "other"), ("keyId", "other")] {
        let said = server.check(&json!({"apiKey": secret, name: other})).problem(400);
        assert!(said.contains(name), "{said}");
    }
    let authorize = |secret: &str| {
        let ask = server.ask("GET", "/v1/authorize").header("X-API-Key", secret);
        ask.send().status
    };
    assert_eq!(authorize(&secret), 200);
    assert_eq!(server.left("gold-key", &same), 38);
    let other = format!(
        "{}{}",
        &secret[..secret.len() - 1],
        if secret.ends_with('0') { '1' } else { '0' }
    );
    for unknown in [other.as_str(), "tgk_live_", "x", &secret[1..]] {
        server.check(&json!({"apiKey": unknown})).problem(401);
        assert_eq!(authorize(unknown), 401);
    }
    admin.remove(&format!("{KEYS}/{key}"));
    server.check(&json!({"apiKey": secret})).problem(401);
    assert_eq!(authorize(&secret), 401);
    admin.get(&format!("{KEYS}/{key}")).problem(404);
    admin.delete(&format!("{KEYS}/{key}")).problem(404);
}

#[test]
fn what_a_test_key_does_is_counted_apart() {
    let (server, admin) = shop();
    let (_, live) = admin.key("acme", "web", "live");
    let (_, test) = admin.key("acme", "web", "test");
    assert!(test.starts_with("tgk_test_"), "{test}");
    for secret in [&live, &test] {
        (0..3).for_each(|_| drop(server.allowed(&json!({"apiKey": secret}))));
        assert_eq!(server.denied(&json!({"apiKey": secret}))["policyId"], "gold-org");
    }
}

#[test]
fn after_a_rotation_the_old_secret_works_until_the_overlap_ends() {
    let (server, admin) = shop();
    let (key, first) = admin.key("acme", "web", "live");
    let rotate = |overlap: u64| {
        let rotated = admin.post(&format!("{KEYS}/{key}/rotate"), &json!({"overlapMs": overlap}));
        let rotated = rotated.expect(201);
        assert_eq!(rotated["keyId"], *key);
        rotated["secret"].as_str().unwrap().to_owned()
    };
    let free = |secret: &str| server.check(&json!({"apiKey": secret, "cost": 0})).status;
    let second = rotate(60_000);
    assert_eq!((free(&first), free(&second)), (200, 200));
    server.allowed(&json!({"apiKey": first}));
    server.allowed(&json!({"apiKey": second}));
    assert_eq!(
        server.left("gold-key", &json!({"orgId": "acme", "keyId": key})),
        38
    );
    let third = rotate(0);
    assert_eq!((free(&first), free(&second), free(&third)), (401, 401, 200));
    let fourth = rotate(800);
    assert_eq!((free(&third), free(&fourth)), (200, 200));
    wait_for("the overlap's end", || (free(&third) == 401).then_some(()));
    assert_eq!(free(&fourth), 200);
    let target = format!("{KEYS}/{key}/rotate");
    for body in [
        json!({"overlapMs": -1}),
        json!({"overlapMs": 1.5}),
        json!({"overlapMs": "1"}),
        json!({"overlapMs": 30 * 86_400_000_u64 + 1}),
        json!({"overlap": 1}),
    ] {
        let said = admin.post(&target, &body).problem(422);
        assert!(said.contains("`overlap"), "{said}");
    }
    admin
        .post(&format!("{KEYS}/absent/rotate"), &json!({}))
        .problem(404);
    assert_eq!(free(&fourth), 200);
    admin.remove(&format!("{KEYS}/{key}"));
    assert_eq!(free(&fourth), 401);
}

#[test]
fn a_key_belongs_to_one_app_and_ends_when_it_is_told_to() {
    let (server, admin) = shop();
    admin.set("/v1/orgs/acme/apps/other", &json!({}));
    let made = admin.post(KEYS, &json!({"keyId": "mine", "environment": "live"}));
    let secret = made.expect(201)["secret"].as_str().unwrap().to_owned();
    for app in ["web", "other"] {
        let target = format!("/v1/orgs/acme/apps/{app}/keys");
        admin.post(&target, &json!({"keyId": "mine"})).problem(409);
    }
    let foreign = "/v1/orgs/acme/apps/other/keys/mine";
    admin.get(foreign).problem(404);
    admin.delete(foreign).problem(404);
    admin.post(&format!("{foreign}/rotate"), &json!({})).problem(404);
    assert!(admin.items("/v1/orgs/acme/apps/other/keys").is_empty());
    server.allowed(&json!({"apiKey": secret}));
    for (body, field) in [
        (json!({"environment": "prod"}), "environment"),
        (json!({"environment": 1}), "environment"),
        (json!({"expiresAt": "soon"}), "expiresAt"),
        (json!({"keyId": "a\u{7f}"}), "keyId"),
        (json!({"keyId": "k\0"}), "keyId"),
        (json!({"secret": "of my own"}), "secret"),
    ] {
        let said = admin.post(KEYS, &body).problem(422);
        assert!(said.contains(field), "{said}");
    }
    admin.ask("POST", KEYS).body("[]").send().problem(400);
    let past = admin
        .post(KEYS, &json!({"expiresAt": "2020-01-01T00:00:00Z"}))
        .expect(201);
    server.check(&json!({"apiKey": past["secret"]})).problem(401);
    assert_eq!(admin.items(KEYS).len(), 2);
    let page = admin.get(&format!("{KEYS}?limit=1")).expect(200);
    assert_eq!(page["items"].as_array().unwrap().len(), 1);
    assert!(page["nextCursor"].is_string(), "{page}");
}

#[test]
fn a_secret_is_shown_once_and_then_nowhere() {
    let (server, admin) = shop();
    let (key, first) = admin.key("acme", "web", "live");
    let rotated = admin
        .post(&format!("{KEYS}/{key}/rotate"), &json!({}))
        .expect(201);
    let token = admin.with_role("tenant-admin", Some("acme"));
    let secrets = [
        first.as_str(),
        rotated["secret"].as_str().unwrap(),
        token.secret(),
    ];
    let hidden: Vec<String> = secrets.iter().map(|secret| (*secret).to_owned()).collect();
    let hashes = secrets.map(|secret| tollgate::secret::SecretHash::of(secret).to_string());
    let mut said = vec![
        server
            .check(&json!({"apiKey": first, "orgId": "globex"}))
            .text()
            .to_owned(),
    ];
    for target in [
        KEYS,
        &format!("{KEYS}/{key}"),
        "/v1/tokens",
        "/v1/audit",
        "/v1/audit?format=jsonl",
        "/v1/orgs/acme/audit",
        "/v1/orgs/acme/audit?format=jsonl",
        "/metrics",
    ] {
        said.push(admin.get(target).text().to_owned());
    }
    for target in [KEYS, &format!("{KEYS}/{key}/rotate")] {
        said.push(
            admin
                .post(&format!("{target}?dryRun=true"), &json!({}))
                .text()
                .to_owned(),
        );
    }
    said.push(
        admin
            .delete(&format!("{KEYS}/{key}?dryRun=true"))
            .text()
            .to_owned(),
    );
    said.push(admin.delete("/v1/orgs/acme?dryRun=true").text().to_owned());
    said.push(
        server
            .with_token(&format!("{first}x"))
            .get("/v1/orgs")
            .text()
            .to_owned(),
    );
    said.push(server.with_token(&first).get("/v1/orgs").text().to_owned());
    said.push(server.stderr());
    let prefix = rotated["prefix"].as_str().unwrap();
    assert!(
        said[1].contains(prefix) && first.len() > prefix.len() + 30,
        "{}",
        said[1]
    );
    for text in &said {
        for secret in hidden.iter().chain(&hashes) {
            assert!(!text.contains(secret), "{text}");
        }
    }
    // Not even the database knows the secret itself.
    for file in ["catalogue.sqlite3", "catalogue.sqlite3-wal"] {
        let bytes = std::fs::read(server.data(file)).unwrap_or_default();
        for secret in &hidden {
            assert!(
                !bytes.windows(secret.len()).any(|part| part == secret.as_bytes()),
                "{file}"
            );
        }
    }
}

#[test]
fn a_rotation_says_how_long_former_secrets_work_and_keeps_its_promise() {
    let (server, admin) = golden();
    admin.set("/v1/orgs/acme/apps/web", &json!({}));
    let (id, first) = admin.key("acme", "web", "live");
    let target = format!("/v1/orgs/acme/apps/web/keys/{id}");
    let rotate = |overlap: u64| admin.post(&format!("{target}/rotate"), &json!({"overlapMs": overlap}));
    let works = |secret: &str| server.check(&json!({"apiKey": secret, "cost": 0})).status == 200;
    assert_eq!(admin.get(&target).expect(200)["formerSecretsUntil"], Value::Null);
    let rotated = rotate(3_600_000).expect(201);
    let until = rotated["formerSecretsUntil"].as_str().unwrap().to_owned();
    until.parse::<jiff::Timestamp>().unwrap();
    assert_eq!(admin.get(&target).expect(200)["formerSecretsUntil"], until);
    assert_eq!(
        admin.items("/v1/audit?limit=1")[0]["after"]["formerSecretsUntil"],
        until
    );
    // A second rotation takes nothing back of what the first has promised.
    let second = rotated["secret"].as_str().unwrap().to_owned();
    rotate(60_000).expect(201);
    assert!(works(&first) && works(&second));
    rotate(60_000).expect(201);
    rotate(60_000).expect(201);
    let said = rotate(60_000).problem(409);
    assert!(said.contains("overlapMs"), "{said}");
    // All end at once when that is what is wanted.
    let last = rotate(0).expect(201);
    assert_eq!(last["formerSecretsUntil"], Value::Null);
    assert!(!works(&first) && !works(&second) && works(last["secret"].as_str().unwrap()));
}
