//! One check and a stack of three, beside governor and limitador.

use std::collections::HashMap;
use std::hint::black_box;
use std::num::NonZeroU32;

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use limitador::limit::{Context, Expression, Limit, Namespace, Predicate};
use tollgate::clock;
use tollgate::engine::{Checked, Engine};
use tollgate_catalog::Request;
use tollgate_catalog::parse_policy_set;
use tollgate_core::KeySeed;
use tollgate_counters::Commit;

use crate::keys::{Arriving, Keys, Lying};
use crate::rounds::{Contender, Measured, Shuffled, measure, pin};

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
    let quota = Quota::per_second(NonZeroU32::new(1_000_000).expect("not zero"));
    let governor = RateLimiter::keyed(quota);
    let (one, three) = (engine(ONE), engine(THREE));
    let arriving = || Arriving::new(KEYS);
    let results = measure(
        100_000,
        vec![
            of_governor(&governor, arriving()),
            of_tollgate("tollgate, one token bucket", &one, None, arriving()),
            of_tollgate("tollgate, key + app + org", &three, Some("web"), arriving()),
        ],
    );
    show("100,000 keys in random order", &results);

    let keys = Lying::all(KEYS);
    let lying = || Lying::new(&keys);
    let limitador = limitador();
    let contexts = contexts(&keys);
    let mut results = measure(
        100_000,
        vec![
            of_governor(&governor, lying()),
            of_tollgate("tollgate, one token bucket", &one, None, lying()),
            of_tollgate("tollgate, key + app + org", &three, Some("web"), lying()),
            of_limitador(&limitador, &contexts),
        ],
    );
    results[3].nanos *= LIMITADOR_SLOWER as f64;
    show("the same, their texts all over memory", &results);
    println!(
        "three levels against limitador's:      {:>6.1} x faster",
        results[3].nanos / results[2].nanos
    );
}

/// The contenders' times, and what two of them are to the first.
fn show(what: &str, results: &[Measured]) {
    println!("\n{what:<40} {:>10}", "ns");
    for result in results {
        println!("{:<40} {:>10.1}", result.name, result.nanos);
    }
    let against = |place: usize| results[place].nanos / results[0].nanos;
    println!(
        "one check against governor's:          {:>6.2} x its time",
        against(1)
    );
    println!(
        "three levels against governor's one:   {:>6.2} x its time",
        against(2)
    );
}

fn of_governor<'a>(limiter: &'a DefaultKeyedRateLimiter<String>, mut keys: impl Keys + 'a) -> Contender<'a> {
    let run = move |n| {
        for _ in 0..n {
            let _ = black_box(limiter.check_key(keys.next()));
        }
    };
    ("governor, one keyed check", Box::new(run))
}

fn of_tollgate<'a>(
    name: &'static str,
    engine: &'a Engine,
    app: Option<&'a str>,
    mut keys: impl Keys + 'a,
) -> Contender<'a> {
    let run = move |n| {
        let snapshot = engine.snapshot();
        for _ in 0..n {
            let request = Request {
                org: Some("acme"),
                app,
                key: Some(keys.next()),
                ..Request::new()
            };
            let mut checked = Checked::blank(&snapshot, clock::now());
            let decided = engine.check_into(&snapshot, &request, Commit::Charge, &mut checked);
            assert!(decided.is_ok() && black_box(&checked).decision.allowed);
        }
    };
    (name, Box::new(run))
}

fn of_limitador<'a>(limiter: &'a limitador::RateLimiter, contexts: &'a [Context<'a>]) -> Contender<'a> {
    let (mut order, namespace) = (Shuffled::new(), Namespace::from("bench"));
    let run = move |n| {
        for _ in 0..n / LIMITADOR_SLOWER {
            let context = &contexts[order.below(contexts.len())];
            let checked = limiter.check_rate_limited_and_update(&namespace, context, 1);
            assert!(!black_box(checked).expect("in memory").limited);
        }
    };
    ("limitador, three limits", Box::new(run))
}

/// Made beforehand: limitador's own way of passing values is not what is compared.
fn contexts(keys: &[String]) -> Vec<Context<'static>> {
    let context = |key: &String| {
        let pairs = [("org", "acme"), ("app", "web"), ("key", key)];
        Context::from(HashMap::from(
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned())),
        ))
    };
    keys.iter().map(context).collect()
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
