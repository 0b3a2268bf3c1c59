//! A gateway of a test's own.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::common::{Answer, Ask, Server, wait_for};
use crate::service::Service;

/// How a gateway is started, by the files of a directory in deploy/.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    pub dir: &'static str,
    /// The first is the one with the addresses.
    pub files: &'static [&'static str],
    pub command: &'static [&'static str],
}

/// A running gateway; killed when it goes out of scope.
pub struct Gateway {
    child: Child,
    dir: TempDir,
    clients: SocketAddr,
}

impl Gateway {
    /// Starts a gateway with the addresses of this test and some more changes.
    pub fn start(kind: Kind, tollgate: &Server, service: &Service, changes: &[(&str, &str)]) -> Self {
        let clients = free_address();
        let dir = TempDir::new().unwrap();
        for (number, file) in kind.files.iter().enumerate() {
            let path = format!("{}/../../deploy/{}/{file}", env!("CARGO_MANIFEST_DIR"), kind.dir);
            let mut config = std::fs::read_to_string(path).unwrap();
            let addresses = [
                ("127.0.0.1:10000", clients.to_string()),
                ("127.0.0.1:9000", service.address.to_string()),
                ("127.0.0.1:8080", tollgate.http.to_string()),
            ];
            let given = changes.iter().map(|(from, to)| (*from, (*to).to_owned()));
            for (from, to) in given.chain(addresses).filter(|_| number == 0) {
                assert!(config.contains(from), "{file} has no {from}");
                config = config.replace(from, &to);
            }
            std::fs::write(dir.path().join(file), config).unwrap();
        }
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let [program, arguments @ ..] = kind.command else {
            panic!("no program");
        };
        let child = Command::new(program)
            .args(arguments)
            .current_dir(&dir)
            .env("HOME", dir.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("the gateway runs");
        let mut gateway = Self { child, dir, clients };
        wait_for("the gateway", || {
            let log = || std::fs::read_to_string(gateway.dir.path().join("log")).unwrap_or_default();
            assert!(
                gateway.child.try_wait().unwrap().is_none(),
                "it has ended: {}",
                log()
            );
            TcpStream::connect(clients).ok()
        });
        gateway
    }

    /// A request of a client.
    pub fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.ask("GET", path, headers)
    }

    /// A request of a client whose target is sent as it stands.
    pub fn ask(&self, method: &str, target: &str, headers: &[(&str, &str)]) -> Answer {
        let mut ask = Ask::new(self.clients, method, target);
        for (name, value) in headers {
            ask = ask.header(name, value);
        }
        ask.send()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Of those that have workers the master must be let end them.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

/// An address that was free a moment ago: these programs can't say which one they took.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}
