//! An Envoy of a test's own.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::common::{Answer, Ask, Server, wait_for};
use crate::service::Service;

/// A running Envoy; killed when it goes out of scope.
pub struct Envoy {
    child: Child,
    dir: TempDir,
    pub clients: SocketAddr,
}

impl Envoy {
    /// Starts Envoy by one of the files in deploy/envoy, with the addresses of this test and some more changes.
    pub fn start(file: &str, tollgate: &Server, service: &Service, changes: &[(&str, &str)]) -> Self {
        Self::before(file, tollgate.grpc.port(), service, changes)
    }

    /// The same before another server than Tollgate.
    pub fn before(file: &str, grpc: u16, service: &Service, changes: &[(&str, &str)]) -> Self {
        let program = std::env::var_os("ENVOY");
        let program = program.expect("ENVOY must name the program; ./test installs it and runs this");
        let path = format!("{}/../../deploy/envoy/{file}", env!("CARGO_MANIFEST_DIR"));
        let mut config = std::fs::read_to_string(path).unwrap();
        let port = |port: u16| format!("port_value: {port}");
        let addresses = [
            (port(9901), port(0)),
            (port(10000), port(0)),
            (port(9000), port(service.address.port())),
            (port(8081), port(grpc)),
        ];
        let given = changes
            .iter()
            .map(|(from, to)| ((*from).to_owned(), (*to).to_owned()));
        for (from, to) in addresses.into_iter().chain(given) {
            assert!(config.contains(&from), "{file} has no {from}");
            config = config.replace(&from, &to);
        }
        let dir = TempDir::new().unwrap();
        std::fs::write(dir.path().join("envoy.yaml"), config).unwrap();
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let child = Command::new(program)
            .args(["-c", "envoy.yaml", "--admin-address-path", "admin"])
            .args([
                "--concurrency",
                "1",
                "--disable-hot-restart",
                "--log-level",
                "warning",
                "--component-log-level",
                "rate_limit_quota:debug",
            ])
            .current_dir(&dir)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("Envoy runs");
        let mut envoy = Self {
            child,
            dir,
            clients: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        envoy.clients = wait_for("Envoy's listener", || envoy.listener());
        envoy
    }

    /// Where clients come in, as soon as they can.
    fn listener(&mut self) -> Option<SocketAddr> {
        let log = || std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        assert!(
            self.child.try_wait().unwrap().is_none(),
            "Envoy has ended: {}",
            log()
        );
        let admin = std::fs::read_to_string(self.dir.path().join("admin")).ok()?;
        let admin: SocketAddr = admin.trim().parse().ok()?;
        std::net::TcpStream::connect(admin).ok()?;
        let listeners = Ask::new(admin, "GET", "/listeners").send();
        let line = listeners
            .text()
            .lines()
            .find_map(|line| line.strip_prefix("clients::"))?;
        let address = line.trim().parse().ok()?;
        // Workers take connections a moment after the address is known.
        let ready = Ask::new(admin, "GET", "/ready").send();
        (ready.status == 200).then_some(address)
    }

    /// A request of a client.
    pub fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut ask = Ask::new(self.clients, "GET", path);
        for (name, value) in headers {
            ask = ask.header(name, value);
        }
        ask.send()
    }
}

impl Envoy {
    /// What it has written to its log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
