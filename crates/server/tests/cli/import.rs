//! `tollgate import`.

use serde_json::json;
use tempfile::TempDir;

use crate::common::run;

fn dir(files: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::new().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

#[test]
fn what_is_printed_is_a_policy_file() {
    let dir = dir(&[
        (
            "a.yaml",
            "domain: a\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 5}, detailed_metric: true}]",
        ),
        (
            "b.yml",
            "domain: b\ndescriptors: [{key: k, value: x, rate_limit: {unit: hour, requests_per_unit: 7}}]",
        ),
        ("notes.txt", "not one of them"),
    ]);
    let run = |args: &[&str]| run(args);
    let imported = run(&["import", "envoy", dir.path().to_str().unwrap()]);
    let text = imported.expect(0).to_owned();
    assert!(
        imported
            .stderr
            .contains("a.yaml:2: descriptors[0].detailed_metric: "),
        "{imported:?}"
    );
    let file = dir.path().join("policies.yaml.new");
    std::fs::write(&file, text).unwrap();
    let valid = run(&["validate", file.to_str().unwrap(), "--json"]).json(0);
    assert_eq!(valid["valid"], true);
    let json = run(&["import", "envoy", dir.path().to_str().unwrap(), "--json"]).json(0);
    assert_eq!(json["policies"].as_array().unwrap().len(), 2);
    assert_eq!(json["notCarriedOver"][0]["line"], 2);
}

#[test]
fn what_can_not_be_read_is_told_with_its_place() {
    let dir = dir(&[
        ("a.yaml", "domain: a\nsurprise: 1"),
        ("b.yaml", "- {namespace: n, max_value: 1}"),
    ]);
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let refused = run(&["import", "envoy", &path("a.yaml")]);
    assert_eq!(refused.expect(1), "");
    assert!(
        refused
            .stderr
            .contains("a.yaml:2: surprise: is not a known field"),
        "{refused:?}"
    );
    let refused = run(&["import", "limitador", &path("b.yaml"), "--json"]).json(1);
    assert_eq!(refused["problems"][0]["field"], json!("[0].seconds"));
    let missing = run(&["import", "envoy", &path("c.yaml")]);
    assert!(missing.complaint(2).contains("c.yaml"), "{missing:?}");
}
