//! What a durable quota costs a decision: the same stack with a daily quota that a ledger keeps, and with a window of a
//! day in memory. In this process, without HTTP, so that the difference shows.
//!
//! `cargo run --release -p tollgate --example ledger_cost [DATABASE]`

use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate::clock;
use tollgate::engine::{Engine, random_seed};
use tollgate::ledger::{Keeping, Ledger};
use tollgate_catalog::Request;
use tollgate_catalog::document::parse_policy_set;
use tollgate_catalog::repository::Repository;
use tollgate_counters::Commit;

const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(500);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let file = format!("sqlite:{}", directory.path().join("ledger.sqlite3").display());
    let database = std::env::args().nth(1).unwrap_or(file);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run(&database))
}

async fn run(database: &str) -> Result<(), Box<dyn std::error::Error>> {
    let rate = engine("algorithm: fixed_window, window: 1d")?;
    let quota = engine("algorithm: quota, window: day")?;
    let repository = Repository::open(database).await?;
    let ledger = Arc::new(Ledger::new(
        repository,
        quota.store.clone(),
        quota.seed(),
        "local",
        "example".into(),
        Vec::new(),
    ));
    quota.keep_quotas(ledger.clone());
    let keeping = Keeping::start(ledger)?;
    let mut ratios = Vec::new();
    for round in 0..=ROUNDS {
        let (rates, quotas) = (spend(&rate).await, spend(&quota).await);
        // The first one warms up.
        if round > 0 {
            let ratio = quotas / rates;
            println!("window {rates:>12.0}/s   durable quota {quotas:>12.0}/s   {ratio:.3}");
            ratios.push(ratio);
        }
    }
    ratios.sort_by(f64::total_cmp);
    println!("median ratio {:.3}", ratios[ROUNDS / 2]);
    keeping.end().await;
    Ok(())
}

fn engine(what: &str) -> Result<Arc<Engine>, Box<dyn std::error::Error>> {
    let policies = format!(
        "policies:\n  - {{id: day, scope: org, limit: 900000000000, {what}}}\n  \
         - {{id: burst, scope: key, algorithm: token_bucket, limit: 900000000, window: 1s}}\n"
    );
    let set = parse_policy_set(&policies).map_err(|problems| problems.to_string())?;
    let engine = Engine::new(&set, random_seed()?, 1_000_000, false);
    Ok(Arc::new(engine.map_err(|problems| problems.to_string())?))
}

/// Decisions a second.
async fn spend(engine: &Engine) -> f64 {
    let mut request = Request::new();
    (request.org, request.key) = (Some("acme"), Some("k1"));
    let snapshot = engine.snapshot_full();
    let (started, mut decisions) = (Instant::now(), 0_u32);
    while started.elapsed() < ROUND {
        for _ in 0..256 {
            let checked = engine
                .check_in_time(&snapshot, &request, Commit::Charge, clock::now())
                .await;
            assert!(checked.is_ok_and(|checked| checked.decision.allowed));
        }
        decisions += 256;
    }
    f64::from(decisions) / started.elapsed().as_secs_f64()
}
