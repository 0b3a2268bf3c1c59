//! What holds for any text at all. A failing case is printed in its smallest form with its seed, which is kept
//! in `crates/catalog/proptest-regressions` to be tried first ever after.

mod common;

use std::fmt::Write;

use common::{SEED, now, request, resolved};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use tollgate_catalog::parse_policy_set;
use tollgate_catalog::route::{Endpoint, Pattern, Route, Router, Segment};
use tollgate_catalog::snapshot::Snapshot;

fn thorough(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/proptest-regressions/properties.txt"
        )))),
        ..ProptestConfig::default()
    }
}

/// Paths as clients write them who want to get around something.
fn tricky_path() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("/".to_owned()),
        Just("//".to_owned()),
        Just(".".to_owned()),
        Just("..".to_owned()),
        Just("%2e".to_owned()),
        Just("%2E%2e".to_owned()),
        Just("%2f".to_owned()),
        Just("%5c".to_owned()),
        Just("%25".to_owned()),
        Just("%252e".to_owned()),
        Just("%3f".to_owned()),
        Just("%3b".to_owned()),
        Just("%ff".to_owned()),
        Just("\\".to_owned()),
        Just(";".to_owned()),
        Just(";a=b".to_owned()),
        Just("?".to_owned()),
        Just("#".to_owned()),
        "[a-cA-C0-1]{1,3}",
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(part, 0..12).prop_map(|parts| format!("/{}", parts.concat()))
}

/// The path of an endpoint with every byte escaped, so that it can be read again as it is.
fn escaped(endpoint: &Endpoint<'_>) -> String {
    let mut path = String::new();
    for segment in endpoint.segments() {
        path.push('/');
        for byte in segment {
            let _ = write!(path, "%{byte:02X}");
        }
    }
    if path.is_empty() { "/".to_owned() } else { path }
}

fn segments(endpoint: &Endpoint<'_>) -> Vec<Vec<u8>> {
    endpoint.segments().map(<[u8]>::to_vec).collect()
}

proptest! {
    #![proptest_config(thorough(20_000))]

    #[test]
    fn no_text_makes_reading_an_endpoint_panic(text in any::<String>()) {
        let _ = Endpoint::parse(&text);
        let _ = Pattern::parse(&text);
    }

    #[test]
    fn a_normalised_path_is_its_own_normal_form(path in tricky_path()) {
        let Ok(once) = Endpoint::of(Some("GET"), &path) else { return Ok(()) };
        for segment in once.segments() {
            prop_assert!(!segment.is_empty() && segment != b"." && segment != b"..", "{once}");
            prop_assert!(!segment.contains(&b'/') && !segment.contains(&b'\\'), "{once}");
            // One that was an escape is a character like any other.
            prop_assert!(!segment.contains(&b';') || path.to_ascii_lowercase().contains("%3b"), "{once}");
            prop_assert!(!segment.iter().any(u8::is_ascii_uppercase), "{once}");
        }
        let again = escaped(&once);
        let again = Endpoint::of(Some("GET"), &again).unwrap();
        prop_assert_eq!(segments(&again), segments(&once));
        // Without escapes there is nothing to read twice: the shown form is the normal form, too.
        if !path.contains('%') {
            let shown = once.to_string();
            let again = Endpoint::parse(&shown).unwrap();
            prop_assert_eq!(again.to_string(), shown);
        }
    }

    #[test]
    fn case_query_and_slashes_make_no_difference(path in "(/[a-c]{1,2}){0,4}", query in "[?#][a-c/.]{0,5}") {
        let plain = Endpoint::of(None, if path.is_empty() { "/" } else { &path }).unwrap();
        let noisy = format!("/{}/{query}", path.to_uppercase().replace('/', "//./"));
        let noisy = Endpoint::of(None, &noisy).unwrap();
        prop_assert_eq!(segments(&noisy), segments(&plain));
    }

    #[test]
    fn the_router_finds_just_what_comparing_one_by_one_finds(
        patterns in prop::collection::vec("((GET|PUT) )?(/(a|b|\\{x\\})){0,3}(/\\*)?", 0..12),
        endpoint in "((GET|PUT|DELETE) )?(/[abc]){1,4}",
    ) {
        let mut routes: Vec<Route> = Vec::new();
        for pattern in patterns {
            let pattern = if pattern.ends_with([' ', 'T']) || pattern.is_empty() { format!("{pattern}/") } else { pattern };
            if let Ok(Pattern::Route(route)) = Pattern::parse(&pattern) {
                routes.push(route);
            }
        }
        let mut router = Router::default();
        for (number, route) in (0..).zip(&routes) {
            router.add(route, number);
        }
        let endpoint = Endpoint::parse(&endpoint).unwrap();
        let expected: Vec<u32> = (0..).zip(&routes).filter(|(_, route)| fits(route, &endpoint)).map(|(number, _)| number).collect();
        prop_assert_eq!(router.matches(&endpoint).to_vec(), expected);
    }
}

/// Whether a route matches, the slow and obvious way.
fn fits(route: &Route, endpoint: &Endpoint<'_>) -> bool {
    let segments = segments(endpoint);
    let long_enough = if route.open {
        segments.len() >= route.segments.len()
    } else {
        segments.len() == route.segments.len()
    };
    let method = route.method.is_none() || route.method.as_deref() == endpoint.method();
    let mut pairs = route.segments.iter().zip(&segments);
    long_enough
        && method
        && pairs.all(|(wanted, found)| match wanted {
            Segment::Text(text) => text.as_bytes() == found,
            Segment::Param(_) => true,
        })
}

/// A file with something of everything.
const SAMPLE: &str = "tiers: [{tier: Gold}, {tier: Silver}]
orgs:
  - {orgId: acme, tier: Gold, timezone: Europe/Berlin, billingAnchor: 2024-01-31}
  - {orgId: globex, tier: Silver, billingAnchor: 2024-01-31T09:00:00Z}
endpointClasses: [{pattern: \"POST /v1/{x}/*\", class: heavy}]
policies:
  - &base {id: day, scope: org, algorithm: quota, limit: 1000, window: billing_month, timezone: org}
  - {id: rate, orgTier: Gold, scope: [app, ip], limit: 10, burst: 20, window: 1s, ipv4Prefix: 24, resetJitter: 5s}
  - {id: log, scope: key, algorithm: sliding_window_log, limit: 10, window: 1m, match: {region: \"eu*\"}, accuracy: 1.5%}
  - {id: heavy, scope: endpoint, endpointPattern: \"class:heavy\", algorithm: fixed_window, anchor: first, limit: 3, window: 90s}
  - {scope: \"descriptor:region\", requiredScope: write, algorithm: leaky_bucket, limit: 3, window: 1h, mode: shadow}
overrides:
  - {orgId: acme, keyId: k, policyId: day, limit: 5, expiresAt: 2030-01-01T00:00:00Z, reason: because}
  - {orgId: acme, appId: web, policyId: rate, limit: 5}
  - {orgId: globex, userId: u, limit: 5, window: 1h}
";

/// Reads, compiles, and resolves whatever comes of it.
fn survive(text: &str) {
    let Ok(set) = parse_policy_set(text) else { return };
    let Ok(snapshot) = Snapshot::compile(&set, SEED, None) else {
        return;
    };
    for asked in [
        "",
        "acme/web key=k user=u ip=::1 region=eu scope=write POST /v1/a/b",
        "globex user=u",
    ] {
        let asked = request(asked);
        let stack = resolved(&snapshot, &asked, now());
        assert_eq!(stack.levels.len(), stack.limits.len());
        snapshot.explain(&asked, now());
    }
}

#[derive(Debug, Clone)]
enum Edit {
    Remove(usize, usize),
    Insert(usize, String),
    Repeat(usize, usize),
    Swap(usize, usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    let place = || 0..SAMPLE.len();
    let piece = prop_oneof![
        any::<String>(),
        "[-:{}\\[\\],&*!|>'\"%@`#? \n\t0-9a-z]{1,4}",
        Just("*base".to_owned()),
        Just("&x ".to_owned()),
        Just("\n---\n".to_owned()),
        Just("99999999999999999999".to_owned()),
        Just("null".to_owned()),
    ];
    prop_oneof![
        (place(), 0..20_usize).prop_map(|(at, length)| Edit::Remove(at, length)),
        (place(), piece).prop_map(|(at, text)| Edit::Insert(at, text)),
        (place(), 0..80_usize).prop_map(|(at, length)| Edit::Repeat(at, length)),
        (place(), place()).prop_map(|(one, other)| Edit::Swap(one, other)),
    ]
}

fn edited(edits: &[Edit]) -> String {
    let mut text: Vec<char> = SAMPLE.chars().collect();
    for edit in edits {
        let last = text.len().saturating_sub(1);
        match edit {
            Edit::Remove(at, length) => {
                let at = (*at).min(last);
                text.drain(at..(at + length).min(text.len()));
            }
            Edit::Insert(at, piece) => {
                let at = (*at).min(text.len());
                text.splice(at..at, piece.chars());
            }
            Edit::Repeat(at, length) => {
                let at = (*at).min(last);
                let piece: Vec<char> = text.iter().skip(at).take(*length).copied().collect();
                text.splice(at..at, piece);
            }
            Edit::Swap(one, other) if !text.is_empty() => text.swap((*one).min(last), (*other).min(last)),
            Edit::Swap(..) => {}
        }
    }
    text.into_iter().collect()
}

#[test]
fn the_sample_is_right_as_it_stands() {
    let set = parse_policy_set(SAMPLE).unwrap_or_else(|problems| panic!("{problems}"));
    assert!(Snapshot::compile(&set, SEED, None).is_ok());
}

proptest! {
    #![proptest_config(thorough(3_000))]

    #[test]
    fn no_text_makes_reading_a_policy_file_panic(text in any::<String>()) {
        survive(&text);
    }

    #[test]
    fn no_yaml_makes_reading_a_policy_file_panic(text in "[-:{}\\[\\],&*!|>'\"%@`#? \n\ta-c0-1]{0,60}") {
        survive(&text);
    }

    #[test]
    fn no_change_to_a_policy_file_makes_reading_it_panic(edits in prop::collection::vec(edit(), 1..6)) {
        survive(&edited(&edits));
    }
}
