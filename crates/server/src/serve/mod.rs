//! Running the service: bind everything, say where, serve until told to stop, drain.

mod data_dir;
mod database;
mod ending;
mod fronts;
mod listeners;
mod reload;
mod signals;
mod sweeps;
mod unlimited;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tollgate_catalog::model::Eras;
use tollgate_catalog::repository::{AuditKey, Repository};

use crate::audit_anchor::AuditAnchor;
use crate::catalogue::{Catalogue, Disk, FileSet};
use crate::clock;
use crate::control_plane::{self, AdminToken, ControlPlane, Oidc, Readiness};
use crate::data_plane::{DataPlane, Jwt};
use crate::engine::{Engine, random_seed};
use crate::fleet::{Fleet, unshared};
use crate::grpc::Grpc;
use crate::issuer;
use crate::ledger::{Estates, Journals, Keeping, Ledger, Wills};
use crate::metrics::{IssuerMetrics, Metrics};
use crate::policies;
use crate::settings::Settings;
use crate::tls::{self, Certificates, Handshakes};
use crate::workers::Server;

use data_dir::DataDir;
use database::open_database;
use ending::until_end;
use fronts::serve_workers;
use listeners::Listeners;
use reload::Reload;
use signals::{Hangup, Signals};
use sweeps::{org_cap, sweep, sweep_charges, sweep_counters};
use unlimited::Unlimited;

/// How long the start waits for the policy file's changes to be in the audit.
const FILE_NOTED: Duration = Duration::from_secs(2);
/// How long what is under way on other threads has to end once all has been served.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Serves until SIGTERM or SIGINT. The error is a sentence.
pub fn serve(settings: Settings) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("control-plane")
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime: {error}"))?;
    let hangup = runtime.block_on(async { Hangup::catch() })?;
    std::thread::spawn(clock::count);
    let stamp = settings.policies.as_deref().and_then(policies::stamps);
    let set = policies::load(settings.policies.as_deref()).map_err(|error| error.to_string())?;
    let seed = random_seed().map_err(|error| format!("no randomness for the key seed: {error}"))?;
    let engine = Engine::new(&set, seed, settings.max_counters, settings.shadow_all);
    let engine = engine.map_err(|problems| {
        let path = settings.policies.clone().unwrap_or_default();
        policies::PolicyFileError::Invalid(path, problems).to_string()
    })?;
    let file = FileSet {
        given: settings.policies.is_some(),
        set,
        eras: Eras::default(),
    };
    let certificates = settings.tls.clone().map(Certificates::load).transpose();
    let certificates = certificates.map_err(|error| error.to_string())?;
    let oidc = settings.oidc.clone().map(Oidc::new).transpose()?;
    let jwt = settings.jwt.clone().map(Jwt::new).transpose()?;
    let limits = settings
        .admin_limits
        .read(settings.headers, settings.shadow_all)?;
    let audit_key = settings.audit_key.as_deref().map(read_audit_key).transpose()?;
    DataDir::keep_files_private();
    // Until the process ends.
    let _data_dir = DataDir::lock(&settings.data_dir)?;
    let token = match &settings.admin_token {
        Some(token) => AdminToken::given(token.clone()),
        None => {
            let (token, fresh) = AdminToken::kept(&settings.data_dir).map_err(|error| error.to_string())?;
            if let Some(fresh) = fresh {
                eprintln!("admin token, shown only now: {fresh}");
            }
            token
        }
    };
    let listeners = Listeners::bind(&settings)?;
    let start = Start {
        hangup,
        stamp,
        file,
        engine: Arc::new(engine),
        token,
        certificates: certificates.map(Arc::new),
        oidc: oidc.map(Arc::new),
        jwt,
        admin_limits: limits.map(Arc::new),
        audit_key,
    };
    let served = runtime.block_on(run(settings, start, listeners));
    // All that counts is done: a disk that does not answer must not keep the process from ending.
    runtime.shutdown_timeout(LAST_WORDS);
    served
}

/// Reads the key of the audit. The error is a sentence that names the flag.
fn read_audit_key(path: &Path) -> Result<AuditKey, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("--audit-key: {}: {error}", path.display()))?;
    let key = AuditKey::new(bytes.trim_ascii());
    key.ok_or_else(|| format!("--audit-key: {}: must have at least 16 bytes", path.display()))
}

/// What was found before anything is served.
struct Start {
    hangup: Hangup,
    stamp: Option<Vec<policies::Stamp>>,
    file: FileSet,
    engine: Arc<Engine>,
    token: AdminToken,
    certificates: Option<Arc<Certificates>>,
    oidc: Option<Arc<Oidc>>,
    jwt: Option<Jwt>,
    admin_limits: Option<Arc<control_plane::Limits>>,
    audit_key: Option<AuditKey>,
}

async fn run(settings: Settings, start: Start, listeners: Listeners) -> Result<(), String> {
    let Start {
        hangup,
        stamp,
        file,
        engine,
        token,
        certificates,
        oidc,
        jwt,
        admin_limits,
        audit_key,
    } = start;
    let metrics = Arc::new(Metrics::default());
    let reload = Reload::new(settings.clone());
    let disk = Disk::in_dir(&settings.data_dir);
    let fleet = start_fleet(&settings).await?;
    let (repository, origin, kept) = open_database(&settings.database, &disk, fleet.as_deref()).await?;
    let repository = repository.with_audit_key(audit_key.clone());
    // Before anything is written, if the database answers.
    if kept.is_none()
        && let Err(error) = repository.seal_head().await
    {
        tracing::warn!("the audit's head could not be sealed: {error}");
    }
    let anchor = Arc::new(AuditAnchor::in_dir(&settings.data_dir, &settings.database));
    let catalogue_metrics = metrics.clone();
    metrics.catalogue_from(origin);
    let catalogue = Catalogue::open(repository, engine.clone(), metrics.clone(), file, disk, kept).await;
    let catalogue = catalogue.map_err(|error| format!("--database: {error}"))?;
    let (stop, stopped) = watch::channel(false);
    let (notice, draining) = watch::channel(false);
    join_fleet(fleet.as_deref(), &engine).await;
    let ledger = keep_ledger(&settings, audit_key, fleet.as_deref(), &engine)?;
    let line = listeners.line()?;
    let fail = |error: std::io::Error| format!("could not start: {error}");
    let data_plane = data_plane(&settings, &engine, &metrics, jwt, &stopped);
    let (reservations, keys) = (data_plane.reservations.clone(), data_plane.keys.clone());
    let handshakes =
        certificates.map(|certificates| handshakes(certificates, &metrics, reload.files(), &stopped));
    let handshakes = handshakes.transpose().map_err(fail)?;
    let grpc = Grpc::with_notice(data_plane.clone(), draining.clone(), stopped.clone());
    let grpc = grpc.map_err(|error| format!("could not start: {error}"))?;
    let addresses = (listeners.http, listeners.grpc, listeners.resp);
    let fronts = (&data_plane, &grpc);
    let servers = serve_workers(&settings, addresses, fronts, handshakes.as_ref(), &stopped);
    let servers = servers.map_err(fail)?;
    let control_plane = Arc::new(ControlPlane {
        engine: engine.clone(),
        metrics: metrics.clone(),
        token,
        oidc,
        limits: admin_limits,
        org_caps: settings.org_caps,
        audit_anchor: anchor.clone(),
        catalogue: catalogue.clone(),
        fleet: fleet.clone(),
        region: settings.region.clone(),
        reservations: reservations.clone(),
        readiness: Readiness {
            draining,
            when_degraded: settings.ready_when_degraded,
        },
    });
    look_after(&control_plane, &data_plane, &stopped);
    let admin = control_plane::serve(listeners.admin, control_plane, handshakes, stopped.clone());
    let admin = admin.map_err(fail)?;
    sweep_counters(&engine, &stopped);
    sweep_charges(reservations, keys, &stopped);
    if let Some(path) = settings.policies.clone() {
        let (catalogue, reread) = (catalogue.clone(), reload.files());
        on_a_thread(policies::watch(
            path,
            stamp,
            catalogue,
            metrics,
            reread,
            stopped.clone(),
        ));
    }
    let member = fleet
        .clone()
        .map(|fleet| tokio::spawn(fleet.keep(stopped.clone())));
    // SQLite is on this disk itself.
    let apart = catalogue.repository().backend() != "sqlite";
    let keeper = apart.then(|| catalogue.keep_on_disk(stopped.clone()));
    if let Some(fleet) = fleet.as_ref().filter(|_| apart) {
        catalogue.keep_in_redis(fleet.mirror.clone(), stopped.clone());
    }
    tokio::spawn(anchor.keep(catalogue.repository().clone(), catalogue_metrics, stopped.clone()));
    if let Some(path) = settings.policies.clone() {
        let (catalogue, stopped) = (catalogue.clone(), stopped.clone());
        let (tried, first) = oneshot::channel();
        tokio::spawn(async move { catalogue.note_file_changes(&path, tried, stopped).await });
        // What the file says comes before what is written by API, unless that takes long.
        let _ = tokio::time::timeout(FILE_NOTED, first).await;
    }
    let follower = tokio::spawn(catalogue.clone().follow(stopped));
    // Signals are caught before the line is out: whoever reads it may send one at once.
    let mut signals = Signals::catch(hangup)?;
    writeln!(std::io::stdout(), "{line}").map_err(|error| format!("the output can't be written: {error}"))?;
    tracing::info!(
        region = settings.region,
        shadow_all = settings.shadow_all,
        "serving"
    );
    until_end(&mut signals, &reload, &notice, settings.drain_delay).await;
    tracing::info!("draining");
    let _ = stop.send(true);
    let data_plane = tokio::task::spawn_blocking(|| servers.into_iter().for_each(Server::join));
    let _ = tokio::join!(data_plane, admin, follower);
    give_back(ledger, fleet.zip(member)).await;
    if let Some(keeper) = keeper {
        let _ = keeper.await;
    }
    catalogue.repository().close().await;
    Ok(())
}

/// What decides, as the settings have it.
fn data_plane(
    settings: &Settings,
    engine: &Arc<Engine>,
    metrics: &Arc<Metrics>,
    jwt: Option<Jwt>,
    stopped: &watch::Receiver<bool>,
) -> Arc<DataPlane> {
    Arc::new(DataPlane {
        styles: settings.headers,
        trusted_proxies: settings.trusted_proxies.clone(),
        tokens: settings.data_tokens.clone(),
        jwt,
        required_identity: settings.required_identity,
        org_cap: org_cap(settings, engine, stopped),
        rls_headers: settings.rls_headers,
        ..DataPlane::new(engine.clone(), metrics.clone())
    })
}

/// Reaches for the fleet whose counters are in Redis, if there is one.
async fn start_fleet(settings: &Settings) -> Result<Option<Arc<Fleet>>, String> {
    let Some(redis) = &settings.redis else {
        return Ok(None);
    };
    let fleet = Fleet::start(redis, &settings.region, &settings.data_dir, settings.max_counters).await?;
    fleet.shared.set_most_waiting(settings.max_org_waiting);
    Ok(Some(fleet))
}

/// Joins the fleet, and from now on counts where it does.
async fn join_fleet(fleet: Option<&Fleet>, engine: &Engine) {
    if let Some(fleet) = fleet {
        fleet.join().await;
        engine.share(fleet.shared.clone());
        engine.keep_records(fleet.records());
    }
}

/// Has quotas kept by a ledger in the catalogue's database. Nodes of a fleet that have a file each have only Redis in
/// common.
fn keep_ledger(
    settings: &Settings,
    audit_key: Option<AuditKey>,
    fleet: Option<&Fleet>,
    engine: &Arc<Engine>,
) -> Result<Option<Keeping>, String> {
    let fail = |error: &dyn std::fmt::Display| format!("no quota ledger: {error}");
    let repository = Repository::later(&settings.database).map_err(|error| fail(&error))?;
    let repository = repository.with_audit_key(audit_key);
    if fleet.is_some()
        && let Some(warning) = unshared(repository.backend())
    {
        tracing::warn!("{warning}");
        return Ok(None);
    }
    let run = getrandom::u64().map_err(|error| fail(&error))?;
    let wills = Wills::of(&settings.data_dir, &settings.database, &settings.region);
    let estates = keep_journal(settings, engine, run).and(&wills, run);
    let ledger = Arc::new(Ledger::new(
        repository,
        engine.store.clone(),
        engine.seed(),
        (&settings.region, run),
        Some(&settings.data_dir),
        settings.quota_alerts.clone(),
    ));
    engine.keep_quotas(ledger.clone());
    Keeping::start(ledger, engine.clone(), estates)
        .map(Some)
        .map_err(|error| fail(&error))
}

/// Notes what is left of quotas where it outlives this process, and finds what others before it have left there.
fn keep_journal(settings: &Settings, engine: &Engine, run: u64) -> Estates {
    let Some(directory) = &settings.quota_journal else {
        return Estates::default();
    };
    let journals = Journals::of(directory, &settings.database, &settings.region);
    let left = journals.left();
    let orphans = journals.remove_orphans();
    if orphans > 0 {
        tracing::info!(
            "removed {orphans} journals of quotas in {} whose data directories are gone",
            directory.display()
        );
    }
    match journals.begin(run) {
        Ok(journal) => engine.store.keep_journal(journal),
        Err(error) => tracing::warn!(
            "no journal of quotas in {}: {error}. What this process holds of them when it is killed is lost until their periods end",
            directory.display()
        ),
    }
    left
}

/// Gives back what this node holds of quotas, and what it has on lease. Nothing is decided any more.
async fn give_back(ledger: Option<Keeping>, member: Option<(Arc<Fleet>, JoinHandle<()>)>) {
    if let Some(ledger) = ledger {
        ledger.end().await;
    }
    if let Some((fleet, keeping)) = member {
        let _ = keeping.await;
        fleet.leave().await;
    }
}

/// What makes handshakes, with certificates that are read again when they change.
fn handshakes(
    certificates: Arc<Certificates>,
    metrics: &Arc<Metrics>,
    reread: watch::Receiver<()>,
    stopped: &watch::Receiver<bool>,
) -> std::io::Result<Handshakes> {
    let watching = tls::watch(certificates.clone(), metrics.clone(), reread, stopped.clone());
    tokio::spawn(watching);
    Handshakes::start(certificates, metrics.clone(), stopped.clone())
}

/// Keeps current what both planes know callers by, and small what the control plane has counted of them. Warns of
/// requests that nothing limits.
fn look_after(plane: &ControlPlane, data_plane: &DataPlane, stopped: &watch::Receiver<bool>) {
    type Of = fn(&Metrics) -> &IssuerMetrics;
    let mut unlimited = Unlimited::new(&plane.engine, &plane.metrics, data_plane.required_identity);
    unlimited.look();
    tokio::spawn(unlimited.watch(stopped.clone()));
    let oidc = plane.oidc.as_ref().map(|oidc| &oidc.issuer);
    let jwt = data_plane.jwt.as_ref().map(|jwt| &jwt.issuer);
    for (issuer, of) in [
        (oidc, (|metrics| &metrics.oidc) as Of),
        (jwt, (|metrics| &metrics.jwt) as Of),
    ] {
        if let Some(issuer) = issuer.cloned() {
            tokio::spawn(issuer::follow(issuer, plane.metrics.clone(), of, stopped.clone()));
        }
    }
    if let Some(limits) = plane.limits.clone() {
        tokio::spawn(sweep(move || limits.sweep(), stopped.clone()));
    }
}

/// Has a task done on a thread of its own: to compile a large policy file takes a while, and connections are accepted
/// meanwhile.
fn on_a_thread(task: impl Future<Output = ()> + Send + 'static) {
    let runtime = tokio::runtime::Handle::current();
    tokio::task::spawn_blocking(move || runtime.block_on(task));
}

/// Comes back once the server is told to stop.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}
