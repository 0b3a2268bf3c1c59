//! One check and a stack of three, beside governor and limitador.

use std::collections::HashMap;
use std::hint::black_box;
use std::num::NonZeroU32;

use governor::{Quota, RateLimiter};
use limitador::limit::{Context, Expression, Limit, Namespace, Predicate};
use tollgate::clock;
use tollgate::engine::{Checked, Engine};
use tollgate_catalog::Request;
use tollgate_catalog::document::parse_policy_set;
use tollgate_core::KeySeed;
use tollgate_counters::Commit;

use crate::rounds::{Shuffled, measure, pin};

const KEYS: usize = 100_000;
/// It gets fewer operations a round, so that rounds stay short.
const LIMITADOR_SLOWER: usize = 20;

pub(crate) const ONE: &str =
    "policies: [{id: key, scope: key, algorithm: token_bucket, limit: 1000000, window: 1s}]";
pub(crate) const THREE: &str = "
policies:
  - {id: key, scope: key, algorithm: token_bucket, limit: 1000000, window: 1s}
  - {id: app, scope: app, algorithm: token_bucket, limit: 100000000, window: 1s}
  - {id: org, scope: org, algorithm: token_bucket, limit: 1000000000, window: 1s}
";

pub(crate) fn engine(policies: &str) -> Engine {
    let set = parse_policy_set(policies).expect("the benchmark's policies are valid");
    Engine::new(&set, KeySeed::new(3, 4), usize::MAX, false).expect("the benchmark's policies compile")
}

pub(crate) fn run() {
    pin(0);
    clock::count();
    let keys: Vec<String> = (0..KEYS).map(|n| format!("key-{n:08}")).collect();
    let quota = Quota::per_second(NonZeroU32::new(1_000_000).expect("not zero"));
    let governor = RateLimiter::keyed(quota);
    let (one, three) = (engine(ONE), engine(THREE));
    let limitador = limitador();
    let namespace = Namespace::from("bench");
    // Made beforehand: limitador's own way of passing values is not what is compared.
    let contexts: Vec<Context<'_>> = keys
        .iter()
        .map(|key| {
            let pairs = [("org", "acme"), ("app", "web"), ("key", key)];
            Context::from(HashMap::from(
                pairs.map(|(name, value)| (name.to_owned(), value.to_owned())),
            ))
        })
        .collect();
    let mut order = [Shuffled::new(), Shuffled::new(), Shuffled::new(), Shuffled::new()];
    let [of_governor, of_one, of_three, of_limitador] = &mut order;
    let results = measure(
        100_000,
        vec![
            (
                "governor, one keyed check",
                Box::new(|n| {
                    for _ in 0..n {
                        let key = &keys[of_governor.below(KEYS)];
                        let _ = black_box(governor.check_key(key));
                    }
                }),
            ),
            (
                "tollgate, one token bucket",
                Box::new(|n| {
                    let snapshot = one.snapshot();
                    for _ in 0..n {
                        let request = Request {
                            org: Some("acme"),
                            key: Some(&keys[of_one.below(KEYS)]),
                            ..Request::new()
                        };
                        let mut checked = Checked::blank(&snapshot, clock::now());
                        let decided = one.check_into(&snapshot, &request, Commit::Charge, &mut checked);
                        assert!(decided.is_ok() && black_box(&checked).decision.allowed);
                    }
                }),
            ),
            (
                "tollgate, key + app + org",
                Box::new(|n| {
                    let snapshot = three.snapshot();
                    for _ in 0..n {
                        let request = Request {
                            org: Some("acme"),
                            app: Some("web"),
                            key: Some(&keys[of_three.below(KEYS)]),
                            ..Request::new()
                        };
                        let mut checked = Checked::blank(&snapshot, clock::now());
                        let decided = three.check_into(&snapshot, &request, Commit::Charge, &mut checked);
                        assert!(decided.is_ok() && black_box(&checked).decision.allowed);
                    }
                }),
            ),
            (
                "limitador, three limits",
                Box::new(|n| {
                    for _ in 0..n / LIMITADOR_SLOWER {
                        let context = &contexts[of_limitador.below(KEYS)];
                        let checked = limitador.check_rate_limited_and_update(&namespace, context, 1);
                        assert!(!black_box(checked).expect("in memory").limited);
                    }
                }),
            ),
        ],
    );
    let governor = results[0].nanos;
    let limitador = results[3].nanos * LIMITADOR_SLOWER as f64;
    println!("\n{:<34} {:>10}", "100,000 keys in random order", "ns");
    for (result, nanos) in results
        .iter()
        .zip([governor, results[1].nanos, results[2].nanos, limitador])
    {
        println!("{:<34} {nanos:>10.1}", result.name);
    }
    println!(
        "one check against governor's:          {:>6.2} x its time",
        results[1].nanos / governor
    );
    println!(
        "three levels against governor's one:   {:>6.2} x its time",
        results[2].nanos / governor
    );
    println!(
        "three levels against limitador's:      {:>6.1} x faster",
        limitador / results[2].nanos
    );
}

pub(crate) fn limitador() -> limitador::RateLimiter {
    let limiter = limitador::RateLimiter::new(1_000_000);
    for variables in [&["org", "key"][..], &["org", "app"], &["org"]] {
        let variables = variables
            .iter()
            .map(|name| Expression::parse(name).expect("a variable"));
        limiter.add_limit(Limit::new(
            "bench",
            1_000_000_000,
            1,
            Vec::<Predicate>::new(),
            variables,
        ));
    }
    limiter
}
