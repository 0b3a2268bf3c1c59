//! YAML as it is written in the wild, and as it is written to do harm.

use std::fmt::Write;
use std::time::Instant;

use tollgate_catalog::document::{Problem, parse_yaml};
use tollgate_catalog::parse_policy_set;

use crate::common::{applied, compiled, problem, snapshot};

#[test]
fn anchors_and_aliases_are_followed() {
    let snapshot = snapshot(
        "policies:
  - id: one
    scope: &scopes [org, ip]
    window: &minute 1m
    limit: &five 5
  - id: two
    scope: *scopes
    window: *minute
    limit: *five
",
    );
    assert_eq!(applied(&snapshot, "acme ip=203.0.113.9"), "one=5 two=5");
}

#[test]
fn flow_block_quoted_and_folded_text_read_the_same() {
    let snapshot = snapshot(
        "---\npolicies:\n- {\"id\": 'one', limit: 5, window: \"1m\"}\n- id: >-\n    two\n  limit: 5 # five\n  window: 1m\n...\n",
    );
    assert_eq!(applied(&snapshot, "acme"), "one=5 two=5");
    snapshot_of_json();
}

fn snapshot_of_json() {
    let file =
        r#"{"policies": [{"id": "one", "limit": 5, "window": "1m", "scope": ["org", "ip"]}], "orgs": []}"#;
    assert_eq!(applied(&snapshot(file), "acme ip=::1"), "one=5");
}

#[test]
fn what_is_not_yaml_is_told_with_its_line() {
    for (file, line) in [
        ("policies:\n  - {id: p\n", "line "),
        ("policies:\n\t- id: p\n", "line 2: "),
        ("policies: [}\n", "line 1: "),
        ("a: *nowhere\n", "line 1: "),
        ("a: 'unfinished\n", "line "),
    ] {
        let said = problem(file);
        assert!(
            said.starts_with(line) && said.contains("not valid YAML"),
            "{file:?}: {said}"
        );
    }
}

#[test]
fn a_tab_is_told_since_nobody_sees_it() {
    for file in [
        "policies:\n  - id: p\n\tlimit: 5\n",
        "policies:\n  - id: p\n    limit:\t5\n",
    ] {
        let said = problem(file);
        assert!(said.contains("there is a tab on line 3"), "{file:?}: {said}");
    }
    assert!(!problem("a: 'unfin\n").contains("tab"));
}

#[test]
fn a_second_document_a_repeated_key_and_a_key_that_is_no_text_are_problems() {
    for (file, said) in [
        (
            "policies: []\n---\npolicies: []\n",
            "line 2: holds a second document; one is expected",
        ),
        (
            "policies: []\norgs: []\npolicies: []\n",
            "line 3: policies: is given twice",
        ),
        (
            "policies:\n  - {id: a, limit: 1, id: b, window: 1m}\n",
            "line 2: policies[0].id: is given twice",
        ),
        ("? [a, b]\n: c\n", "line 1: has a key that is not plain text"),
        ("{a: b}: c\n", "line 1: has a key that is not plain text"),
        ("a: &a [*a]\n", "line 1: refers to an anchor that is not complete"),
    ] {
        assert_eq!(problem(file), said);
    }
}

/// Refused, without going through all of it: that would take more time and memory than a test has.
fn assert_refused(file: &str, said: &str) {
    let Err(problems) = parse_yaml(file) else {
        panic!("it is taken: {said}");
    };
    assert!(problems.to_string().contains(said), "{problems}");
}

#[test]
fn aliases_of_aliases_do_not_explode() {
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let below = format!("*a{}, ", level - 1).repeat(10);
        let _ = writeln!(laughs, "a{level}: &a{level} [{below}]");
    }
    assert_refused(&laughs, "make the document too large");
    let mut maps = "a0: &a0 {x: y}\n".to_owned();
    for level in 1..40 {
        let _ = writeln!(maps, "a{level}: &a{level} {{l: *a{0}, r: *a{0}}}", level - 1);
    }
    assert_refused(&maps, "make the document too large");
    let wide = format!(
        "a: &a [{}]\nb: [{}]\n",
        "x, ".repeat(10_000),
        "*a, ".repeat(10_000)
    );
    assert_refused(&wide, "aliases make the document too large");
}

#[test]
fn long_texts_do_not_explode() {
    let long = "x".repeat(100_000);
    // Of a text, of a field's name, and within a list.
    for text in [
        long.clone(),
        format!("{{{long}: y}}"),
        format!("[{long}, {long}]"),
    ] {
        let file = format!("a: &a {text}\nb: [{}]\n", "*a, ".repeat(900));
        assert_refused(&file, "aliases make the document too large");
    }
    // What people write is far from it.
    let reasons = format!("a: &a {}\nb: [{}]\n", "x".repeat(500), "*a, ".repeat(900));
    assert!(parse_yaml(&reasons).is_ok());
}

#[test]
fn anchors_within_anchors_do_not_explode() {
    let mut nested = String::new();
    for level in 0..60 {
        let _ = writeln!(nested, "{}a: &a{level}", " ".repeat(level));
    }
    let _ = writeln!(nested, "{}z: [{}]", " ".repeat(60), "x, ".repeat(50_000));
    assert_refused(&nested, "anchors make the document too large");
}

#[test]
fn deep_nesting_is_refused() {
    for (open, said) in [
        ("[", "recursion limit"),
        ("{a: ", "recursion limit"),
        ("- ", "nested too deeply"),
    ] {
        assert_refused(&open.repeat(100_000), said);
    }
    let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
    assert_refused(&deep, "nested too deeply");
    assert!(parse_yaml(&format!("{}{}", "[".repeat(64), "]".repeat(64))).is_ok());
}

#[test]
fn a_mapping_of_very_many_fields_is_refused_at_once() {
    let mut file = "match:\n".to_owned();
    for number in 0..200_000 {
        let _ = writeln!(file, "  k{number}: v");
    }
    assert_refused(&file, "k1000: is one field too many: a mapping has at most 1000");
}

#[test]
fn a_very_long_word_is_not_compared_with_all_that_may_have_been_meant() {
    let long = "x".repeat(4_000_000);
    let said = problem(&format!(
        "policies:\n  - {{id: p, limit: 1, window: 1m, mode: {long}}}\n"
    ));
    assert!(!said.contains("did you mean"));
}

/// A list of 5,000 items, of which each has its number where it says `#`.
fn list(name: &str, item: &str) -> String {
    let mut list = format!("{name}:\n");
    for number in 0..5_000 {
        let _ = writeln!(list, "  - {{{}}}", item.replace('#', &number.to_string()));
    }
    list
}

/// A file of names and of what names them takes about as long to read with slips as without.
#[test]
fn names_of_a_file_full_of_slips_are_not_all_compared_with_each_other() {
    for (names, naming, slip) in [
        (
            list("tiers", "tier: customers-tier-#"),
            list("orgs", "orgId: o#, tier: customers-tier-#"),
            ("tier: customers", "tier: costumers"),
        ),
        (
            list("endpointClasses", "pattern: /#, class: heavy-route-#"),
            list(
                "policies",
                "limit: 5, window: 1d, id: p#, endpointPattern: \"class:heavy-route-#\"",
            ),
            ("class:heavy", "class:havy"),
        ),
        (
            list("policies", "id: requests-a-day-#, limit: 5, window: 1d"),
            list("overrides", "orgId: o#, policyId: requests-a-day-#, limit: 5"),
            ("policyId: requests", "policyId: request"),
        ),
        (
            String::new(),
            list("orgs", "orgId: o#, timezone: Europe/Berlin"),
            ("Berlin", "Berlni"),
        ),
    ] {
        let right = format!("{names}{naming}");
        let wrong = format!("{names}{}", naming.replace(slip.0, slip.1));
        let timed = |file: &str| {
            let started = Instant::now();
            (compiled(file).err(), started.elapsed())
        };
        let ((none, without), (problems, with)) = (timed(&right), timed(&wrong));
        assert!(none.is_none(), "{none:?}");
        let problems = problems.expect("it is taken for right");
        assert_eq!(problems.0.len(), 5_000);
        let suggested = |problem: &&Problem| problem.message.contains("did you mean");
        assert_eq!(problems.0.iter().filter(suggested).count(), 20);
        assert!(with < without * 20, "{with:?} with, {without:?} without {slip:?}");
    }
}

#[test]
fn ten_times_as_large_a_file_takes_about_ten_times_as_long() {
    let read = |orgs: usize| {
        let mut file = "policies:\n  - {id: p, limit: 5, window: 1m}\norgs:\n".to_owned();
        for number in 0..orgs {
            let _ = writeln!(file, "  - {{orgId: org-{number}, timezone: UTC}}");
        }
        file.push_str("overrides:\n");
        for number in 0..orgs {
            let _ = writeln!(file, "  - {{orgId: org-{number}, policyId: p, limit: {number}}}");
        }
        let started = Instant::now();
        let set = parse_policy_set(&file).expect("a good file");
        assert_eq!((set.orgs.len(), set.overrides.len()), (orgs, orgs));
        let snapshot = snapshot(&file);
        assert_eq!(applied(&snapshot, "org-777"), "p=777");
        started.elapsed()
    };
    let (small, large) = (read(5_000), read(50_000));
    assert!(large < small * 40, "{small:?}, then {large:?}");
}
