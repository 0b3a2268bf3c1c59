//! `tollgate explain`.

use serde_json::Value;

use super::Files;
use crate::common::process::{finish, program};
use crate::common::{Finished, Server, run};

const POLICIES: &str = "tiers: [{tier: Gold}]
orgs: [{orgId: acme, tier: Gold}]
endpointClasses: [{pattern: \"POST /v1/exports\", class: heavy}]
policies:
  - {id: gold-day, orgTier: Gold, scope: org, algorithm: fixed_window, limit: 1000, window: 1d}
  - {id: basic-day, orgTier: default, scope: org, algorithm: fixed_window, limit: 10, window: 1d}
  - {id: rate, scope: app, limit: 50, burst: 70, window: 1s}
  - {id: heavy, scope: org, endpointPattern: \"class:heavy\", limit: 5, window: 1m}
  - {id: off, scope: org, limit: 5, window: 1m, mode: off}
  - {id: writes, scope: org, requiredScope: write, limit: 5, window: 1m}
  - {id: euro, scope: org, match: {region: eu}, limit: 5, window: 1m}
  - {id: addresses, scope: ip, limit: 5, window: 1m}
overrides:
  - {orgId: acme, appId: web, policyId: rate, limit: 20, reason: \"a shy app\", expiresAt: 2099-01-01T00:00:00Z}
";

fn by_file(args: &[&str]) -> Finished {
    let files = Files::new();
    let path = files.write("policies.yaml", POLICIES);
    run(&[&["explain", "--policies", &path], args].concat())
}

fn find<'v>(list: &'v Value, policy: &str) -> &'v Value {
    let items = list.as_array().unwrap();
    let found = items.iter().find(|item| item["policyId"] == policy);
    found.unwrap_or_else(|| panic!("{policy} is not in {list}"))
}

#[test]
fn says_what_applies_with_its_origin_and_what_binds() {
    let explained = by_file(&["--org", "acme", "--app", "web", "--json"]).json(0);
    assert_eq!(explained["tier"], "Gold");
    assert_eq!(explained["allowed"], true);
    assert_eq!(explained["binds"], "rate", "the one with the least left");
    let applied = &explained["applied"];
    assert_eq!(applied.as_array().map(Vec::len), Some(2));
    let day = find(applied, "gold-day");
    assert_eq!(day["from"], "policy for tier Gold, line 5");
    assert_eq!(day["algorithm"], "fixed_window");
    assert_eq!(day["limit"], 1000);
    assert_eq!(day["burst"], Value::Null);
    let rate = find(applied, "rate");
    assert_eq!(rate["limit"], 20);
    assert_eq!(rate["hides"], 50);
    assert_eq!(rate["window"], "1s");
    assert_eq!(
        rate["from"],
        "override for app web, line 14, hides 50 of the policy, because: a shy app, until 2099-01-01T00:00:00Z"
    );
}

#[test]
fn says_why_each_other_policy_is_skipped() {
    let explained = by_file(&["--org", "acme", "--app", "web", "--json"]).json(0);
    for (policy, reason) in [
        ("basic-day", "it is for the tier default"),
        ("heavy", "the request names no endpoint"),
        ("off", "its mode is off"),
        ("writes", "the request does not carry its permission"),
        ("euro", "the descriptor `region` is absent or different"),
        ("addresses", "the request names no ip"),
        ("rate", "an override stands in for it"),
    ] {
        assert_eq!(find(&explained["skipped"], policy)["reason"], reason, "{policy}");
    }
    let elsewhere = ["--org", "acme", "--endpoint", "GET /nowhere", "--json"];
    let explained = by_file(&elsewhere).json(0);
    assert_eq!(
        find(&explained["skipped"], "heavy")["reason"],
        "the endpoint does not match its pattern"
    );
}

#[test]
fn a_route_is_shown_as_it_is_counted() {
    let explained = by_file(&["--org", "acme", "--endpoint", "post /v1//Exports/?x=1", "--json"]).json(0);
    assert_eq!(explained["endpoint"], "POST /v1/exports");
    assert_eq!(explained["class"], "heavy");
    find(&explained["applied"], "heavy");
}

#[test]
fn numbers_that_do_not_fit_are_pointed_out() {
    let explained = by_file(&["--org", "acme", "--app", "web", "--json"]).json(0);
    let warnings = explained["warnings"].to_string();
    assert!(warnings.contains("uses up gold-day"), "{warnings}");
}

#[test]
fn a_request_that_meets_no_limit_is_pointed_out() {
    let explained = by_file(&["--json"]).json(0);
    let warnings = explained["warnings"].to_string();
    assert!(warnings.contains("NO LIMIT APPLIES"), "{warnings}");
    let run = by_file(&[]);
    let shown = run.expect(0);
    assert!(shown.contains("would be allowed; NO LIMIT APPLIES\n"), "{shown}");
    assert!(
        shown.contains("\nWARNINGS\n! NO LIMIT APPLIES to this request"),
        "{shown}"
    );
    let files = Files::new();
    let path = files.write(
        "shadow.yaml",
        "policies:\n  - {id: trial, scope: org, limit: 5, window: 1m, mode: shadow}\n",
    );
    let run = crate::common::run(&["explain", "--policies", &path, "--org", "acme"]);
    let shown = run.expect(0);
    assert!(
        shown.contains("would be allowed; no enforced limit applies\n"),
        "{shown}"
    );
}

#[test]
fn mistakes_of_the_limits_that_apply_are_pointed_out() {
    let files = Files::new();
    let path = files.write(
        "policies.yaml",
        "policies:\n  - {id: day, scope: org, limit: 0, window: day, failMode: closed}\n",
    );
    let run = run(&["explain", "--policies", &path, "--org", "acme"]);
    let shown = run.expect(0);
    let (_, warnings) = shown.split_once("\nWARNINGS\n").unwrap();
    assert!(warnings.contains("! policy day: a limit of 0"), "{warnings}");
    assert!(
        warnings.contains("! policy day: `failMode: closed`"),
        "{warnings}"
    );
}

#[test]
fn people_read_a_table() {
    let run = by_file(&["--org", "acme", "--app", "web", "--endpoint", "POST /v1/exports"]);
    let shown = run.expect(0);
    for words in [
        "tier Gold",
        "endpoint POST /v1/exports, class heavy",
        "would be allowed; heavy binds",
        "APPLIES",
        "SKIPPED",
        "a shy app",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let denied = by_file(&["--org", "acme", "--endpoint", "POST /v1/exports", "--cost", "6"]);
    assert!(
        denied.expect(0).contains("would be denied; heavy binds"),
        "{denied:?}"
    );
}

/// Whoever may write an override does not write to the operator's terminal.
#[test]
fn what_others_wrote_does_not_steer_the_terminal() {
    let files = Files::new();
    let reason = r"a shy\e[2J\nWARNING app";
    let path = files.write("policies.yaml", &POLICIES.replace("a shy app", reason));
    let explained = run(&["explain", "--policies", &path, "--org", "acme", "--app", "web"]);
    let shown = explained.expect(0);
    assert!(shown.contains("a shy\u{fffd}[2J\u{fffd}WARNING app"), "{shown}");
}

#[test]
fn a_running_server_explains_with_its_counters() {
    let server = Server::start(POLICIES, &[]);
    server.allowed(&serde_json::json!({"orgId": "acme", "cost": 400}));
    let admin = format!("http://{}", server.admin);
    let data = server.data("");
    let args = [
        "explain",
        "--org",
        "acme",
        "--json",
        "--admin",
        &admin,
        "--data-dir",
        data.to_str().unwrap(),
    ];
    let explained = run(&args).json(0);
    assert_eq!(find(&explained["applied"], "gold-day")["remaining"], 599);
    assert_eq!(
        find(&run(&args).json(0)["applied"], "gold-day")["remaining"],
        599,
        "nothing is charged"
    );
    let wrong = run(&[
        "explain",
        "--admin",
        &admin,
        "--admin-token",
        "not-the-token-at-all",
    ]);
    assert!(wrong.complaint(2).contains("401"), "{wrong:?}");
    let none = run(&["explain", "--admin", &admin, "--data-dir", "/nonexistent"]);
    assert!(none.complaint(2).contains("/nonexistent/admin-token"), "{none:?}");
}

#[test]
fn a_flag_that_names_a_server_is_stronger_than_a_policy_file_in_the_environment() {
    let server = Server::start(POLICIES, &[]);
    let files = Files::new();
    let other = files.write(
        "other.yaml",
        "policies: [{id: other, scope: org, limit: 5, window: day}]\n",
    );
    let (admin, data) = (format!("http://{}", server.admin), server.data(""));
    let explain = |flags: &[&str]| {
        let mut command = program(&[&["explain", "--org", "acme", "--json"], flags].concat());
        command
            .env("TOLLGATE_POLICIES", &other)
            .env("TOLLGATE_ADMIN_URL", &admin)
            .env("TOLLGATE_DATA_DIR", &data);
        finish(command, "").json(0)["tier"].clone()
    };
    assert_eq!(explain(&["--admin", &admin]), "Gold");
    assert_eq!(explain(&["--data-dir", data.to_str().unwrap()]), "Gold");
    assert_eq!(explain(&[]), "default");
    assert_eq!(explain(&["--policies", &other, "--admin", &admin]), "default");
}

#[test]
fn an_override_hides_a_limit_only_if_it_has_another() {
    let files = Files::new();
    let path = files.write(
        "policies.yaml",
        "orgs: [{orgId: acme}]\npolicies:\n  \
         - {id: month, scope: org, limit: 1000000, window: month}\n  \
         - {id: day, scope: org, limit: 10, window: day}\noverrides:\n  \
         - {orgId: acme, policyId: month, limit: 2000000}\n  \
         - {orgId: acme, policyId: day, timezone: Europe/Berlin}\n",
    );
    let explained = run(&["explain", "--policies", &path, "--org", "acme", "--json"]).json(0);
    let day = find(&explained["applied"], "day");
    assert_eq!(day["from"], "override for org, line 7");
    assert_eq!(day["hides"], Value::Null);
    let month = find(&explained["applied"], "month");
    assert_eq!(
        month["from"],
        "override for org, line 6, hides 1,000,000 of the policy"
    );
    assert_eq!(month["hides"], 1_000_000);
}

#[test]
fn what_cannot_be_explained_is_an_error() {
    let files = Files::new();
    let absent = files.path("absent.yaml");
    let run = run(&["explain", "--policies", &absent]);
    assert!(run.complaint(2).contains(&absent), "{run:?}");
    let run = by_file(&["--ip", "nowhere"]);
    assert!(run.complaint(2).contains("`ip`"), "{run:?}");
}
