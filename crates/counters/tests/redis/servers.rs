//! Redis servers and Clusters for tests, started by the test that uses them.
//!
//! Their data is in directories that go away with them. The file stands alone, so that tests of other crates can
//! include it by its path.
#![allow(dead_code, reason = "each of them uses what it needs")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long anything may take.
const DEADLINE: Duration = Duration::from_mins(1);

/// Runs the server until its own standard input ends, which it does when the test drops it or dies, however it dies.
/// Its first line is the server's process id.
const KEEPER: &str = r#""$@" &
echo $!
exec >/dev/null
read -r _
kill -KILL $!
wait $!"#;

/// Arguments of every server.
const ALWAYS: [&str; 8] = [
    "--save",
    "",
    "--bind",
    "127.0.0.1",
    "--enable-debug-command",
    "yes",
    "--repl-diskless-sync-delay",
    "0",
];

/// Who a server is to those who speak TLS with it.
pub struct Identity {
    pub authority: String,
    pub certificate: String,
    pub key: String,
}

/// A running server; it is stopped when this is dropped.
pub struct Server {
    keeper: Child,
    process: u32,
    pub port: u16,
    secure: bool,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    directory: TempDir,
}

impl Server {
    /// An empty server.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// An empty server with more arguments, such as `--maxmemory 1mb`.
    pub fn start_with(arguments: &[&str]) -> Self {
        Self::make(&["--port"], arguments, &[], &[])
    }

    /// An empty server with these variables in its environment.
    pub fn start_in(environment: &[(&str, &str)]) -> Self {
        Self::make(&["--port"], &[], &[], environment)
    }

    /// An empty server that speaks TLS only, with this certificate and key and those of its authority in PEM.
    pub fn start_secure(identity: &Identity, arguments: &[&str]) -> Self {
        let mut all = vec!["--tls-auth-clients", "no", "--tls-ca-cert-file", "ca.crt"];
        all.extend(["--tls-cert-file", "server.crt", "--tls-key-file", "server.key"]);
        all.extend(arguments);
        let files = [
            ("ca.crt", identity.authority.as_str()),
            ("server.crt", &identity.certificate),
            ("server.key", &identity.key),
        ];
        Self::make(&["--port", "0", "--tls-port"], &all, &files, &[])
    }

    fn make(port: &[&str], arguments: &[&str], files: &[(&str, &str)], environment: &[(&str, &str)]) -> Self {
        let environment = environment
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()));
        let environment: Vec<(String, String)> = environment.collect();
        let directory = tempfile::Builder::new()
            .prefix("redis-")
            .tempdir()
            .expect("a directory");
        for (name, text) in files {
            fs::write(directory.path().join(name), text).expect("a file of the server");
        }
        // Another process may take a port between its choice and its use.
        for _ in 0..10 {
            let (number, bus) = (free_port(), free_port());
            let mut all: Vec<String> = port.iter().map(ToString::to_string).collect();
            all.extend([number.to_string(), "--cluster-port".to_owned(), bus.to_string()]);
            all.extend(ALWAYS.map(String::from));
            all.extend(arguments.iter().map(ToString::to_string));
            if let Some((keeper, process)) = serve(&all, &environment, directory.path()) {
                return Self {
                    keeper,
                    process,
                    port: number,
                    secure: port.contains(&"--tls-port"),
                    arguments: all,
                    environment,
                    directory,
                };
            }
        }
        panic!("redis-server did not start; ./test installs it");
    }

    /// Where it is.
    pub fn url(&self) -> String {
        let scheme = if self.secure { "rediss" } else { "redis" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Runs a command, and gives what it answers: a line for each value, or the error.
    pub fn run(&self, words: &[&str]) -> String {
        let mut client = Command::new("redis-cli");
        client.args(["-p", &self.port.to_string()]);
        if self.secure {
            client.args(["--tls", "--insecure"]);
        }
        let output = client.args(words).output().expect("redis-cli runs");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Runs a command that must succeed.
    pub fn ok(&self, words: &[&str]) {
        assert_eq!(self.run(words), "OK", "{words:?}");
    }

    /// A line of `INFO`.
    pub fn info(&self, name: &str) -> String {
        let all = self.run(&["INFO", "everything"]);
        let mut lines = all
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        lines.next().unwrap_or_default().trim_end().to_owned()
    }

    /// Kills the server, which has no time to write or to say farewell.
    pub fn kill(&mut self) {
        signal("KILL", self.process);
        self.end();
    }

    /// Starts a killed server at the same port with what its disk has.
    pub fn start_again(&mut self) {
        self.start_again_with(&[]);
    }

    /// Starts it with other arguments, too, and does not wait until it has read its data.
    pub fn start_again_with(&mut self, arguments: &[&str]) {
        let mut all = self.arguments.clone();
        all.extend(arguments.iter().map(ToString::to_string));
        let started = Instant::now();
        loop {
            if let Some((keeper, process)) = serve(&all, &self.environment, self.directory.path()) {
                (self.keeper, self.process) = (keeper, process);
                return;
            }
            assert!(started.elapsed() < DEADLINE, "redis-server did not start again");
        }
    }

    /// Starts a killed server at the same port without its data.
    pub fn start_empty(&mut self) {
        for entry in fs::read_dir(self.directory.path())
            .expect("its directory")
            .flatten()
        {
            let name = entry.file_name();
            if name.to_string_lossy().ends_with(".rdb") {
                fs::remove_file(entry.path()).expect("its data goes");
            } else if name == "appendonlydir" {
                fs::remove_dir_all(entry.path()).expect("its data goes");
            }
        }
        self.start_again();
    }

    /// The directory of its files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Stops the process where it is: connections are taken, and nothing is answered.
    pub fn pause(&self) {
        signal("STOP", self.process);
    }

    /// Lets a paused server go on.
    pub fn resume(&self) {
        signal("CONT", self.process);
    }

    /// Its id in a Cluster.
    pub fn id(&self) -> String {
        self.run(&["CLUSTER", "MYID"])
    }

    fn end(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Three primaries and a replica of each.
pub struct Cluster {
    pub servers: Vec<Server>,
}

impl Cluster {
    /// A Cluster that serves all slots and whose replicas follow.
    pub fn start() -> Self {
        Self::of("4000", Server::start_with)
    }

    /// A Cluster that promotes the replica of a dead primary within seconds, and may take a busy one for dead.
    pub fn start_hasty() -> Self {
        Self::of("1000", Server::start_with)
    }

    /// A Cluster that speaks TLS only.
    pub fn start_secure(identity: &Identity) -> Self {
        let tls = ["--tls-cluster", "yes", "--tls-replication", "yes"];
        Self::of("4000", |arguments| {
            Server::start_secure(identity, &[arguments, &tls].concat())
        })
    }

    fn of(node_timeout: &str, start: impl Fn(&[&str]) -> Server) -> Self {
        let arguments = [
            "--cluster-enabled",
            "yes",
            "--cluster-node-timeout",
            node_timeout,
            "--cluster-replica-validity-factor",
            "0",
        ];
        let cluster = Self {
            servers: (0..6).map(|_| start(&arguments)).collect(),
        };
        let [one, two, three, replicas @ ..] = cluster.servers.as_slice() else {
            unreachable!("there are six")
        };
        for (epoch, (server, [from, to])) in [
            (one, ["0", "5460"]),
            (two, ["5461", "10922"]),
            (three, ["10923", "16383"]),
        ]
        .iter()
        .enumerate()
        {
            server.ok(&["CLUSTER", "SET-CONFIG-EPOCH", &(epoch + 1).to_string()]);
            server.ok(&["CLUSTER", "ADDSLOTSRANGE", from, to]);
        }
        for server in &cluster.servers[1..] {
            let bus = server
                .arguments
                .iter()
                .skip_while(|argument| *argument != "--cluster-port")
                .nth(1);
            one.ok(&[
                "CLUSTER",
                "MEET",
                "127.0.0.1",
                &server.port.to_string(),
                bus.expect("its bus"),
            ]);
        }
        wait_for("everyone to know everyone", || {
            cluster.servers.iter().all(|server| {
                let nodes = server.run(&["CLUSTER", "NODES"]);
                nodes.lines().count() == 6 && !nodes.contains("handshake")
            })
        });
        for (primary, replica) in [one, two, three].into_iter().zip(replicas) {
            replica.ok(&["CLUSTER", "REPLICATE", &primary.id()]);
        }
        cluster.wait_until_whole(3);
        cluster
    }

    /// Waits until all slots are served, so many replicas follow their primaries, and everyone knows who is which.
    pub fn wait_until_whole(&self, replicas: usize) {
        wait_for("the Cluster to be whole", || {
            let running = self
                .servers
                .iter()
                .filter(|server| server.run(&["PING"]) == "PONG");
            let (mut fine, mut following) = (true, 0);
            for server in running {
                let nodes = server.run(&["CLUSTER", "NODES"]);
                fine &= server.run(&["CLUSTER", "INFO"]).contains("cluster_state:ok");
                fine &= nodes.matches(" slave ").count() + nodes.matches("myself,slave ").count() >= replicas;
                following += usize::from(server.info("master_link_status") == "up");
            }
            fine && following >= replicas
        });
    }

    /// Where it is: some of its servers.
    pub fn url(&self) -> String {
        let (one, two) = (&self.servers[0], &self.servers[1]);
        let scheme = if one.secure {
            "rediss-cluster"
        } else {
            "redis-cluster"
        };
        format!("{scheme}://{},{}", one.address(), two.address())
    }

    /// The place of the primary of a slot, as that one sees it itself.
    pub fn primary_of(&self, slot: u16) -> usize {
        let holds = |server: &Server| {
            let nodes = server.run(&["CLUSTER", "NODES"]);
            let myself = nodes.lines().find(|line| line.contains("myself"));
            myself.is_some_and(|line| line.contains("master") && has_slot(line, slot))
        };
        self.servers
            .iter()
            .position(holds)
            .expect("a primary of the slot")
    }

    /// The place of the replica of a server.
    pub fn replica_of(&self, primary: usize) -> usize {
        let port = self.servers[primary].port.to_string();
        let follows = |server: &Server| server.info("master_port") == port;
        self.servers.iter().position(follows).expect("its replica")
    }

    /// Begins to move a slot from one server to another: keys are yet to go.
    pub fn begin_to_move(&self, slot: u16, from: usize, to: usize) {
        let (from, to, slot) = (&self.servers[from], &self.servers[to], slot.to_string());
        to.ok(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from.id()]);
        from.ok(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to.id()]);
    }

    /// Moves one key.
    pub fn move_key(&self, key: &str, from: usize, to: usize) {
        let port = self.servers[to].port.to_string();
        self.servers[from].ok(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]);
    }

    /// Ends the move of a slot, with all keys that are left in it.
    pub fn end_move(&self, slot: u16, from: usize, to: usize) {
        let number = slot.to_string();
        loop {
            let keys = self.servers[from].run(&["CLUSTER", "GETKEYSINSLOT", &number, "100"]);
            if keys.is_empty() {
                break;
            }
            for key in keys.lines() {
                self.move_key(key, from, to);
            }
        }
        let id = self.servers[to].id();
        self.servers[to].ok(&["CLUSTER", "SETSLOT", &number, "NODE", &id]);
        self.servers[from].ok(&["CLUSTER", "SETSLOT", &number, "NODE", &id]);
    }
}

/// Whether a line of `CLUSTER NODES` has a slot.
fn has_slot(line: &str, slot: u16) -> bool {
    line.split_ascii_whitespace().skip(8).any(|word| {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        matches!((first.parse(), last.parse()), (Ok(first), Ok(last)) if (first..=last).contains(&slot))
    })
}

/// Looks again and again until something is so.
pub fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < DEADLINE, "waited in vain for {what}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

fn signal(name: &str, process: u32) {
    let sent = Command::new("sh")
        .args(["-c", &format!("kill -{name} {process}")])
        .status();
    assert!(sent.expect("sh runs").success(), "SIG{name} to {process}");
}

/// Starts a server and waits until it listens; `None` if it ends before.
fn serve(arguments: &[String], environment: &[(String, String)], directory: &Path) -> Option<(Child, u32)> {
    let mut keeper = Command::new("sh")
        .args(["-c", KEEPER, "sh", "redis-server", "--dir"])
        .arg(directory)
        .args(arguments)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("sh runs");
    let mut log = BufReader::new(keeper.stdout.take().expect("a pipe"));
    let (mut line, mut process) = (String::new(), None);
    while log.read_line(&mut line).is_ok_and(|read| read > 0) {
        process = process.or_else(|| line.trim().parse().ok());
        // The last thing it says before it listens, and before it reads its data.
        if line.contains("Server initialized") {
            // A full pipe would stop the server.
            std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
            return Some((keeper, process?));
        }
        line.clear();
    }
    drop(keeper.stdin.take());
    let _ = keeper.wait();
    None
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}
