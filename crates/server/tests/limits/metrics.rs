//! What the server counts of itself.

use serde_json::json;

use crate::common::Server;

const POLICIES: &str = "tiers: [{tier: Gold}]
orgs: [{orgId: acme, tier: Gold}]
endpointClasses: [{pattern: \"POST /v1/exports\", class: heavy}]
policies:
  - {id: org, scope: org, algorithm: fixed_window, anchor: first, limit: 2, window: 1h}
";

#[test]
fn decisions_are_counted_by_outcome_scope_tier_and_class() {
    let server = Server::start(POLICIES, &[]);
    for _ in 0..5 {
        server.check(&json!({"orgId": "acme", "endpoint": "POST /v1/exports"}));
    }
    server.check(&json!({"orgId": "nobody"}));
    let series = |outcome: &str, scope: &str, tier: &str, class: &str| {
        server.counted(&format!(
            "tollgate_decisions_total{{outcome=\"{outcome}\",scope=\"{scope}\",tier=\"{tier}\",class=\"{class}\"}}"
        ))
    };
    let counts = [
        series("allowed", "none", "Gold", "heavy"),
        series("denied", "org", "Gold", "heavy"),
        series("allowed", "none", "default", "none"),
    ];
    assert_eq!(counts, [2, 3, 1]);
    server.check(&json!({"orgId": "nobody", "dryRun": true}));
    let again = series("allowed", "none", "default", "none");
    assert_eq!(again, 1, "a dry run is no decision");
}

/// The buckets of a histogram: bounds as they are written, and counts.
fn buckets(metrics: &str, prefix: &str, labels: &str) -> Vec<(String, u64)> {
    let lines = metrics.lines().filter_map(|line| line.strip_prefix(prefix));
    let lines = lines.filter(|line| line.contains(labels));
    let bucket = |line: &str| {
        let (_, rest) = line.split_once("le=\"").unwrap();
        let (bound, _) = rest.split_once('"').unwrap();
        let (_, count) = line.rsplit_once(' ').unwrap();
        (bound.to_owned(), count.parse().unwrap())
    };
    lines.map(bucket).collect()
}

#[test]
fn times_are_histograms_that_end_in_infinity() {
    let server = Server::start(POLICIES, &[]);
    for _ in 0..7 {
        server.check(&json!({"orgId": "acme"}));
    }
    let metrics = server.metrics();
    for (name, labels) in [
        ("tollgate_decision_seconds", ""),
        ("tollgate_request_seconds", "protocol=\"http\""),
    ] {
        let buckets = buckets(&metrics, &format!("{name}_bucket{{"), labels);
        assert!(buckets.len() > 5, "{name}: {buckets:?}");
        assert_eq!(buckets.last().unwrap(), &("+Inf".to_owned(), 7), "{name}");
        assert!(
            buckets.is_sorted_by_key(|(_, count)| *count),
            "{name}: {buckets:?}"
        );
        let finite = &buckets[..buckets.len() - 1];
        let bounds: Vec<f64> = finite.iter().map(|(bound, _)| bound.parse().unwrap()).collect();
        assert!(bounds.is_sorted(), "{name}: {bounds:?}");
        let braces = if labels.is_empty() {
            String::new()
        } else {
            format!("{{{labels}}}")
        };
        assert_eq!(server.counted(&format!("{name}_count{braces}")), 7, "{name}");
        let sum = metrics
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name}_sum{braces} ")));
        assert!(sum.unwrap().parse::<f64>().unwrap() > 0.0, "{name}");
    }
}

#[test]
fn counters_and_revisions_are_gauges() {
    let server = Server::start(POLICIES, &[]);
    assert_eq!(server.counted("tollgate_counters"), 0);
    for org in ["a", "b", "c"] {
        server.allowed(&json!({"orgId": org}));
    }
    assert_eq!(server.counted("tollgate_counters"), 3);
    assert_eq!(server.counted("tollgate_policy_revision"), 1);
    assert_eq!(server.counted("tollgate_policy_reload_failures_total"), 0);
}

#[test]
fn the_text_is_openmetrics() {
    let server = Server::start(POLICIES, &[]);
    server.check(&json!({"orgId": "acme"}));
    let metrics = server.metrics();
    assert!(metrics.ends_with("# EOF\n"));
    for (name, kind) in [
        ("tollgate_decisions", "counter"),
        ("tollgate_decision_seconds", "histogram"),
        ("tollgate_request_seconds", "histogram"),
        ("tollgate_counters", "gauge"),
        ("tollgate_policy_revision", "gauge"),
    ] {
        assert!(
            metrics.contains(&format!("# TYPE {name} {kind}\n")),
            "{name}: {metrics}"
        );
        assert!(metrics.contains(&format!("# HELP {name} ")), "{name}");
    }
}
