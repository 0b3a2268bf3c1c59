//! A connection to a primary that has introduced itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use redis::{Cmd, Pipeline, Value};

use super::address::Server;
use super::dial::{Dialler, Line};
use super::failure::Why;
use super::lineage::Lineage;
use super::link::{Link, Owner, StoreTime};
use super::script::Script;
use super::settings::Settings;
use super::trouble::Trouble;

/// Who was promoted remembers it for longer than this. See [`Lineage`].
const REMEMBERED: Duration = Duration::from_secs(1);

/// How long replicas may take to say that they have something, unless requests wait for longer. What is granted late
/// still counts.
const WITNESS_TIMEOUT: Duration = Duration::from_millis(100);

/// A connection to a primary.
pub(super) struct Connection {
    line: Line,
    witnesses: Witnesses,
    link: ArcSwap<Link>,
    lineage: Arc<Lineage>,
    cluster: bool,
    allow_eviction: bool,
    in_flight: AtomicUsize,
    most_in_flight: usize,
    /// That the user may not do something has been logged.
    complained: AtomicBool,
}

/// Replicas that must have what was written.
#[derive(Clone, Copy)]
struct Witnesses {
    count: u32,
    /// How long they may take to say so, in milliseconds.
    timeout_ms: u128,
}

/// There was no reply, and will be none.
pub(super) enum Lost {
    /// The connection was gone already.
    BeforeSending,
    /// It may have been sent.
    Perhaps,
    /// There was one, but what was done is known to too few replicas.
    Unwitnessed,
}

impl Connection {
    /// Connects, learns who is there and whether it can be used, and tells it the scripts.
    pub(super) async fn open(
        dialler: &Dialler,
        server: &Server,
        settings: &Settings,
        lineage: &Arc<Lineage>,
    ) -> Result<Self, Trouble> {
        let line = dialler.dial(server).await?;
        let known = meet(&line, dialler.is_cluster(), settings.allow_eviction).await?;
        if let Some(policy) = &known.evicts {
            warn_of_eviction(server, policy);
        }
        let witnesses = Witnesses {
            count: settings.witnesses,
            timeout_ms: WITNESS_TIMEOUT.max(settings.patience).as_millis(),
        };
        witnesses.call(&line).await?;
        tell_scripts(&line, &settings.scripts).await?;
        Ok(Self {
            line,
            witnesses,
            link: ArcSwap::from_pointee(known),
            lineage: lineage.clone(),
            cluster: dialler.is_cluster(),
            allow_eviction: settings.allow_eviction,
            in_flight: AtomicUsize::new(0),
            most_in_flight: settings.in_flight,
            complained: AtomicBool::new(false),
        })
    }

    /// What is known of the server.
    pub(super) fn link(&self) -> Arc<Link> {
        self.link.load_full()
    }

    /// Learns again who is there.
    pub(super) async fn learn(&self, server: &Server) -> Result<(), Trouble> {
        let before = self.link.load_full();
        let mut link = meet(&self.line, self.cluster, self.allow_eviction).await?;
        if let Some(policy) = link.evicts.as_ref().filter(|_| before.evicts.is_none()) {
            warn_of_eviction(server, policy);
        }
        self.witnesses.call(&self.line).await?;
        link.time = self.link.load().time.or_later(link.time);
        let kept = !link.promoted && before.asked.elapsed() < REMEMBERED;
        if kept && self.lineage.note(&before.owner, &link.owner) {
            tracing::info!(owner = %link.owner, "Redis has another replication id, and what it had");
        }
        self.link.store(Arc::new(link));
        Ok(())
    }

    /// Takes a place among the calls under way.
    pub(super) fn seat(self: &Arc<Self>) -> Result<Seat, Why> {
        let taken = self.in_flight.fetch_add(1, Ordering::Relaxed);
        let seat = Seat(self.clone());
        if taken < self.most_in_flight {
            Ok(seat)
        } else {
            Err(Why::Full)
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.line.is_closed()
    }

    pub(super) async fn closed(&self) {
        self.line.closed().await;
    }

    /// Gives up on everything that has no reply yet.
    pub(super) fn close(&self) {
        self.line.driver.abort();
    }

    /// Says that the user may not do what it must, once for a connection.
    pub(super) fn complain(&self, server: &Server, error: &str) {
        if !self.complained.swap(true, Ordering::Relaxed) {
            let trouble = Trouble::Refused(error.to_owned());
            tracing::error!(%server, "Redis {trouble}");
        }
    }

    pub(super) fn line(&self) -> &Line {
        &self.line
    }
}

/// A place among the calls under way on a connection.
pub(super) struct Seat(Arc<Connection>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Seat {
    pub(super) fn connection(&self) -> &Arc<Connection> {
        &self.0
    }

    /// Sends commands in one write, and gives the reply to the last of them.
    pub(super) async fn exchange(&self, before: &[Cmd], call: Cmd) -> Result<Value, Lost> {
        let Connection { line, witnesses, .. } = &*self.0;
        if line.is_closed() {
            return Err(Lost::BeforeSending);
        }
        let mut pipe = line.pipe.clone();
        if before.is_empty() && witnesses.count == 0 {
            return pipe.send_packed_command(&call).await.map_err(|_| Lost::Perhaps);
        }
        let mut commands = Pipeline::new();
        for command in before {
            commands.add_command(command.clone());
        }
        commands.add_command(call);
        if witnesses.count > 0 {
            commands.add_command(witnesses.wait());
        }
        let wanted = 1 + usize::from(witnesses.count > 0);
        let replies = pipe.send_packed_commands(&commands, before.len(), wanted).await;
        let mut replies = replies.map_err(|_| Lost::Perhaps)?.into_iter();
        let reply = replies.next().unwrap_or(Value::Nil);
        // What was answered with an error is told apart by that.
        let done = !matches!(reply, Value::ServerError(_));
        if witnesses.count > 0 && done && !replies.next().is_some_and(|seen| witnesses.suffice(&seen)) {
            return Err(Lost::Unwitnessed);
        }
        Ok(reply)
    }
}

impl Witnesses {
    /// Asks how many replicas have all that was written over this connection, once that are so many or time is up.
    fn wait(self) -> Cmd {
        let mut wait = redis::cmd("WAIT");
        wait.arg(self.count).arg(self.timeout_ms.to_string());
        wait
    }

    fn suffice(self, seen: &Value) -> bool {
        matches!(seen, Value::Int(seen) if *seen >= i64::from(self.count))
    }

    /// Makes sure that as many replicas follow as must.
    async fn call(self, line: &Line) -> Result<(), Trouble> {
        if self.count == 0 || self.suffice(&line.ask("WAIT", &self.wait()).await?) {
            Ok(())
        } else {
            Err(Trouble::Unwell(Why::TooFewReplicas))
        }
    }
}

/// Tells a server all scripts, in one trip.
async fn tell_scripts(line: &Line, scripts: &[&Script]) -> Result<(), Trouble> {
    let mut commands = Pipeline::new();
    for script in scripts {
        commands.add_command(script.load());
    }
    if scripts.is_empty() {
        return Ok(());
    }
    let replies = line
        .pipe
        .clone()
        .send_packed_commands(&commands, 0, scripts.len())
        .await;
    for reply in replies.map_err(|error| Trouble::lost(&error))? {
        if let Value::ServerError(error) = reply {
            return Err(Trouble::answered("SCRIPT LOAD", &error));
        }
    }
    Ok(())
}

/// A line of `INFO`.
fn field<'a>(information: &'a str, name: &str) -> Option<&'a str> {
    information
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(str::trim_end)
}

/// Says that a server may forget counters, where that is allowed.
fn warn_of_eviction(server: &Server, policy: &str) {
    tracing::warn!(
        %server,
        policy,
        "this Redis evicts keys when its memory is full: limits whose counters it forgets let too much through"
    );
}

/// Who is there; anything but a primary that works is trouble, and unless that is allowed one that evicts keys is not used.
async fn meet(line: &Line, cluster: bool, allow_eviction: bool) -> Result<Link, Trouble> {
    let time = time(line).await?;
    let asked = Instant::now();
    let ping = redis::cmd("PING");
    let (ping, server, replication, memory, stats) = tokio::join!(
        line.ask("PING", &ping),
        line.ask_text(&["INFO", "server"]),
        line.ask_text(&["INFO", "replication"]),
        line.ask_text(&["INFO", "memory"]),
        line.ask_text(&["INFO", "stats"]),
    );
    let (server, replication, memory, stats) = (server?, replication?, memory?, stats?);
    match (field(&server, "redis_mode"), cluster) {
        (Some("cluster"), false) => return Err(Trouble::IsCluster),
        (Some("standalone"), true) => return Err(Trouble::NoCluster),
        _ => {}
    }
    match field(&replication, "role") {
        Some("master") => {}
        Some(_) => return Err(Trouble::Replica),
        None => return Err(Trouble::Strange("INFO has no role".to_owned())),
    }
    ping?;
    let evicts = field(&memory, "maxmemory_policy").filter(|policy| *policy != "noeviction");
    // What it has forgotten is known by the number of keys. Where forgetting is allowed it makes no difference.
    let evicted = field(&stats, "evicted_keys").filter(|keys| *keys != "0" && !allow_eviction);
    match evicts {
        Some(policy) if !allow_eviction => return Err(Trouble::Evicts(policy.to_owned())),
        _ => {}
    }
    match (field(&server, "run_id"), field(&replication, "master_replid")) {
        (Some(run), Some(id)) => Ok(Link {
            owner: match evicted {
                None => Owner::new(run, id),
                Some(keys) => Owner::new(&format!("{run}-{keys}"), id),
            },
            evicts: evicts.map(str::to_owned),
            // Zeroes unless it has followed another before.
            promoted: field(&replication, "master_replid2")
                .is_none_or(|id| id.contains(|digit| digit != '0')),
            time,
            asked,
        }),
        _ => Err(Trouble::Strange(
            "INFO has no run_id or no master_replid".to_owned(),
        )),
    }
}

async fn time(line: &Line) -> Result<StoreTime, Trouble> {
    let sent = Instant::now();
    let reply = line.ask("TIME", &redis::cmd("TIME")).await?;
    let received = Instant::now();
    let told = redis::from_redis_value(reply);
    let (seconds, micros): (u64, u64) =
        told.map_err(|_| Trouble::Strange("TIME is not answered with two numbers".to_owned()))?;
    let told_us = seconds.saturating_mul(1_000_000).saturating_add(micros);
    Ok(StoreTime::new(told_us, sent, received))
}
