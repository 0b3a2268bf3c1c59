//! What is looked up is what is found by looking at every limit, one after another.

use std::fmt::Write;

use proptest::prelude::*;
use tollgate_core::{KeySeed, Timestamp};

use super::super::{Limit, Snapshot};
use super::index::MANY;
use super::*;
use crate::route::Endpoint;

/// What the limits are for, whom, and until when; of few kinds, so that many are alike.
type Change = (usize, usize, usize);

const KINDS: [&str; 12] = [
    "policyId: each-key, limit: 7",
    "policyId: each-key, limit: 8, mode: shadow",
    "policyId: each-user, limit: 9",
    "policyId: org, limit: 10",
    "policyId: org, limit: 11, endpointPattern: GET /a",
    "policyId: org, limit: 12, endpointPattern: '/{any}/b'",
    "policyId: of-class, limit: 13",
    "policyId: of-class, limit: 14, endpointPattern: /a",
    "policyId: descriptor, mode: off",
    "scope: app, limit: 15, window: 3s",
    "scope: app, limit: 16, window: 3s, endpointPattern: GET /a",
    "scope: app, limit: 17, window: 3s, endpointPattern: 'class:costly', requiredScope: write",
];
const WHO: [&str; 6] = [
    "",
    ", keyId: a",
    ", keyId: b",
    ", userId: a",
    ", appId: a",
    ", appId: b",
];
const ENDS: [&str; 4] = ["", "01", "02", "03"];
const ROUTES: [&str; 5] = ["", "GET /a", "POST /a", "GET /a/b", "/c"];

fn file(changes: &[Change]) -> String {
    let mut file = "endpointClasses: [{class: costly, pattern: /c}, {class: costly, pattern: GET /a}]
orgs: [{orgId: acme}]
policies:
  - {id: each-key, scope: key, limit: 1, window: 1s}
  - {id: each-user, scope: user, limit: 1, window: 1s}
  - {id: org, scope: org, limit: 2, window: 1s}
  - {id: of-class, scope: app, limit: 3, window: 1s, endpointPattern: 'class:costly'}
  - {id: descriptor, scope: org, descriptor: {domain: edge, entries: [{key: a}]}, limit: 4, window: 1s}
overrides:\n"
        .to_owned();
    for (what, who, ends) in changes {
        let expires = match ENDS[*ends] {
            "" => String::new(),
            day => format!(", expiresAt: 2024-07-{day}T00:00:00Z"),
        };
        let _ = writeln!(
            file,
            "  - {{orgId: acme, algorithm: fixed_window, {}{}{expires}}}",
            KINDS[*what], WHO[*who]
        );
    }
    file
}

/// From before the first end until after the last.
fn instants() -> impl Iterator<Item = Timestamp> {
    let day = 86_400_000_000_000;
    let first = 1_719_792_000_000_000_000;
    (0..4)
        .flat_map(move |days| [first + days * day - 1, first + days * day])
        .map(Timestamp::from_nanos)
}

fn requests() -> impl Iterator<Item = Request<'static>> {
    let ids = [None, Some("a"), Some("b"), Some("c")];
    ROUTES.iter().flat_map(move |route| {
        ids.into_iter().flat_map(move |key| {
            ids.into_iter().map(move |app| {
                let mut request = Request::new();
                (request.org, request.key, request.app, request.user) = (Some("acme"), key, app, key);
                request.endpoint = Endpoint::parse(route).ok();
                request
            })
        })
    })
}

fn plain(limits: &OwnLimits) -> OwnLimits {
    OwnLimits {
        index: None,
        ..limits.clone()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_looked_up_is_what_a_scan_finds(
        changes in prop::collection::vec((0..KINDS.len(), 0..WHO.len(), 0..ENDS.len()), 2 * MANY..6 * MANY),
    ) {
        let set = crate::parse_policy_set(&file(&changes)).unwrap();
        let snapshot = Snapshot::compile(&set, KeySeed::new(1, 2), None).unwrap();
        let catalogue = &*snapshot.catalogue;
        let mut met = 0;
        for request in requests() {
            let (mut ids, mut matched) = (catalogue.ids(&request), Matched::default());
            let lookup = catalogue.look_up(&mut ids, &mut matched);
            let (org, common) = (lookup.org, lookup.common);
            prop_assert!(org.replacements.index.is_some() || org.replacements.terms.len() < MANY);
            let scanned = [plain(&org.replacements), plain(&org.extras)];
            let place = |own: OwnLimit<'_>| std::ptr::from_ref(own.terms);
            for now in instants() {
                for base in 0..5 {
                    let found = org.replacements.first(base, &request, now).map(place);
                    prop_assert_eq!(found, scanned[0].first(base, &request, now).map(place));
                }
                let all = |limits: &OwnLimits| limits.counting(&request, now, common).map(place).collect::<Vec<_>>();
                prop_assert_eq!(all(&org.extras), all(&scanned[1]));
                let on = lookup.matched;
                let applies = |limit: &Limit| {
                    limit.applies(&request, lookup.ids, lookup.matched, lookup.place).is_ok()
                };
                let met_on = |limits: &OwnLimits| {
                    let met = limits.on(on, &request, now, common).into_iter();
                    met.filter(|own| applies(own.limit(common))).map(place).collect::<Vec<_>>()
                };
                let every = |limits: &OwnLimits| {
                    let met = limits.counting(&request, now, common);
                    met.filter(|own| applies(own.limit(common))).map(place).collect::<Vec<_>>()
                };
                let found = met_on(&org.extras);
                prop_assert_eq!(&found, &met_on(&scanned[1]));
                prop_assert_eq!(&found, &every(&scanned[1]));
                met += found.len();
            }
        }
        prop_assert!(met > 0);
    }
}
