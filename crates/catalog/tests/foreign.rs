//! Other limiters' configuration as policies.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tollgate_catalog::foreign::{ForeignFile, Imported, Unread, is_envoy, read_envoy, read_limitador};
use tollgate_catalog::parse_policy_set;

type Reader = fn(&[ForeignFile<'_>]) -> Result<Imported, Unread>;

fn read(reader: Reader, text: &str) -> Result<Imported, Unread> {
    reader(&[ForeignFile {
        name: "file.yaml",
        text,
    }])
}

/// The policies as documents, which read as the same again.
fn documents(imported: &Imported) -> Vec<Value> {
    let documents: Vec<Value> = imported
        .policies
        .iter()
        .map(|policy| policy.written().into())
        .collect();
    let lines: Vec<String> = documents
        .iter()
        .map(|document| format!("  - {document}\n"))
        .collect();
    let again = parse_policy_set(&format!("policies:\n{}", lines.concat())).unwrap();
    let again: Vec<Value> = again
        .policies
        .iter()
        .map(|policy| policy.written().into())
        .collect();
    assert_eq!(again, documents);
    documents
}

fn notes(imported: &Imported) -> Vec<(usize, String)> {
    let all = imported.notes.iter().flat_map(|(_, notes)| &notes.0);
    all.map(|note| (note.line, note.field.clone())).collect()
}

fn problem(reader: Reader, text: &str) -> (usize, String, String) {
    let Err(Unread(files)) = read(reader, text) else {
        panic!("it is read: {text}");
    };
    let problem = files[0].1.0[0].clone();
    (problem.line, problem.field, problem.message)
}

#[test]
fn units_become_windows_from_the_epoch() {
    let units = [
        ("second", "1s"),
        ("MINUTE", "1m"),
        ("hour", "1h"),
        ("day", "1d"),
        ("week", "7d"),
        ("month", "30d"),
        ("Year", "365d"),
    ];
    for (unit, window) in units {
        let text = format!(
            "domain: d\ndescriptors: [{{key: k, rate_limit: {{unit: {unit}, requests_per_unit: 7}}}}]"
        );
        let documents = documents(&read(read_envoy, &text).unwrap());
        assert_eq!(
            documents,
            [json!({
                "id": "d.k", "orgTier": "*", "scope": "descriptor:k", "endpointPattern": "*", "algorithm": "fixed_window",
                "descriptor": {"domain": "d", "entries": [{"key": "k"}]}, "limit": 7, "window": window,
            })]
        );
    }
}

#[test]
fn nested_descriptors_are_counted_by_what_is_not_given() {
    let text = "
domain: d
descriptors:
  - key: a
    value: one
    rate_limit: {unit: day, requests_per_unit: 1, name: outer}
    descriptors:
      - key: b
        descriptors:
          - key: c
            value: x*
            rate_limit: {unit: day, requests_per_unit: 2, replaces: [{name: outer}]}
          - key: c
            value: y*
            share_threshold: true
            quota_mode: true
            rate_limit: {unit: day, requests_per_unit: 3}
          - {key: b, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 4}}
          - {key: domain, rate_limit: {unlimited: true}}
";
    let documents = documents(&read(read_envoy, text).unwrap());
    let said: Vec<(&str, &str, &Value)> = documents
        .iter()
        .map(|one| {
            (
                one["id"].as_str().unwrap(),
                one["scope"].as_str().unwrap(),
                &one["limit"],
            )
        })
        .collect();
    assert_eq!(
        said,
        [
            ("outer", "global", &json!(1)),
            ("d.a.one.b.c.x.", "descriptor:b+descriptor:c", &json!(2)),
            ("d.a.one.b.c.y.", "descriptor:b", &json!(3)),
            ("d.a.one.b.b", "descriptor:b+descriptor:b#2", &json!(4)),
            (
                "d.a.one.b.domain",
                "descriptor:b+descriptor:domain#2",
                &json!(999_999_999_999_999_u64)
            ),
        ]
    );
    assert_eq!(documents[0]["expose"], true);
    assert_eq!(documents[1]["replaces"], json!(["outer"]));
    assert_eq!(documents[2]["quotaMode"], true);
    assert_eq!(documents[3]["mode"], "shadow");
    assert_eq!(documents[4]["mode"], "off");
}

/// Ids and the names of counts, by the descriptor that they are for.
fn names(descriptors: &[&str]) -> BTreeMap<String, (String, String)> {
    let text = format!("domain: d\ndescriptors:\n  - {}", descriptors.join("\n  - "));
    let documents = documents(&read(read_envoy, &text).unwrap());
    let named = documents.iter().map(|one| {
        let id = one["id"].as_str().unwrap();
        let counter = one["counter"].as_str().unwrap_or(id);
        (one["descriptor"].to_string(), (id.to_owned(), counter.to_owned()))
    });
    named.collect()
}

#[test]
fn counts_follow_descriptors_wherever_these_stand_and_whatever_they_are_called() {
    let long = "/api/v1/organizations/settings/integrations/webhooks/deliveries/attempts/history/by-month/exports/reports";
    let limit = "unit: day, requests_per_unit: 5";
    let of =
        |value: &str, name: &str| format!("{{key: path, value: '{value}', rate_limit: {{{limit}{name}}}}}");
    let many = [
        of("/a/", ""),
        of("/a/*", ""),
        of("/a", ""),
        of("a", ""),
        of("a.b", ""),
        of("a:b", ""),
        of(&format!("{long}/a"), ""),
        of(&format!("{long}/b"), ""),
        of("free", ", name: plan"),
        of("trial", ", name: plan"),
        of("gold", ", name: d.path.a"),
        format!("{{key: path, descriptors: [{{key: a, rate_limit: {{{limit}}}}}]}}"),
        format!("{{key: path.a, rate_limit: {{{limit}}}}}"),
    ];
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let all = names(&many);
    let distinct = |which: fn(&(String, String)) -> &String| all.values().map(which).collect::<BTreeSet<_>>();
    assert_eq!(distinct(|(id, _)| id).len(), many.len(), "{all:#?}");
    assert_eq!(distinct(|(_, counter)| counter).len(), many.len(), "{all:#?}");
    let back: Vec<&str> = many.iter().rev().copied().collect();
    assert_eq!(names(&back), all, "the order is nothing");
    for alone in &many {
        for (descriptor, (_, counter)) in names(&[*alone]) {
            assert_eq!(counter, all[&descriptor].1, "others are nothing");
        }
    }
}

#[test]
fn in_a_file_of_its_own_a_count_goes_by_its_policy() {
    let limit = "rate_limit: {unit: day, requests_per_unit: 5, name: plan}";
    let text = format!("domain: d\ndescriptors: [{{key: a, {limit}}}, {{key: b, {limit}}}]");
    let imported = read(read_envoy, &text).unwrap();
    assert!(
        imported
            .policies
            .iter()
            .all(|policy| policy.values.counter.is_some())
    );
    let imported = imported.counted_by_id();
    let ids: BTreeSet<&str> = imported
        .policies
        .iter()
        .map(|policy| policy.id.as_str())
        .collect();
    assert_eq!(ids.len(), 2);
    assert!(
        imported
            .policies
            .iter()
            .all(|policy| policy.values.counter.is_none())
    );
    let mut shared = read(read_envoy, &text).unwrap();
    for policy in &mut shared.policies {
        policy.values.counter = Some("both".to_owned());
    }
    let shared = shared.counted_by_id();
    let kept = shared
        .policies
        .iter()
        .all(|policy| policy.values.counter.as_deref() == Some("both"));
    assert!(kept, "what is counted together stays so");
}

#[test]
fn ids_are_as_short_as_they_can_be() {
    let limit = "unit: day, requests_per_unit: 5";
    for (descriptor, id) in [
        (
            format!("{{key: plan, value: free, rate_limit: {{{limit}}}}}"),
            "d.plan.free",
        ),
        (
            format!("{{key: plan, rate_limit: {{{limit}, name: Plans}}}}"),
            "Plans",
        ),
        (
            format!("{{key: path, value: /a/b, rate_limit: {{{limit}}}}}"),
            "d.path.a.b",
        ),
    ] {
        assert_eq!(names(&[&descriptor]).into_values().next().unwrap().0, id);
    }
}

#[test]
fn what_has_no_place_here_is_listed() {
    let text = "
domain: d
descriptors:
  - key: a
    detailed_metric: true
    value_to_metric: true
    metadata: {any: [thing]}
    rate_limit: {unit: day, requests_per_unit: 1, shadow_mode: true, replaces: [{name: nobody}]}
";
    let imported = read(read_envoy, text).unwrap();
    let mut listed = notes(&imported);
    listed.sort();
    let place = |line, field: &str| (line, field.to_owned());
    assert_eq!(
        listed,
        [
            place(5, "descriptors[0].detailed_metric"),
            place(6, "descriptors[0].value_to_metric"),
            place(7, "descriptors[0].metadata"),
            place(8, "descriptors[0].rate_limit.shadow_mode"),
            place(8, "replaces"),
        ]
    );
}

#[test]
fn what_upstream_refuses_is_refused_with_its_place() {
    for (text, line, field, message) in [
        ("descriptors: []", 1, "domain", "is missing"),
        ("domain: ''", 1, "domain", "must not be empty"),
        ("domain: d\nsurprise: 1", 2, "surprise", "is not a known field"),
        (
            "domain: d\ndescriptors: [{value: x}]",
            2,
            "descriptors[0].key",
            "is missing",
        ),
        (
            "domain: d\ndescriptors:\n  - {key: a}\n  - {key: a}",
            4,
            "descriptors[1].key",
            "stands here twice with the same value",
        ),
        (
            "domain: d\ndescriptors: [{key: a, rate_limit: {unit: fortnight}}]",
            2,
            "descriptors[0].rate_limit.unit",
            "`fortnight` is not one of second, minute, hour, day, week, month, year",
        ),
        (
            "domain: d\ndescriptors: [{key: a, rate_limit: {requests_per_unit: 1}}]",
            2,
            "descriptors[0].rate_limit.unit",
            "is missing",
        ),
        (
            "domain: d\ndescriptors: [{key: a, rate_limit: {unlimited: true, unit: day}}]",
            2,
            "descriptors[0].rate_limit.unit",
            "means nothing to what is unlimited",
        ),
        (
            "domain: d\ndescriptors: [{key: a, value: b, share_threshold: true}]",
            2,
            "descriptors[0].share_threshold",
            "means nothing but for a value with `*`",
        ),
        (
            "domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, name: n, replaces: [{name: n}]}}]",
            2,
            "descriptors[0].rate_limit.replaces[0].name",
            "is the limit's own",
        ),
        (
            "domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, replaces: [{}]}}]",
            2,
            "descriptors[0].rate_limit.replaces[0].name",
            "is missing",
        ),
        (
            "domain: d\ndescriptors: [text]",
            2,
            "descriptors[0]",
            "must be a mapping, not a single value",
        ),
        (
            "domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 5000000000}}]",
            2,
            "descriptors[0].rate_limit.requests_per_unit",
            "must be a whole number from 0 to 4294967295",
        ),
    ] {
        let found = problem(read_envoy, text);
        assert_eq!((found.0, found.1.as_str()), (line, field), "{text}: {found:?}");
        assert!(found.2.starts_with(message), "{text}: {found:?}");
    }
}

#[test]
fn two_files_can_not_have_one_domain() {
    let file = |name| ForeignFile {
        name,
        text: "domain: d",
    };
    let Err(Unread(files)) = read_envoy(&[file("a.yaml"), file("b.yaml")]) else {
        panic!("both are read");
    };
    assert_eq!(files[0].0, "b.yaml");
    assert_eq!(files[0].1.0[0].message, "`d` is the domain of a.yaml already");
}

#[test]
fn limits_of_limitador_become_policies() {
    let text = "
- namespace: shop
  max_value: 1000
  seconds: 60
  conditions:
  variables:
- namespace: shop
  name: Logins of a user
  max_value: 5
  seconds: 90
  conditions:
    - descriptors[0]['req.method'] == 'POST'
    - descriptors[0].path.startsWith('/login')
  variables: [\"descriptors[0]['user.id']\"]
- {namespace: shop, id: second, max_value: 3, seconds: 1, conditions: [\"descriptors[1].a == 'x'\"], variables: [\"descriptors[1].b\"]}
- {namespace: shop, max_value: 3, seconds: 1, conditions: [\"descriptors[0].a != 'x'\"], variables: []}
- {namespace: shop, max_value: 3, seconds: 1, conditions: [\"descriptors[0].a == 'x'\"], variables: [\"descriptors[1].b\"]}
- {namespace: shop, max_value: 3, seconds: 1, conditions: [], variables: [\"descriptors[0].a + 'x'\"]}
";
    let imported = read(read_limitador, text).unwrap();
    let documents = documents(&imported);
    let fixed = |id: &str, scope: &str, conditions: Value, limit: u64, window: &str| {
        let mut document = json!({
            "id": id, "orgTier": "*", "scope": scope, "endpointPattern": "*", "algorithm": "fixed_window",
            "match": conditions, "limit": limit, "window": window, "anchor": "first",
        });
        if scope == "global" {
            document["expose"] = true.into();
        }
        document
    };
    assert_eq!(
        documents,
        [
            fixed("shop.60s", "global", json!({"domain": "shop"}), 1000, "1m"),
            fixed(
                "Logins.of.a.user",
                "descriptor:user.id",
                json!({"domain": "shop", "req.method": "POST", "path": "/login*"}),
                5,
                "90s"
            ),
            fixed(
                "second",
                "descriptor:b",
                json!({"domain": "shop", "a": "x"}),
                3,
                "1s"
            ),
        ]
    );
    let lines: Vec<usize> = notes(&imported).into_iter().map(|(line, _)| line).collect();
    assert_eq!(
        lines,
        [15, 16, 17, 18],
        "one is for any descriptor, three could not be carried over"
    );
    assert_eq!(imported.dropped, 3);
}

#[test]
fn conditions_that_can_not_stand_together_are_not_carried_over() {
    let limit = |conditions: &str| {
        format!(
            "- {{namespace: shop, max_value: 3, seconds: 1, conditions: [{conditions}], variables: []}}\n"
        )
    };
    for conditions in [
        "\"descriptors[0].path == '/v1/pay'\", \"descriptors[0].path.startsWith('/')\"",
        "\"descriptors[0].path.startsWith('/') && descriptors[0].path == '/v1/pay'\"",
        "\"descriptors[0].path == 'a'\", \"descriptors[0].path == 'b'\"",
        "\"descriptors[0].domain == 'other'\"",
    ] {
        let imported = read(read_limitador, &limit(conditions)).unwrap();
        assert!(imported.policies.is_empty(), "{conditions}");
        assert_eq!(notes(&imported), [(1, "[0]".to_owned())], "{conditions}");
    }
    let twice =
        "\"descriptors[0].domain == 'shop'\", \"descriptors[0].a == 'x'\", \"descriptors[0].a == 'x'\"";
    let imported = read(read_limitador, &limit(twice)).unwrap();
    assert!(notes(&imported).is_empty());
    assert_eq!(
        documents(&imported)[0]["match"],
        json!({"domain": "shop", "a": "x"}),
        "the same twice is once"
    );
}

#[test]
fn what_is_no_file_of_limitador_is_refused() {
    for (text, field) in [
        ("namespace: a", ""),
        ("- {namespace: a, max_value: 1}", "[0].seconds"),
        ("- {namespace: a, max_value: 1, seconds: 0}", "[0].seconds"),
        ("- {namespace: a, max_value: -1, seconds: 1}", "[0].max_value"),
        (
            "- {namespace: a, max_value: 1, seconds: 1, limit: 2}",
            "[0].limit",
        ),
        (
            "- {namespace: a, max_value: 1, seconds: 1, conditions: x}",
            "[0].conditions",
        ),
    ] {
        assert_eq!(problem(read_limitador, text).1, field, "{text}");
    }
}

#[test]
fn only_what_has_a_domain_and_none_of_our_lists_is_taken_for_envoys() {
    for (file, envoys) in [
        ("domain: edge\n", true),
        ("domain: edge\ndescriptors: []\n", true),
        ("domain: edge\ndescriptors: []\ndescriptors: []\n", true),
        ("policies: []\n", false),
        ("domain: edge\npolicies: []\n", false),
        ("domain: edge\noverrides:\n", false),
        ("- domain\n", false),
        ("", false),
    ] {
        assert_eq!(is_envoy(file), envoys, "{file:?}");
    }
}
