//! Carries a node's calls to Redis, once it is certain whose data it is that they run on.
//!
//! A slot's sentinel names its owner. A call that comes from another one begins a new generation, in which every
//! counter is cold: that is right after a failover or a restart, but not after a planned migration, where the keys
//! came along. So before the first call over a connection to a new owner, the old one is asked whether it has handed
//! the slot over. Nor is it right if the owner is the same under another replication id: then calls go on in the name
//! that the sentinel has.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use tokio::runtime::Handle;

use super::Value;
use super::call::{ADOPT, CALL, Malformed, adopt, decode, encode};
use super::client::Redis;
use super::failure::{Failure, Why};
use super::fleet::ask;
use super::keys::{Keys, Tag};
use super::link::{Link, Owner};
use super::record::LISTED;
use super::script::{Parts, Script};
use crate::LogPace;
use crate::shared::Carrier;
use crate::shared::call::{Call, Micros, Reply};
use crate::shared::node::Outgoing;
use crate::shared::once::{self, KeyName, Question, Room};
use crate::shared::record::{Act, Errand, Heard, Outcome, RecordName, Said, Token};

/// Reads a key.
pub(super) static LOOK: Script = Script::new("look", "return redis.call('GET', KEYS[1])");
/// How often a call is sent again after its slot's owner was looked at.
const MOST_TRIES: u8 = 3;
/// How long one waits for others to say that an owner is the same: as they find out, and tell.
const HEARSAY: Duration = Duration::from_millis(1_500);
const HEARSAY_EVERY: Duration = Duration::from_millis(20);
/// What is done with a record or a key is right whenever it is run: only once, and only before its end.
const WHENEVER: Micros = (1 << 53) - 1;
/// Where a sentinel's owner begins.
const OWNER_AT: usize = 16;

/// What carries calls to Redis.
#[derive(Clone)]
pub struct RedisCarrier(Arc<Inner>);

struct Inner {
    redis: Redis,
    keys: Keys,
    runtime: Handle,
    /// It is known whether the store is new. Before that a call would take an empty one for one that lost its memory.
    ready: AtomicBool,
    /// Whose each slot is, as far as it was looked at.
    met: RwLock<HashMap<u16, Met>>,
    outcomes: Mutex<BTreeMap<&'static str, u64>>,
}

/// Whose a slot is.
struct Met {
    /// Whom a connection reaches.
    owner: Owner,
    /// The owner's name in the slot's sentinel.
    named: Owner,
    /// When what the slot knows began, and the time it showed, as last heard: told with each call.
    heard: Mutex<Option<[Micros; 2]>>,
}

type Then<T> = Box<dyn FnOnce(T) + Send>;

impl RedisCarrier {
    /// Carries calls about the counters of one region.
    pub fn new(redis: Redis, keys: Keys, runtime: Handle) -> Self {
        Self(Arc::new(Inner {
            redis,
            keys,
            runtime,
            ready: AtomicBool::new(false),
            met: RwLock::default(),
            outcomes: Mutex::default(),
        }))
    }

    /// Says that this node has joined the fleet. Before that no call is carried.
    pub fn begin(&self) {
        self.0.ready.store(true, Ordering::Release);
    }

    /// Does an errand about a record of an org, in one of the lanes. What came of it is heard once, whenever that is.
    pub fn attend(
        &self,
        (tag, lane): (&str, usize),
        record: RecordName,
        act: Act,
        then: impl FnOnce(Result<Said, Failure>) + Send + 'static,
    ) {
        let errand = |heard| Errand {
            not_after: WHENEVER,
            heard,
            record,
            act,
        };
        self.run(tag, lane, errand, then);
    }

    /// Asks about a key of an org, in one of the lanes. What came of it is heard once, whenever that is.
    pub fn remember(
        &self,
        (tag, lane): (&str, usize),
        (key, by): (KeyName, Token),
        act: once::Act,
        room: Room,
        then: impl FnOnce(Result<once::Said, Failure>) + Send + 'static,
    ) {
        let question = |heard| Question {
            not_after: WHENEVER,
            heard,
            key,
            by,
            act,
            room,
        };
        self.run(tag, lane, question, then);
    }

    fn run<C: Errands>(
        &self,
        tag: &str,
        lane: usize,
        content: impl FnOnce([Micros; 2]) -> C,
        then: impl FnOnce(Result<C::Said, Failure>) + Send + 'static,
    ) {
        if !self.0.ready.load(Ordering::Acquire) {
            return then(Err(Failure::NotRun(Why::NotConnected)));
        }
        let (slot, parcel) = self.0.pack(tag, lane, content);
        let inner = self.0.clone();
        let then = move |outcome: Result<Value, Failure>| then(inner.note_errand(slot, outcome.map(C::read)));
        self.0.clone().carry(parcel, Box::new(then), 1);
    }

    /// What is listed of an org's records that are open.
    pub async fn listed(&self, tag: &str) -> Result<Vec<Vec<u8>>, Failure> {
        let tag = Tag::org(tag);
        let slot = self.0.redis.slot_of(tag.as_str().as_bytes());
        let key = self.0.keys.listed(&tag);
        let build = move |_: &Link| {
            let mut parts = Parts::new();
            parts.key(&key);
            parts
        };
        let Value::Array(all) = ask(&self.0.redis, slot, &LISTED, build).await? else {
            return Ok(Vec::new());
        };
        let bytes = |value| match value {
            Value::BulkString(bytes) => Some(bytes),
            _ => None,
        };
        Ok(all.into_iter().filter_map(bytes).collect())
    }

    /// How many calls ended how.
    pub fn outcomes(&self) -> BTreeMap<&'static str, u64> {
        self.0.outcomes.lock().clone()
    }
}

impl Carrier for RedisCarrier {
    fn carry(&self, outgoing: Outgoing, then: Then<Option<Reply>>) {
        if !self.0.ready.load(Ordering::Acquire) {
            return then(Some(Reply::NotRun));
        }
        let (slot, parcel) = self.0.pack(&outgoing.tag, outgoing.lane, |heard| Call {
            heard,
            ..outgoing.call
        });
        let (inner, sent) = (self.0.clone(), parcel.clone());
        let then = move |outcome| then(inner.note(slot, &sent.content, outcome));
        self.0.clone().carry(parcel, Box::new(then), 1);
    }

    fn is_away(&self, tag: &str) -> bool {
        let slot = self.0.redis.slot_of(Tag::org(tag).as_str().as_bytes());
        !self.0.ready.load(Ordering::Acquire) || self.0.redis.is_away(slot)
    }
}

/// What is carried: a call, an errand about a record, or a question about a key.
pub(super) trait Content: Send + Sync + 'static {
    const SCRIPT: &'static Script;

    /// Its keys and arguments.
    fn parts(&self, owner: &Owner, keys: &Keys, tag: &Tag, slot: u16) -> Parts;

    /// The same that comes too late, and so does nothing.
    fn too_late(&self) -> Self;
}

/// What is carried that is no call.
pub(super) trait Errands: Content {
    /// What comes of it.
    type Said: Outcome;

    /// Reads the reply.
    fn read(reply: Value) -> Result<Heard<Self::Said>, Malformed>;
}

impl Content for Call {
    const SCRIPT: &'static Script = &CALL;

    fn parts(&self, owner: &Owner, keys: &Keys, tag: &Tag, slot: u16) -> Parts {
        encode(self, owner, keys, tag, slot)
    }

    fn too_late(&self) -> Self {
        Self {
            not_after: 0,
            ..Self::default()
        }
    }
}

/// What is carried, and where it goes.
struct Parcel<C> {
    tag: Tag,
    slot: u16,
    lane: usize,
    content: C,
}

impl Inner {
    /// Makes a parcel of what is about counters with a tag.
    fn pack<C>(
        &self,
        tag: &str,
        lane: usize,
        content: impl FnOnce([Micros; 2]) -> C,
    ) -> (u16, Arc<Parcel<C>>) {
        let tag = Tag::org(tag);
        let slot = self.redis.slot_of(tag.as_str().as_bytes());
        let content = content(self.heard(slot));
        let parcel = Parcel {
            tag,
            slot,
            lane,
            content,
        };
        (slot, Arc::new(parcel))
    }

    fn carry<C: Content>(
        self: Arc<Self>,
        parcel: Arc<Parcel<C>>,
        then: Then<Result<Value, Failure>>,
        tries: u8,
    ) {
        let strange = Arc::new(AtomicBool::new(false));
        let (inner, sent, seen) = (self.clone(), parcel.clone(), strange.clone());
        let build = move |link: &Link| inner.build(&sent, link, &seen);
        let redis = self.redis.clone();
        redis.call_in_lane(parcel.slot, parcel.lane, C::SCRIPT, build, move |outcome| {
            if strange.load(Ordering::Relaxed) && outcome.is_ok() && tries < MOST_TRIES {
                // It did nothing: first it is looked at whose slot this is.
                let runtime = self.runtime.clone();
                runtime.spawn(async move {
                    self.meet(parcel.slot).await;
                    self.carry(parcel, then, tries + 1);
                });
                return;
            }
            then(outcome);
        });
    }

    /// The keys and arguments of a parcel. To an owner that was not met yet it says that it is too late for it, so that
    /// it does nothing.
    fn build<C: Content>(&self, parcel: &Parcel<C>, link: &Link, strange: &AtomicBool) -> Parts {
        let (keys, tag, slot) = (&self.keys, &parcel.tag, parcel.slot);
        let met = self.met.read();
        let known = met.get(&slot).filter(|met| met.owner == *link.owner());
        strange.store(known.is_none(), Ordering::Relaxed);
        match known {
            Some(known) => parcel.content.parts(&known.named, keys, tag, slot),
            None => parcel.content.too_late().parts(link.owner(), keys, tag, slot),
        }
    }

    fn note(&self, slot: u16, call: &Call, outcome: Result<Value, Failure>) -> Option<Reply> {
        let (name, reply) = match outcome {
            Ok(value) => match decode(call, &value) {
                Ok(Reply::Done(done)) => {
                    self.hear(slot, [done.began, done.now]);
                    ("ok", Some(Reply::Done(done)))
                }
                Ok(reply) => ("late", Some(reply)),
                Err(error) => {
                    tracing::error!("{error}");
                    ("malformed", None)
                }
            },
            Err(failure) => {
                let not_run = matches!(failure, Failure::NotRun(_));
                (name_of(&failure), not_run.then_some(Reply::NotRun))
            }
        };
        *self.outcomes.lock().entry(name).or_default() += 1;
        reply
    }

    fn note_errand<S: Outcome>(
        &self,
        slot: u16,
        outcome: Result<Result<Heard<S>, Malformed>, Failure>,
    ) -> Result<S, Failure> {
        let (name, said) = match outcome {
            Ok(Ok(heard)) if heard.said == S::LATE => ("late", Err(Failure::NotRun(Why::NotConnected))),
            Ok(Ok(heard)) if heard.said == S::LOST => ("lost", Ok(heard.said)),
            Ok(Ok(heard)) => {
                self.hear(slot, [heard.began, heard.now]);
                ("ok", Ok(heard.said))
            }
            Ok(Err(error)) => {
                tracing::error!("{error}");
                ("malformed", Err(Failure::Unknown))
            }
            Err(failure) => (name_of(&failure), Err(failure)),
        };
        *self.outcomes.lock().entry(name).or_default() += 1;
        said
    }

    /// Takes note of what a slot said of itself. If what it knows began anew, somebody may call it by another name now.
    fn hear(&self, slot: u16, [began, now]: [Micros; 2]) {
        let changed = self.met.read().get(&slot).is_some_and(|met| {
            let mut heard = met.heard.lock();
            let before = heard.unwrap_or([began, 0]);
            let same = before[0] == began;
            *heard = Some([began, if same { now.max(before[1]) } else { now }]);
            !same
        });
        if changed {
            self.met.write().remove(&slot);
        }
    }

    /// What a slot last said of itself; zeros if it said nothing.
    fn heard(&self, slot: u16) -> [Micros; 2] {
        let met = self.met.read();
        let heard = met.get(&slot).and_then(|met| *met.heard.lock());
        heard.unwrap_or_default()
    }

    /// Looks at whose a slot is. If it was handed over by plan, the new owner adopts it.
    async fn meet(&self, slot: u16) {
        let key = self.keys.sentinel(slot);
        let (told, seen) = (Arc::new(Mutex::new(None)), key.clone());
        let owner = told.clone();
        let look = move |link: &Link| {
            *owner.lock() = Some((link.owner().clone(), link.is_promoted()));
            let mut parts = Parts::new();
            parts.key(&seen);
            parts
        };
        let Ok(value) = ask(&self.redis, slot, &LOOK, look).await else {
            return;
        };
        let Some((owner, promoted)) = told.lock().take() else {
            return;
        };
        let known = match &value {
            Value::BulkString(bytes) => bytes
                .get(OWNER_AT..)
                .and_then(|text| std::str::from_utf8(text).ok()),
            _ => None,
        };
        let mut named = owner.clone();
        if let Some(known) = known.map(Owner::from_text).filter(|known| *known != owner) {
            if self.is_same(&known, &owner, promoted).await {
                named = known;
            } else if self.redis.has_handed_over(&known, slot).await {
                let (keys, from, to) = (self.keys.clone(), known, owner.clone());
                let build = move |_: &Link| adopt(&from, &to, &keys, [slot]);
                if ask(&self.redis, slot, &ADOPT, build).await.is_err() {
                    return;
                }
            }
        }
        let met = Met {
            owner,
            named,
            heard: Mutex::new(None),
        };
        self.met.write().insert(slot, met);
    }

    /// Whether an owner is the one that a sentinel names. Others may know, and say so with their next heartbeat.
    async fn is_same(&self, known: &Owner, owner: &Owner, promoted: bool) -> bool {
        let began = Instant::now();
        loop {
            let same = self.redis.is_same(known, owner);
            if same || promoted || !known.is_same_run(owner) || began.elapsed() > HEARSAY {
                return same;
            }
            tokio::time::sleep(HEARSAY_EVERY).await;
        }
    }
}

/// What a failure is called in metrics.
fn name_of(failure: &Failure) -> &'static str {
    match failure {
        Failure::NotRun(why) => why.name(),
        Failure::Unknown => "unknown",
        Failure::Failed(error) => {
            static PACE: LogPace = LogPace::new();
            if let Some(left_out) = PACE.turn() {
                tracing::error!(
                    left_out,
                    "the shared store ended a call with an error (next message in 60 s): {error}"
                );
            }
            "failed"
        }
    }
}
