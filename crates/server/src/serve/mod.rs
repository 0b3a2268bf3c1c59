//! Running the service: bind everything, say where, serve until told to stop, drain.

mod data_dir;
mod database;
mod fronts;
mod inherited;
mod listeners;
mod open_files;
mod signals;
mod sweeps;

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tollgate_catalog::model::Eras;
use tollgate_catalog::repository::Repository;

use crate::catalogue::{Catalogue, Disk, FileSet};
use crate::clock;
use crate::control_plane::{self, AdminToken, ControlPlane, Oidc};
use crate::data_plane::{DataPlane, Jwt};
use crate::engine::{Engine, random_seed};
use crate::fleet::Fleet;
use crate::grpc::Grpc;
use crate::issuer;
use crate::ledger::{Estates, Journals, Keeping, Ledger, Wills};
use crate::metrics::{IssuerMetrics, Metrics};
use crate::policies;
use crate::reservations::{Keys, Reservations};
use crate::settings::Settings;
use crate::tls::{self, Certificates, Handshakes};
use crate::workers::Server;

use data_dir::DataDir;
use database::open_database;
use fronts::serve_workers;
use listeners::{Listeners, listener};
use signals::Signals;
use sweeps::{org_cap, sweep, sweep_charges, sweep_counters};

/// How long what is under way on other threads has to end once all has been served.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Serves until SIGTERM or SIGINT. The error is a sentence.
pub fn serve(settings: Settings) -> Result<(), String> {
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
    open_files::compare(&settings);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("control-plane")
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime: {error}"))?;
    let start = Start {
        stamp,
        file,
        engine: Arc::new(engine),
        token,
        certificates: certificates.map(Arc::new),
        oidc: oidc.map(Arc::new),
        jwt,
        admin_limits: limits.map(Arc::new),
    };
    let served = runtime.block_on(run(settings, start, listeners));
    // All that counts is done: a disk that does not answer must not keep the process from ending.
    runtime.shutdown_timeout(LAST_WORDS);
    served
}

/// What was found before anything is served.
struct Start {
    stamp: Option<Vec<policies::Stamp>>,
    file: FileSet,
    engine: Arc<Engine>,
    token: AdminToken,
    certificates: Option<Arc<Certificates>>,
    oidc: Option<Arc<Oidc>>,
    jwt: Option<Jwt>,
    admin_limits: Option<Arc<control_plane::Limits>>,
}

async fn run(settings: Settings, start: Start, listeners: Listeners) -> Result<(), String> {
    let Start {
        stamp,
        file,
        engine,
        token,
        certificates,
        oidc,
        jwt,
        admin_limits,
    } = start;
    let metrics = Arc::new(Metrics::default());
    let disk = Disk::in_dir(&settings.data_dir);
    let fleet = start_fleet(&settings).await?;
    let (repository, origin, kept) = open_database(&settings.database, &disk, fleet.as_deref()).await?;
    metrics.catalogue_from(origin);
    let catalogue = Catalogue::open(repository, engine.clone(), metrics.clone(), file, disk, kept).await;
    let catalogue = catalogue.map_err(|error| format!("--database: {error}"))?;
    let (stop, stopped) = watch::channel(false);
    join_fleet(fleet.as_deref(), &engine).await;
    let ledger = keep_ledger(&settings, fleet.as_deref(), &engine)?;
    let reservations = Arc::new(Reservations::new(engine.seed(), engine.store.clone()));
    let keys = Arc::new(Keys::new(engine.seed(), engine.store.clone()));
    let line = listeners.line()?;
    let fail = |error: std::io::Error| format!("could not start: {error}");
    let data_plane = Arc::new(DataPlane {
        engine: engine.clone(),
        metrics: metrics.clone(),
        styles: settings.headers,
        trusted_proxies: settings.trusted_proxies.clone(),
        tokens: settings.data_tokens.clone(),
        jwt,
        org_cap: org_cap(&settings, &engine, &stopped),
        reservations: reservations.clone(),
        keys: keys.clone(),
        rls_headers: settings.rls_headers,
    });
    let handshakes = certificates.map(|certificates| handshakes(certificates, &metrics, &stopped));
    let handshakes = handshakes.transpose().map_err(fail)?;
    let grpc = Grpc::new(data_plane.clone(), stopped.clone());
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
        catalogue: catalogue.clone(),
        fleet: fleet.clone(),
        region: settings.region.clone(),
        reservations: reservations.clone(),
    });
    look_after(&control_plane, &data_plane, &stopped);
    let admin = tokio::spawn(control_plane::serve(
        listener(listeners.admin).map_err(fail)?,
        control_plane,
        handshakes,
        stopped.clone(),
    ));
    sweep_counters(&engine, &stopped);
    sweep_charges(reservations, keys, &stopped);
    if let Some(path) = settings.policies.clone() {
        let watched = policies::watch(path, stamp, catalogue.clone(), metrics, stopped.clone());
        // On a thread of its own: a large file takes a while to compile, and connections are accepted meanwhile.
        let runtime = tokio::runtime::Handle::current();
        tokio::task::spawn_blocking(move || runtime.block_on(watched));
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
    let follower = tokio::spawn(catalogue.clone().follow(stopped));
    // Signals are caught before the line is out: whoever reads it may send one at once.
    let mut end = Signals::catch()?;
    writeln!(std::io::stdout(), "{line}").map_err(|error| format!("the output can't be written: {error}"))?;
    tracing::info!(
        region = settings.region,
        shadow_all = settings.shadow_all,
        "serving"
    );
    end.come().await;
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
    fleet: Option<&Fleet>,
    engine: &Arc<Engine>,
) -> Result<Option<Keeping>, String> {
    let fail = |error: &dyn std::fmt::Display| format!("no quota ledger: {error}");
    let repository = Repository::later(&settings.database).map_err(|error| fail(&error))?;
    if fleet.is_some() && !repository.is_shared() {
        tracing::info!(
            "quotas are as durable as Redis is: for a ledger all nodes need one PostgreSQL (--database)"
        );
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
    stopped: &watch::Receiver<bool>,
) -> std::io::Result<Handshakes> {
    let watching = tls::watch(certificates.clone(), metrics.clone(), stopped.clone());
    tokio::spawn(watching);
    Handshakes::start(certificates, metrics.clone(), stopped.clone())
}

/// Keeps current what both planes know callers by, and small what the control plane has counted of them.
fn look_after(plane: &ControlPlane, data_plane: &DataPlane, stopped: &watch::Receiver<bool>) {
    type Of = fn(&Metrics) -> &IssuerMetrics;
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

/// Comes back once the server is told to stop.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}
