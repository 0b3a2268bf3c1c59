//! JSON bodies are read by the readers of policy files: the same words mean the same, and the same is refused.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fmt::Debug;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use serde_json::{Value as Json, json};
use tollgate_catalog::document::{Fields, Node, Problems, parse_yaml};
use tollgate_catalog::model::{EndpointClass, Org, Override, Policy};
use tollgate_catalog::parse_policy_set;

/// Reads a node as the control plane reads a body: at the path "", and whole or not at all.
fn read<T>(
    node: &Node,
    reader: impl Fn(Fields<'_>, &mut Problems) -> Option<T>,
) -> Result<Option<T>, Problems> {
    let mut problems = Problems::default();
    let fields = Fields::of(node, "", &mut problems);
    let thing = fields.and_then(|fields| reader(fields, &mut problems));
    if problems.0.is_empty() {
        Ok(thing)
    } else {
        Err(problems)
    }
}

/// What is read from YAML and from JSON, shown without lines, is the same and is something.
fn assert_same<T: Debug>(
    yaml: &str,
    json: &Json,
    reader: impl Fn(Fields<'_>, &mut Problems) -> Option<T>,
    without_line: impl Fn(&mut T),
) {
    let shown = |node: &Node| {
        let thing = read(node, &reader).unwrap_or_else(|problems| panic!("{problems}\n{json}\n{yaml}"));
        let mut thing = thing.expect("something to be read");
        without_line(&mut thing);
        format!("{thing:#?}")
    };
    assert_eq!(
        shown(&Node::from_json(json)),
        shown(&parse_yaml(yaml).unwrap()),
        "{yaml}"
    );
}

/// What was read from JSON and is written anew reads as the same.
fn assert_written<T: Debug>(
    json: &Json,
    reader: impl Fn(Fields<'_>, &mut Problems) -> Option<T>,
    written: impl Fn(&T) -> serde_json::Map<String, Json>,
) {
    let parsed = |json: &Json| read(&Node::from_json(json), &reader).unwrap().expect("something");
    let thing = parsed(json);
    let again = Json::Object(written(&thing));
    assert_eq!(format!("{:#?}", parsed(&again)), format!("{thing:#?}"), "{again}");
    // Nothing of it is left out.
    for (name, value) in json
        .as_object()
        .unwrap()
        .iter()
        .filter(|(_, value)| !value.is_null())
    {
        assert!(
            again.get(name).is_some(),
            "{name}, which is {value}, is not in {again}"
        );
    }
}

/// What is wrong with a JSON body.
fn problems_of<T>(json: &Json, reader: impl Fn(Fields<'_>, &mut Problems) -> Option<T>) -> String {
    match read(&Node::from_json(json), reader) {
        Ok(_) => panic!("nothing is wrong with {json}"),
        Err(problems) => problems.to_string(),
    }
}

#[test]
fn a_policy_is_the_same_from_json_as_from_yaml() {
    for (yaml, json) in [
        ("{limit: 5, window: 1m}", json!({"limit": 5, "window": "1m"})),
        (
            "{id: null, orgTier: ~, limit: 5, window: 1m}",
            json!({"id": null, "orgTier": null, "limit": 5, "window": "1m"}),
        ),
        (
            "{id: a.b, orgTier: Gold, scope: [org, 'descriptor:model'], endpointPattern: POST /v1/items/*, \
             requiredScope: items, match: {model: big*, size: 7}, algorithm: token_bucket, limit: 100, \
             burst: 200, window: 1m, counter: items, unit: tokens, failMode: closed, mode: enforce, \
             accuracy: 5%, resetJitter: 2s, expose: true, ipv4Prefix: 24, ipv6Prefix: 64}",
            json!({
                "id": "a.b", "orgTier": "Gold", "scope": ["org", "descriptor:model"],
                "endpointPattern": "POST /v1/items/*", "requiredScope": "items",
                "match": {"model": "big*", "size": 7}, "algorithm": "token_bucket", "limit": 100,
                "burst": 200, "window": "1m", "counter": "items", "unit": "tokens", "failMode": "closed",
                "mode": "enforce", "accuracy": "5%", "resetJitter": "2s", "expose": true, "ipv4Prefix": 24,
                "ipv6Prefix": 64
            }),
        ),
        (
            "{limit: 0, window: month, timezone: org, scope: app+user, mode: shadow, expose: false}",
            json!({
                "limit": 0, "window": "month", "timezone": "org", "scope": "app+user", "mode": "shadow",
                "expose": false
            }),
        ),
        (
            "{algorithm: fixed_window, anchor: first, limit: 1, window: 1h, mode: off, expose: 'true'}",
            json!({
                "algorithm": "fixed_window", "anchor": "first", "limit": 1, "window": "1h", "mode": "off",
                "expose": "true"
            }),
        ),
        (
            "{algorithm: quota, window: day, limit: 3, timezone: Asia/Tokyo, accuracy: exact, failMode: open, mode: soft}",
            json!({
                "window": "day", "limit": 3, "timezone": "Asia/Tokyo", "accuracy": "exact", "failMode": "open",
                "mode": "soft", "algorithm": "quota"
            }),
        ),
        (
            "{window: 90s, limit: 3, scope: global, endpointPattern: 'class:heavy', accuracy: 2.50%, resetJitter: 1500ms}",
            json!({
                "window": "90s", "limit": 3, "scope": "global", "endpointPattern": "class:heavy",
                "accuracy": "2.5%", "resetJitter": "1500ms"
            }),
        ),
        (
            "{window: 1d, limit: 3, accuracy: 0.07%}",
            json!({"window": "1d", "limit": 3, "accuracy": "0.07%"}),
        ),
    ] {
        assert_same(yaml, &json, Policy::read, |policy| policy.line = 0);
        // How it counts is said, so that it would be read as something said.
        let mut json = json;
        if let Json::Null = json["algorithm"] {
            let quota = json["window"] == "month";
            json["algorithm"] = json!(if quota { "quota" } else { "token_bucket" });
        }
        assert_written(&json, Policy::read, Policy::written);
    }
}

#[test]
fn an_org_is_the_same_from_json_as_from_yaml() {
    for (yaml, json) in [
        ("{orgId: acme}", json!({"orgId": "acme"})),
        ("{orgId: 5}", json!({"orgId": 5})),
        ("{orgId: '5'}", json!({"orgId": "5"})),
        ("{orgId: 'null'}", json!({"orgId": "null"})),
        (
            "{orgId: acme, tier: Gold, timezone: Europe/Berlin, billingAnchor: 2024-01-31}",
            json!({
                "orgId": "acme", "tier": "Gold", "timezone": "Europe/Berlin", "billingAnchor": "2024-01-31"
            }),
        ),
        (
            "{orgId: acme, timezone: UTC, billingAnchor: 2024-01-31T09:00:00Z}",
            json!({"orgId": "acme", "timezone": "UTC", "billingAnchor": "2024-01-31T09:00:00Z"}),
        ),
    ] {
        assert_same(yaml, &json, Org::read, |org| org.line = 0);
        assert_written(&json, Org::read, Org::written);
    }
}

#[test]
fn an_override_is_the_same_from_json_as_from_yaml() {
    for (yaml, json) in [
        (
            "{orgId: acme, appId: web, scope: app, mode: off}",
            json!({"orgId": "acme", "appId": "web", "scope": "app", "mode": "off"}),
        ),
        (
            "{orgId: acme, userId: u, policyId: p, algorithm: fixed_window, anchor: epoch, unit: tokens}",
            json!({
                "orgId": "acme", "userId": "u", "policyId": "p", "algorithm": "fixed_window", "anchor": "epoch",
                "unit": "tokens"
            }),
        ),
        (
            "{orgId: acme, policyId: p, limit: 7}",
            json!({"orgId": "acme", "policyId": "p", "limit": 7}),
        ),
        (
            "{orgId: acme, keyId: k1, scope: org+key, endpointPattern: /v1/*, requiredScope: items, \
             window: 1m, limit: 9, mode: soft, expiresAt: 2024-07-15T00:00:00Z, reason: a launch}",
            json!({
                "orgId": "acme", "keyId": "k1", "scope": "org+key", "endpointPattern": "/v1/*",
                "requiredScope": "items", "window": "1m", "limit": 9, "mode": "soft",
                "expiresAt": "2024-07-15T00:00:00Z", "reason": "a launch"
            }),
        ),
    ] {
        assert_same(yaml, &json, Override::read, |o| o.line = 0);
        assert_written(&json, Override::read, Override::written);
    }
}

#[test]
fn an_endpoint_class_is_the_same_from_json_as_from_yaml() {
    let json = json!({"pattern": "GET /v1/search/*", "class": "search"});
    assert_same(
        "{pattern: GET /v1/search/*, class: search}",
        &json,
        EndpointClass::read,
        |_| {},
    );
    let file = "endpointClasses: [{pattern: GET /v1/search/*, class: search}]";
    let set = parse_policy_set(file).unwrap();
    let class = read(&Node::from_json(&json), EndpointClass::read).unwrap();
    assert_eq!(class.as_slice(), set.endpoint_classes);
    assert_eq!(
        problems_of(&json!({"pattern": ["/a"], "class": {}}), EndpointClass::read),
        "pattern: must be text, not a list\nclass: must be text, not a mapping"
    );
}

#[test]
fn numbers_that_are_not_whole_are_refused_as_in_yaml() {
    let refused = [
        "1.5",
        "-1",
        "1e3",
        "5.0",
        "-0",
        "18446744073709551616",
        "\"5\"",
        "\"\"",
        "true",
        "[5]",
    ];
    for number in refused {
        let body = format!("{{\"limit\": {number}, \"window\": \"1m\"}}");
        let said = problems_of(&serde_json::from_str(&body).unwrap(), Policy::read);
        assert!(
            said.starts_with("limit: must be a whole number from 0 to "),
            "{body}: {said}"
        );
        let from_yaml = read(&parse_yaml(&body).unwrap(), Policy::read).unwrap_err();
        assert_eq!(format!("line 1: {said}"), from_yaml.to_string(), "{body}");
    }
}

#[test]
fn what_is_wrong_with_a_body_names_the_field_and_no_line() {
    for (body, said) in [
        (json!({"window": "1m"}), "limit: is missing"),
        (json!({"limit": null, "window": "1m"}), "limit: is missing"),
        (
            json!({"limit": 5, "window": ["1m"]}),
            "window: must be text, not a list",
        ),
        (
            json!({"limit": 5, "window": {}}),
            "window: must be text, not a mapping",
        ),
        (json!({"limit": 5, "window": ""}), "window: must not be empty"),
        (
            json!({"limit": 5, "window": "1m", "mode": true}),
            "mode: `true` is not one of enforce, shadow, soft, off",
        ),
        (
            json!({"limit": 5, "window": "1m", "expose": 1}),
            "expose: `1` is not one of true, false",
        ),
        (
            json!({"limit": 5, "window": "1m", "scope": {"org": true}}),
            "scope: must be a name or a list of names",
        ),
        (
            json!({"limit": 5, "window": "1m", "scope": ["org", ["app"]]}),
            "scope: must be a list of names",
        ),
        (
            json!({"limit": 5, "window": "1m", "match": "model"}),
            "match: must be a mapping of names to values, not a single value",
        ),
        (
            json!({"limit": 5, "window": "1m", "match": {"model": ["big"]}}),
            "match.model: must be text",
        ),
        (
            json!({"limit": 5, "windw": "1m", "window": "1m"}),
            "windw: is not a known field; did you mean `window`?",
        ),
        (json!(["limit"]), "must be a mapping, not a list"),
        (json!(null), "must be a mapping, not a single value"),
    ] {
        assert_eq!(problems_of(&body, Policy::read), said, "{body}");
    }
    assert_eq!(
        problems_of(&json!({"orgId": ""}), Org::read),
        "orgId: must not be empty"
    );
    assert_eq!(
        problems_of(&json!({"orgId": "a", "tier": []}), Org::read),
        "tier: must be text, not a list"
    );
    assert_eq!(
        problems_of(&json!({"orgId": "a", "limit": "7"}), Override::read)
            .split(" from")
            .next(),
        Some("limit: must be a whole number")
    );
}

#[test]
fn a_file_is_shown_as_json_by_what_its_words_look_like() {
    let yaml = "{a: 5, b: '5', c: true, d: 'true', e: ~, f: null, g: , h: '', i: 'null', j: -3, k: 1.5, l: 1m, \
                m: 007, n: +5, o: 18446744073709551615, p: 18446744073709551616, q: -9223372036854775808, \
                r: -9223372036854775809, s: -0, t: True, u: [1, x, [false]], v: {}, w: []}";
    let shown = parse_yaml(yaml).unwrap().to_json();
    let expected = json!({
        "a": 5, "b": "5", "c": true, "d": "true", "e": null, "f": null, "g": null, "h": "", "i": "null",
        "j": -3, "k": "1.5", "l": "1m", "m": "007", "n": "+5", "o": u64::MAX, "p": "18446744073709551616",
        "q": i64::MIN, "r": "-9223372036854775809", "s": "-0", "t": "True", "u": [1, "x", [false]], "v": {},
        "w": []
    });
    assert_eq!(shown, expected);
}

/// Strings that look like something else, and any others.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "", "~", "null", "true", "false", "0", "5", "-1", "1.5", "1e3", "007"
        ])
        .prop_map(str::to_owned),
        ".{0,12}",
    ]
}

/// A JSON value without numbers that are not whole.
fn value() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        text().prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::from),
            prop::collection::btree_map(text(), inner, 0..6).prop_map(|items| items.into_iter().collect()),
        ]
    })
}

fn object() -> impl Strategy<Value = Json> {
    prop::collection::btree_map(text(), value(), 0..6).prop_map(|items| items.into_iter().collect())
}

fn thorough() -> ProptestConfig {
    ProptestConfig {
        cases: 1_000,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/proptest-regressions/json_nodes.txt"
        )))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(thorough())]

    #[test]
    fn json_made_into_a_node_and_back_is_the_same(object in object()) {
        prop_assert_eq!(Node::from_json(&object).to_json(), object);
    }
}
