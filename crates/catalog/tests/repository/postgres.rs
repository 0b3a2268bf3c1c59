//! A PostgreSQL server for tests, started by the test that uses it.
//!
//! It needs Debian's binaries, not its cluster: the data is in a directory that goes away with the server. The
//! file stands alone, so that tests of other crates can include it by its path.
#![allow(dead_code, reason = "each of them uses what it needs")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long the server may take to start again.
const DEADLINE: Duration = Duration::from_secs(20);

/// Runs the server until its own standard input ends, which it does when the test drops it or dies, however it
/// dies. The second line lets the server alone hold the log, so that the log ends with the server. One that is paused
/// has to go on to end.
const KEEPER: &str = r#""$@" &
exec 2>/dev/null
read -r _
kill -QUIT $!
kill -CONT $!
wait $!"#;

/// A running server; it is stopped when this is dropped.
pub struct Postgres {
    keeper: Child,
    binaries: PathBuf,
    port: u16,
    databases: AtomicU32,
    directory: TempDir,
    settings: &'static [&'static str],
}

/// A transaction that is open.
pub struct Held {
    psql: Child,
    input: Option<ChildStdin>,
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.psql.wait();
    }
}

/// A certificate in a server's data directory, and nobody let in without TLS.
const SECURE: &[&str] = &["ssl=on", "ssl_cert_file=server.crt", "ssl_key_file=server.key"];

impl Postgres {
    /// Makes an empty server and waits until it takes connections.
    pub fn start() -> Self {
        Self::make(&[], &[])
    }

    /// Makes an empty server that takes connections over TLS only, with this certificate and key in PEM.
    pub fn start_secure(certificate: &str, key: &str) -> Self {
        let files = [
            ("server.crt", certificate),
            ("server.key", key),
            ("pg_hba.conf", "hostssl all all 127.0.0.1/32 trust\n"),
        ];
        Self::make(SECURE, &files)
    }

    fn make(settings: &'static [&'static str], files: &[(&str, &str)]) -> Self {
        let binaries = binaries();
        let directory = tempfile::Builder::new()
            .prefix("postgres-")
            .tempdir()
            .expect("a directory");
        let data = data(&directory);
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
        for (name, text) in files {
            let path = data.join(name);
            fs::write(&path, text).expect("a file of the server");
            // A key that others may read is refused.
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
            if is_root() {
                succeed(Command::new("chown").arg("postgres:").arg(&path));
            }
        }
        // Another process may take the port between its choice and its use.
        for _ in 0..10 {
            let port = free_port();
            if let Some(keeper) = serve(&binaries, &data, port, settings) {
                return Self {
                    keeper,
                    binaries,
                    port,
                    databases: AtomicU32::new(0),
                    directory,
                    settings,
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

    /// Runs a statement in the database of a URL, and gives what it answers: a line for each row.
    pub fn sql(&self, url: &str, statement: &str) -> String {
        let mut psql = Command::new(self.binaries.join("psql"));
        psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"]);
        psql.args(["--set=ON_ERROR_STOP=1", "--command", statement, url]);
        succeed(&mut psql).trim_end().to_owned()
    }

    /// Runs a statement in a transaction that stays open until what is returned is dropped, and then is rolled back.
    pub fn hold(&self, url: &str, statement: &str) -> Held {
        let mut psql = Command::new(self.binaries.join("psql"));
        psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"]);
        psql.arg("--set=ON_ERROR_STOP=1").arg(url);
        let psql = psql.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut psql = psql.expect("psql runs");
        let mut input = psql.stdin.take().expect("a pipe");
        writeln!(input, "BEGIN;\n{statement};\nSELECT 'held';").expect("psql reads");
        let mut lines = BufReader::new(psql.stdout.take().expect("a pipe")).lines();
        let held = lines.any(|line| line.is_ok_and(|line| line == "held"));
        assert!(held, "{statement} fails");
        Held {
            psql,
            input: Some(input),
        }
    }

    /// Kills the server, which has no time to say farewell to anyone.
    pub fn kill(&mut self) {
        signal("KILL", &[self.process()]);
        // The keeper has to have taken note of the end before the data can be served again.
        self.end();
    }

    /// Starts a server that was killed again, with the same data at the same port.
    pub fn start_again(&mut self) {
        let data = data(&self.directory);
        let started = Instant::now();
        loop {
            // Processes of the killed one may be there for a moment yet.
            if let Some(keeper) = serve(&self.binaries, &data, self.port, self.settings) {
                self.keeper = keeper;
                return;
            }
            assert!(started.elapsed() < DEADLINE, "PostgreSQL did not start again");
        }
    }

    /// Stops all processes of the server where they are: it takes connections, and answers nothing.
    pub fn pause(&self) {
        let server = self.process();
        // The first one no longer makes others when these are looked for.
        signal("STOP", &[server]);
        signal("STOP", &children(server));
    }

    /// Lets a paused server go on.
    pub fn resume(&self) {
        let server = self.process();
        let mut all = children(server);
        all.push(server);
        signal("CONT", &all);
    }

    /// The id of the server's first process.
    fn process(&self) -> u32 {
        let file = data(&self.directory).join("postmaster.pid");
        let text = fs::read_to_string(file).expect("the file of a running server");
        let id = text.lines().next().and_then(|line| line.parse().ok());
        id.expect("the id of a process")
    }

    fn end(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
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
        self.end();
    }
}

fn data(directory: &TempDir) -> PathBuf {
    directory.path().join("data")
}

fn signal(name: &str, processes: &[u32]) {
    let ids: Vec<String> = processes.iter().map(u32::to_string).collect();
    // Some of several may just have ended.
    let _ = Command::new("sh")
        .args(["-c", &format!("kill -{name} {}", ids.join(" "))])
        .stderr(Stdio::null())
        .status();
}

/// The processes that a process has started.
fn children(of: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").expect("the processes").flatten();
    let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parent = |id: &u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name before it, in parentheses, may hold anything.
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    ids.filter(|id| parent(id) == Some(of)).collect()
}

/// Starts the server; `None` if it ends again before it is ready.
fn serve(binaries: &Path, data: &Path, port: u16, settings: &[&str]) -> Option<Child> {
    let server = as_user(&binaries.join("postgres"));
    let mut keeper = Command::new("sh");
    keeper
        .args(["-c", KEEPER, "sh"])
        .arg(server.get_program())
        .args(server.get_args());
    keeper.arg("-D").arg(data).arg("-p").arg(port.to_string());
    let always = [
        "listen_addresses=127.0.0.1",
        // Its path could be too long for the system, and nobody uses it.
        "unix_socket_directories=",
        "fsync=off",
        "full_page_writes=off",
        "shared_buffers=16MB",
        "lc_messages=C",
    ];
    for setting in always.iter().chain(settings) {
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

/// Runs a command that must succeed, and gives what it says.
fn succeed(command: &mut Command) -> String {
    let output = command.output().expect("the command runs");
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
