//! What the server counts of itself. Label sets are bounded: tiers and classes past the first thirty-two are
//! shown as `other`.
//!
//! Each thread counts in a block of its own, so that counting never makes two cores wait for each other; a
//! scrape adds the blocks up.

mod audit;
mod catalogue;
mod certificates;
mod counting;
mod fleet;
mod histogram;
mod issuer;
mod labels;
mod ledger;
mod quota_streams;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::Mode;

use crate::clock;
use crate::engine::{Checked, Engine};
use crate::fleet::Fleet;
use crate::policies::Standing;
use audit::AuditMetrics;
use catalogue::CatalogueMetrics;
use certificates::CertificateMetrics;
pub use counting::Counting;
use histogram::Histogram;
pub use issuer::IssuerMetrics;
use labels::{Labels, OUTCOMES, SCOPES, Slots};
pub use quota_streams::QuotaStreamMetrics;

/// Threads with a block of their own; further ones share.
const BLOCKS: usize = 16;

/// The counters of one thread.
#[derive(Debug)]
#[repr(align(128))]
struct Block {
    decisions: Box<[AtomicU64]>,
    decision_seconds: Histogram,
    request_seconds: [Histogram; PROTOCOLS.len()],
    /// What throttles allowed and what they limited.
    throttles: [AtomicU64; 2],
}

/// How a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http,
    /// gRPC.
    Grpc,
    /// Redis's.
    Resp,
}

const PROTOCOLS: [(Protocol, &str); 3] = [
    (Protocol::Http, "http"),
    (Protocol::Grpc, "grpc"),
    (Protocol::Resp, "resp"),
];

/// Where the catalogue in force came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Its database.
    Database,
    /// What this node had kept of it.
    Disk,
    /// What another node had kept of it.
    Redis,
}

impl Origin {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Database => "database",
            Self::Disk => "disk",
            Self::Redis => "redis",
        }
    }
}

/// All that is counted.
#[derive(Debug)]
pub struct Metrics {
    labels: Labels,
    slots: ArcSwap<Slots>,
    blocks: Box<[Block]>,
    revision: AtomicU64,
    reload_failures: AtomicU64,
    policy_file: ArcSwap<Standing>,
    certificate_reload_failures: AtomicU64,
    handshake_failures: AtomicU64,
    catalogue_away: AtomicU64,
    catalogue_from: ArcSwap<Origin>,
    admin_limited: AtomicU64,
    org_asked_too_often: AtomicU64,
    policy_propagation_seconds: Histogram,
    /// The end of the audit.
    pub audit: AuditMetrics,
    /// The keys of the issuer whose tokens the control plane takes.
    pub oidc: IssuerMetrics,
    /// The keys of the issuer whose tokens the data plane takes.
    pub jwt: IssuerMetrics,
    /// How much of the catalogue has no effect here.
    pub catalogue: CatalogueMetrics,
    /// The certificates that are served.
    pub certificates: CertificateMetrics,
    /// What Envoys are assigned and report.
    pub quota_streams: QuotaStreamMetrics,
}

impl Default for Metrics {
    fn default() -> Self {
        let block = || Block {
            decisions: (0..labels::CELLS).map(|_| AtomicU64::new(0)).collect(),
            decision_seconds: Histogram::default(),
            request_seconds: Default::default(),
            throttles: Default::default(),
        };
        Self {
            labels: Labels::default(),
            slots: ArcSwap::from_pointee(Slots::default()),
            blocks: (0..BLOCKS).map(|_| block()).collect(),
            revision: AtomicU64::new(0),
            reload_failures: AtomicU64::new(0),
            policy_file: ArcSwap::from_pointee(Standing::InForce),
            certificate_reload_failures: AtomicU64::new(0),
            handshake_failures: AtomicU64::new(0),
            catalogue_away: AtomicU64::new(0),
            audit: AuditMetrics::default(),
            catalogue_from: ArcSwap::from_pointee(Origin::Database),
            admin_limited: AtomicU64::new(0),
            org_asked_too_often: AtomicU64::new(0),
            policy_propagation_seconds: Histogram::default(),
            oidc: IssuerMetrics::default(),
            jwt: IssuerMetrics::default(),
            catalogue: CatalogueMetrics::default(),
            certificates: CertificateMetrics::default(),
            quota_streams: QuotaStreamMetrics::default(),
        }
    }
}

impl Metrics {
    /// Notes that a snapshot is in force.
    pub fn installed(&self, snapshot: &Snapshot) {
        self.slots.store(Arc::new(self.labels.slots(snapshot)));
        self.revision.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes how long a change that another node wrote took to be in force here.
    pub fn propagated(&self, took: Duration) {
        self.policy_propagation_seconds.observe(took);
    }

    /// Notes that a policy file was not applied.
    pub fn reload_failed(&self) {
        self.reload_failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes what became of the policy file as it is now.
    pub fn policy_file(&self, standing: Standing) {
        self.policy_file.store(Arc::new(standing));
    }

    /// What became of the policy file.
    pub fn policy_file_standing(&self) -> Standing {
        **self.policy_file.load()
    }

    /// Notes that certificates changed and were not put in force.
    pub fn certificates_not_reloaded(&self) {
        self.certificate_reload_failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a client's TLS handshake came to nothing.
    pub fn handshake_failed(&self) {
        self.handshake_failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that the control plane's own limits refused a request.
    pub fn admin_limited(&self) {
        self.admin_limited.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that an org asked for more decisions than it may.
    pub fn org_asked_too_often(&self) {
        self.org_asked_too_often.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes whether the catalogue's database answers.
    pub fn catalogue_away(&self, away: bool) {
        self.catalogue_away.store(u64::from(away), Ordering::Relaxed);
    }

    /// Notes where what is in force came from, if no database has confirmed it since.
    pub fn catalogue_from(&self, origin: Origin) {
        self.catalogue_from.store(Arc::new(origin));
    }

    /// Where what is in force came from.
    pub fn catalogue_origin(&self) -> Origin {
        **self.catalogue_from.load()
    }

    /// Whether the catalogue's database does not answer.
    pub fn is_catalogue_away(&self) -> bool {
        self.catalogue_away.load(Ordering::Relaxed) > 0
    }

    /// How many policy sets have been put in force.
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::Relaxed)
    }

    /// Counts a decision.
    pub fn observe_decision(&self, checked: &Checked<'_>, took: Duration) {
        self.counting().count(checked);
        self.block().decision_seconds.observe(took);
    }

    /// Notes how long so many decisions took together: each as long as the others.
    pub fn observe_decision_times(&self, decisions: u64, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        if let Some(each) = nanos.checked_div(decisions) {
            let block = self.block();
            block
                .decision_seconds
                .observe_each(decisions, Duration::from_nanos(each));
        }
    }

    /// Counts a request.
    pub fn observe_request(&self, protocol: Protocol, took: Duration) {
        self.block().request_seconds[protocol as usize].observe(took);
    }

    /// Counts throttles that came together, so many of which were limited.
    pub fn observe_throttles(&self, allowed: u64, limited: u64, took: Duration) {
        let block = self.block();
        let all = allowed + limited;
        if all > 0 {
            block.throttles[0].fetch_add(allowed, Ordering::Relaxed);
            block.throttles[1].fetch_add(limited, Ordering::Relaxed);
            block.request_seconds[Protocol::Resp as usize].observe_each(all, took);
        }
    }

    /// Everything as OpenMetrics text.
    pub fn render(self: &Arc<Self>, engine: &Arc<Engine>, fleet: Option<&Arc<Fleet>>) -> String {
        let mut registry = Registry::with_prefix("tollgate");
        registry.register_collector(Box::new(Scrape {
            metrics: self.clone(),
            engine: engine.clone(),
            fleet: fleet.cloned(),
        }));
        let mut text = String::new();
        // Writing to a string can't fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
        text
    }

    fn block(&self) -> &Block {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed) % BLOCKS;
        }
        &self.blocks[NUMBER.with(|number| *number)]
    }
}

/// The outcome and the scope that brought it about, by their numbers.
#[inline]
fn classify(checked: &Checked<'_>) -> (usize, usize) {
    if checked.decision.all_fit {
        return (labels::ALLOWED, 0);
    }
    classify_violation(checked)
}

#[inline(never)]
fn classify_violation(checked: &Checked<'_>) -> (usize, usize) {
    let scope_of = |place: usize| {
        let breadth = checked.stack.limits[place].scope.breadth();
        usize::from(breadth) + 1
    };
    if let Some(binding) = checked.decision.binding {
        return (labels::DENIED, scope_of(binding));
    }
    let other_set = |place: usize| checked.stack.limits[place].origin.other_set.as_ref();
    // Limits that are only kept for a rollback are nobody's to answer for.
    let answers = |place: &usize| other_set(*place).is_none_or(|other| other.candidate);
    let violated = (0..checked.stack.levels.len()).filter(|place| !checked.decision.outcomes[*place].fits);
    let mut violated = violated.filter(answers);
    match violated.next() {
        // A candidate's limits are counted because they would deny.
        Some(place) if checked.stack.levels[place].mode == Mode::Shadow || other_set(place).is_some() => {
            (labels::WOULD_DENY, scope_of(place))
        }
        Some(place) => (labels::OVER_SOFT, scope_of(place)),
        None => (labels::ALLOWED, 0),
    }
}

/// A scrape of everything at one moment.
struct Scrape {
    metrics: Arc<Metrics>,
    engine: Arc<Engine>,
    fleet: Option<Arc<Fleet>>,
}

impl std::fmt::Debug for Scrape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scrape")
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.encode_decisions(&mut encoder)?;
        self.encode_throttles(&mut encoder)?;
        self.encode_times(&mut encoder)?;
        let usage = self.engine.store.usage();
        let percent = self.engine.snapshot().share().map(|share| share.percent);
        let gauges = [
            (
                "counters",
                "Counters held, in counters' worth of memory",
                usage.held as u64,
            ),
            (
                "policy_revision",
                "Policy sets put in force since the start",
                self.metrics.revision(),
            ),
            (
                "catalogue_away",
                "1 while the catalogue's database does not answer",
                u64::from(self.metrics.is_catalogue_away()),
            ),
            (
                "catalogue_from_disk",
                "1 while the catalogue in force was read from disk and no database has confirmed it",
                u64::from(self.metrics.catalogue_origin() == Origin::Disk),
            ),
            (
                "catalogue_from_redis",
                "1 while the catalogue in force was read from Redis and no database has confirmed it",
                u64::from(self.metrics.catalogue_origin() == Origin::Redis),
            ),
            (
                "rollout_open",
                "1 while a rollout is open",
                u64::from(percent.is_some()),
            ),
            (
                "rollout_percent",
                "How many of a hundred orgs the candidate of the open rollout decides",
                u64::from(percent.unwrap_or(0)),
            ),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        self.metrics.audit.encode(&mut encoder)?;
        let failures = self.metrics.reload_failures.load(Ordering::Relaxed);
        let counters = [
            (
                "counters_reclaimed",
                "Counters forgotten because they were as good as untouched",
                usage.reclaimed,
            ),
            (
                "counters_refused",
                "Decisions refused because no counter could be added",
                usage.refused,
            ),
            (
                "policy_reload_failures",
                "Policy files that were not applied",
                failures,
            ),
            (
                "tls_reload_failures",
                "Changes of certificate files that were not put in force",
                self.metrics.certificate_reload_failures.load(Ordering::Relaxed),
            ),
            (
                "tls_handshake_failures",
                "TLS handshakes that came to nothing",
                self.metrics.handshake_failures.load(Ordering::Relaxed),
            ),
            (
                "admin_limited",
                "Requests that the control plane's own limits refused",
                self.metrics.admin_limited.load(Ordering::Relaxed),
            ),
            (
                "org_rate_limited",
                "Requests of orgs that asked more often than --max-org-rate",
                self.metrics.org_asked_too_often.load(Ordering::Relaxed),
            ),
        ];
        for (name, help, value) in counters {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        if let Some(fleet) = &self.fleet {
            fleet::encode(fleet, &mut encoder)?;
        }
        if let Some(ledger) = self.engine.ledger.get() {
            ledger::encode(ledger, &mut encoder)?;
        }
        self.metrics.catalogue.encode(&mut encoder)?;
        self.metrics.certificates.encode(&mut encoder)?;
        self.metrics.quota_streams.encode(&mut encoder)?;
        self.metrics.oidc.encode("oidc", clock::now(), &mut encoder)?;
        self.metrics.jwt.encode("jwt", clock::now(), &mut encoder)
    }
}

impl Scrape {
    fn encode_decisions(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let help = "Decisions by outcome, the scope that brought it about, tier and endpoint class";
        let mut family = encoder.encode_descriptor("decisions", help, None, MetricType::Counter)?;
        let (tiers, classes) = self.metrics.labels.names();
        for cell in 0..labels::CELLS {
            let blocks = self.metrics.blocks.iter();
            let count: u64 = blocks
                .map(|block| block.decisions[cell].load(Ordering::Relaxed))
                .sum();
            if count == 0 {
                continue;
            }
            let (outcome, scope, tier, class) = labels::parts(cell);
            let name =
                |names: &[String], slot: usize| names.get(slot).map_or("other", String::as_str).to_owned();
            let labels = [
                ("outcome", OUTCOMES[outcome].to_owned()),
                ("scope", SCOPES[scope].to_owned()),
                ("tier", name(&tiers, tier)),
                (
                    "class",
                    if class == 0 {
                        "none".to_owned()
                    } else {
                        name(&classes, class - 1)
                    },
                ),
            ];
            ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn encode_throttles(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let help = "CL.THROTTLE commands by outcome";
        let mut family = encoder.encode_descriptor("throttles", help, None, MetricType::Counter)?;
        for (place, outcome) in ["allowed", "limited"].into_iter().enumerate() {
            let blocks = self.metrics.blocks.iter();
            let count: u64 = blocks
                .map(|block| block.throttles[place].load(Ordering::Relaxed))
                .sum();
            ConstCounter::new(count).encode(family.encode_family(&[("outcome", outcome)])?)?;
        }
        Ok(())
    }

    fn encode_times(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let blocks = || self.metrics.blocks.iter();
        let help = "Time to resolve and decide a stack";
        let family = encoder.encode_descriptor("decision_seconds", help, None, MetricType::Histogram)?;
        Histogram::encode(blocks().map(|block| &block.decision_seconds), family)?;
        let help = "Time from a change of the catalogue on another node to its being in force here";
        let family =
            encoder.encode_descriptor("policy_propagation_seconds", help, None, MetricType::Histogram)?;
        let propagation = &self.metrics.policy_propagation_seconds;
        Histogram::encode(std::iter::once(propagation), family)?;
        let help = "Time from a request's head to its answer";
        let mut family = encoder.encode_descriptor("request_seconds", help, None, MetricType::Histogram)?;
        for (protocol, name) in PROTOCOLS {
            let times = blocks().map(|block| &block.request_seconds[protocol as usize]);
            Histogram::encode(times, family.encode_family(&[("protocol", name)])?)?;
        }
        Ok(())
    }
}
