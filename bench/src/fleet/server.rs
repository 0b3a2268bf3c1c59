//! A redis-server of the benchmark's own.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Three token buckets decided by one script on the server's time, all or none: what most limiters on Redis do for each
/// request.
const THREE_BUCKETS: &str = "
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local arrivals, fits = {}, true
for i = 1, 3 do
  local arrival = tonumber(redis.call('GET', KEYS[i])) or 0
  if arrival < now then arrival = now end
  arrival = arrival + ARGV[1]
  fits = fits and arrival <= now + ARGV[2]
  arrivals[i] = arrival
end
if fits then
  for i = 1, 3 do redis.call('SET', KEYS[i], arrivals[i], 'PX', 60000) end
end
return fits and 1 or 0";

/// How many requests of a round of redis-benchmark.
const REQUESTS: u32 = 200_000;

pub(crate) struct Server {
    process: Child,
    pub(crate) port: u16,
    script: String,
}

impl Server {
    /// Starts one on a core.
    pub(crate) fn start(core: usize) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a free port")
            .port();
        let options = [
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
            "--port",
        ];
        let process = Command::new("taskset")
            .args(["-c", &core.to_string(), "redis-server"])
            .args(options)
            .arg(port.to_string())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server");
        let mut server = Self {
            process,
            port,
            script: String::new(),
        };
        let started = Instant::now();
        while server.cli(&["PING"]) != "PONG" {
            assert!(
                started.elapsed() < Duration::from_secs(10),
                "redis-server does not answer"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        server.script = server.cli(&["SCRIPT", "LOAD", THREE_BUCKETS]);
        server
    }

    pub(crate) fn address(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn cli(&self, arguments: &[&str]) -> String {
        let output = Command::new("redis-cli")
            .args(["-p", &self.port.to_string()])
            .args(arguments)
            .output()
            .expect("redis-cli");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// How many calls of scripts it was sent.
    pub(crate) fn calls(&self) -> u64 {
        let stats = self.cli(&["INFO", "commandstats"]);
        let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:"));
        let calls = line.and_then(|line| line.split("calls=").nth(1)?.split(',').next()?.parse().ok());
        calls.unwrap_or(0)
    }

    /// How many stacks of three redis-benchmark gets decided in a second, sixteen requests at a time on each of its
    /// connections.
    pub(crate) fn benchmark(&self, core: usize) -> f64 {
        let keys = ["{acme}key", "{acme}app", "{acme}org"];
        let output = Command::new("taskset")
            .args([
                "-c",
                &core.to_string(),
                "redis-benchmark",
                "-p",
                &self.port.to_string(),
            ])
            .args(["-P", "16", "-n", &REQUESTS.to_string(), "--csv"])
            .args(["EVALSHA", &self.script, "3"])
            .args(keys)
            // A millionth of a second each, and no end of a burst.
            .args(["1", "1000000000"])
            .output()
            .expect("redis-benchmark");
        let text = String::from_utf8_lossy(&output.stdout);
        let rate = text.lines().last().and_then(|line| {
            let mut fields = line.rsplit("\",\"");
            let fields: Vec<&str> = fields.by_ref().collect();
            let rate = fields.get(fields.len().checked_sub(2)?)?;
            rate.trim_matches('"').parse().ok()
        });
        rate.unwrap_or_else(|| panic!("redis-benchmark said {text}"))
    }

    /// Stops answering, or goes on.
    pub(crate) fn freeze(&self, frozen: bool) {
        let signal = if frozen { "-STOP" } else { "-CONT" };
        let ran = Command::new("kill")
            .args([signal, &self.process.id().to_string()])
            .status();
        assert!(ran.is_ok_and(|status| status.success()), "kill {signal}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
