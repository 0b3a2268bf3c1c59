//! A PostgreSQL server for tests, started by the test that uses it.
//!
//! It needs Debian's binaries, not its cluster: the data is in a directory that goes away with the server. The
//! file stands alone, so that tests of other crates can include it by its path.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

/// Runs the server until its own standard input ends, which it does when the test drops it or dies, however it
/// dies. The second line lets the server alone hold the log, so that the log ends with the server.
const KEEPER: &str = r#""$@" &
exec 2>/dev/null
read -r _
kill -QUIT $!
wait $!"#;

/// A running server; it is stopped when this is dropped.
pub struct Postgres {
    keeper: Child,
    binaries: PathBuf,
    port: u16,
    databases: AtomicU32,
    _directory: TempDir,
}

impl Postgres {
    /// Makes an empty server and waits until it takes connections.
    pub fn start() -> Self {
        let binaries = binaries();
        let directory = tempfile::Builder::new()
            .prefix("postgres-")
            .tempdir()
            .expect("a directory");
        let data = directory.path().join("data");
        if is_root() {
            succeed(Command::new("chown").arg("postgres:").arg(directory.path()));
        }
        let mut initdb = as_user(&binaries.join("initdb"));
        initdb.args([
            "--username=postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
        ]);
        succeed(initdb.arg("--no-sync").arg("--pgdata").arg(&data));
        // Another process may take the port between its choice and its use.
        for _ in 0..10 {
            let port = free_port();
            if let Some(keeper) = serve(&binaries, &data, port) {
                return Self {
                    keeper,
                    binaries,
                    port,
                    databases: AtomicU32::new(0),
                    _directory: directory,
                };
            }
        }
        panic!("PostgreSQL did not start");
    }

    /// Makes an empty database and gives its URL. Where the server can, its text is ordered as in English, not by
    /// bytes, so that nothing comes to depend on the order of bytes by accident.
    pub fn create(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let english = ["--template=template0", "--locale-provider=icu", "--icu-locale=en"];
        if !self.createdb(&name, &english).status.success() {
            let output = self.createdb(&name, &[]);
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        format!("postgres://postgres@127.0.0.1:{}/{name}", self.port)
    }

    fn createdb(&self, name: &str, arguments: &[&str]) -> Output {
        Command::new(self.binaries.join("createdb"))
            .args([
                "--host=127.0.0.1",
                "--username=postgres",
                &format!("--port={}", self.port),
            ])
            .args(arguments)
            .arg(name)
            .output()
            .expect("createdb runs")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// Starts the server; `None` if it ends again before it is ready.
fn serve(binaries: &Path, data: &Path, port: u16) -> Option<Child> {
    let server = as_user(&binaries.join("postgres"));
    let mut keeper = Command::new("sh");
    keeper
        .args(["-c", KEEPER, "sh"])
        .arg(server.get_program())
        .args(server.get_args());
    keeper.arg("-D").arg(data).arg("-p").arg(port.to_string());
    for setting in [
        "listen_addresses=127.0.0.1",
        // Its path could be too long for the system, and nobody uses it.
        "unix_socket_directories=",
        "fsync=off",
        "full_page_writes=off",
        "shared_buffers=16MB",
        "lc_messages=C",
    ] {
        keeper.args(["-c", setting]);
    }
    let mut keeper = keeper
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sh runs");
    let mut log = BufReader::new(keeper.stderr.take().expect("a pipe"));
    let mut line = String::new();
    while log.read_line(&mut line).is_ok_and(|read| read > 0) {
        if line.contains("ready to accept connections") {
            // A full pipe would stop the server.
            std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
            return Some(keeper);
        }
        line.clear();
    }
    drop(keeper.stdin.take());
    let _ = keeper.wait();
    None
}

/// The directory of the newest server's programs.
fn binaries() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let found = versions
        .map(|version| version.path().join("bin"))
        .filter(|directory| directory.join("postgres").exists())
        .max_by_key(|directory| {
            let version = directory
                .parent()
                .and_then(Path::file_name)
                .and_then(|name| name.to_str());
            version.and_then(|name| name.parse::<u32>().ok())
        });
    found.expect("Debian's package postgresql is installed; ./test does so")
}

/// A command that does not run as root: the server refuses to.
fn as_user(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=postgres", "--regid=postgres", "--init-groups", "--"])
        .arg(program);
    command
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}

fn succeed(command: &mut Command) {
    let output = command.output().expect("the command runs");
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
