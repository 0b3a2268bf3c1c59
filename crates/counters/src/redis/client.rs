//! Redis as the counters use it: calls go out, outcomes come back.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use redis::Value;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::address::Server;
use super::census::{self, Plan};
use super::dial::Dialler;
use super::errand::{Answer, Errand};
use super::failure::{Failure, Why};
use super::health::Health;
use super::link::{Link, Owner};
use super::primary::{Means, Primary};
use super::script::{Parts, Script};
use super::settings::Settings;
use super::slots::{self, SLOTS};
use super::survey::survey;
use super::trouble::StartError;

/// How old the word of a server may be that it is a primary.
const FRESH: Duration = Duration::from_secs(1);
/// Servers that others may name beyond those of the map.
const GUESTS: usize = 64;

/// A Redis server, or a Cluster of them.
#[derive(Clone)]
pub struct Redis(Arc<Inner>);

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Redis")
            .field(&self.0.means.settings.address)
            .finish()
    }
}

pub(super) struct Inner {
    pub(super) means: Arc<Means>,
    pub(super) map: ArcSwap<Map>,
    known: Mutex<HashMap<Server, Kept>>,
    /// How the search for a Cluster's map has gone.
    pub(super) found: watch::Sender<Option<Result<(), StartError>>>,
    surveyor: OnceLock<AbortHandle>,
}

/// How a call gets to its server.
#[derive(Clone, Copy)]
enum Way {
    /// At once, if the server answers.
    Any,
    /// At once, whether it answers or not.
    Anyway,
    /// When there is a turn in a lane.
    Lane(usize),
}

/// Which primary serves a slot.
pub(super) struct Map {
    pub(super) primaries: Vec<Arc<Primary>>,
    slots: Vec<Option<u16>>,
}

/// A primary whose connection is kept for as long as this is.
struct Kept(Arc<Primary>, AbortHandle);

impl Drop for Kept {
    fn drop(&mut self) {
        self.1.abort();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(surveyor) = self.surveyor.get() {
            surveyor.abort();
        }
    }
}

impl Redis {
    /// Connects to the server, or to every primary of the Cluster.
    pub async fn connect(settings: Settings) -> Result<Self, StartError> {
        let redis = Self::start(settings, true)?;
        let runtime = redis.0.means.settings.runtime.clone();
        let inner = redis.0.clone();
        // The timers and sockets are the runtime's, whoever waits here.
        let settled = runtime.spawn(async move { inner.settled().await }).await;
        settled.unwrap_or(Err(StartError::Ended))?;
        redis.0.means.quiet.store(false, Ordering::Relaxed);
        Ok(redis)
    }

    /// Goes on trying to connect in the background; until that has happened no call runs.
    pub fn later(settings: Settings) -> Result<Self, StartError> {
        Self::start(settings, false)
    }

    fn start(settings: Settings, quiet: bool) -> Result<Self, StartError> {
        let dialler = Dialler::new(&settings)?;
        let means = Arc::new(Means {
            dialler,
            lineage: Arc::default(),
            settings,
            astray: Notify::new(),
            quiet: AtomicBool::new(quiet),
        });
        let inner = Arc::new(Inner {
            means: means.clone(),
            map: ArcSwap::from_pointee(Map {
                primaries: Vec::new(),
                slots: Vec::new(),
            }),
            known: Mutex::default(),
            found: watch::Sender::new(None),
            surveyor: OnceLock::new(),
        });
        if means.settings.address.cluster {
            let surveyor = means
                .settings
                .runtime
                .spawn(survey(Arc::downgrade(&inner), means.clone()));
            let _ = inner.surveyor.set(surveyor.abort_handle());
        } else {
            let primaries = means.settings.address.servers.clone();
            inner.adopt(&Plan {
                primaries,
                serving: 1,
                slots: vec![Some(0)],
            });
            inner.found.send_replace(Some(Ok(())));
        }
        Ok(Self(inner))
    }

    /// How many slots there are: one, or a Cluster's.
    pub fn slots(&self) -> u16 {
        if self.0.means.settings.address.cluster {
            SLOTS
        } else {
            1
        }
    }

    /// The slot of a hash tag.
    pub fn slot_of(&self, tag: &[u8]) -> u16 {
        if self.0.means.settings.address.cluster {
            slots::slot_of_tag(tag)
        } else {
            0
        }
    }

    /// Has the primary of a slot run a script.
    ///
    /// `build` makes keys and arguments for the connection they are sent on. It is asked again each time the call has
    /// to be sent again, which happens only where it is certain that nothing was executed.
    ///
    /// `then` is told the outcome exactly once: at once and on this thread if the call can't be sent, so hold no lock
    /// that it takes; else on the runtime when the reply comes, after the deadline if it must be, and five seconds
    /// after it in any case. How long to wait for it is the caller's own affair. It must not block.
    pub fn call<B, T>(&self, slot: u16, script: &'static Script, build: B, then: T)
    where
        B: FnMut(&Link) -> Parts + Send + 'static,
        T: FnOnce(Result<Value, Failure>) + Send + 'static,
    {
        self.send(slot, Way::Any, script, build, then);
    }

    /// The same although the server seems to be silent, for what nobody waits for: one that only takes long is heard of.
    pub(super) fn call_anyway<B, T>(&self, slot: u16, script: &'static Script, build: B, then: T)
    where
        B: FnMut(&Link) -> Parts + Send + 'static,
        T: FnOnce(Result<Value, Failure>) + Send + 'static,
    {
        self.send(slot, Way::Anyway, script, build, then);
    }

    /// The same in one of the [`LANES`](crate::shared::node::LANES). A call whose lane is full waits for its turn, and
    /// takes no place from the calls of other lanes meanwhile.
    pub fn call_in_lane<B, T>(&self, slot: u16, lane: usize, script: &'static Script, build: B, then: T)
    where
        B: FnMut(&Link) -> Parts + Send + 'static,
        T: FnOnce(Result<Value, Failure>) + Send + 'static,
    {
        self.send(slot, Way::Lane(lane), script, build, then);
    }

    fn send<B, T>(&self, slot: u16, way: Way, script: &'static Script, build: B, then: T)
    where
        B: FnMut(&Link) -> Parts + Send + 'static,
        T: FnOnce(Result<Value, Failure>) + Send + 'static,
    {
        let answer = Answer::new(then);
        let primary = self.0.primary_of(slot).ok_or(Why::NotConnected);
        let seat = |primary: &Primary| match way {
            Way::Anyway => primary.any_seat(),
            Way::Any | Way::Lane(_) => primary.seat(),
        };
        match primary.and_then(|primary| Ok((seat(&primary)?, primary))) {
            Err(why) => answer.give(Err(Failure::NotRun(why))),
            Ok((seat, primary)) => {
                let errand = Errand {
                    redis: self.0.clone(),
                    slot,
                    script,
                    build,
                };
                self.0.means.settings.runtime.spawn(async move {
                    let outcome = match way {
                        Way::Any | Way::Anyway => errand.run(primary, seat).await,
                        Way::Lane(lane) => {
                            drop(seat);
                            errand.run_in_lane(primary, lane).await
                        }
                    };
                    answer.give(outcome);
                });
            }
        }
    }

    /// Whether an owner is a primary with a connection, and has said so within the last second. See
    /// [`Redis::has_handed_over`] for what that does not tell.
    pub fn is_alive_primary(&self, owner: &Owner) -> bool {
        self.0
            .connection_to(owner)
            .is_some_and(|(link, _)| link.asked.elapsed() < FRESH)
    }

    /// Asks an owner whether it has itself given a slot away, or is about to: a planned migration. After a failover
    /// the old primary is gone, or a replica, or does not know and believes the slot its own. False if there is no
    /// answer.
    pub async fn has_handed_over(&self, owner: &Owner, slot: u16) -> bool {
        let Some((_, primary)) = self.0.connection_to(owner) else {
            return false;
        };
        let Some(connection) = primary.connection() else {
            return false;
        };
        let patience = self.0.means.settings.connect_timeout;
        let asking = async move {
            let nodes = connection.line().ask_text(&["CLUSTER", "NODES"]).await.ok()?;
            connection.learn(&primary.server).await.ok()?;
            Some((nodes, connection.link()))
        };
        let asked = self.0.means.settings.runtime.spawn(timeout(patience, asking));
        match asked.await {
            Ok(Ok(Some((nodes, link)))) => {
                self.is_same(link.owner(), owner) && census::has_handed_over(&nodes, slot)
            }
            _ => false,
        }
    }

    /// Whether two owners are one that has kept all it had, by what was seen here or heard of others.
    pub fn is_same(&self, one: &Owner, other: &Owner) -> bool {
        self.0.means.lineage.is_same(one, other)
    }

    /// Owners that became another and kept all they had, to be told to other nodes.
    pub fn changes(&self) -> Vec<(Owner, Owner)> {
        self.0.means.lineage.told()
    }

    /// Hears from another node that one owner became another and kept all it had.
    pub fn hear_of_change(&self, from: &Owner, to: &Owner) {
        self.0.means.lineage.note(from, to);
    }

    /// Whether it is known that the primary of a slot does not answer.
    pub fn is_away(&self, slot: u16) -> bool {
        self.0.primary_of(slot).is_none_or(|primary| primary.is_away())
    }

    /// How each primary is.
    pub fn health(&self) -> Vec<Health> {
        self.0
            .map
            .load()
            .primaries
            .iter()
            .map(|primary| primary.health())
            .collect()
    }
}

impl Inner {
    pub(super) fn primary_of(&self, slot: u16) -> Option<Arc<Primary>> {
        let map = self.map.load();
        let place = (*map.slots.get(usize::from(slot))?)?;
        map.primaries.get(usize::from(place)).cloned()
    }

    /// The primary at an address that another one has named, though it may not be in the map yet.
    pub(super) fn primary_at(&self, server: Server) -> Option<Arc<Primary>> {
        let mut known = self.known.lock();
        if !known.contains_key(&server) && known.len() >= self.map.load().primaries.len() + GUESTS {
            return None;
        }
        Some(self.meet(&mut known, server))
    }

    fn meet(&self, known: &mut HashMap<Server, Kept>, server: Server) -> Arc<Primary> {
        let kept = known.entry(server.clone()).or_insert_with(|| {
            let settings = &self.means.settings;
            let primary = Arc::new(Primary::new(server, self.means.clone()));
            let keeper = settings.runtime.spawn(primary.clone().keep());
            Kept(primary, keeper.abort_handle())
        });
        kept.0.clone()
    }

    /// Puts a map in force. Whom it does not name is left, once calls under way have their replies.
    pub(super) fn adopt(&self, plan: &Plan) {
        let mut known = self.known.lock();
        let mut primaries = Vec::new();
        for (place, server) in plan.primaries.iter().enumerate() {
            let primary = self.meet(&mut known, server.clone());
            primary.serve(place < plan.serving);
            primaries.push(primary);
        }
        known.retain(|server, kept| {
            let stays = plan.primaries.contains(server);
            kept.0.serve(stays && kept.0.serves());
            stays
        });
        let slots = plan.slots.clone();
        self.map.store(Arc::new(Map { primaries, slots }));
    }

    /// The primary whose connection reaches an owner.
    fn connection_to(&self, owner: &Owner) -> Option<(Arc<Link>, Arc<Primary>)> {
        let map = self.map.load();
        map.primaries.iter().find_map(|primary| {
            let connection = primary
                .connection()
                .filter(|connection| !connection.is_closed())?;
            let link = connection.link();
            let same = self.means.lineage.is_same(link.owner(), owner);
            same.then(|| (link, primary.clone()))
        })
    }

    /// Waits until everything needed is connected, or something can't be.
    async fn settled(&self) -> Result<(), StartError> {
        let mut found = self.found.subscribe();
        if let Ok(found) = found.wait_for(Option::is_some).await {
            found.clone().unwrap_or(Ok(()))?;
        }
        let map = self.map.load_full();
        for primary in map.primaries.iter().filter(|primary| primary.serves()) {
            let settled = primary.settled().await;
            settled.map_err(|trouble| StartError::of(&primary.server, trouble))?;
        }
        Ok(())
    }
}
