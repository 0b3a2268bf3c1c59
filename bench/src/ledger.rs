//! What durable quotas cost: a decision, against the same one with a window of a day in memory; and a flush of what ten
//! thousand orgs used.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate::clock;
use tollgate::engine::{Checked, Engine, Undecided, random_seed};
use tollgate::ledger::{Journals, Keeping, Ledger};
use tollgate_catalog::Request;
use tollgate_catalog::parse_policy_set;
use tollgate_catalog::repository::{Ask, Exchange, Repository, SLOT_MS, Usage};
use tollgate_counters::Commit;

use crate::postgres::Postgres;
use crate::rounds::pin;

const ROUNDS: usize = 15;
const ROUND: Duration = Duration::from_millis(300);
const ORGS: u64 = 10_000;
const FLUSHES: i64 = 9;

pub(crate) fn run() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = format!("sqlite:{}", directory.path().join("ledger.sqlite3").display());
    let postgres = Postgres::start();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    // The database and whoever talks to it are left to the other core.
    let engines = [file, postgres.create()].map(|database| {
        let ledger = runtime.block_on(open(&database));
        (database, ledger)
    });
    println!("\na stack of two, one of them a day's quota, one thread");
    pin(0);
    for (database, (quota, keeping)) in engines {
        let backend = database.split(':').next().unwrap_or_default().to_owned();
        runtime.block_on(async {
            let ratio = against_a_window(&quota).await;
            println!("{backend:>10}  durable quota against a window in memory {ratio:>6.3} x its throughput");
            keeping.end().await;
            let (usage, quotas) = flush(&database).await;
            println!("{backend:>10}  what 10,000 orgs used, flushed {usage:>9.0?}, what was spent of 10,000 quotas {quotas:>9.0?}");
        });
    }
}

async fn open(database: &str) -> (Arc<Engine>, Keeping) {
    let engine = engine("algorithm: quota, window: day");
    // It is opened to make its tables; connections that this thread has opened would wait for this thread.
    Repository::open(database)
        .await
        .expect("a database")
        .close()
        .await;
    let repository = Repository::later(database).expect("a database");
    let (store, seed) = (engine.store.clone(), engine.seed());
    let run = u64::from(std::process::id());
    let journals = Journals::of(Path::new("/dev/shm"), database, "local");
    let estates = journals.left();
    engine.store.keep_journal(journals.begin(run).expect("a journal"));
    let ledger = Ledger::new(repository, store, seed, ("local", run), None, Vec::new());
    let ledger = Arc::new(ledger);
    engine.keep_quotas(ledger.clone());
    let keeping = Keeping::start(ledger, engine.clone(), estates);
    (engine, keeping.expect("a thread"))
}

fn engine(what: &str) -> Arc<Engine> {
    let policies = format!(
        "policies:\n  - {{id: day, scope: org, limit: 900000000000, {what}}}\n  \
         - {{id: burst, scope: key, algorithm: token_bucket, limit: 900000000, window: 1s}}\n"
    );
    let set = parse_policy_set(&policies).expect("policies");
    let seed = random_seed().expect("randomness");
    Arc::new(Engine::new(&set, seed, 1_000_000, false).expect("an engine"))
}

/// The median round's ratio.
async fn against_a_window(quota: &Engine) -> f64 {
    let window = engine("algorithm: fixed_window, window: 1d");
    let mut ratios = Vec::new();
    for round in 0..=ROUNDS {
        let (windows, quotas) = (spend(&window).await, spend(quota).await);
        // The first one warms up.
        if round > 0 {
            ratios.push(quotas / windows);
        }
    }
    ratios.sort_by(f64::total_cmp);
    ratios[ROUNDS / 2]
}

/// Decisions a second.
async fn spend(engine: &Engine) -> f64 {
    let (started, mut decisions) = (Instant::now(), 0_u32);
    while started.elapsed() < ROUND {
        decide(engine, 256).await;
        decisions += 256;
    }
    f64::from(decisions) / started.elapsed().as_secs_f64()
}

/// Decides as the data plane does: in place, and with a wait where one must be.
async fn decide(engine: &Engine, count: usize) {
    let request = Request {
        org: Some("acme"),
        key: Some("k1"),
        ..Request::new()
    };
    let snapshot = engine.snapshot_full();
    for _ in 0..count {
        let now = clock::now();
        let mut checked = Checked::blank(&snapshot, now);
        match engine.check_into(&snapshot, &request, Commit::Charge, &mut checked) {
            Err(Undecided::Waits(wait)) => {
                let decided = engine.check_after(wait, &snapshot, &request, Commit::Charge, now);
                assert!(decided.await.is_ok_and(|checked| checked.decision.allowed));
            }
            decided => assert!(decided.is_ok() && checked.decision.allowed, "{decided:?}"),
        }
    }
}

/// One of the two alone, for `callgrind`.
pub(crate) fn profile(what: &str, count: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        if what == "window" {
            return decide(&engine("algorithm: fixed_window, window: 1d"), count).await;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let file = format!("sqlite:{}", directory.path().join("ledger.sqlite3").display());
        let (quota, keeping) = open(&file).await;
        decide(&quota, count).await;
        keeping.end().await;
    });
}

/// How long it takes to tell what orgs used, and what was spent of their quotas: each time all of them.
async fn flush(database: &str) -> (Duration, Duration) {
    let repository = Repository::open(database).await.expect("a database");
    let now = clock::now();
    let usage: Vec<Usage> = (0..ORGS).map(|org| used(org, now.millis())).collect();
    let opened: Vec<Ask> = (0..ORGS).map(|org| ask(org, now.nanos())).collect();
    let spent = opened.iter().map(|ask| Ask {
        generation: 1,
        spent: 1,
        relabel: false,
        ..ask.clone()
    });
    let spent: Vec<Ask> = spent.collect();
    let (mut usages, mut quotas) = (Vec::new(), Vec::new());
    for number in 0..FLUSHES {
        let asks = if number == 0 { &opened } else { &spent };
        usages.push(told(&repository, 2 * number + 1, &[], &usage).await);
        quotas.push(told(&repository, 2 * number + 2, asks, &[]).await);
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort();
        times[times.len() / 2]
    };
    (median(&mut usages), median(&mut quotas))
}

async fn told(repository: &Repository, number: i64, asks: &[Ask], usage: &[Usage]) -> Duration {
    let exchange = Exchange {
        region: "local",
        node: "flushes",
        lives: true,
        number,
        now: clock::now(),
        asks,
        usage,
        refunds: &[],
        unsettled: &[],
        alerts: &[],
    };
    let started = Instant::now();
    let told = repository.exchange(&exchange).await.expect("an answer");
    assert_eq!(told.len(), asks.len());
    started.elapsed()
}

fn used(org: u64, millis: u64) -> Usage {
    Usage {
        org: format!("org-{org}"),
        app: "web".to_owned(),
        at_ms: millis / SLOT_MS * SLOT_MS,
        allowed: 3,
        denied: 1,
        cost: 3,
        ..Usage::default()
    }
}

fn ask(org: u64, now: u64) -> Ask {
    const HOUR: u64 = 3_600_000_000_000;
    let mut name = [0; 16];
    name[8..].copy_from_slice(&org.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    Ask {
        name,
        org: format!("org-{org}"),
        label: "{}".to_owned(),
        relabel: true,
        limit: 1_000_000,
        alert_limit: 1_000_000,
        period: (now - HOUR, now + HOUR),
        generation: 0,
        until: now + HOUR,
        spent: 0,
        unused: 0,
        owes: 0,
        gives: 0,
        needs: 0,
        wants: 1_000,
        room: u64::MAX,
        formers: Vec::new(),
    }
}
