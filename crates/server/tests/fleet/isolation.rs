//! What an org notices of others that flood the limiter or are stuck with their part of Redis. Every decision of the org
//! asks Redis, which is the worst case: leased ones don't notice at all. `docs/adr/0010` has what this prints.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tollgate::clock;
use tollgate::engine::{Engine, random_seed};
use tollgate::fleet::{Fleet, RedisSettings};
use tollgate_catalog::Request;
use tollgate_catalog::parse_policy_set;
use tollgate_counters::Commit;
use tollgate_counters::redis::{Address, slot_of_tag};

use crate::servers;

/// Decisions that are measured.
const DECISIONS: usize = 2_000;
/// How often one is asked for.
const EVERY: Duration = Duration::from_millis(1);
/// Callers that flood, and orgs that flood together.
const CALLERS: usize = 64;
const ORGS: usize = 64;
/// An org to which nothing applies.
const NOBODY: &str = "nobody";

/// A node in this process, so that only the way to Redis and back is measured.
struct Node {
    engine: Arc<Engine>,
    _fleet: Arc<Fleet>,
    _directory: tempfile::TempDir,
}

/// How long decisions took, and how many were made without Redis.
struct Measured {
    times: Vec<Duration>,
    without: usize,
}

impl Measured {
    fn at(&self, percent: usize) -> Duration {
        self.times[self.times.len() * percent / 100]
    }
}

impl Node {
    async fn start(redis: &str) -> Self {
        let many = (0..ORGS).map(|org| {
            format!("  - {{orgId: free-{org}, tier: Free}}\n  - {{orgId: gold-{org}, tier: Gold}}\n")
        });
        let many = many.collect::<Vec<_>>().concat();
        let policies = format!(
            "tiers: [{{tier: Gold}}, {{tier: Free}}]\norgs:\n  - {{orgId: quiet, tier: Gold}}\n{many}policies:\n  \
             - {{id: o, scope: org, algorithm: token_bucket, limit: 100000000, window: 1s, accuracy: exact}}\n  \
             - {{id: u, scope: user, algorithm: token_bucket, limit: 100000000, window: 1s, accuracy: exact}}\n"
        );
        let set = parse_policy_set(&policies).unwrap();
        let engine = Engine::new(&set, random_seed().unwrap(), 1_000_000, false).unwrap();
        let directory = tempfile::TempDir::new().unwrap();
        let settings = RedisSettings {
            address: Address::parse(redis).unwrap(),
            allow_eviction: false,
            witnesses: 0,
            patience: tollgate_counters::shared::PATIENCE,
            nodes: None,
        };
        let fleet = Fleet::start(&settings, "local", directory.path(), 1_000_000)
            .await
            .unwrap();
        fleet.join().await;
        engine.share(fleet.shared.clone());
        Self {
            engine: Arc::new(engine),
            _fleet: fleet,
            _directory: directory,
        }
    }

    /// Asks for a decision; whether no fallback made it. For nobody there is nothing to ask Redis.
    async fn ask(&self, org: &str, user: &str) -> bool {
        let snapshot = self.engine.snapshot_full();
        let request = Request {
            org: Some(org).filter(|org| *org != NOBODY),
            user: Some(user).filter(|_| org != NOBODY),
            ..Request::new()
        };
        let asked = self
            .engine
            .check_in_time(&snapshot, &request, Commit::Charge, clock::now());
        asked.await.is_ok_and(|checked| !checked.degraded)
    }

    async fn measure(&self) -> Measured {
        let (mut times, mut without) = (Vec::with_capacity(DECISIONS), 0);
        let mut ticks = tokio::time::interval(EVERY);
        for number in 0..DECISIONS {
            ticks.tick().await;
            let began = Instant::now();
            without += usize::from(!self.ask("quiet", &format!("u{}", number % 10)).await);
            times.push(began.elapsed());
        }
        times.sort_unstable();
        Measured { times, without }
    }
}

/// Has callers flood the limiter, each for an org, while something is measured.
fn beside<T>(node: &Arc<Node>, org: impl Fn(usize) -> String, measure: impl FnOnce() -> T) -> (T, u64) {
    let runtime = Runtime::new().unwrap();
    let (over, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    for caller in 0..CALLERS {
        let (node, over, asked, org) = (node.clone(), over.clone(), asked.clone(), org(caller));
        runtime.spawn(async move {
            let mut number = 0_u64;
            while !over.load(Ordering::Relaxed) {
                // Users that nobody has seen, so that nothing is known of them.
                node.ask(&org, &format!("{caller}-{number}")).await;
                number += 1;
                asked.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    crate::common::wait_for("the flood", || {
        (asked.load(Ordering::Relaxed) > 1_000).then_some(())
    });
    let before = asked.load(Ordering::Relaxed);
    let measured = measure();
    let during = asked.load(Ordering::Relaxed) - before;
    over.store(true, Ordering::Relaxed);
    (measured, during)
}

fn told(what: &str, measured: &Measured, alone: &Measured, others: u64) {
    println!(
        "{what}: p50 {:?}, p99 {:?}, {:.1} times that of p99 alone; {} of {DECISIONS} without Redis; {others} others",
        measured.at(50),
        measured.at(99),
        measured.at(99).as_secs_f64() / alone.at(99).as_secs_f64(),
        measured.without,
    );
    // A busy machine may hold up Redis for a moment.
    assert!(
        measured.without * 4 < DECISIONS,
        "{what}: {} without Redis",
        measured.without
    );
}

#[test]
fn beside_orgs_that_flood() {
    let redis = servers::Server::start();
    let runtime = Runtime::new().unwrap();
    let node = Arc::new(runtime.block_on(Node::start(&redis.url())));
    let measure = || runtime.block_on(node.measure());
    measure();
    let alone = measure();
    told("alone", &alone, &alone, 0);
    let (busy, others) = beside(&node, |_| NOBODY.to_owned(), measure);
    told(
        "beside callers that only take the machine's time",
        &busy,
        &alone,
        others,
    );
    let (one, others) = beside(&node, |_| "loud".to_owned(), measure);
    told("beside one org that floods", &one, &alone, others);
    let (many, others) = beside(&node, |caller| format!("free-{}", caller % ORGS), measure);
    told("beside 64 orgs of another tier that flood", &many, &alone, others);
    let (same, others) = beside(&node, |caller| format!("gold-{}", caller % ORGS), measure);
    told("beside 64 orgs of its own tier that flood", &same, &alone, others);
}

#[test]
fn beside_a_primary_that_is_stuck() {
    let cluster = servers::Cluster::start();
    let runtime = Runtime::new().unwrap();
    let node = Arc::new(runtime.block_on(Node::start(&cluster.url())));
    let measure = || runtime.block_on(node.measure());
    let own = cluster.primary_of(slot_of_tag(b"quiet"));
    let stuck = (0..).map(|number| format!("stuck-{number}"));
    let stuck = stuck
        .into_iter()
        .find(|org| cluster.primary_of(slot_of_tag(org.as_bytes())) != own);
    let stuck = stuck.unwrap();
    measure();
    let alone = measure();
    told("alone", &alone, &alone, 0);
    // A Cluster takes seconds to notice; until then the slot is nobody's.
    let paused = &cluster.servers[cluster.primary_of(slot_of_tag(stuck.as_bytes()))];
    runtime.block_on(node.ask(&stuck, "u"));
    paused.pause();
    let (beside, others) = beside(&node, |_| stuck.clone(), measure);
    paused.resume();
    told("beside an org whose primary is stuck", &beside, &alone, others);
}
