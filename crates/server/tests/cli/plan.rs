//! `tollgate plan`.

use serde_json::{Value, json};

use super::Files;
use crate::common::{Finished, run, run_with};

/// The org of the worked example: twenty apps of a hundred requests a second, and so many a day.
fn policies(daily: u64) -> String {
    format!(
        "tiers: [{{tier: Enterprise}}]\norgs: [{{orgId: acme, tier: Enterprise}}]\npolicies:\n  \
         - {{id: org-day, orgTier: Enterprise, scope: org, limit: {daily}, window: day}}\n  \
         - {{id: app-rate, scope: app, limit: 100, burst: 200, window: 1s}}\n"
    )
}

fn plan(policies: &str, args: &[&str]) -> Finished {
    let files = Files::new();
    let path = files.write("policies.yaml", policies);
    run(&[&["plan", "--policies", &path], args].concat())
}

fn line<'v>(forecast: &'v Value, policy: &str) -> &'v Value {
    let lines = forecast["limits"].as_array().unwrap();
    lines.iter().find(|line| line["policyId"] == policy).unwrap()
}

#[test]
fn twenty_apps_at_their_full_rate_use_up_a_million_a_day_after_500_seconds() {
    for who in [["--org", "acme"], ["--tier", "Enterprise"]] {
        let args = [&who[..], &["--apps", "20", "--json"]].concat();
        let forecast = plan(&policies(1_000_000), &args).json(0);
        assert_eq!(forecast["perAppPerSecond"], 100.0);
        assert_eq!(forecast["totalPerSecond"], 2_000.0);
        assert_eq!(forecast["bindsFirst"], "org-day");
        assert_eq!(line(&forecast, "org-day")["runsOutAfterMs"], 500_000);
        assert_eq!(line(&forecast, "app-rate")["runsOutAfterMs"], Value::Null);
    }
    let run = plan(&policies(1_000_000), &["--org", "acme", "--apps", "20"]);
    let shown = run.expect(0);
    assert!(
        shown.contains("org-day binds first, after 8 min 20 s (500 s)"),
        "{shown}"
    );
    assert!(
        shown.contains("20 apps at 100/s each make 2,000/s, 24 h a day"),
        "{shown}"
    );
}

#[test]
fn a_working_day_of_eight_hours_needs_57_600_000() {
    let eight = ["--org", "acme", "--apps", "20", "--hours", "8"];
    let run = plan(&policies(1_000_000), &eight);
    let shown = run.expect(0);
    assert!(
        shown.contains("org-day would carry this workload with 57,600,000 in day"),
        "{shown}"
    );
    let enough = plan(&policies(57_600_000), &eight);
    assert!(enough.expect(0).contains("nothing binds"), "{enough:?}");
    let forecast = plan(&policies(57_600_000), &[&eight[..], &["--json"]].concat()).json(0);
    assert_eq!(forecast["bindsFirst"], Value::Null);
    assert_eq!(line(&forecast, "org-day")["needed"], 57_600_000);
    let short = plan(&policies(57_599_999), &[&eight[..], &["--json"]].concat()).json(0);
    assert_eq!(short["bindsFirst"], "org-day");
    let ninth = plan(
        &policies(57_600_000),
        &["--org", "acme", "--apps", "20", "--hours", "9", "--json"],
    );
    assert_eq!(line(&ninth.json(0), "org-day")["runsOutAfterMs"], 8 * 3_600_000);
}

#[test]
fn a_rate_can_be_given_and_a_bucket_lasts_as_long_as_its_burst() {
    let forecast = plan(
        &policies(1_000_000_000),
        &["--org", "acme", "--rate", "150", "--json"],
    )
    .json(0);
    assert_eq!(forecast["bindsFirst"], "app-rate");
    assert_eq!(
        line(&forecast, "app-rate")["runsOutAfterMs"],
        4_000,
        "200 at 50 a second too many"
    );
    assert_eq!(line(&forecast, "app-rate")["needed"], 150);
}

#[test]
fn an_orgs_own_overrides_are_planned_with_and_expired_ones_are_not() {
    let with = |expires: &str| {
        format!(
            "{}overrides:\n  - {{orgId: acme, policyId: org-day, limit: 2000000{expires}}}\n",
            policies(1_000_000)
        )
    };
    let after = |policies: &str| {
        let forecast = plan(policies, &["--org", "acme", "--apps", "20", "--json"]).json(0);
        line(&forecast, "org-day")["runsOutAfterMs"].as_u64().unwrap()
    };
    assert_eq!(after(&with("")), 1_000_000);
    assert_eq!(after(&with(", expiresAt: 2099-01-01T00:00:00Z")), 1_000_000);
    assert_eq!(after(&with(", expiresAt: 2001-01-01T00:00:00Z")), 500_000);
}

#[test]
fn without_a_file_the_demonstration_set_is_planned_with() {
    let forecast = run(&["plan", "--org", "acme", "--apps", "20", "--keys", "2", "--json"]).json(0);
    assert_eq!(forecast["bindsFirst"], "enterprise-org-day");
    assert_eq!(line(&forecast, "enterprise-org-day")["runsOutAfterMs"], 500_000);
}

#[test]
fn bad_questions_are_errors_that_name_the_flag() {
    let unknown = plan(&policies(1), &["--tier", "Gold"]);
    assert!(
        unknown
            .complaint(2)
            .contains("--tier: there is no tier `Gold`, only default, Enterprise")
    );
    for args in [
        ["--apps", "0"],
        ["--hours", "25"],
        ["--rate", "0"],
        ["--headroom", "0.5"],
        ["--headroom", "x"],
    ] {
        let run = plan(&policies(1), &args);
        assert_eq!(run.code, Some(2), "{args:?}");
        assert!(run.stderr.contains(args[0]), "{run:?}");
    }
}

/// Uneven traffic of a few callers over two days, with bursts.
fn traffic() -> String {
    let mut lines = String::new();
    let mut at = 1_721_044_800_000_u64;
    for step in 0_u64..4_000 {
        // A fixed jumble of pauses: mostly none, now and then minutes, once most of a day.
        let jumble = step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        at += match jumble % 50 {
            0 => 60_000 + jumble % 90_000,
            1..=9 => jumble % 2_000,
            _ => 0,
        };
        if step == 2_000 {
            at += 20 * 3_600_000;
        }
        let request = json!({
            "at": at, "orgId": format!("org{}", jumble % 3), "appId": format!("app{}", jumble % 5),
            "keyId": format!("key{}", jumble % 7), "userId": format!("user{}", jumble % 11), "cost": jumble % 4,
        });
        lines.push_str(&request.to_string());
        lines.push('\n');
    }
    lines
}

#[test]
fn limits_proposed_from_recorded_requests_would_have_denied_none_of_them() {
    let files = Files::new();
    let recorded = files.write("requests.jsonl", &traffic());
    for headroom in ["1", "1.001", "1.5", "20"] {
        let proposed = run(&["plan", "--from-requests", &recorded, "--headroom", headroom]);
        let policies = files.write("proposed.yaml", proposed.expect(0));
        run(&["validate", &policies]).expect(0);
        let replay = run(&[
            "simulate",
            "--policies",
            &policies,
            "--requests",
            &recorded,
            "--summary-only",
            "--json",
        ]);
        replay.expect(0);
        let summary: Value = serde_json::from_str(&replay.stderr).unwrap();
        assert_eq!(summary["requests"], 4_000);
        assert_eq!(summary["denied"], 0, "headroom {headroom}: {summary}");
    }
}

#[test]
fn proposals_without_headroom_are_no_larger_than_what_was_seen() {
    let files = Files::new();
    let recorded = files.write("requests.jsonl", &traffic());
    let proposed = run(&["plan", "--from-requests", &recorded, "--headroom", "1", "--json"]).json(0);
    let policies = proposed["policies"].as_array().unwrap();
    let scopes: Vec<&str> = policies
        .iter()
        .map(|policy| policy["scope"].as_str().unwrap())
        .collect();
    assert_eq!(scopes, ["org", "app", "key", "user"]);
    for policy in policies {
        assert_eq!(policy["limit"], policy["busiest"], "{policy}");
    }
    assert_eq!(proposed["requests"], 4_000);
}

#[test]
fn recorded_requests_may_come_from_standard_input() {
    let proposed = run_with(&["plan", "--from-requests", "-", "--json"], &traffic()).json(0);
    assert_eq!(proposed["requests"], 4_000);
    let none = run_with(&["plan", "--from-requests", "-"], "");
    assert!(none.complaint(2).contains("holds no requests"), "{none:?}");
    let bad = run_with(&["plan", "--from-requests", "-"], "{\"at\":1}\n{\"at\":0}\n");
    assert!(
        bad.complaint(2).contains("standard input:2: `at` is earlier"),
        "{bad:?}"
    );
}
