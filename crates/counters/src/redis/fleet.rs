//! The nodes that share a store: who is alive, and whether the store is in use already.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::Value;
use super::call::{ADOPT, CALL, INSTALL, install};
use super::carrier::LOOK;
use super::client::Redis;
use super::failure::Failure;
use super::keys::Keys;
use super::link::Link;
use super::mirror::{MIRROR, PUBLISH, PUT, RENEW};
use super::once::ONCE;
use super::record::{LISTED, RECORD};
use super::script::{Parts, Script};

static BEAT: Script = Script::new("beat", include_str!("beat.lua"));

/// Every script that nodes use, to be loaded when a server is connected to.
pub fn scripts() -> Vec<&'static Script> {
    vec![
        &CALL, &RECORD, &LISTED, &ONCE, &BEAT, &LOOK, &INSTALL, &ADOPT, &MIRROR, &PUBLISH, &PUT, &RENEW,
    ]
}

/// How often a node says that it is alive.
pub const BEAT_EVERY: Duration = Duration::from_millis(500);
/// Without a word for so long a node counts as gone.
const SILENT: u64 = 3_000_000;
/// A node that was here so lately counts in how a limit is shared while the store is away.
const REMEMBERED: Duration = Duration::from_mins(10);
/// A store without its mark is new only if nobody has made the mark again after this time: whoever is alive would.
const DOUBT: Duration = Duration::from_millis(1_250);
/// How often and when a node that could not join tries again, before it goes on without.
const ATTEMPTS: u32 = 10;
const AGAIN: Duration = Duration::from_millis(20);
/// Slots that are installed at a time.
const AT_ONCE: usize = 256;

/// A node of the fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its id.
    pub id: String,
    /// How long ago it was last heard of.
    pub silent: Duration,
    /// What it says of itself.
    pub info: String,
}

/// What a store was found to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// In use.
    InUse,
    /// New: it was made ready.
    New,
    /// Empty, though it was in use: its counters are lost.
    Lost,
}

/// The fleet, as one of its nodes sees it.
pub struct Fleet {
    redis: Redis,
    keys: Keys,
    id: String,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    members: Vec<Member>,
    /// How many were alive, and when; only what is not outdone by a later count.
    counts: VecDeque<(Instant, u64)>,
    /// The store's mark.
    mark: String,
}

struct Beat {
    now: u64,
    marked: bool,
    mark: String,
    /// It is another mark than before.
    lost: bool,
    members: Vec<Member>,
}

impl Fleet {
    /// The fleet of one region, of which this node is one.
    pub fn new(redis: Redis, keys: Keys, id: String) -> Self {
        Self {
            redis,
            keys,
            id,
            seen: Mutex::default(),
        }
    }

    /// Joins the fleet, and makes a store ready that was never used. `known` says that this node has used it before.
    pub async fn join(&self, info: &str, known: bool) -> Result<Found, Failure> {
        for _ in 0..ATTEMPTS {
            match self.try_to_join(info, known).await {
                Err(Failure::NotRun(_)) => tokio::time::sleep(AGAIN).await,
                joined => return joined,
            }
        }
        self.try_to_join(info, known).await
    }

    async fn try_to_join(&self, info: &str, known: bool) -> Result<Found, Failure> {
        if self.say(info, known).await?.marked {
            return Ok(Found::InUse);
        }
        if known {
            return Ok(Found::Lost);
        }
        tokio::time::sleep(DOUBT).await;
        if self.say(info, false).await?.marked {
            return Ok(Found::InUse);
        }
        self.install().await?;
        self.say(info, true).await?;
        Ok(Found::New)
    }

    /// Says that this node is alive, and hears what time the store has, and whether it has another mark than it had: then
    /// it has lost whatever it held.
    pub async fn beat(&self, info: &str) -> Result<(u64, bool), Failure> {
        let beat = self.say(info, true).await?;
        Ok((beat.now, beat.lost))
    }

    /// Says that this node leaves.
    pub async fn leave(&self) -> Result<(), Failure> {
        self.say("", false).await.map(|_| ())
    }

    /// The nodes that were last heard of.
    pub fn members(&self) -> Vec<Member> {
        self.seen.lock().members.clone()
    }

    /// The highest number of nodes that were alive in the ten minutes before the store was last heard; `None` if it never
    /// was.
    pub fn nodes(&self) -> Option<u64> {
        self.seen.lock().counts.front().map(|(_, count)| *count)
    }

    async fn say(&self, info: &str, mark: bool) -> Result<Beat, Failure> {
        let (nodes, marked) = (self.keys.of_fleet("nodes"), self.keys.of_fleet("in-use"));
        let (id, info) = (self.id.clone(), info.to_owned());
        let build = move |_: &Link| {
            let mut parts = Parts::new();
            parts.key(&nodes).key(&marked);
            parts.arg(&id).arg(&info).arg(u8::from(mark));
            parts
        };
        let value = ask_anyway(&self.redis, self.redis.slot_of(b"fleet"), &BEAT, build).await?;
        let mut beat =
            read(&value).ok_or_else(|| Failure::Failed("the fleet's nodes can't be read".to_owned()))?;
        let alive = beat.members.iter().filter(|member| member.is_alive()).count();
        let mut seen = self.seen.lock();
        seen.members.clone_from(&beat.members);
        let count = (alive as u64).max(1);
        while seen.counts.back().is_some_and(|(_, known)| *known <= count) {
            seen.counts.pop_back();
        }
        seen.counts.push_back((Instant::now(), count));
        while seen
            .counts
            .front()
            .is_some_and(|(at, _)| at.elapsed() > REMEMBERED)
        {
            seen.counts.pop_front();
        }
        if !beat.mark.is_empty() {
            let before = std::mem::replace(&mut seen.mark, beat.mark.clone());
            beat.lost = !before.is_empty() && before != beat.mark;
        }
        drop(seen);
        Ok(beat)
    }

    /// Marks every slot as never having held anything.
    async fn install(&self) -> Result<(), Failure> {
        let slots: Vec<u16> = (0..self.redis.slots()).collect();
        for some in slots.chunks(AT_ONCE) {
            let mut asked = JoinSet::new();
            for slot in some.iter().copied() {
                let (redis, keys) = (self.redis.clone(), self.keys.clone());
                asked.spawn(async move {
                    let build = move |link: &Link| install(link.owner(), &keys, [slot]);
                    let mut asked = ask_anyway(&redis, slot, &INSTALL, build.clone()).await;
                    for _ in 0..ATTEMPTS {
                        if !matches!(asked, Err(Failure::NotRun(_))) {
                            break;
                        }
                        tokio::time::sleep(AGAIN).await;
                        asked = ask_anyway(&redis, slot, &INSTALL, build.clone()).await;
                    }
                    asked
                });
            }
            for outcome in asked.join_all().await {
                outcome?;
            }
        }
        Ok(())
    }
}

impl Member {
    /// Whether it counts as alive.
    pub fn is_alive(&self) -> bool {
        self.silent.as_micros() < u128::from(SILENT)
    }
}

/// Has a script run, and waits for it.
pub(super) async fn ask(
    redis: &Redis,
    slot: u16,
    script: &'static Script,
    build: impl FnMut(&Link) -> Parts + Send + 'static,
) -> Result<Value, Failure> {
    let (sender, receiver) = oneshot::channel();
    redis.call(slot, script, build, move |outcome| {
        let _ = sender.send(outcome);
    });
    receiver.await.unwrap_or(Err(Failure::Unknown))
}

/// The same though the server seems to be silent: one that takes longer than requests wait is heard of all the same.
async fn ask_anyway(
    redis: &Redis,
    slot: u16,
    script: &'static Script,
    build: impl FnMut(&Link) -> Parts + Send + 'static,
) -> Result<Value, Failure> {
    let (sender, receiver) = oneshot::channel();
    redis.call_anyway(slot, script, build, move |outcome| {
        let _ = sender.send(outcome);
    });
    receiver.await.unwrap_or(Err(Failure::Unknown))
}

fn read(value: &Value) -> Option<Beat> {
    let Value::Array(parts) = value else { return None };
    let mut parts = parts.iter();
    let now: u64 = text(parts.next()?)?.parse().ok()?;
    let marked = matches!(parts.next()?, Value::Int(1));
    let mark = text(parts.next()?)?.to_owned();
    let mut members = Vec::new();
    while let (Some(id), Some(said)) = (parts.next(), parts.next()) {
        let (seen, info) = text(said)?.split_once(' ')?;
        let silent = now.saturating_sub(seen.parse().ok()?);
        members.push(Member {
            id: text(id)?.to_owned(),
            silent: Duration::from_micros(silent),
            info: info.to_owned(),
        });
    }
    members.sort_by(|a, b| a.id.cmp(&b.id));
    Some(Beat {
        now,
        marked,
        mark,
        lost: false,
        members,
    })
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}
