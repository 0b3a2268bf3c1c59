//! `tollgate validate`.

use super::Files;
use crate::common::run;

#[test]
fn a_valid_file_is_summed_up() {
    let files = Files::new();
    let path = files.write(
        "good.yaml",
        "tiers: [{tier: Gold}]\norgs: [{orgId: acme, tier: Gold}]\npolicies:\n  \
         - {id: day, scope: org, limit: 5, window: day}\noverrides:\n  - {orgId: acme, policyId: day, limit: 9}\n",
    );
    let run = run(&["validate", &path]);
    assert_eq!(run.expect(0), "valid: 2 tiers, 1 orgs, 1 policies, 1 overrides\n");
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

#[test]
fn numbers_that_do_not_fit_are_warned_of_and_valid() {
    let files = Files::new();
    let path = files.write(
        "tight.yaml",
        "policies:\n  - {id: day, scope: org, limit: 1000, window: day}\n  - {id: rate, scope: app, limit: 10, window: 1s}\n",
    );
    let run = run(&["validate", &path]);
    let shown = run.expect(0);
    assert!(
        shown.contains("warning:") && shown.contains("uses up day"),
        "{shown}"
    );
    let report = crate::common::run(&["validate", &path, "--json"]).json(0);
    assert_eq!(report["warnings"].as_array().map(Vec::len), Some(1));
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
