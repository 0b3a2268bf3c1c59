//! A policy file that changes while the server runs.

mod common;

use common::server::{applied, limit, remaining};
use common::{Server, file_of, hourly, noon_zone, wait_for};
use serde_json::{Value, json};

fn body() -> Value {
    json!({"orgId": "acme", "appId": "web"})
}

fn with_cost(cost: u64) -> Value {
    json!({"orgId": "acme", "appId": "web", "cost": cost})
}

/// A server that has taken `cost` from the policies of a file, and then reads another.
fn changed(before: &str, cost: u64, after: &str) -> Server {
    let server = Server::start(before, &[]);
    server.allowed(&with_cost(cost));
    server.reload(after);
    server
}

#[test]
fn a_changed_file_comes_into_force() {
    let server = Server::start(&file_of(&[hourly("first", "org", 5, "")]), &[]);
    assert_eq!(applied(&server.allowed(&body())), ["first"]);
    server.reload(&file_of(&[
        hourly("second", "org", 7, ""),
        hourly("third", "app", 9, ""),
    ]));
    let decision = server.allowed(&body());
    assert_eq!(applied(&decision), ["second", "third"]);
    assert_eq!(remaining(&decision, "second"), 6);
    server.logs("policies reloaded");
}

#[test]
fn the_log_warns_whenever_requests_meet_no_limit() {
    let orgs = file_of(&[hourly("org", "org", 5, "")]);
    let server = Server::start(&orgs, &[]);
    let warned = |times: usize| {
        wait_for("warnings", || {
            let log = server.stderr();
            (log.matches("NO LIMIT APPLIES to requests without an org").count() >= times).then_some(log)
        })
    };
    let log = warned(1);
    let line = log.lines().find(|line| line.contains("NO LIMIT APPLIES"));
    let line = line.unwrap();
    assert!(
        line.contains(" WARN ") && line.contains("--require-identity"),
        "{line}"
    );
    server.reload(&file_of(&[hourly("all", "global", 5, "")]));
    // A second passes between two looks: the two sets are told apart by what is warned of.
    server.reload("policies: []\n");
    server.logs("NO LIMIT APPLIES to orgs of the tier `default`");
    server.reload(&orgs);
    warned(2);
    let silent = Server::start(&orgs, &["--require-identity", "org"]);
    assert!(
        !silent.stderr().contains("NO LIMIT APPLIES"),
        "{}",
        silent.stderr()
    );
    let kill_switch = Server::start(&orgs, &["--shadow-all"]);
    assert!(!kill_switch.stderr().contains("NO LIMIT APPLIES"));
}

#[test]
fn a_file_that_is_only_half_right_changes_nothing() {
    let good = file_of(&[hourly("kept", "org", 5, "")]);
    let server = Server::start(&good, &[]);
    server.allowed(&body());
    let halves = [
        file_of(&[hourly("kept", "org", 99, ""), hourly("bad", "orgs", 1, "")]),
        file_of(&[hourly("kept", "org", 99, ""), hourly("kept", "org", 98, "")]),
        format!(
            "{}overrides:\n  - {{orgId: acme, policyId: nothing, limit: 3}}\n",
            file_of(&[hourly("kept", "org", 99, "")])
        ),
        "policies: [".to_owned(),
        "- not\n- a mapping\n".to_owned(),
        String::new(),
        "\n".to_owned(),
    ];
    for (failures, half) in (1..).zip(&halves) {
        server.write_policies(half);
        wait_for("the failure to be counted", || {
            let counted = server.counted("tollgate_policy_reload_failures_total");
            (counted >= failures).then_some(())
        });
        let decision = server.allowed(&with_cost(0));
        assert_eq!(applied(&decision), ["kept"]);
        assert_eq!(limit(&decision, "kept")["limit"], 5);
        assert_eq!(remaining(&decision, "kept"), 4, "the count stays, too");
    }
    assert_eq!(server.counted("tollgate_policy_revision"), 1);
    // The line is named.
    server.logs("policies.yaml:3");
    server.reload(&file_of(&[hourly("kept", "org", 8, "")]));
    assert_eq!(server.left("kept", &body()), 7);
}

#[test]
fn a_file_that_is_gone_changes_nothing() {
    let server = Server::start(&file_of(&[hourly("kept", "org", 5, "")]), &[]);
    std::fs::remove_file(server.dir.path().join("policies.yaml")).unwrap();
    wait_for("the failure to be counted", || {
        (server.counted("tollgate_policy_reload_failures_total") >= 1).then_some(())
    });
    assert_eq!(applied(&server.allowed(&body())), ["kept"]);
    server.reload(&file_of(&[hourly("back", "org", 5, "")]));
    assert_eq!(applied(&server.allowed(&body())), ["back"]);
}

/// To read one would wait for whoever writes it, and nothing else would be read meanwhile.
#[test]
fn a_pipe_in_the_files_place_changes_nothing_and_holds_nothing_up() {
    let server = Server::start(&file_of(&[hourly("kept", "org", 5, "")]), &[]);
    let path = server.dir.path().join("policies.yaml");
    std::fs::remove_file(&path).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    server.logs("neither a file nor a directory");
    assert_eq!(applied(&server.allowed(&body())), ["kept"]);
    server.reload(&file_of(&[hourly("back", "org", 5, "")]));
    assert_eq!(applied(&server.allowed(&body())), ["back"]);
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_raised_or_lowered_limit_keeps_the_count() {
    for (algorithm, anchored) in [
        ("fixed_window", ", anchor: first"),
        ("sliding_window_log", ""),
        ("sliding_window_counter", ""),
        ("token_bucket", ""),
        ("leaky_bucket", ""),
    ] {
        let policy = |limit: u64| {
            // Long windows, so that what flows back meanwhile is far less than one.
            file_of(&[format!(
                "{{id: p, scope: org, algorithm: {algorithm}{anchored}, limit: {limit}, window: 366d}}"
            )])
        };
        let server = changed(&policy(10), 6, &policy(100));
        assert_eq!(server.left("p", &body()), 94, "{algorithm}");
        server.reload(&policy(7));
        assert_eq!(server.left("p", &body()), 1, "{algorithm}");
        server.reload(&policy(3));
        assert_eq!(server.left("p", &body()), 0, "{algorithm}");
        server.denied(&body());
    }
}

#[test]
fn a_new_burst_keeps_the_count() {
    let policy = |burst: u64| {
        file_of(&[format!(
            "{{id: p, scope: org, limit: 10, burst: {burst}, window: 366d}}"
        )])
    };
    let server = changed(&policy(20), 15, &policy(50));
    assert_eq!(server.left("p", &body()), 35);
}

#[test]
fn a_new_algorithm_window_scope_or_pattern_starts_with_no_more_than_was_left() {
    let before = file_of(&[hourly("p", "org", 10, "")]);
    for (what, after) in [
        (
            "algorithm",
            "{id: p, scope: org, algorithm: sliding_window_log, limit: 10, window: 1h}",
        ),
        (
            "algorithm",
            "{id: p, scope: org, algorithm: sliding_window_counter, limit: 10, window: 366d}",
        ),
        (
            "algorithm",
            "{id: p, scope: org, algorithm: token_bucket, limit: 10, window: 366d}",
        ),
        (
            "algorithm",
            "{id: p, scope: org, algorithm: leaky_bucket, limit: 10, window: 366d}",
        ),
        (
            "anchor",
            "{id: p, scope: org, algorithm: fixed_window, limit: 10, window: 366d}",
        ),
        (
            "window",
            "{id: p, scope: org, algorithm: fixed_window, anchor: first, limit: 10, window: 2h}",
        ),
        (
            "window",
            "{id: p, scope: org, algorithm: fixed_window, anchor: first, limit: 1000, window: 2h}",
        ),
        (
            "scope",
            "{id: p, scope: app, algorithm: fixed_window, anchor: first, limit: 10, window: 1h}",
        ),
        (
            "pattern",
            "{id: p, scope: org, endpointPattern: \"/*\", algorithm: fixed_window, anchor: first, limit: 10, window: 1h}",
        ),
    ] {
        let server = changed(&before, 7, &file_of(&[after.to_owned()]));
        let routed = json!({"orgId": "acme", "appId": "web", "endpoint": "GET /a", "cost": 3});
        let decision = server.allowed(&routed);
        assert_eq!(remaining(&decision, "p"), 0, "{what}: {after}");
        let again = json!({"orgId": "acme", "appId": "web", "endpoint": "GET /a"});
        server.denied(&again);
    }
}

#[test]
fn a_new_limit_that_is_smaller_than_what_was_left_has_only_itself() {
    let after = "{id: p, scope: org, algorithm: sliding_window_log, limit: 2, window: 1h}";
    let server = changed(
        &file_of(&[hourly("p", "org", 10, "")]),
        3,
        &file_of(&[after.to_owned()]),
    );
    assert_eq!(server.left("p", &body()), 2);
}

#[test]
fn whoever_had_not_called_starts_anew_with_all_of_it() {
    let after = "{id: p, scope: org, algorithm: sliding_window_log, limit: 10, window: 1h}";
    let server = changed(
        &file_of(&[hourly("p", "org", 10, "")]),
        7,
        &file_of(&[after.to_owned()]),
    );
    assert_eq!(server.left("p", &json!({"orgId": "globex"})), 10);
    assert_eq!(server.left("p", &body()), 3);
}

#[test]
fn two_changes_in_a_row_do_not_lose_what_was_used() {
    let windowed = |window: &str| {
        file_of(&[format!(
            "{{id: p, scope: org, algorithm: fixed_window, anchor: first, limit: 10, window: {window}}}"
        )])
    };
    let server = changed(&windowed("1h"), 7, &windowed("2h"));
    server.reload(&windowed("3h"));
    assert_eq!(server.left("p", &body()), 3);
    server.reload(&windowed("1h"));
    assert_eq!(server.left("p", &body()), 3, "back to where it began");
}

#[test]
fn a_window_that_comes_back_has_used_what_was_used_meanwhile() {
    let windowed = |window: &str| {
        file_of(&[format!(
            "{{id: p, scope: org, algorithm: fixed_window, anchor: first, limit: 10, window: {window}}}"
        )])
    };
    let server = changed(&windowed("1h"), 2, &windowed("2h"));
    server.allowed(&with_cost(2));
    server.reload(&windowed("1h"));
    assert_eq!(server.left("p", &body()), 6);
    server.allowed(&with_cost(2));
    server.reload(&windowed("2h"));
    assert_eq!(server.left("p", &body()), 4);
    server.reload(&file_of(&[hourly("q", "org", 10, "")]));
    server.reload(&windowed("2h"));
    assert_eq!(server.left("p", &body()), 4, "gone for a while");
}

#[test]
fn a_change_of_plan_keeps_what_was_used_of_the_quota() {
    let zone = noon_zone();
    let policies = |tier: &str| {
        format!(
            "tiers: [{{tier: Free}}, {{tier: Pro}}]\norgs: [{{orgId: acme, tier: {tier}}}]\npolicies:\n  \
             - {{id: free-day, orgTier: Free, scope: org, limit: 100, window: day, timezone: {zone}}}\n  \
             - {{id: pro-day, orgTier: Pro, scope: org, limit: 1000, window: day, timezone: {zone}}}\n"
        )
    };
    let server = changed(&policies("Free"), 80, &policies("Pro"));
    let decision = server.allowed(&body());
    assert_eq!(applied(&decision), ["pro-day"]);
    assert_eq!(remaining(&decision, "pro-day"), 919);
}

#[test]
fn what_is_in_force_shows_as_ready_and_as_a_revision() {
    let server = Server::start(&file_of(&[hourly("p", "org", 10, "")]), &[]);
    let ready = || server.ask_admin("GET", "/readyz").send().expect(200);
    assert_eq!(ready()["policyRevision"], 1);
    assert_eq!(ready()["policies"], 1);
    server.reload(&file_of(&[
        hourly("p", "org", 10, ""),
        hourly("q", "org", 10, ""),
    ]));
    assert_eq!(ready()["policyRevision"], 2);
    assert_eq!(ready()["policies"], 2);
}
