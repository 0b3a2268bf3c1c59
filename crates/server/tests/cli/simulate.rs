//! `tollgate simulate`.

use serde_json::{Value, json};

use super::Files;
use crate::common::{Finished, run, run_with};

const POLICIES: &str = "policies:
  - {id: day, scope: org, algorithm: quota, limit: 5, window: day}
  - {id: rate, scope: app, algorithm: fixed_window, limit: 2, window: 1s}
";

const NOON: u64 = 1_721_044_800_000;

/// Requests of one app, each so many milliseconds after noon.
fn requests(offsets: &[u64]) -> String {
    let lines = offsets
        .iter()
        .map(|offset| json!({"at": NOON + offset, "orgId": "acme", "appId": "web"}).to_string() + "\n");
    lines.collect()
}

fn simulate(policies: &str, requests: &str, args: &[&str]) -> Finished {
    let files = Files::new();
    let (policies, requests) = (files.write("p.yaml", policies), files.write("r.jsonl", requests));
    run(&[
        &["simulate", "--policies", &policies, "--requests", &requests],
        args,
    ]
    .concat())
}

fn decisions(run: &Finished) -> Vec<Value> {
    let lines = run.expect(0).lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn each_request_becomes_a_decision_on_virtual_time() {
    let run = simulate(
        POLICIES,
        &requests(&[0, 0, 0, 999, 1_000, 2_000, 3_000, 4_000]),
        &[],
    );
    let decisions = decisions(&run);
    let allowed: Vec<bool> = decisions.iter().map(|d| d["allowed"] == true).collect();
    assert_eq!(allowed, [true, true, false, false, true, true, true, false]);
    assert_eq!(decisions[2]["policyId"], "rate");
    assert_eq!(decisions[2]["retryAfterMs"], 1_000);
    assert_eq!(decisions[3]["retryAfterMs"], 1);
    assert_eq!(decisions[7]["policyId"], "day");
    assert_eq!(decisions[7]["at"], NOON + 4_000);
    assert_eq!(decisions[7]["limits"][0]["resetAt"], "2024-07-16T00:00:00Z");
    for decision in &decisions {
        for name in [
            "at",
            "allowed",
            "scope",
            "policyId",
            "remaining",
            "retryAfterMs",
            "delayMs",
            "degraded",
            "limits",
        ] {
            assert!(decision.get(name).is_some(), "{name} is missing: {decision}");
        }
    }
}

#[test]
fn the_summary_is_for_people_and_on_standard_error() {
    let run = simulate(POLICIES, &requests(&[0, 0, 0, 1_000, 2_000, 3_000, 4_000]), &[]);
    run.expect(0);
    for words in [
        "7 requests over 4 s: 5 allowed, 2 denied",
        "rate binds first, after 0 ms (at 2024-07-15T12:00:00Z)",
        "ORG",
        "acme",
        "POLICY",
        "day",
    ] {
        assert!(run.stderr.contains(words), "{words}: {}", run.stderr);
    }
    let run = simulate(POLICIES, &requests(&[0]), &["--summary-only"]);
    assert_eq!(run.expect(0), "");
    assert!(run.stderr.contains("no limit binds"), "{run:?}");
    let nobody = simulate(POLICIES, "{\"at\":1721044800000}\n", &["--summary-only"]);
    nobody.expect(0);
    let wanted = "NO LIMIT APPLIES to any of these requests";
    assert!(nobody.stderr.contains(wanted), "{nobody:?}");
}

#[test]
fn the_summary_as_json_counts_by_org_policy_and_scope() {
    let run = simulate(
        POLICIES,
        &requests(&[0, 0, 0, 1_000, 2_000, 3_000, 4_000]),
        &["--json"],
    );
    assert_eq!(decisions(&run).len(), 7, "the decisions stay on standard output");
    let summary: Value = serde_json::from_str(&run.stderr).unwrap();
    assert_eq!(summary["requests"], 7);
    assert_eq!(summary["allowed"], 5);
    assert_eq!(summary["denied"], 2);
    assert_eq!(summary["orgs"], json!({"acme": {"allowed": 5, "denied": 2}}));
    assert_eq!(summary["scopes"], json!({"app": 1, "org": 1}));
    assert_eq!(summary["policies"]["day"]["denied"], 1);
    assert_eq!(summary["policies"]["day"]["firstAt"], NOON + 4_000);
    assert_eq!(
        summary["bindsFirst"],
        json!({"policyId": "rate", "at": NOON, "afterMs": 0})
    );
    assert_eq!(summary["changes"], Value::Null);
}

#[test]
fn a_second_file_is_replayed_beside_and_compared() {
    let files = Files::new();
    let policies = files.write("a.yaml", POLICIES);
    let other = files.write(
        "b.yaml",
        "policies:\n  - {id: week, scope: org, limit: 4, window: week}\n",
    );
    let recorded = files.write("r.jsonl", &requests(&[0, 0, 0, 1_000, 2_000]));
    let args = [
        "simulate",
        "--policies",
        &policies,
        "--requests",
        &recorded,
        "--compare",
        &other,
    ];
    let people = run(&args);
    people.expect(0);
    assert!(
        people
            .stderr
            .contains("With the other file: 1 more denied, 1 more allowed"),
        "{people:?}"
    );
    let run = run(&[&args[..], &["--json"]].concat());
    let summary: Value = serde_json::from_str(&run.stderr).unwrap();
    assert_eq!(
        summary["changes"],
        json!({
            "newlyDenied": [{"org": "acme", "policyId": "week", "requests": 1}],
            "newlyAllowed": [{"org": "acme", "policyId": "rate", "requests": 1}],
        })
    );
    assert_eq!(
        decisions(&run)[2]["allowed"],
        false,
        "the decisions are the first file's"
    );
}

#[test]
fn standard_input_is_read_and_times_may_be_rfc_3339() {
    let files = Files::new();
    let policies = files.write("p.yaml", POLICIES);
    let input = "{\"at\":\"2024-07-15T14:00:00+02:00\",\"orgId\":\"acme\"}\n\n\
                 {\"at\":\"2024-07-15T12:00:00.5Z\",\"orgId\":\"acme\"}\n\
                 {\"at\":1721044801000,\"orgId\":\"acme\"}";
    let run = run_with(&["simulate", "--policies", &policies, "--requests", "-"], input);
    let decisions = decisions(&run);
    let times: Vec<&Value> = decisions.iter().map(|decision| &decision["at"]).collect();
    assert_eq!(
        times,
        [
            &json!("2024-07-15T14:00:00+02:00"),
            &json!("2024-07-15T12:00:00.5Z"),
            &json!(1_721_044_801_000_u64)
        ]
    );
    assert_eq!(decisions[0]["limits"][0]["resetMs"], 12 * 3_600_000);
}

#[test]
fn a_mark_of_utf_8_at_the_beginning_is_no_part_of_it() {
    let marked = format!("\u{feff}{}", requests(&[0, 1]));
    assert_eq!(decisions(&simulate(POLICIES, &marked, &[])).len(), 2);
    let within = format!("{}\u{feff}{}", requests(&[0]), requests(&[1]));
    assert!(
        simulate(POLICIES, &within, &[])
            .complaint(2)
            .contains(":2: not a recorded request")
    );
}

#[test]
fn looking_and_dry_runs_charge_nothing() {
    let lines = "{\"at\":0,\"orgId\":\"acme\",\"cost\":5,\"dryRun\":true}\n{\"at\":1,\"orgId\":\"acme\",\"cost\":0}\n\
                 {\"at\":2,\"orgId\":\"acme\",\"cost\":5}\n";
    let run = simulate(POLICIES, lines, &[]);
    let left: Vec<u64> = decisions(&run)
        .iter()
        .map(|decision| decision["remaining"].as_u64().unwrap())
        .collect();
    assert_eq!(left, [0, 5, 0]);
}

#[test]
fn what_cannot_be_replayed_is_named_by_file_and_line() {
    for (lines, place) in [
        (requests(&[5, 4]), ":2: `at` is earlier than on the line before"),
        (requests(&[5]) + "\n\nnonsense\n", ":4: not a recorded request"),
        ("{\"orgId\":\"acme\"}\n".to_owned(), ":1: `at` is missing"),
        ("{\"at\":\"yesterday\"}\n".to_owned(), ":1: `at` is neither"),
        ("{\"at\":-5}\n".to_owned(), ":1: not a recorded request"),
        (
            "{\"at\":\"1969-12-31T23:59:59Z\"}\n".to_owned(),
            ":1: `at` is neither",
        ),
        (
            "{\"at\":18446744073709551615}\n".to_owned(),
            ":1: `at` is neither",
        ),
        (
            requests(&[5]) + "{\"at\":1721044800006,\"orgId\":\"\"}\n",
            ":2: `orgId` must not be empty",
        ),
        (
            "{\"at\":5,\"tenant\":1}\n".to_owned(),
            ":1: not a recorded request: unknown field `tenant`",
        ),
        ("[]\n".to_owned(), ":1: not a recorded request"),
    ] {
        let run = simulate(POLICIES, &lines, &[]);
        assert_eq!(run.code, Some(2), "{lines}: {run:?}");
        assert!(
            run.stderr.contains(&format!("r.jsonl{place}")),
            "{place}: {}",
            run.stderr
        );
    }
    let files = Files::new();
    let policies = files.write("p.yaml", POLICIES);
    let run = run_with(
        &["simulate", "--policies", &policies, "--requests", "-"],
        "nonsense\n",
    );
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("standard input:1: "), "{run:?}");
}

#[test]
fn what_was_decided_before_a_line_that_is_wrong_is_told() {
    let run = simulate(POLICIES, &(requests(&[0, 0, 0]) + "nonsense\n"), &[]);
    assert!(
        run.complaint(2).contains("r.jsonl:4: not a recorded request"),
        "{run:?}"
    );
    assert_eq!(run.stdout.lines().count(), 3, "{run:?}");
}

#[test]
fn what_is_past_is_told_as_long_as_it_was() {
    let run = simulate(POLICIES, &requests(&[0, 1_000, 2_000, 3_000, 4_000, 9_090]), &[]);
    run.expect(0);
    for words in [
        "6 requests over 9.09 s: 5 allowed, 1 denied",
        "day binds first, after 9.09 s (at 2024-07-15T12:00:09.090Z)",
        "0  9.09 s\n",
    ] {
        assert!(run.stderr.contains(words), "{words}: {}", run.stderr);
    }
}

#[test]
fn the_changes_are_listed_up_to_a_bound_the_largest_first() {
    let files = Files::new();
    let first = files.write(
        "a.yaml",
        "policies:\n  - {id: day, scope: org, limit: 1, window: day}\n",
    );
    let other = files.write(
        "b.yaml",
        "policies:\n  - {id: day, scope: org, limit: 9, window: day}\n",
    );
    let mut lines = String::new();
    for org in 0..60 {
        // One more than is allowed, and of the last ones several.
        for _ in 0..if org < 58 { 2 } else { org - 54 } {
            lines += &(json!({"at": NOON, "orgId": format!("org-{org:02}")}).to_string() + "\n");
        }
    }
    let recorded = files.write("r.jsonl", &lines);
    let run = run(&[
        "simulate",
        "--policies",
        &first,
        "--compare",
        &other,
        "--requests",
        &recorded,
        "--summary-only",
    ]);
    run.expect(0);
    let (_, changes) = run.stderr.split_once("With the other file").unwrap();
    let rows: Vec<&str> = changes
        .lines()
        .filter_map(|line| line.strip_prefix("newly allowed  "))
        .collect();
    assert_eq!(rows.len(), 20, "{changes}");
    for (row, org) in rows.iter().zip(["org-59", "org-58", "org-00", "org-01"]) {
        assert!(row.starts_with(org), "{changes}");
    }
    assert!(changes.ends_with("\nand 40 more\n"), "{changes}");
}

#[test]
fn files_that_are_missing_or_wrong_are_named() {
    let files = Files::new();
    let (good, absent) = (files.write("p.yaml", POLICIES), files.path("absent"));
    let bad = files.write("bad.yaml", "policies:\n  - {id: p, limit: 5}\n");
    let recorded = files.write("r.jsonl", &requests(&[0]));
    for (args, named) in [
        (["--policies", &absent, "--requests", &recorded], absent.as_str()),
        (["--policies", &good, "--requests", &absent], &absent),
        (
            ["--policies", &bad, "--requests", &recorded],
            "bad.yaml:2: policies[0].window: is missing",
        ),
    ] {
        let run = run(&[&["simulate"], &args[..]].concat());
        assert!(run.complaint(2).contains(named), "{run:?}");
    }
}

#[test]
fn an_empty_recording_is_replayed_to_an_empty_end() {
    let run = simulate(POLICIES, "", &["--json"]);
    assert_eq!(run.expect(0), "");
    let summary: Value = serde_json::from_str(&run.stderr).unwrap();
    assert_eq!(summary["requests"], 0);
}

#[test]
fn a_replay_gives_the_same_answers_every_time() {
    let lines = requests(&[0, 100, 200, 1_000, 1_500, 4_000]);
    let (one, other) = (simulate(POLICIES, &lines, &[]), simulate(POLICIES, &lines, &[]));
    assert_eq!(one.expect(0), other.expect(0));
}
