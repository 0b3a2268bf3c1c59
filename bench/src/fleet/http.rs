//! How long checks take over HTTP while Redis is well, and while it says nothing.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::open_loop::{self, Times};
use super::server::Server;
use super::{OURS, THEIRS};
use crate::rounds::pin;

const PER_SECOND: u32 = 10_000;
const LASTING: Duration = Duration::from_secs(5);
const ROUNDS: usize = 3;
/// Rounds are repeated until so many of each kind were calm, but not for ever.
const MOST_ROUNDS: usize = 10;

/// Wide enough that nobody is refused, by the share of a node without Redis neither.
const POLICIES: &str = "
policies:
  - {id: key, scope: key, algorithm: token_bucket, limit: 100000, window: 1s}
  - {id: app, scope: app, algorithm: token_bucket, limit: 200000, window: 1s}
  - {id: org, scope: org, algorithm: token_bucket, limit: 400000, window: 1s}
";

struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn run(directory: &Path) {
    let server = Server::start(THEIRS);
    let (_serving, address) = serve(&server, directory);
    pin(THEIRS);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let ask = || runtime.block_on(open_loop::run(address, PER_SECOND, LASTING));
    ask();
    println!(
        "\n{:<44} {:>9} {:>9} {:>9} {:>9} {:>7}",
        "10,000 checks/s, nine of ten by 100 callers", "median", "p99", "p99.9", "most", "stolen"
    );
    let (mut well, mut silent) = (Vec::new(), Vec::new());
    for _ in 0..MOST_ROUNDS {
        if well.len().min(silent.len()) >= ROUNDS {
            break;
        }
        well.extend(show("Redis answers", ask));
        server.freeze(true);
        silent.extend(show("Redis is stopped", ask));
        server.freeze(false);
        ask();
    }
    let rounds = [well.len(), silent.len()];
    if rounds.contains(&0) {
        println!("no round was calm: others have this machine");
        return;
    }
    let ratio = super::median(silent) / super::median(well);
    println!("p99 without against with Redis: {ratio:.2} x, of {rounds:?} calm rounds");
}

/// Prints how long checks took, and gives the p99 in seconds unless the host gave the machine's cores to others
/// meanwhile: everybody waits then, whatever the server does.
fn show(what: &str, ask: impl Fn() -> Times) -> Option<f64> {
    let before = stolen();
    let times = ask();
    let stolen = stolen().saturating_sub(before);
    let millis = |thousandths| times.at(thousandths).as_secs_f64() * 1e3;
    let calm = stolen * 200 <= LASTING;
    println!(
        "{what:<44} {:>6.2} ms {:>6.2} ms {:>6.2} ms {:>6.2} ms {:>4} ms{}",
        millis(500),
        millis(990),
        millis(999),
        millis(1000),
        stolen.as_millis(),
        if calm { "" } else { ", not counted" },
    );
    calm.then(|| times.at(990).as_secs_f64())
}

/// How long either core was taken away so far, by the kernel's count in hundredths of a second.
fn stolen() -> Duration {
    let counts = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let of_core = |line: &str| -> Option<u64> {
        let mut fields = line.split_whitespace();
        let core = fields.next()?.strip_prefix("cpu")?;
        core.parse::<usize>().ok()?;
        fields.nth(7)?.parse().ok()
    };
    Duration::from_millis(counts.lines().filter_map(of_core).max().unwrap_or(0) * 10)
}

/// A server on its own core.
fn serve(server: &Server, directory: &Path) -> (Serving, SocketAddr) {
    let policies = directory.join("policies.yaml");
    std::fs::write(&policies, POLICIES).expect("a file");
    let program = std::env::current_exe()
        .expect("a path")
        .with_file_name("tollgate");
    let mut process = Command::new("taskset")
        .args(["-c", &OURS.to_string()])
        .arg(program)
        .args([
            "serve",
            "--threads",
            "1",
            "--http",
            "127.0.0.1:0",
            "--grpc",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
        ])
        .args(["--redis", &server.address(), "--policies"])
        .arg(&policies)
        .arg("--data-dir")
        .arg(directory.join("data"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("tollgate beside this program");
    let mut line = String::new();
    let output = process.stdout.take().expect("its output");
    BufReader::new(output).read_line(&mut line).expect("a line");
    let address = line
        .split_whitespace()
        .find_map(|part| part.strip_prefix("http="));
    let address = address
        .and_then(|address| address.parse().ok())
        .expect("its address");
    (Serving(process), address)
}
