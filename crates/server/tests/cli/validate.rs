//! `tollgate validate`.

use serde_json::Value;

use super::Files;
use crate::common::run;

#[test]
fn a_valid_file_is_summed_up() {
    let files = Files::new();
    let path = files.write(
        "good.yaml",
        "tiers: [{tier: Gold}]\norgs: [{orgId: acme, tier: Gold}]\npolicies:\n  \
         - {id: day, scope: org, limit: 5, window: day}\n  - {id: all, scope: global, limit: 5, window: 1s}\n\
         overrides:\n  - {orgId: acme, policyId: day, limit: 9}\n",
    );
    let run = run(&["validate", &path]);
    assert_eq!(run.expect(0), "valid: 2 tiers, 1 orgs, 2 policies, 1 overrides\n");
    let report = crate::common::run(&["validate", &path, "--json"]).json(0);
    assert_eq!(
        report,
        serde_json::json!({"valid": true, "problems": [], "warnings": []})
    );
}

const BAD: &str = "tiers: [{tier: Enterprise}]
orgs:
  - {orgId: acme, tier: Enterprize}
policies:
  - {id: day, scop: org, limit: 5, window: day}
  - {id: rate, scope: apps, algorithm: token_buckt, limit: -1, window: 1 minute}
  - {id: \"a b\", limit: 5, window: dya}
polices: []
";

#[test]
fn every_problem_is_said_with_line_field_and_what_may_have_been_meant() {
    let files = Files::new();
    let path = files.write("bad.yaml", BAD);
    let run = run(&["validate", &path]);
    assert_eq!(run.expect(1), "");
    for (line, said) in [
        (
            3,
            "orgs[0].tier: there is no tier `Enterprize`; did you mean `Enterprise`?",
        ),
        (5, "policies[0].scop: is not a known field; did you mean `scope`?"),
        (6, "policies[1].scope: `apps` is not one of"),
        (6, "did you mean `app`?"),
        (6, "policies[1].algorithm: `token_buckt` is not one of"),
        (6, "did you mean `token_bucket`?"),
        (
            6,
            "policies[1].limit: must be a whole number from 0 to 999999999999999",
        ),
        (6, "policies[1].window: `1 minute` is not a length of time"),
        (7, "policies[2].id: `a b` is not an id"),
        (7, "policies[2].window: `dya` is not a length of time"),
        (7, "did you mean `day`?"),
        (8, "polices: is not a known field; did you mean `policies`?"),
    ] {
        let place = format!("{path}:{line}: error: ");
        let found = run
            .stderr
            .lines()
            .any(|shown| shown.starts_with(&place) && shown.contains(said));
        assert!(found, "{line}: {said} is not in\n{}", run.stderr);
    }
    assert!(
        run.stderr
            .ends_with("9 problems found; nothing of it would be applied\n"),
        "{}",
        run.stderr
    );
}

#[test]
fn problems_as_json_have_line_field_and_message() {
    let files = Files::new();
    let path = files.write("bad.yaml", BAD);
    let report = run(&["validate", "--json", &path]).json(1);
    assert_eq!(report["valid"], false);
    let problems = report["problems"].as_array().unwrap();
    assert_eq!(problems.len(), 9);
    for problem in problems {
        assert!(problem["line"].as_u64().unwrap() > 0, "{problem}");
        assert!(!problem["field"].as_str().unwrap().is_empty(), "{problem}");
        assert!(!problem["message"].as_str().unwrap().is_empty(), "{problem}");
    }
}

#[test]
fn an_override_that_fits_nothing_is_a_problem_of_its_line() {
    let files = Files::new();
    let path = files.write(
        "bad.yaml",
        "policies:\n  - {id: day, limit: 5, window: day}\noverrides:\n  - {orgId: acme, policyId: dya, limit: 9}\n",
    );
    let run = run(&["validate", &path]);
    run.expect(1);
    assert!(run.stderr.contains(&format!(
        "{path}:4: error: overrides[0].policyId: there is no policy `dya`; did you mean `day`?"
    )));
    assert!(
        run.stderr
            .ends_with("1 problem found; nothing of it would be applied\n")
    );
}

/// The warnings about a file with these lines, from its fourth on.
fn warnings(lines: &str) -> Vec<String> {
    let files = Files::new();
    let all = "  - {id: all, scope: global, limit: 1000000, window: 1s}\n";
    let own = "  - {id: own, scope: org, limit: 1000000, window: 1s}\n";
    let path = files.write("policies.yaml", &format!("policies:\n{all}{own}{lines}"));
    listed(&run(&["validate", &path, "--json"]).json(0))
}

fn listed(report: &Value) -> Vec<String> {
    let warnings = report["warnings"].as_array().unwrap().iter();
    warnings
        .map(|warning| warning.as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_quota_that_one_caller_uses_up_within_an_hour_is_warned_of_once_a_tier() {
    let files = Files::new();
    let path = files.write(
        "tight.yaml",
        "policies:\n  - {id: day, scope: org, limit: 36000, window: day}\n  - {id: rate, scope: app, limit: 10, window: 1s}\n  \
         - {id: burst, scope: key, limit: 20, window: 1s}\n  - {id: all, scope: global, limit: 100, window: 1s}\n",
    );
    let run = run(&["validate", &path]);
    let shown = run.expect(0);
    let wanted = "warning: tier default: one key at the full rate of burst (20 in 1s) uses up day (36,000 in day) after 30 min\n";
    assert!(shown.ends_with(wanted), "{shown}");
    let report = crate::common::run(&["validate", &path, "--json"]).json(0);
    assert_eq!(listed(&report).len(), 1);
    let silent = crate::common::run(&["validate", &path, "--no-warnings"]);
    assert!(!silent.expect(0).contains("warning"), "{silent:?}");
}

#[test]
fn a_normal_plan_is_not_warned_of() {
    for plan in [
        // More than an hour at the full rate.
        "  - {id: day, scope: org, limit: 36001, window: day}\n  - {id: rate, scope: app, limit: 10, window: 1s}\n",
        // A minute's limit is no quota.
        "  - {id: minute, scope: org, limit: 100, window: 1m}\n  - {id: rate, scope: app, limit: 10, window: 1s}\n",
        // Only on some routes.
        "  - {id: day, scope: org, limit: 100, window: day}\n  - {id: rate, scope: app, endpointPattern: /a, limit: 10, window: 1s}\n",
        // What is left out is no decision for 503.
        "  - {id: day, scope: org, limit: 100, window: day}\n",
        "  - {id: one, scope: org, endpointPattern: \"GET /v1/users/{id}/*\", limit: 5, window: 1m}\n",
        "  - {id: off, scope: org, limit: 0, window: 1m, mode: \"off\"}\n",
        "overrides:\n  - {orgId: acme, policyId: own, limit: 0, reason: \"has not paid\"}\n",
    ] {
        assert_eq!(warnings(plan), [] as [&str; 0], "{plan}");
    }
}

#[test]
fn the_longer_example_has_at_most_a_line_for_each_tier() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/saas.yaml");
    let report = run(&["validate", example, "--json"]).json(0);
    let warnings = listed(&report);
    assert!(warnings.len() <= 3, "{warnings:#?}");
    for tier in ["Enterprise", "Unlimited"] {
        let named = warnings.iter().any(|warning| warning.contains(tier));
        assert!(!named, "{warnings:#?}");
    }
}

#[test]
fn what_is_almost_surely_a_mistake_is_warned_of_with_its_line() {
    for (lines, wanted) in [
        (
            "  - id: users\n    scope: org\n    endpointPattern: \"GET /v1/users/:id\"\n    limit: 5\n    window: 1m\n",
            ["line 6: policy users: ", "`:id`", "`{id}`"],
        ),
        (
            "  - {id: users, scope: org, endpointPattern: \"/v1/<user>/x\", limit: 5, window: 1m}\n",
            ["line 4: policy users: ", "`<user>`", "`{user}`"],
        ),
        (
            "  - {id: none, scope: org, limit: 0, window: 1m}\n",
            ["line 4: policy none: ", "limit of 0", "`mode: off`"],
        ),
        (
            "  - {id: day, scope: org, limit: 5, window: day, failMode: closed}\n",
            ["line 4: policy day: ", "`failMode: closed`", "503"],
        ),
        (
            "overrides:\n  - {orgId: acme, policyId: own, limit: 5, expiresAt: 2024-01-31T12:00:00Z, reason: a move}\n",
            [
                "line 5: override of own for org of acme: ",
                "expired",
                "2024-01-31T12:00:00Z",
            ],
        ),
        (
            "overrides:\n  - {orgId: acme, appId: web, policyId: own, limit: 0}\n",
            [
                "line 5: override of own for app web of acme: ",
                "limit of 0",
                "off",
            ],
        ),
        (
            "endpointClasses:\n  - {pattern: \"/v1/orders/:order\", class: heavy}\n",
            ["class heavy", "`:order`", "`{order}`"],
        ),
    ] {
        let warnings = warnings(lines);
        let [warning] = warnings.as_slice() else {
            panic!("{lines}: {warnings:#?}")
        };
        for part in wanted {
            assert!(warning.contains(part), "{part}: {warning}");
        }
    }
}

#[test]
fn requests_that_meet_no_limit_at_all_are_warned_of() {
    let files = Files::new();
    let validate = |policies: &str, flags: &[&str]| {
        let tiers = "tiers: [{tier: Gold}]\npolicies:\n";
        let path = files.write("policies.yaml", &format!("{tiers}{policies}"));
        listed(&run(&[&["validate", "--json", &path], flags].concat()).json(0))
    };
    let gold = "  - {id: gold, orgTier: Gold, limit: 5, window: 1m}\n";
    let warned = validate(gold, &[]);
    assert_eq!(warned.len(), 1, "{warned:?}");
    for part in ["NO LIMIT APPLIES", "`default`", "without an org"] {
        assert!(warned[0].contains(part), "{part}: {warned:?}");
    }
    let shadow = "  - {id: all, scope: global, limit: 5, window: 1m, mode: shadow}\n";
    assert!(validate(shadow, &[])[0].contains("`default`"));
    let orgs = "  - {id: org, scope: org, limit: 5, window: 1m}\n";
    let warned = validate(orgs, &[]);
    assert!(
        warned[0].contains("NO LIMIT APPLIES to requests without an org"),
        "{warned:?}"
    );
    assert!(warned[0].contains("--require-identity"), "{warned:?}");
    for required in ["org", "key"] {
        let flags = ["--require-identity", required];
        assert_eq!(validate(orgs, &flags), [] as [&str; 0], "{required}");
        assert!(
            !validate(gold, &flags)[0].contains("without an org"),
            "{required}"
        );
    }
    for scope in ["ip", "global", "endpoint", "descriptor:region"] {
        let policy = format!("  - {{id: p, scope: \"{scope}\", limit: 5, window: 1m}}\n");
        assert_eq!(validate(&policy, &[]), [] as [&str; 0], "{scope}");
    }
}

#[test]
fn more_warnings_than_anybody_reads_are_counted() {
    let files = Files::new();
    let zero = |n| format!("  - {{id: p{n}, scope: global, counter: c{n}, limit: 0, window: 1m}}\n");
    let zeros = (0..60).map(zero).collect::<Vec<_>>().concat();
    let path = files.write("policies.yaml", &format!("policies:\n{zeros}"));
    let run = run(&["validate", &path]);
    let shown = run.expect(0);
    assert_eq!(shown.matches("warning:").count(), 50);
    assert!(
        shown.ends_with("and 10 more warnings; --json has all\n"),
        "{shown}"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_and_not_a_problem() {
    let files = Files::new();
    let absent = files.path("absent.yaml");
    let run = run(&["validate", &absent]);
    assert!(run.complaint(2).contains(&absent), "{run:?}");
    crate::common::run(&["validate"]).expect(2);
}

#[test]
fn what_is_not_yaml_is_a_problem_with_a_line() {
    let files = Files::new();
    let path = files.write(
        "broken.yaml",
        "policies:\n  - {id: day, limit: 5\nwindow: day}}\n",
    );
    let run = run(&["validate", &path]);
    run.expect(1);
    assert!(run.stderr.contains(": error: not valid YAML"), "{run:?}");
}

#[test]
fn what_is_wrong_with_envoys_files_is_told_like_what_is_wrong_with_ours() {
    let files = Files::new();
    let path = files.write(
        "edge.yaml",
        "domain: edge\ndescriptors:\n  - key: a\n    rate_limit:\n      unit: minut\n      requests_per_unit: 5\n",
    );
    let run = run(&["validate", &path]);
    run.expect(1);
    assert!(run.stderr.starts_with(&format!("{path}:5: error: ")), "{run:?}");
    let report = crate::common::run(&["validate", "--json", &path]).json(1);
    assert_eq!(report["valid"], false);
    assert_eq!(report["problems"][0]["line"], 5);
    assert_eq!(report["problems"][0]["file"], path);
}

#[test]
fn a_domain_does_not_make_a_file_with_policies_envoys() {
    let files = Files::new();
    let path = files.write(
        "ours.yaml",
        "domain: edge\npolicies:\n  - {id: day, limit: 5, window: day}\n",
    );
    let run = run(&["validate", &path]);
    run.expect(1);
    let said = format!("{path}:1: error: domain: is not a known field\n1 problem found");
    assert!(run.stderr.starts_with(&said), "{run:?}");
}

#[test]
fn what_is_no_text_is_a_problem_with_a_line() {
    let files = Files::new();
    let path = files.path("latin.yaml");
    std::fs::write(
        &path,
        b"policies:\n  - {id: day, limit: 5, window: day, unit: \xe9}\n",
    )
    .unwrap();
    let run = run(&["validate", &path]);
    run.expect(1);
    assert!(
        run.stderr
            .starts_with(&format!("{path}:2: error: is not UTF-8\n")),
        "{run:?}"
    );
    let report = crate::common::run(&["validate", "--json", &path]).json(1);
    assert_eq!(report["problems"][0]["message"], "is not UTF-8");
}
