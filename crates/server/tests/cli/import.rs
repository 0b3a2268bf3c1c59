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
    assert_eq!(json["dropped"], 0);
}

#[test]
fn it_is_printed_as_a_person_would_write_it() {
    let long = "a-rather-long-value-that-somebody-has-given-to-this-descriptor-of-theirs";
    let dir = dir(&[(
        "a.yaml",
        &format!(
            "domain: shop
descriptors:
  - {{key: user, rate_limit: {{unit: day, requests_per_unit: 5}}}}
  - {{key: path, value: /a/b, shadow_mode: true, rate_limit: {{unit: hour, requests_per_unit: 7}}}}
  - {{key: path, value: /a.b, rate_limit: {{unit: hour, requests_per_unit: 8}}}}
  - {{key: path, value: {long}, descriptors: [{{key: user, value: off, rate_limit: {{unit: minute, requests_per_unit: 9}}}}]}}
  - {{key: free, rate_limit: {{unlimited: true}}}}
"
        ),
    )]);
    let imported = run(&["import", "envoy", dir.path().to_str().unwrap()]);
    let text = imported.expect(0);
    assert!(
        text.starts_with(
            "policies:
  - id: shop.user
    scope: descriptor:user
    descriptor: {domain: shop, entries: [{key: user}]}
    algorithm: fixed_window
    limit: 5
    window: 1d
"
        ),
        "{text}"
    );
    let wanted = format!(
        "    descriptor:
      domain: shop
      entries:
        - {{key: path, value: {long}}}
        - {{key: user, value: \"off\"}}
"
    );
    assert!(text.contains(&wanted), "{text}");
    for word in ["counter", "\"*\"", "orgTier", "endpointPattern", "enforce"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
    assert!(
        text.contains("mode: shadow") && text.contains("mode: \"off\""),
        "{text}"
    );
}

/// What is counted apart by the limiter that is left must not share a count here, and the other way round.
#[test]
fn counts_are_as_they_were() {
    let limit = |value: &str| {
        format!("  - {{key: path, value: '{value}', rate_limit: {{unit: day, requests_per_unit: 1}}}}\n")
    };
    let values = ["/a/b", "/a.b", "/a/", "/a", "a"];
    let limits: String = values.iter().map(|value| limit(value)).collect();
    let others = "  - {key: user, rate_limit: {unit: day, requests_per_unit: 1, name: same}}\n  \
        - {key: org, rate_limit: {unit: day, requests_per_unit: 1, name: same}}\n";
    let text = format!("domain: edge\ndescriptors:\n{limits}{others}");
    let dir = dir(&[("a.yaml", &text)]);
    let imported = run(&["import", "envoy", dir.path().to_str().unwrap()]);
    let server = crate::common::Server::start(imported.expect(0), &[]);
    let ask = |key: &str, value: &str| {
        let descriptor = json!({"entries": [{"key": key, "value": value}]});
        let body = json!({"domain": "edge", "descriptors": [descriptor]});
        server.ask("POST", "/json").body(body.to_string()).send().status
    };
    for value in values {
        assert_eq!((ask("path", value), ask("path", value)), (200, 429), "{value}");
    }
    for (key, value) in [("user", "x"), ("user", "y"), ("org", "x")] {
        assert_eq!((ask(key, value), ask(key, value)), (200, 429), "{key} {value}");
    }
}

#[test]
fn a_dropped_limit_is_no_success() {
    let dir = dir(&[(
        "limits.yaml",
        "- {namespace: n, max_value: 3, seconds: 60, conditions: [], variables: [\"descriptors[0]['user.id']\"]}\n\
         - {namespace: n, max_value: 3, seconds: 1, conditions: [\"descriptors[0].a != 'x'\"], variables: []}\n",
    )]);
    let path = dir.path().to_str().unwrap();
    let dropped = run(&["import", "limitador", path]);
    let text = dropped.expect(3);
    assert!(
        text.contains("id: n.user.id.60s"),
        "what could be carried over is printed all the same: {text}"
    );
    assert!(
        dropped
            .stderr
            .contains("dropped: 1 of 2 limits; --allow-dropped accepts that"),
        "{dropped:?}"
    );
    assert_eq!(
        run(&["import", "limitador", path, "--json"]).json(3)["dropped"],
        1
    );
    let accepted = run(&["import", "limitador", path, "--allow-dropped"]);
    accepted.expect(0);
    assert!(
        accepted.stderr.contains("dropped: 1 of 2 limits\n"),
        "{accepted:?}"
    );
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
