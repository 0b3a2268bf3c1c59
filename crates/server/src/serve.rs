//! Running the service: bind everything, say where, serve until told to stop, drain.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tollgate_catalog::model::Eras;
use tollgate_catalog::repository::{Repository, RepositoryError};

use crate::catalogue::{Catalogue, Disk, FileSet, Kept};
use crate::clock;
use crate::control_plane::{self, AdminToken, ControlPlane, Oidc};
use crate::data_plane::{DataPlane, Http, Jwt};
use crate::engine::{Engine, random_seed};
use crate::fleet::Fleet;
use crate::grpc::Grpc;
use crate::issuer;
use crate::ledger::{Keeping, Ledger};
use crate::metrics::{IssuerMetrics, Metrics, Origin};
use crate::org_cap::OrgCap;
use crate::policies;
use crate::reservations::{Keys, Reservations};
use crate::resp::Resp;
use crate::settings::Settings;
use crate::tls::{self, Certificates, Handshakes};
use crate::workers::{Limits, Protocol, Server};

/// How often a slice of the counters is swept, and how many groups of cells it looks at.
const SWEEP_EVERY: Duration = Duration::from_millis(20);
const SWEEP_GROUPS: usize = 512;

/// Serves until SIGTERM or SIGINT. The error is a sentence.
pub fn serve(settings: Settings) -> Result<(), String> {
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
    std::fs::create_dir_all(&settings.data_dir)
        .map_err(|error| format!("--data-dir: {}: {error}", settings.data_dir.display()))?;
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
    // All are bound before any is served, so that a port in use leaves nothing half started.
    let http = bind("http", settings.http)?;
    let grpc = bind("grpc", settings.grpc)?;
    let admin = bind("admin", settings.admin)?;
    let resp = settings.resp.map(|address| bind("resp", address)).transpose()?;
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
    let addresses = Listeners {
        http,
        grpc,
        admin,
        resp,
    };
    runtime.block_on(run(settings, start, addresses))
}

/// The addresses that are bound.
struct Listeners {
    http: TcpListener,
    grpc: TcpListener,
    admin: TcpListener,
    resp: Option<TcpListener>,
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
    let grpc = Grpc::new(data_plane.clone(), stopped.clone()).await;
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
        tokio::spawn(watched);
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
    println!("{line}");
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

/// Serves what the threads of the data plane speak.
fn serve_workers(
    settings: &Settings,
    (http, grpc, resp): (TcpListener, TcpListener, Option<TcpListener>),
    (plane, speaks_grpc): (&Arc<DataPlane>, &Grpc),
    handshakes: Option<&Handshakes>,
    stopped: &watch::Receiver<bool>,
) -> std::io::Result<Vec<Server>> {
    let limits = Limits {
        connections: settings.max_connections,
        ..Limits::default()
    };
    let start = Starting {
        threads: settings.threads,
        handshakes,
        stopped,
    };
    let mut servers = vec![start.server(http, limits, &Http(plane.clone()))?];
    let turning_away = Limits {
        turns_away: true,
        ..limits
    };
    servers.push(start.server(grpc, turning_away, speaks_grpc)?);
    if let Some(resp) = resp {
        let patient = Limits {
            // Pools of clients keep connections for later.
            idle_timeout: Duration::from_mins(10),
            ..limits
        };
        servers.push(start.server(resp, patient, &Resp::new(plane))?);
    }
    Ok(servers)
}

/// What the servers of the data plane have in common.
struct Starting<'a> {
    threads: usize,
    handshakes: Option<&'a Handshakes>,
    stopped: &'a watch::Receiver<bool>,
}

impl Starting<'_> {
    fn server(
        &self,
        listener: TcpListener,
        limits: Limits,
        speaks: &impl Protocol,
    ) -> std::io::Result<Server> {
        let handshakes = self.handshakes.cloned();
        Server::start(listener, self.threads, limits, speaks, handshakes, self.stopped)
    }
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
    engine: &Engine,
) -> Result<Option<Keeping>, String> {
    let fail = |error: &dyn std::fmt::Display| format!("no quota ledger: {error}");
    let repository = Repository::later(&settings.database).map_err(|error| fail(&error))?;
    if fleet.is_some() && !repository.is_shared() {
        tracing::info!(
            "quotas are as durable as Redis is: for a ledger all nodes need one PostgreSQL (--database)"
        );
        return Ok(None);
    }
    let node = getrandom::u64().map_err(|error| fail(&error))?;
    let node = format!("{node:016x}");
    let ledger = Arc::new(Ledger::new(
        repository,
        engine.store.clone(),
        engine.seed(),
        &settings.region,
        node,
        settings.quota_alerts.clone(),
    ));
    engine.keep_quotas(ledger.clone());
    Keeping::start(ledger).map(Some).map_err(|error| fail(&error))
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

/// Opens the catalogue's database. If it does not answer, what was last seen of it is on disk, or in Redis.
async fn open_database(
    url: &str,
    disk: &Disk,
    fleet: Option<&Fleet>,
) -> Result<(Repository, Origin, Option<Kept>), String> {
    let error = match Repository::open(url).await {
        Ok(repository) => {
            if let Some(fleet) = fleet.filter(|_| repository.backend() == "sqlite") {
                fleet.warn_of_mirror().await;
            }
            return Ok((repository, Origin::Database, None));
        }
        Err(error) => error,
    };
    if !matches!(error, RepositoryError::Database(_) | RepositoryError::Late) {
        return Err(format!("--database: {error}"));
    }
    let unreadable = |place: &'static str| {
        move |problem: std::io::Error| {
            tracing::error!("the catalogue that was kept {place} can't be read: {problem}");
            None
        }
    };
    let mut kept = disk.read().unwrap_or_else(unreadable("on disk"));
    let mut origin = Origin::Disk;
    if let (None, Some(fleet)) = (&kept, fleet) {
        origin = Origin::Redis;
        kept = fleet
            .mirror
            .fetch(disk)
            .await
            .unwrap_or_else(unreadable("in Redis"));
    }
    match (kept, Repository::later(url)) {
        (Some(kept), Ok(repository)) => {
            tracing::error!(
                revision = kept.revision(),
                "the catalogue's database does not answer, what was kept {} is in force: {error}",
                if origin == Origin::Disk {
                    "on disk"
                } else {
                    "in Redis"
                },
            );
            Ok((repository, origin, Some(kept)))
        }
        _ => Err(format!("--database: {error}")),
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

/// How often an org may ask, if that is limited. The kill switch refuses nothing.
fn org_cap(settings: &Settings, engine: &Engine, stopped: &watch::Receiver<bool>) -> Option<Arc<OrgCap>> {
    let rate = settings.max_org_rate.filter(|_| !settings.shadow_all)?;
    let cap = Arc::new(OrgCap::new(rate as u64, engine.seed()));
    let swept = cap.clone();
    tokio::spawn(sweep(move || swept.sweep(clock::now()), stopped.clone()));
    Some(cap)
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

/// The signals that end the server.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn catch() -> Result<Self, String> {
        let fail = |error: std::io::Error| format!("could not catch signals: {error}");
        Ok(Self {
            terminate: signal(SignalKind::terminate()).map_err(fail)?,
            interrupt: signal(SignalKind::interrupt()).map_err(fail)?,
        })
    }

    async fn come(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Comes back once the server is told to stop.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

fn bind(name: &str, address: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(address).map_err(|error| format!("--{name}: could not bind {address}: {error}"))
}

fn listener(listener: TcpListener) -> std::io::Result<tokio::net::TcpListener> {
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener)
}

impl Listeners {
    /// Says where it listens.
    fn line(&self) -> Result<String, String> {
        let address = |listener: &TcpListener| listener.local_addr().map_err(|error| error.to_string());
        let (http, grpc, admin) = (address(&self.http)?, address(&self.grpc)?, address(&self.admin)?);
        let line = format!("tollgate listening http={http} grpc={grpc} admin={admin}");
        Ok(match &self.resp {
            Some(resp) => format!("{line} resp={}", address(resp)?),
            None => line,
        })
    }
}

fn sweep_counters(engine: &Arc<Engine>, stopped: &watch::Receiver<bool>) {
    let swept = engine.store.clone();
    let swept = move || swept.sweep(SWEEP_GROUPS, clock::now());
    tokio::spawn(sweep(swept, stopped.clone()));
}

/// Ends reservations whose time has come, and forgets old keys.
fn sweep_charges(reservations: Arc<Reservations>, keys: Arc<Keys>, stopped: &watch::Receiver<bool>) {
    let swept = move || {
        let now = clock::now();
        reservations.sweep(now);
        keys.sweep(now);
    };
    tokio::spawn(sweep(swept, stopped.clone()));
}

/// Forgets idle counters, one shard's slice at a time.
async fn sweep(slice: impl Fn() + Send, mut stop: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(SWEEP_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => slice(),
            () = stopped(&mut stop) => return,
        }
    }
}
