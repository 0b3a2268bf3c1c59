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
fn what_is_hardly_meant_is_warned_of() {
    let tight = "policies:\n  - {id: day, scope: org, limit: 1000, window: day}\n  \
        - {id: rate, scope: app, limit: 10, window: 1s}\n";
    let warned = plan(tight, &[]);
    let shown = warned.expect(0);
    let wanted = "\nWARNINGS\n! one app at the full rate of rate (10 in 1s) uses up day (1,000 in day) after 1 min 40 s\n";
    assert!(shown.contains(wanted), "{shown}");
    let forecast = plan(tight, &["--json"]).json(0);
    assert_eq!(forecast["warnings"].as_array().map(Vec::len), Some(1));
    let nothing = plan("policies: []\n", &[]);
    assert!(nothing.expect(0).contains("NO LIMIT APPLIES"), "{nothing:?}");
    let normal = plan(&policies(1_000_000), &["--org", "acme"]);
    assert!(!normal.expect(0).contains("WARNINGS"), "{normal:?}");
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
        3_986,
        "200 at 50 a second too many; the 599th would be the 201st"
    );
    assert_eq!(line(&forecast, "app-rate")["needed"], 150);
}

/// So many requests of one app, evenly spaced through the first hours of each day and from each of its keys in turn.
fn steady(rate: u64, keys: u64, hours: u64, requests: u64) -> String {
    let (hour, day) = (3_600_000_000_000, 86_400_000_000_000);
    let lines = (0..requests).map(|request| {
        let worked = (u128::from(request) * 1_000_000_000).div_ceil(rate.into());
        let work = u128::from(hours) * hour;
        let at = 1_721_001_600_000_000_000 + i128::try_from(worked / work * day + worked % work).unwrap();
        let at = jiff::Timestamp::from_nanosecond(at).unwrap().to_string();
        json!({"at": at, "orgId": "acme", "appId": "web", "keyId": (request % keys).to_string()}).to_string()
            + "\n"
    });
    lines.collect()
}

/// When a replay of as many requests first denies one.
fn replayed(policies: &str, requests: &str) -> Value {
    let files = Files::new();
    let (policies, requests) = (files.write("p.yaml", policies), files.write("r.jsonl", requests));
    let replay = run(&[
        "simulate",
        "--policies",
        &policies,
        "--requests",
        &requests,
        "--summary-only",
        "--json",
    ]);
    replay.expect(0);
    let summary: Value = serde_json::from_str(&replay.stderr).unwrap();
    summary["bindsFirst"]["afterMs"].clone()
}

/// A limit, a load by its rate, keys and hours, how many requests are replayed, and when the first is denied.
type Case = (&'static str, [u64; 3], u64, Option<u64>);

const LOADS: &[Case] = &[
    // A surplus of less than one in a window, and of a third in a second.
    (
        "scope: app, limit: 1, burst: 10, window: 100ms",
        [11, 1, 24],
        200,
        Some(9_090),
    ),
    (
        "scope: key, limit: 33, window: 1s",
        [100, 3, 24],
        10_000,
        Some(96_030),
    ),
    ("scope: key, limit: 34, window: 1s", [100, 3, 24], 10_000, None),
    (
        "scope: app, limit: 100, burst: 200, window: 1s",
        [150, 1, 24],
        1_000,
        Some(3_986),
    ),
    (
        "scope: app, limit: 10, burst: 1, window: 1s",
        [11, 1, 24],
        100,
        Some(90),
    ),
    (
        "scope: app, limit: 10, burst: 1, window: 1s",
        [10, 1, 24],
        100,
        None,
    ),
    (
        "scope: app, algorithm: leaky_bucket, limit: 7, window: 3s",
        [3, 1, 24],
        100,
        Some(9_333),
    ),
    (
        "scope: key, algorithm: fixed_window, limit: 33, window: 1s",
        [100, 3, 24],
        1_000,
        Some(990),
    ),
    (
        "scope: key, algorithm: sliding_window_log, limit: 34, window: 1s",
        [100, 3, 24],
        1_000,
        None,
    ),
    // Just at the limit, what came in one window is in the way of the next.
    (
        "scope: app, algorithm: sliding_window_counter, limit: 50, window: 5s",
        [10, 1, 24],
        1_000,
        Some(5_000),
    ),
    (
        "scope: app, algorithm: sliding_window_counter, limit: 51, window: 5s",
        [10, 1, 24],
        1_000,
        None,
    ),
    (
        "scope: key, algorithm: sliding_window_counter, limit: 34, window: 1s",
        [100, 3, 24],
        1_000,
        Some(1_020),
    ),
    (
        "scope: app, algorithm: sliding_window_counter, limit: 3600, window: 1d",
        [1, 1, 1],
        14_400,
        Some(86_400_000),
    ),
    (
        "scope: app, algorithm: sliding_window_counter, limit: 3600, window: 12h",
        [1, 1, 1],
        14_400,
        None,
    ),
    (
        "scope: app, algorithm: sliding_window_counter, limit: 30, window: 8s",
        [5, 1, 24],
        1_000,
        Some(6_000),
    ),
    // A bucket that holds nothing.
    (
        "scope: app, limit: 600, burst: 0, window: 1m",
        [10, 1, 24],
        10,
        Some(0),
    ),
    // Hours in which nothing comes: a month's third day, a bucket that fills up again and one that does not.
    (
        "scope: org, limit: 10000, window: month",
        [1, 1, 1],
        12_000,
        Some(175_600_000),
    ),
    (
        "scope: app, limit: 3600, burst: 1000, window: 1d",
        [1, 1, 1],
        12_000,
        Some(1_043_000),
    ),
    ("scope: app, limit: 3600, window: 1d", [1, 1, 1], 12_000, None),
    ("scope: app, limit: 1900, window: 1h", [1, 1, 1], 12_000, None),
    (
        "scope: app, limit: 3000, burst: 5000, window: 1d",
        [1, 1, 1],
        16_000,
        Some(262_515_000),
    ),
];

#[test]
fn a_limit_runs_out_when_a_replay_says_so() {
    for (limit, [rate, keys, hours], requests, after) in LOADS.iter().copied() {
        let policies = format!("policies:\n  - {{id: p, {limit}}}\n");
        let flags = [rate, keys, hours].map(|number| number.to_string());
        let args = [
            "--rate", &flags[0], "--keys", &flags[1], "--hours", &flags[2], "--json",
        ];
        let forecast = plan(&policies, &args).json(0);
        assert_eq!(line(&forecast, "p")["runsOutAfterMs"], json!(after), "{limit}");
        let replayed = replayed(&policies, &steady(rate, keys, hours, requests));
        assert_eq!(replayed, json!(after), "{limit}");
    }
}

#[test]
fn the_limit_that_is_needed_is_the_least_that_never_runs_out() {
    for (limit, flags, needed) in [
        ("scope: app, WITH, window: 7d", &[][..], 1_000),
        (
            "scope: app, algorithm: fixed_window, WITH, window: 7d",
            &[],
            1_000,
        ),
        (
            "scope: app, WITH, window: 36h",
            &["--rate", "1", "--hours", "8"],
            43_200,
        ),
        (
            "scope: app, algorithm: fixed_window, WITH, window: 36h",
            &["--rate", "1", "--hours", "8"],
            57_600,
        ),
        (
            "scope: key, WITH, window: 1s",
            &["--rate", "100", "--keys", "3"],
            34,
        ),
        (
            "scope: app, WITH, burst: 5, window: 1h",
            &["--rate", "1", "--hours", "1"],
            3_596,
        ),
        (
            "scope: app, WITH, burst: 5000, window: 1d",
            &["--rate", "1", "--hours", "1"],
            3_600,
        ),
    ] {
        let forecast = |number: u64| {
            let limit = limit.replace("WITH", &format!("limit: {number}"));
            let args = [flags, &["--json"]].concat();
            let forecast = plan(&format!("policies:\n  - {{id: p, {limit}}}\n"), &args).json(0);
            line(&forecast, "p").clone()
        };
        let enough = forecast(needed);
        assert_eq!(enough["needed"], needed, "{limit}");
        assert_eq!(enough["runsOutAfterMs"], Value::Null, "{limit}");
        if !flags.is_empty() {
            let short = forecast(needed - 1);
            assert_eq!(short["needed"], needed, "{limit}");
            assert_ne!(short["runsOutAfterMs"], Value::Null, "{limit}");
        }
    }
}

#[test]
fn a_bucket_that_holds_nothing_is_carried_by_no_limit() {
    let policies = "policies:\n  - {id: shut, scope: app, limit: 600, burst: 0, window: 1m}\n";
    let run = plan(policies, &["--rate", "10"]);
    let shown = run.expect(0);
    assert!(shown.contains("shut binds first, after 0 ms\n"), "{shown}");
    assert!(!shown.contains("would carry"), "{shown}");
}

#[test]
fn no_limit_is_proposed_that_a_policy_may_not_have() {
    let file = |limit| {
        let log = "algorithm: sliding_window_log, window: 1h";
        format!("policies:\n  - {{id: log, scope: app, limit: {limit}, {log}}}\n")
    };
    // 27 in a second are 97,200 in an hour, 28 are more than a log remembers.
    let most = plan(&file(100), &["--rate", "27", "--json"]).json(0);
    assert_eq!(line(&most, "log")["needed"], 97_200);
    assert_eq!(line(&most, "log")["carriedByNone"], false);
    plan(&file(97_200), &["--rate", "27"]).expect(0);
    let above = plan(&file(100), &["--rate", "28", "--json"]).json(0);
    assert_eq!(line(&above, "log")["needed"], Value::Null);
    assert_eq!(line(&above, "log")["carriedByNone"], true);
    let shown = plan(&file(100), &["--rate", "28"]);
    let shown = shown.expect(0);
    assert!(
        shown.contains("log carries this workload with no limit that it may have (at most 100,000)\n"),
        "{shown}"
    );
    assert!(!shown.contains("would carry"), "{shown}");
    let row = shown.lines().find(|line| line.starts_with("log ")).unwrap();
    assert!(row.ends_with(" none"), "{shown}");
    // Others may have more, but not without end.
    let daily = "policies:\n  - {id: day, scope: org, limit: 5, window: month}\n";
    let flags = ["--rate", "1000000000", "--apps", "1000000000"];
    let shown = plan(daily, &flags);
    assert!(
        shown.expect(0).contains("(at most 999,999,999,999,999)\n"),
        "{shown:?}"
    );
}

#[test]
fn rates_are_shown_however_small_and_large() {
    let weekly = "policies:\n  - {id: p, scope: app, limit: 1000, window: 7d}\n";
    let run = plan(weekly, &[]);
    assert!(run.expect(0).contains("1 app at 0.00165/s"), "{run:?}");
    assert!(run.expect(0).contains("nothing binds"), "{run:?}");
    let largest = "policies:\n  - {id: a, scope: app, limit: 999999999999999, window: 1ms}\n  \
                   - {id: k, scope: key, limit: 999999999999999, window: 366d}\n  \
                   - {id: o, scope: org, limit: 999999999999999, window: 366d}\n";
    for hours in ["1", "24"] {
        let flags = ["--keys", "1000000000", "--apps", "1000000000", "--hours", hours];
        let run = plan(largest, &flags);
        let shown = run.expect(0);
        assert!(
            shown.contains("1,000,000,000 apps at 31,623,153,207,852,629.781/s each make 3.16e25/s"),
            "{shown}"
        );
        let forecast = plan(largest, &[&flags[..], &["--json"]].concat()).json(0);
        assert_eq!(line(&forecast, "k")["runsOutAfterMs"], Value::Null);
        assert_eq!(line(&forecast, "a")["runsOutAfterMs"], Value::Null);
        assert_eq!(line(&forecast, "o")["runsOutAfterMs"], 0);
        assert_eq!(line(&forecast, "o")["needed"], Value::Null);
    }
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
        // Nothing is proposed, so there is nothing to be generous with.
        ["--headroom", "2"],
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

#[test]
fn a_load_beyond_all_limits_is_told_as_one() {
    let policies = "policies: [{id: p, algorithm: sliding_window_counter, limit: 5, window: 366d}]\n";
    let most = ["--apps", "1000000000", "--rate", "1000000000", "--json"];
    let forecast = plan(policies, &most).json(0);
    assert_eq!(line(&forecast, "p")["runsOutAfterMs"], 0);
    assert_eq!(line(&forecast, "p")["needed"], Value::Null);
}
