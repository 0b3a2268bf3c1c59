//! A server of a test's own: its process, its ports, its directory.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tempfile::TempDir;

use super::http::{Answer, Ask};
use super::process::{program, program_after};
use super::{DEADLINE, wait_for};

/// What a server is started with.
#[derive(Default)]
pub struct Launch<'a> {
    /// The policy file's text; without one the demonstration set is in force.
    pub policies: Option<&'a str>,
    pub flags: &'a [&'a str],
    pub environment: &'a [(&'a str, &'a str)],
    /// Files that lie in its working directory, by name and text.
    pub files: &'a [(&'a str, &'a str)],
    /// Leave the three addresses to the environment or the configuration file.
    pub bare: bool,
    /// What a shell does before it becomes the server.
    pub shell: Option<&'a str>,
    /// A socket that this shell has as its standard input.
    pub socket: Option<TcpListener>,
}

/// A running server; killed when it goes out of scope.
pub struct Server {
    /// What it was started with.
    command: Command,
    child: Child,
    lines: Receiver<String>,
    stderr: Arc<Mutex<String>>,
    pub http: SocketAddr,
    pub grpc: SocketAddr,
    pub admin: SocketAddr,
    /// Where it speaks Redis's protocol, if it does.
    pub resp: Option<SocketAddr>,
    /// Its working directory, with the policy file and `tollgate-data` in it.
    pub dir: TempDir,
}

impl Server {
    /// Starts a server on a policy file.
    pub fn start(policies: &str, flags: &[&str]) -> Self {
        Self::launch(&Launch {
            policies: Some(policies),
            flags,
            ..Launch::default()
        })
    }

    /// Starts a server and waits until it listens.
    pub fn launch(launch: &Launch<'_>) -> Self {
        let dir = TempDir::new().unwrap();
        let mut command = match launch.shell {
            Some(shell) => program_after(shell, &["serve"]),
            None => program(&["serve"]),
        };
        command
            .current_dir(&dir)
            // Gone with the directory, however the server ends.
            .env("TOLLGATE_QUOTA_JOURNAL", dir.path())
            // A machine that stands still for a moment is not what tests are about; the default is 25.
            .env("TOLLGATE_REDIS_DEADLINE", "250")
            .envs(launch.environment.iter().copied());
        for (name, text) in launch.files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        if let Some(policies) = launch.policies {
            std::fs::write(dir.path().join("policies.yaml"), policies).unwrap();
            command.args(["--policies", "policies.yaml"]);
        }
        if !launch.bare {
            command.args(["--data-dir", "tollgate-data"]);
            for address in ["--http", "--grpc", "--admin"] {
                command.args([address, "127.0.0.1:0"]);
            }
        }
        command.args(launch.flags);
        let socket = launch.socket.as_ref().map(|socket| socket.try_clone().unwrap());
        command.stdin(socket.map_or_else(Stdio::null, |socket| OwnedFd::from(socket).into()));
        Self::spawn(command, dir)
    }

    fn spawn(mut command: Command, dir: TempDir) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let stderr = Arc::new(Mutex::new(String::new()));
        let (child, lines) = run(&mut command, &stderr);
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        // From here on the process is somebody's, so that a failing start leaves none behind.
        let mut server = Self {
            command,
            child,
            lines,
            stderr,
            http: unknown,
            grpc: unknown,
            admin: unknown,
            resp: None,
            dir,
        };
        server.listens();
        server
    }

    /// Waits until it says where it listens.
    fn listens(&mut self) {
        let line = self.lines.recv_timeout(DEADLINE);
        let line = line.unwrap_or_else(|_| panic!("the server does not start: {}", self.stderr()));
        let mut addresses = line
            .strip_prefix("tollgate listening ")
            .unwrap_or_else(|| panic!("not the line that says where: {line}"))
            .split(' ')
            .zip(["http=", "grpc=", "admin=", "resp="])
            .map(|(part, name)| part.strip_prefix(name).unwrap().parse().unwrap());
        let mut address = || addresses.next().unwrap();
        [self.http, self.grpc, self.admin] = [address(), address(), address()];
        self.resp = addresses.next();
    }

    /// Ends it with a signal, such as `TERM` or `KILL`, and starts it again as it was started, in the same
    /// directory. Its addresses are others then, unless they were given.
    pub fn restart(&mut self, signal: &str) {
        self.end(signal);
        self.start_again();
    }

    /// Ends it with a signal, and waits until it has ended.
    pub fn end(&mut self, signal: &str) {
        self.signal(signal);
        self.ended();
    }

    /// Starts it after its end, as it was started, in the same directory.
    pub fn start_again(&mut self) {
        (self.child, self.lines) = run(&mut self.command, &self.stderr);
        self.listens();
    }

    /// The id of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has written something to standard error; its log comes a little after what it does.
    pub fn logs(&self, wanted: &str) -> String {
        super::wait_for(wanted, || Some(self.stderr()).filter(|log| log.contains(wanted)))
    }

    /// What it has written to standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// The path of something in its data directory.
    pub fn data(&self, name: &str) -> PathBuf {
        self.dir.path().join("tollgate-data").join(name)
    }

    pub fn ask(&self, method: &str, target: &str) -> Ask {
        Ask::new(self.http, method, target)
    }

    pub fn ask_admin(&self, method: &str, target: &str) -> Ask {
        Ask::new(self.admin, method, target)
    }

    /// Asks for a decision with a body as it stands.
    pub fn check_raw(&self, body: impl Into<Vec<u8>>) -> Answer {
        self.ask("POST", "/v1/check").body(body).send()
    }

    /// Asks for a decision.
    pub fn check(&self, body: &Value) -> Answer {
        self.check_raw(body.to_string())
    }

    /// Asks for a decision that must be to allow.
    pub fn allowed(&self, body: &Value) -> Value {
        let decision = self.check(body).expect(200);
        assert_eq!(decision["allowed"], true, "{decision}");
        decision
    }

    /// Asks for a decision that must be to deny.
    pub fn denied(&self, body: &Value) -> Value {
        let decision = self.check(body).expect(429);
        assert_eq!(decision["allowed"], false, "{decision}");
        decision
    }

    /// What is left of a policy for this caller, seen without taking any of it.
    pub fn left(&self, policy: &str, body: &Value) -> u64 {
        let mut body = body.clone();
        body["cost"] = 0.into();
        remaining(&self.allowed(&body), policy)
    }

    pub fn metrics(&self) -> String {
        let answer = self.ask_admin("GET", "/metrics").send();
        assert_eq!(answer.status, 200);
        answer.text().to_owned()
    }

    /// The number on one line of the metrics, 0 without one.
    pub fn counted(&self, series: &str) -> u64 {
        let metrics = self.metrics();
        let line = metrics.lines().find_map(|line| line.strip_prefix(series));
        line.map_or(0, |value| value.trim().parse().unwrap())
    }

    /// Puts another text in the policy file's place, at once.
    pub fn write_policies(&self, policies: &str) {
        let next = self.dir.path().join("policies.next");
        std::fs::write(&next, policies).unwrap();
        std::fs::rename(next, self.dir.path().join("policies.yaml")).unwrap();
    }

    /// Changes the policy file and waits until it is in force.
    pub fn reload(&self, policies: &str) {
        let before = self.counted("tollgate_policy_revision");
        self.write_policies(policies);
        wait_for("the new policies", || {
            (self.counted("tollgate_policy_revision") > before).then_some(())
        });
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends a signal, such as `STOP` or `CONT`.
    pub fn signal(&self, signal: &str) {
        let kill = format!("kill -{signal} {}", self.child.id());
        let status = Command::new("sh").args(["-c", &kill]).status().unwrap();
        assert!(status.success());
    }

    /// Waits until the process has ended.
    pub fn wait(mut self) -> ExitStatus {
        self.ended()
    }

    fn ended(&mut self) -> ExitStatus {
        // Its standard output closes when it ends; waiting for that can be given up, unlike for the process.
        loop {
            match self.lines.recv_timeout(DEADLINE) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("the server does not end: {}", self.stderr()),
            }
        }
        self.child.wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a process whose standard output comes line by line and whose standard error is kept.
fn run(command: &mut Command, stderr: &Arc<Mutex<String>>) -> (Child, Receiver<String>) {
    let mut child = command.spawn().unwrap();
    let (sender, lines) = channel();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || {
        for line in stdout.lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    let (log, pipe) = (stderr.clone(), BufReader::new(child.stderr.take().unwrap()));
    std::thread::spawn(move || {
        for line in pipe.lines().map_while(Result::ok) {
            let mut log = log.lock().unwrap();
            log.push_str(&line);
            log.push('\n');
        }
    });
    (child, lines)
}

/// What a decision says is left of a policy.
pub fn remaining(decision: &Value, policy: &str) -> u64 {
    limit(decision, policy)["remaining"].as_u64().unwrap()
}

/// A decision's limit by its policy's id.
pub fn limit<'d>(decision: &'d Value, policy: &str) -> &'d Value {
    let limits = decision["limits"].as_array().unwrap();
    let found = limits.iter().find(|limit| limit["policyId"] == policy);
    found.unwrap_or_else(|| panic!("{policy} did not apply: {decision}"))
}

/// The policies that applied, in the order in which they are shown.
pub fn applied(decision: &Value) -> Vec<&str> {
    let limits = decision["limits"].as_array().unwrap();
    limits
        .iter()
        .map(|limit| limit["policyId"].as_str().unwrap())
        .collect()
}
