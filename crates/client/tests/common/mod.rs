//! A real server over gRPC, in this process.
#![allow(dead_code, missing_docs, clippy::unwrap_used)]

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use tokio::sync::watch;
use tollgate::data_plane::DataPlane;
use tollgate::engine::{Engine, random_seed};
use tollgate::grpc::Grpc;
use tollgate::metrics::Metrics;
use tollgate::workers::{self, Limits};
use tollgate_client::{Check, Client, Settings};
use tonic::transport::{Channel, Endpoint};

pub struct Server {
    pub address: SocketAddr,
    plane: Arc<DataPlane>,
    stop: watch::Sender<bool>,
}

impl Server {
    /// Serves a policy file's text, to callers that show a token if there is one.
    pub fn start(policies: &str, token: Option<&str>) -> Self {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("policies.yaml");
        std::fs::write(&path, policies).unwrap();
        let set = tollgate::policies::load(Some(&path)).unwrap();
        let engine = Engine::new(&set, random_seed().unwrap(), 10_000, false).unwrap();
        let plane = DataPlane {
            tokens: token.map(|token| token.parse().unwrap()),
            ..DataPlane::new(Arc::new(engine), Arc::new(Metrics::default()))
        };
        let plane = Arc::new(plane);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let served = plane.clone();
        std::thread::spawn(move || serve(listener, served, stopped));
        Self { address, plane, stop }
    }

    pub fn client(&self, settings: Settings) -> Client {
        Client::new(channel(self.address), settings)
    }

    /// How many calls it has answered.
    pub fn calls(&self) -> u64 {
        let text = self.plane.metrics.render(&self.plane.engine, None);
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("tollgate_request_seconds_count{protocol=\"grpc\"} "));
        line.unwrap().parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its end is not waited for: it waits for clients that this thread would have to let go.
        let _ = self.stop.send(true);
    }
}

/// Accepts until it is told to stop.
fn serve(listener: TcpListener, plane: Arc<DataPlane>, mut stopped: watch::Receiver<bool>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(async {
        let grpc = Grpc::new(plane, stopped.clone()).unwrap();
        workers::Server::start(listener, 1, Limits::default(), &grpc, None, &stopped).unwrap();
        let _ = stopped.wait_for(|stop| *stop).await;
    });
}

pub fn channel(address: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}"))
        .unwrap()
        .connect_lazy()
}

/// Patient enough for a machine with other things to do.
pub fn patient() -> Settings {
    Settings {
        deadline: std::time::Duration::from_secs(20),
        ..Settings::default()
    }
}

pub fn of_org(org: &str) -> Check {
    Check {
        org_id: Some(org.to_owned()),
        ..Check::default()
    }
}

/// A count in an hour that begins with the first request.
pub fn hourly(limit: u64) -> String {
    format!(
        "policies: [{{id: hourly, scope: org, algorithm: fixed_window, anchor: first, limit: {limit}, window: 1h}}]\n"
    )
}
