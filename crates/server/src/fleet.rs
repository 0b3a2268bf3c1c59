//! This node's part in a fleet: the counters that Redis keeps for all, and the nodes that share them.

mod size;
mod unshared;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::watch;
use tollgate_counters::LogPace;
use tollgate_counters::redis::{self, Address, Found, Health, Keys, Member, Owner, Redis, RedisCarrier};
use tollgate_counters::shared::SharedStore;
use tollgate_counters::shared::node::{CLASSES, Unused};

use crate::catalogue::Mirror;
use crate::clock;
use crate::reservations::Records;
use crate::serve::stopped;

use size::Size;
pub use size::{ASSUMED_NODES, Source};
pub use unshared::unshared;

/// How often a slice of what lies on lease is looked through.
const SWEEP_EVERY: Duration = Duration::from_millis(2);
/// How often it is looked at whether the store is there.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Signs of a loss within so long are of the same one.
const ONE_LOSS: Duration = Duration::from_secs(10);
/// How long leases that are given back at the end may take, unless requests wait for longer.
const LAST_CALLS: Duration = Duration::from_millis(300);

/// Where Redis is, and how it is used.
#[derive(Debug, Clone)]
pub struct RedisSettings {
    /// Where it is.
    pub address: Address,
    /// Use servers that may forget counters when their memory is full.
    pub allow_eviction: bool,
    /// How many replicas must know of a grant before it counts.
    pub witnesses: u32,
    /// How long a request waits for it.
    pub patience: Duration,
    /// How many nodes the operator expects to share the limits, at least.
    pub nodes: Option<u64>,
}

/// A fleet, as one of its nodes sees it.
pub struct Fleet {
    /// The counters.
    pub shared: Arc<SharedStore>,
    /// The catalogue's copy, for nodes to come.
    pub mirror: Arc<Mirror>,
    patience: Duration,
    carrier: RedisCarrier,
    redis: Redis,
    nodes: redis::Fleet,
    region: String,
    id: String,
    address: String,
    /// Says that this node has used this store before.
    marker: PathBuf,
    /// How many nodes share the limits.
    size: Arc<Size>,
    joined: AtomicBool,
    joining: AtomicBool,
    away_ms: AtomicU64,
    told_loss: Mutex<Option<Instant>>,
    unjoined: LogPace,
    /// Drives connections apart from everything else.
    _runtime: Background,
}

/// A runtime that ends without waiting, since it ends within another.
struct Background(Option<Runtime>);

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Fleet {
    /// Connects to Redis. If it does not answer the node serves all the same, and goes on trying.
    pub async fn start(
        settings: &RedisSettings,
        region: &str,
        data_dir: &Path,
        max_counters: usize,
    ) -> Result<Arc<Self>, String> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("shared-store")
            .enable_all()
            .build()
            .map_err(|error| format!("no runtime: {error}"))?;
        let handle = runtime.handle().clone();
        let runtime = Background(Some(runtime));
        let ways = redis::Settings {
            allow_eviction: settings.allow_eviction,
            witnesses: settings.witnesses,
            scripts: redis::scripts(),
            ..redis::Settings::new(settings.address.clone(), handle.clone()).with_deadline(settings.patience)
        };
        let away = |error: redis::StartError| format!("--redis: {error}");
        let redis = match Redis::connect(ways.clone()).await {
            Ok(redis) => redis,
            Err(error) if error.may_pass() => {
                tracing::error!("{error}; every limit does as its failMode says until Redis is there");
                Redis::later(ways).map_err(away)?
            }
            Err(error) => return Err(away(error)),
        };
        let keys = Keys::new(region);
        let incarnation = getrandom::u64().map_err(|error| format!("no randomness: {error}"))? >> 12;
        let carrier = RedisCarrier::new(redis.clone(), keys.clone(), handle);
        let id = format!("{incarnation:013x}");
        let address = settings.address.to_string();
        let shared = Box::new(carrier.clone());
        let shared = SharedStore::new(incarnation, max_counters, shared, clock::steady);
        shared.set_patience(settings.patience);
        // Until Redis says what time it is. Nothing is asked of it before.
        let guess = clock::now().nanos() / 1_000;
        shared.node().set_clock(guess, clock::steady());
        let size = Size::read(data_dir, mark(region, &address), settings.nodes);
        shared.node().set_sharing(size.nodes().0);
        Ok(Arc::new(Self {
            shared,
            patience: settings.patience,
            carrier,
            mirror: Arc::new(Mirror::new(
                redis::Mirror::new(redis.clone(), keys.clone()),
                id.clone(),
            )),
            nodes: redis::Fleet::new(redis.clone(), keys, id.clone()),
            redis,
            region: region.to_owned(),
            id,
            marker: data_dir.join("redis-in-use"),
            address,
            size: Arc::new(size),
            joined: AtomicBool::new(false),
            joining: AtomicBool::new(false),
            away_ms: AtomicU64::new(0),
            told_loss: Mutex::new(None),
            unjoined: LogPace::new(),
            _runtime: runtime,
        }))
    }

    /// What the fleet has on record of charges that may be given back.
    pub fn records(&self) -> Records {
        Records::new(self.carrier.clone(), self.patience)
    }

    /// Tells an operator who may have forgotten `--database` that others of the fleet have one.
    pub async fn warn_of_mirror(&self) {
        if let Some(revision) = self.mirror.revision().await {
            tracing::warn!(
                revision,
                "nodes of this fleet have their policies from a database; this one has only those in its own data \
                 directory and policy file: is --database missing?"
            );
        }
    }

    /// Joins the fleet, if Redis is there.
    pub async fn join(&self) {
        let used = self.used_before();
        match self.nodes.join(&self.info(), used).await {
            Ok(found) => {
                match found {
                    Found::InUse => tracing::info!(address = self.address, "joined the fleet"),
                    Found::New => tracing::info!(address = self.address, "this Redis is new, and ready now"),
                    Found::Lost => self.tell_loss(),
                }
                self.note_used();
                self.say_alive().await;
                self.carrier.begin();
                self.joined.store(true, Ordering::Relaxed);
            }
            Err(failure) => self.tell_unjoined(&failure),
        }
    }

    /// Keeps this node's place in the fleet until the end, and gives back what it holds on lease.
    pub async fn keep(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut beats = tokio::time::interval(redis::BEAT_EVERY);
        let mut sweeps = tokio::time::interval(SWEEP_EVERY);
        let mut looks = tokio::time::interval(LOOK_EVERY);
        let (mut looked, mut losses) = (Instant::now(), 0);
        for ticks in [&mut beats, &mut sweeps, &mut looks] {
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        }
        loop {
            tokio::select! {
                _ = sweeps.tick() => self.shared.sweep(false),
                _ = looks.tick() => {
                    let since = std::mem::replace(&mut looked, Instant::now()).elapsed();
                    if self.is_away() {
                        let millis = u64::try_from(since.as_millis()).unwrap_or(0);
                        self.away_ms.fetch_add(millis, Ordering::Relaxed);
                    }
                    // A slot may have lost what it held, while the mark is in another.
                    let known = std::mem::replace(&mut losses, self.shared.holdings().losses);
                    if losses > known {
                        self.tell_loss();
                    }
                }
                _ = beats.tick() => {
                    let fleet = self.clone();
                    tokio::spawn(async move { fleet.beat().await });
                }
                () = stopped(&mut stop) => break,
            }
        }
    }

    /// Gives back what is held, and leaves.
    pub async fn leave(&self) {
        let leaving = async {
            // Calls under way may still bring leases.
            for _ in 0..5 {
                self.shared.sweep(true);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            self.nodes.leave().await
        };
        let _ = tokio::time::timeout(LAST_CALLS.max(2 * self.patience), leaving).await;
    }

    async fn beat(&self) {
        if !self.joined.load(Ordering::Relaxed) {
            if !self.joining.swap(true, Ordering::Relaxed) {
                self.join().await;
                self.joining.store(false, Ordering::Relaxed);
            }
            return;
        }
        if let Some(true) = self.say_alive().await {
            self.tell_loss();
        }
    }

    /// Says that this node is alive, and hears what time it is, who else is, and whether the store has lost what it held.
    async fn say_alive(&self) -> Option<bool> {
        let (time, lost) = self.nodes.beat(&self.info()).await.ok()?;
        self.shared.node().set_clock(time, clock::steady());
        self.hear_of_nodes();
        self.hear_of_changes();
        Some(lost)
    }

    /// Goes by the number of nodes that Redis has told, and keeps it for the next start.
    fn hear_of_nodes(&self) {
        let Some(nodes) = self.nodes.nodes() else { return };
        let is_news = self.size.hear(nodes, clock::now().seconds());
        self.shared.node().set_nodes(nodes);
        self.shared.node().set_sharing(self.size.nodes().0);
        if is_news {
            let size = self.size.clone();
            tokio::task::spawn_blocking(move || {
                if let Err(error) = size.write() {
                    tracing::warn!("the number of nodes can't be kept for the next start: {error}");
                }
            });
        }
    }

    /// Says that the fleet can't be joined yet and what is gone by meanwhile, at first and every so often.
    fn tell_unjoined(&self, failure: &redis::Failure) {
        if self.unjoined.turn().is_none() {
            return;
        }
        let (nodes, source) = self.size.nodes();
        tracing::warn!(
            nodes,
            source = source.name(),
            "Redis {} {}; retrying (next message in {} s). Until then limits with failMode: local are shared \
             by this many nodes",
            self.address,
            self.why_unjoined(failure),
            LogPace::EVERY.as_secs()
        );
    }

    /// Says why Redis can't be used: what is wrong with a server tells more than what became of a call.
    fn why_unjoined(&self, failure: &redis::Failure) -> String {
        let health = self.redis.health();
        match (health.iter().find_map(|server| server.trouble.as_ref()), failure) {
            (None, redis::Failure::Failed(error)) => format!("does not let this node join: {error}"),
            (None | Some(redis::Trouble::Unreachable(_) | redis::Trouble::TimedOut), _) => {
                "is unreachable".to_owned()
            }
            (Some(trouble), _) => trouble.to_string(),
        }
    }

    /// Says that counters are lost, once for all signs of it.
    fn tell_loss(&self) {
        let mut told = self.told_loss.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_some_and(|told| told.elapsed() < ONE_LOSS) {
            return;
        }
        *told = Some(Instant::now());
        drop(told);
        tracing::error!(
            address = self.address,
            "Redis has lost its counters: every limit there counts as just used up"
        );
    }

    /// Hears from the other nodes which servers are the same though they call themselves otherwise.
    fn hear_of_changes(&self) {
        for member in self.nodes.members() {
            let said: serde_json::Value = serde_json::from_str(&member.info).unwrap_or_default();
            for change in said["same"].as_array().into_iter().flatten() {
                if let (Some(from), Some(to)) = (change[0].as_str(), change[1].as_str()) {
                    let (from, to) = (Owner::from_text(from), Owner::from_text(to));
                    self.redis.hear_of_change(&from, &to);
                }
            }
        }
    }

    fn info(&self) -> String {
        let holdings = self.shared.holdings();
        let changes = self.redis.changes();
        let changes = changes.iter().map(|(from, to)| [from.as_str(), to.as_str()]);
        serde_json::json!({
            "version": env!("CARGO_PKG_VERSION"),
            "counters": holdings.counters,
            "leases": holdings.leases,
            "same": changes.collect::<Vec<_>>(),
            "unused": self.unused().map(|unused| [unused.counters, unused.parts, unused.most_parts]),
        })
        .to_string()
    }

    fn used_before(&self) -> bool {
        let known = std::fs::read_to_string(&self.marker).unwrap_or_default();
        known.lines().any(|line| line == self.mark())
    }

    fn note_used(&self) {
        if self.used_before() {
            return;
        }
        let known = std::fs::read_to_string(&self.marker).unwrap_or_default();
        if let Err(error) = std::fs::write(&self.marker, format!("{known}{}\n", self.mark())) {
            tracing::warn!("{}: {error}", self.marker.display());
        }
    }

    fn mark(&self) -> String {
        mark(&self.region, &self.address)
    }

    /// What lies unused on this node, by class.
    pub fn unused(&self) -> [Unused; CLASSES.len()] {
        self.shared.node().unused()
    }

    /// What lies unused on all nodes that are alive, by class, as they last said: of each counter what all of them hold.
    pub fn unused_in_fleet(&self) -> [Unused; CLASSES.len()] {
        let mut all = [Unused::default(); CLASSES.len()];
        for member in self.nodes.members().iter().filter(|member| member.is_alive()) {
            let said: serde_json::Value = serde_json::from_str(&member.info).unwrap_or_default();
            for (class, sum) in all.iter_mut().enumerate() {
                let number = |place: usize| said["unused"][class][place].as_u64().unwrap_or(0);
                // Nodes mostly know the same counters, and what each holds of one adds up.
                sum.counters = sum.counters.max(number(0));
                sum.parts = sum.parts.saturating_add(number(1));
                sum.most_parts = sum.most_parts.saturating_add(number(2));
            }
        }
        all
    }

    /// The region's name.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// This node's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where the store is.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The nodes that were last heard of.
    pub fn members(&self) -> Vec<Member> {
        self.nodes.members()
    }

    /// How many nodes a limit is shared by while Redis is unavailable, and how that is known.
    pub fn sharing(&self) -> (u64, Source) {
        self.size.nodes()
    }

    /// Whether some server does not answer.
    pub fn is_away(&self) -> bool {
        self.redis
            .health()
            .iter()
            .any(|server| server.open_since.is_some() || !server.connected)
    }

    /// Why some server can't be used, if that is known.
    pub fn trouble(&self) -> Option<&'static str> {
        let health = self.redis.health();
        let troubles = health.iter().filter_map(|server| server.trouble.as_ref());
        troubles.map(redis::Trouble::name).next()
    }

    /// Whether some server may evict counters.
    pub fn evicts(&self) -> bool {
        self.redis.health().iter().any(|server| server.evicts)
    }

    /// For how long, all in all, some server has not answered.
    pub fn away_for(&self) -> Duration {
        Duration::from_millis(self.away_ms.load(Ordering::Relaxed))
    }

    /// How the servers are.
    pub fn health(&self) -> Vec<Health> {
        self.redis.health()
    }

    /// How many calls ended how.
    pub fn outcomes(&self) -> std::collections::BTreeMap<&'static str, u64> {
        self.carrier.outcomes()
    }
}

/// A fleet's name in files.
fn mark(region: &str, address: &str) -> String {
    format!("{region} {address}")
}
