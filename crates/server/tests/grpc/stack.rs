//! Entries that feed Tollgate's own stack, so that Envoy's actions get tiers, overrides and quotas.

use serde_json::json;

use crate::asker::{Asker, codes, descriptor, edge, hits, left};
use crate::common::{Server, file_of, hourly};

const POLICIES: &str = "
orgs: [{orgId: acme, tier: Gold}]
policies:
  - {id: gold, orgTier: Gold, scope: org, algorithm: fixed_window, anchor: first, limit: 8, window: 1h}
  - {id: others, orgTier: default, scope: org, algorithm: fixed_window, anchor: first, limit: 2, window: 1h}
  - {id: key, scope: key, algorithm: fixed_window, anchor: first, limit: 4, window: 1h}
  - {id: exports, scope: [org, user], endpointPattern: 'POST /exports/*', algorithm: fixed_window, anchor: first, limit: 1, window: 1h}
  - {id: net, scope: ip, ipv4Prefix: 24, algorithm: fixed_window, anchor: first, limit: 6, window: 1h}
  - {id: region, scope: 'descriptor:region', match: {domain: edge}, algorithm: fixed_window, anchor: first, limit: 3, window: 1h}
overrides:
  - {orgId: acme, keyId: mobile, policyId: key, limit: 1}
";

#[test]
fn entries_name_org_app_key_user_address_and_endpoint() {
    let server = Server::start(POLICIES, &[]);
    let asker = Asker::of(&server);
    let answer = asker.descriptors(vec![descriptor(&[
        ("org", "acme"),
        ("key", "k1"),
        ("ip", "203.0.113.9"),
    ])]);
    let status = &answer.statuses[0];
    let shown = status.current_limit.as_ref().unwrap();
    assert_eq!(
        (&*shown.name, shown.requests_per_unit, shown.unit),
        ("key", 4, 3),
        "the one with the least left"
    );
    assert_eq!(status.limit_remaining, 3);
    assert_eq!(
        server.left("gold", &json!({"orgId": "acme"})),
        7,
        "over HTTP it is the same count"
    );
    assert_eq!(server.left("net", &json!({"ip": "203.0.113.77"})), 5);

    let export = || {
        vec![descriptor(&[
            ("org", "acme"),
            ("user", "u1"),
            ("endpoint", "POST /Exports//7"),
        ])]
    };
    assert_eq!(asker.codes(export()), (true, vec![true]));
    assert_eq!(asker.codes(export()), (false, vec![false]));
    let mobile = || vec![descriptor(&[("org", "acme"), ("key", "mobile")])];
    assert!(asker.codes(mobile()).0);
    assert!(!asker.codes(mobile()).0, "the override binds");
    let stranger = || vec![descriptor(&[("org", "globex")])];
    assert_eq!(
        [
            asker.codes(stranger()).0,
            asker.codes(stranger()).0,
            asker.codes(stranger()).0
        ],
        [true, true, false]
    );
    let region = descriptor(&[("region", "eu")]);
    assert_eq!(left(&asker.descriptors(vec![region]).statuses[0]), 2);
}

#[test]
fn cost_is_the_price_of_a_hit() {
    let server = Server::start(&file_of(&[hourly("org", "org", 100, "")]), &[]);
    let asker = Asker::of(&server);
    let ask = |entries: &[(&str, &str)], addend: Option<u64>, of_request: u32| {
        let mut descriptor = descriptor(entries);
        if let Some(addend) = addend {
            descriptor = hits(descriptor, addend);
        }
        let mut request = edge(vec![descriptor]);
        request.hits_addend = of_request;
        left(&asker.envoy(request).unwrap().statuses[0])
    };
    assert_eq!(ask(&[("org", "a")], None, 0), 99, "nothing said is one");
    assert_eq!(ask(&[("org", "a")], None, 4), 95);
    assert_eq!(
        ask(&[("org", "a")], Some(5), 4),
        90,
        "the descriptor's own counts"
    );
    assert_eq!(ask(&[("org", "a"), ("cost", "10")], None, 0), 80);
    assert_eq!(ask(&[("org", "a"), ("cost", "10")], Some(2), 0), 60);
    assert_eq!(ask(&[("org", "a")], Some(0), 7), 60, "nothing looks only");
}

#[test]
fn one_refusal_charges_nothing_anywhere() {
    let server = Server::start(
        &file_of(&[
            hourly("org", "org", 9, ""),
            hourly("user", "user", 1, ""),
            hourly("ip", "ip", 5, ""),
        ]),
        &[],
    );
    let asker = Asker::of(&server);
    let ask = |user: &str| {
        asker.descriptors(vec![
            descriptor(&[("ip", "203.0.113.9")]),
            descriptor(&[("org", "acme"), ("user", user)]),
            descriptor(&[("unknown", "x")]),
        ])
    };
    assert_eq!(codes(&ask("u1")), (true, vec![true, true, true]));
    for _ in 0..5 {
        let denied = ask("u1");
        assert_eq!(codes(&denied), (false, vec![true, false, true]));
        assert_eq!(left(&denied.statuses[0]), 4);
        assert_eq!(denied.statuses[1].current_limit.as_ref().unwrap().name, "user");
        assert_eq!(denied.statuses[2].current_limit, None);
    }
    assert_eq!(left(&ask("u2").statuses[0]), 3);
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 7);
}

#[test]
fn a_counter_that_two_descriptors_meet_is_charged_once() {
    let server = Server::start(
        &file_of(&[hourly("org", "org", 9, ""), hourly("user", "user", 9, "")]),
        &[],
    );
    let asker = Asker::of(&server);
    let answer = asker.descriptors(vec![
        descriptor(&[("org", "acme"), ("user", "u1")]),
        hits(descriptor(&[("org", "acme"), ("user", "u2")]), 3),
        descriptor(&[("org", "acme")]),
    ]);
    assert_eq!(codes(&answer), (true, vec![true; 3]));
    assert_eq!(
        server.left("org", &json!({"orgId": "acme"})),
        6,
        "by the most that one of them costs"
    );
    let user = |user: &str| server.left("user", &json!({"orgId": "acme", "userId": user}));
    assert_eq!((user("u1"), user("u2")), (8, 6));
}

/// An error would have Envoy let through whoever sends it.
#[test]
fn an_entry_that_can_not_be_what_it_is_named_after_is_refused() {
    let server = Server::start(&file_of(&[hourly("org", "org", 9, "")]), &[]);
    let asker = Asker::of(&server);
    let long = "x".repeat(257);
    let far = format!("/{}", "x".repeat(8192));
    for (key, value) in [
        ("org", long.as_str()),
        ("key", long.as_str()),
        ("user", "line\nbreak"),
        ("ip", "203.0.113"),
        ("endpoint", "/%zz"),
        ("endpoint", "/a%00"),
        ("endpoint", far.as_str()),
    ] {
        let answer = asker.descriptors(vec![descriptor(&[("org", "acme")]), descriptor(&[(key, value)])]);
        assert_eq!(codes(&answer), (false, vec![true, false]), "{key}");
        let said = String::from_utf8(answer.raw_body).unwrap();
        assert!(said.contains(&format!("descriptors[1]: `{key}` ")), "{said}");
    }
    assert_eq!(
        server.left("org", &json!({"orgId": "acme"})),
        9,
        "nothing was charged"
    );
    // A long query is no part of a path, and what is no path or no number is only a descriptor.
    let query = format!("/a?pad={}", "x".repeat(9_000));
    for (key, value) in [
        ("endpoint", query.as_str()),
        ("endpoint", "checkout"),
        ("cost", "high"),
    ] {
        let answer = asker.descriptors(vec![descriptor(&[("org", "acme"), (key, value)])]);
        assert_eq!(codes(&answer), (true, vec![true]), "{key}: {value}");
    }
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 6);
}
