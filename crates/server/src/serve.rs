//! Running the service: bind everything, say where, serve until told to stop, drain.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tollgate_catalog::repository::{Repository, RepositoryError};

use crate::catalogue::{Catalogue, Disk, FileSet, Kept};
use crate::clock;
use crate::control_plane::{AdminToken, ControlPlane, router};
use crate::data_plane::{DataPlane, Limits, Server};
use crate::engine::{Engine, random_seed};
use crate::metrics::Metrics;
use crate::policies;
use crate::settings::Settings;

/// Connections to the admin address open at once.
const MAX_ADMIN_CONNECTIONS: usize = 256;
/// How often a slice of the counters is swept, and how many groups of cells it looks at.
const SWEEP_EVERY: Duration = Duration::from_millis(20);
const SWEEP_GROUPS: usize = 512;

/// Serves until SIGTERM or SIGINT. The error is a sentence.
pub fn serve(settings: Settings) -> Result<(), String> {
    let stamp = settings.policies.as_deref().and_then(policies::stamp);
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
    };
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
    };
    runtime.block_on(run(settings, start, [http, grpc, admin]))
}

/// What was found before anything is served.
struct Start {
    stamp: Option<policies::Stamp>,
    file: FileSet,
    engine: Arc<Engine>,
    token: AdminToken,
}

async fn run(settings: Settings, start: Start, [http, grpc, admin]: [TcpListener; 3]) -> Result<(), String> {
    let Start {
        stamp,
        file,
        engine,
        token,
    } = start;
    let metrics = Arc::new(Metrics::default());
    let disk = Disk::in_dir(&settings.data_dir);
    let (repository, kept) = open_database(&settings.database, &disk).await?;
    metrics.catalogue_from_disk(kept.is_some());
    let catalogue = Catalogue::open(repository, engine.clone(), metrics.clone(), file, disk, kept).await;
    let catalogue = catalogue.map_err(|error| format!("--database: {error}"))?;
    let (stop, stopped) = watch::channel(false);
    let line = listening_line(&http, &grpc, &admin)?;
    let fail = |error: std::io::Error| format!("could not start: {error}");
    let data_plane = Arc::new(DataPlane {
        engine: engine.clone(),
        metrics: metrics.clone(),
        styles: settings.headers,
        trusted_proxies: settings.trusted_proxies.clone(),
    });
    let limits = Limits {
        connections: settings.max_connections,
        ..Limits::default()
    };
    let server = Server::start(http, settings.threads, limits, &data_plane, &stopped).map_err(fail)?;
    let control_plane = Arc::new(ControlPlane {
        engine: engine.clone(),
        metrics: metrics.clone(),
        token,
        catalogue: catalogue.clone(),
    });
    let admin = tokio::spawn(serve_admin(
        listener(admin).map_err(fail)?,
        control_plane,
        stopped.clone(),
    ));
    let grpc = tokio::spawn(serve_grpc(listener(grpc).map_err(fail)?, stopped.clone()));
    tokio::spawn(sweep(engine.clone(), stopped.clone()));
    if let Some(path) = settings.policies.clone() {
        tokio::spawn(policies::watch(
            path,
            stamp,
            catalogue.clone(),
            metrics,
            stopped.clone(),
        ));
    }
    // SQLite is on this disk itself.
    let keeper =
        (catalogue.repository().backend() != "sqlite").then(|| catalogue.keep_on_disk(stopped.clone()));
    let follower = tokio::spawn(catalogue.clone().follow(stopped));
    // Signals are caught before the line is out: whoever reads it may send one at once.
    let fail = |error: std::io::Error| format!("could not catch signals: {error}");
    let mut terminate = signal(SignalKind::terminate()).map_err(fail)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(fail)?;
    println!("{line}");
    tracing::info!(
        region = settings.region,
        shadow_all = settings.shadow_all,
        "serving"
    );
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("draining");
    let _ = stop.send(true);
    let _ = tokio::task::spawn_blocking(|| server.join()).await;
    let _ = tokio::join!(admin, grpc, follower);
    if let Some(keeper) = keeper {
        let _ = keeper.await;
    }
    catalogue.repository().close().await;
    Ok(())
}

/// Opens the catalogue's database. If it does not answer, what was last seen of it is on disk.
async fn open_database(url: &str, disk: &Disk) -> Result<(Repository, Option<Kept>), String> {
    let error = match Repository::open(url).await {
        Ok(repository) => return Ok((repository, None)),
        Err(error) => error,
    };
    if !matches!(error, RepositoryError::Database(_) | RepositoryError::Late) {
        return Err(format!("--database: {error}"));
    }
    let kept = disk.read().unwrap_or_else(|problem| {
        tracing::error!("the catalogue that was kept on disk can't be read: {problem}");
        None
    });
    match (kept, Repository::later(url)) {
        (Some(kept), Ok(repository)) => {
            tracing::error!(
                revision = kept.revision(),
                "the catalogue's database does not answer, what was kept on disk is in force: {error}"
            );
            Ok((repository, Some(kept)))
        }
        _ => Err(format!("--database: {error}")),
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

fn listening_line(http: &TcpListener, grpc: &TcpListener, admin: &TcpListener) -> Result<String, String> {
    let address = |listener: &TcpListener| listener.local_addr().map_err(|error| error.to_string());
    let (http, grpc, admin) = (address(http)?, address(grpc)?, address(admin)?);
    Ok(format!(
        "tollgate listening http={http} grpc={grpc} admin={admin}"
    ))
}

/// The admin address. Served connection by connection, since axum's own server would leave the header timeout
/// without a timer.
async fn serve_admin(
    listener: tokio::net::TcpListener,
    plane: Arc<ControlPlane>,
    mut stop: watch::Receiver<bool>,
) {
    let service = TowerToHyperService::new(router(plane));
    let slots = Arc::new(Semaphore::new(MAX_ADMIN_CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopped(&mut stop) => return,
        };
        let Ok((stream, _)) = accepted else { continue };
        // Past the cap a connection is closed at once: probes notice, and nothing piles up.
        let Ok(slot) = slots.clone().try_acquire_owned() else {
            continue;
        };
        let (service, mut stop) = (service.clone(), stop.clone());
        tokio::spawn(async move {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(Duration::from_secs(10))
                .max_buf_size(32 * 1024)
                .serve_connection(TokioIo::new(stream), service);
            let mut connection = std::pin::pin!(connection);
            tokio::select! {
                _ = connection.as_mut() => {}
                () = stopped(&mut stop) => {
                    connection.as_mut().graceful_shutdown();
                    let _ = tokio::time::timeout(Duration::from_secs(5), connection).await;
                }
            }
            drop(slot);
        });
    }
}

/// The gRPC address: health, and beside it the place of the data plane's services.
async fn serve_grpc(listener: tokio::net::TcpListener, mut stop: watch::Receiver<bool>) {
    let (_, health) = tonic_health::server::health_reporter();
    let served = tonic::transport::Server::builder()
        .max_concurrent_streams(1024)
        .timeout(Duration::from_secs(10))
        .add_service(health)
        .serve_with_incoming_shutdown(
            tonic::transport::server::TcpIncoming::from(listener).with_nodelay(Some(true)),
            async move { stopped(&mut stop).await },
        )
        .await;
    if let Err(error) = served {
        tracing::error!(%error, "the gRPC address stopped");
    }
}

/// Forgets idle counters, one shard's slice at a time.
async fn sweep(engine: Arc<Engine>, mut stop: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(SWEEP_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => engine.store.sweep(SWEEP_GROUPS, clock::now()),
            () = stopped(&mut stop) => return,
        }
    }
}
