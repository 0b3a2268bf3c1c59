//! One primary: its connection, which is made anew whenever it is lost, and whether calls are sent there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{timeout, timeout_at};

use super::address::Server;
use super::breaker::Breaker;
use super::connection::{Connection, Seat};
use super::dial::Dialler;
use super::failure::Why;
use super::health::Health;
use super::lineage::Lineage;
use super::settings::Settings;
use super::trouble::Trouble;
use crate::shared::node::LANES;

/// How often a server is asked again who it is. What is known of it is never older than a second.
const LEARN_EVERY: Duration = Duration::from_millis(500);
/// How long after a failure the next attempt is made, one at a time.
const PROBE_EVERY: Duration = Duration::from_millis(100);
/// Who is woken so much too late was held up itself, and may not have read yet what has come.
const OVERSLEPT: Duration = Duration::from_millis(5);
/// How long a reply is waited for. After that the connection is given up, and all its calls with it.
pub(super) const LIFETIME: Duration = Duration::from_secs(5);
/// How long a call waits for its turn in its lane, unless requests wait for longer.
const TURN: Duration = Duration::from_millis(20);
/// How often it is looked at whether a server is silent: so many times before it is taken to be.
const LOOKS: u32 = 4;

/// A primary.
pub(super) struct Primary {
    pub(super) server: Server,
    means: Arc<Means>,
    connection: ArcSwapOption<Connection>,
    breaker: Mutex<Breaker>,
    /// The breaker has nothing to be told of replies, and lets calls pass: what is asked for each of them.
    calm: AtomicBool,
    open: AtomicBool,
    /// How many replies there were.
    heard: AtomicU64,
    /// Someone wants to know at once who is there.
    doubt: Notify,
    standing: watch::Sender<Standing>,
    /// It has slots, as far as is known.
    serving: AtomicBool,
    lanes: [Arc<Semaphore>; LANES],
}

/// How a primary stands.
#[derive(Debug, Clone)]
pub(super) enum Standing {
    Connecting,
    Up,
    Down(Trouble),
}

/// When something was sent, and how many replies there were until then.
#[derive(Clone, Copy)]
pub(super) struct Sent {
    at: Instant,
    heard: u64,
}

/// What a primary needs to connect.
pub(super) struct Means {
    pub(super) settings: Settings,
    pub(super) dialler: Dialler,
    /// Which owners are one.
    pub(super) lineage: Arc<Lineage>,
    /// The map of the slots may not be right any longer.
    pub(super) astray: Notify,
    /// Whoever waits for the connection says himself what is wrong.
    pub(super) quiet: AtomicBool,
}

impl Primary {
    pub(super) fn new(server: Server, means: Arc<Means>) -> Self {
        Self {
            server,
            connection: ArcSwapOption::empty(),
            breaker: Mutex::new(Breaker::new(means.settings.deadline)),
            lanes: [(); LANES].map(|()| Arc::new(Semaphore::new(means.settings.in_lane))),
            means,
            calm: AtomicBool::new(true),
            open: AtomicBool::new(false),
            heard: AtomicU64::new(0),
            doubt: Notify::new(),
            standing: watch::Sender::new(Standing::Connecting),
            serving: AtomicBool::new(false),
        }
    }

    /// Keeps a connection for as long as it is polled.
    pub(super) async fn keep(self: Arc<Self>) {
        let means = &self.means;
        loop {
            let opening = Connection::open(&means.dialler, &self.server, &means.settings, &means.lineage);
            let opened = timeout(means.settings.connect_timeout, opening).await;
            match opened.unwrap_or(Err(Trouble::TimedOut)) {
                Ok(connection) => {
                    let connection = Arc::new(connection);
                    self.connection.store(Some(connection.clone()));
                    self.answered();
                    self.standing.send_replace(Standing::Up);
                    let trouble = self.watch(&connection).await;
                    self.connection.store(None);
                    self.standing.send_replace(Standing::Connecting);
                    // A connection that is lost and made again at once is nobody's concern.
                    if !matches!(trouble, Trouble::Unreachable(_)) {
                        self.fail(trouble);
                    }
                    means.astray.notify_one();
                }
                Err(trouble) => {
                    self.fail(trouble);
                    means.astray.notify_one();
                    tokio::time::sleep(PROBE_EVERY).await;
                }
            }
        }
    }

    /// Asks again and again who is there, until the connection can't be used any longer.
    async fn watch(&self, connection: &Connection) -> Trouble {
        loop {
            let pause = if self.is_open() { PROBE_EVERY } else { LEARN_EVERY };
            tokio::select! {
                () = connection.closed() => return Trouble::Unreachable("the connection was lost".to_owned()),
                () = tokio::time::sleep(pause) => {}
                () = self.doubt.notified() => {}
            }
            match self.learn(connection).await {
                Ok(()) => self.answered(),
                Err(trouble @ Trouble::Unwell(_)) => self.fail(trouble),
                Err(trouble) => return trouble,
            }
        }
    }

    /// Asks who is there. The silence of a server without calls is noticed by this.
    async fn learn(&self, connection: &Connection) -> Result<(), Trouble> {
        let learning = connection.learn(&self.server);
        if let Some(learnt) = self.outlast(self.now_sent(), learning).await {
            return learnt;
        }
        connection.close();
        Err(Trouble::TimedOut)
    }

    /// Waits for a reply for as long as one may come, and takes note again and again that it has not: with every lane
    /// full of calls without an answer, no others are sent that could tell.
    pub(super) async fn outlast<T>(&self, sent: Sent, reply: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(reply);
        let step = self.breaker.lock().patience() / LOOKS;
        while sent.at.elapsed() < LIFETIME {
            let due = Instant::now() + step;
            if let Ok(reply) = timeout_at(due.into(), &mut reply).await {
                return Some(reply);
            }
            self.overdue(sent, due);
        }
        None
    }

    /// The connection, if there is one; whether calls may use it is another question.
    pub(super) fn connection(&self) -> Option<Arc<Connection>> {
        self.connection.load_full()
    }

    /// A place for a call.
    pub(super) fn seat(&self) -> Result<Seat, Why> {
        if self.is_open() {
            return Err(Why::Open);
        }
        self.any_seat()
    }

    /// A place for a call that is sent although the server seems to be silent: nobody waits for its reply.
    pub(super) fn any_seat(&self) -> Result<Seat, Why> {
        match &*self.connection.load() {
            Some(connection) if !connection.is_closed() => connection.seat(),
            _ => Err(Why::NotConnected),
        }
    }

    /// Waits for a turn in a lane.
    pub(super) async fn turn(&self, lane: usize) -> Result<OwnedSemaphorePermit, Why> {
        let turn = self.lanes[lane % LANES].clone().acquire_owned();
        timeout(TURN.max(self.means.settings.patience), turn)
            .await
            .ok()
            .and_then(Result::ok)
            .ok_or(Why::Full)
    }

    /// Waits until it is known whether the server can be used.
    pub(super) async fn settled(&self) -> Result<(), Trouble> {
        let mut standing = self.standing.subscribe();
        let settled = standing.wait_for(|standing| !matches!(standing, Standing::Connecting));
        match settled.await.as_deref() {
            Ok(Standing::Down(trouble)) => Err(trouble.clone()),
            _ => Ok(()),
        }
    }

    /// Waits until there is a connection.
    pub(super) async fn up(&self) {
        let mut standing = self.standing.subscribe();
        let _ = standing
            .wait_for(|standing| matches!(standing, Standing::Up))
            .await;
    }

    /// Has it found out who is there, soon.
    pub(super) fn doubt(&self) {
        self.doubt.notify_one();
    }

    /// Something is sent now.
    pub(super) fn now_sent(&self) -> Sent {
        Sent {
            at: Instant::now(),
            heard: self.heard.load(Ordering::Relaxed),
        }
    }

    /// Takes note of a reply that a working server gives.
    pub(super) fn answered(&self) {
        self.heard.fetch_add(1, Ordering::Relaxed);
        if self.calm.load(Ordering::Acquire) {
            return;
        }
        let mut breaker = self.breaker.lock();
        let ended = breaker.answered(Instant::now());
        self.publish(&breaker);
        drop(breaker);
        if let Some(lasted) = ended {
            if self.is_told_of() {
                tracing::info!(server = %self.server, ?lasted, "Redis answers again");
            }
            self.standing.send_replace(Standing::Up);
        }
    }

    /// Takes note of a reply that had not come when it was due.
    pub(super) fn overdue(&self, sent: Sent, due: Instant) {
        if due.elapsed() > OVERSLEPT {
            return;
        }
        let heard = self.heard.load(Ordering::Relaxed) != sent.heard;
        let mut breaker = self.breaker.lock();
        let begun = breaker.overdue(sent.at, heard, Instant::now());
        self.publish(&breaker);
        drop(breaker);
        if begun {
            self.begun(&Trouble::TimedOut);
        }
    }

    /// Takes note that the server can't be used.
    pub(super) fn fail(&self, trouble: Trouble) {
        let mut breaker = self.breaker.lock();
        let begun = breaker.fail(trouble.clone(), Instant::now());
        self.publish(&breaker);
        drop(breaker);
        if begun {
            self.begun(&trouble);
        }
        self.standing.send_replace(Standing::Down(trouble));
    }

    /// Whether it serves slots.
    pub(super) fn serves(&self) -> bool {
        self.serving.load(Ordering::Relaxed)
    }

    /// Takes note whether it serves slots. The outage of one that does no longer is over.
    pub(super) fn serve(&self, serves: bool) {
        let before = self.serving.swap(serves, Ordering::Relaxed);
        if before
            && !serves
            && let Some(open) = self.breaker.lock().open()
        {
            let lasted = open.since.elapsed();
            tracing::info!(server = %self.server, ?lasted, "other servers have the slots of this Redis now");
        }
    }

    /// Whether its outages are logged.
    fn is_told_of(&self) -> bool {
        self.serves() && !self.means.quiet.load(Ordering::Relaxed)
    }

    fn begun(&self, trouble: &Trouble) {
        if self.is_told_of() {
            tracing::warn!(server = %self.server, "Redis {trouble}; it is sent no calls until it answers again");
        }
        self.doubt();
    }

    fn publish(&self, breaker: &Breaker) {
        self.calm.store(breaker.is_calm(), Ordering::Release);
        self.open.store(breaker.open().is_some(), Ordering::Release);
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Whether it is known that it does not answer.
    pub(super) fn is_away(&self) -> bool {
        self.is_open() || self.connection.load().is_none()
    }

    pub(super) fn health(&self) -> Health {
        let connection = self.connection();
        let open = self.breaker.lock().open().cloned();
        let trouble = open.as_ref().map(|open| &open.trouble);
        let link = connection.as_ref().map(|connection| connection.link());
        let evicts =
            matches!(trouble, Some(Trouble::Evicts(_))) || link.is_some_and(|link| link.evicts.is_some());
        Health {
            evicts,
            server: self.server.to_string(),
            connected: connection
                .as_ref()
                .is_some_and(|connection| !connection.is_closed()),
            in_flight: connection.map_or(0, |connection| connection.in_flight()),
            open_since: open.as_ref().map(|open| open.since),
            trouble: open.map(|open| open.trouble),
        }
    }
}
