//! A node that calls Redis, in the words of the tests.

use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tollgate_counters::redis::{
    Address, Failure, Link, Owner, Parts, Redis, Script, Settings, StartError, Value, Why, slot_of_key,
};

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Counts how often it is executed, by the server's own count.
pub static COUNT: Script = Script::new("count", "return redis.call('INCR', KEYS[1])");
/// Counts two keys.
pub static COUNT_BOTH: Script = Script::new(
    "count both",
    "redis.call('INCR', KEYS[1]) return redis.call('INCR', KEYS[2])",
);
/// The same as `COUNT`, declared the new way: the server looks at the script before it runs it.
pub static DECLARED: Script = Script::new("declared", "#!lua\nreturn redis.call('INCR', KEYS[1])");
/// Writes nothing.
pub static NOTHING: Script = Script::new("nothing", "return 'nothing'");

pub type Outcome = Result<Value, Failure>;

/// Settings with a deadline that no test reaches.
pub fn settings(url: &str) -> Settings {
    let mut settings = Settings::new(Address::parse(url).unwrap(), Handle::current());
    settings.deadline = PATIENCE;
    settings.connect_timeout = PATIENCE;
    settings
}

/// Settings as they are by default, for tests of silence. There may be no time to tell the script first.
pub fn impatient(url: &str) -> Settings {
    let mut settings = Settings::new(Address::parse(url).unwrap(), Handle::current());
    settings.scripts = vec![&COUNT];
    settings
}

pub async fn connect(url: &str) -> Redis {
    Redis::connect(settings(url)).await.unwrap()
}

/// Why there is no connection.
pub async fn refused(settings: Settings) -> StartError {
    let connecting = tokio::time::timeout(PATIENCE, Redis::connect(settings));
    connecting.await.expect("an answer").expect_err("no connection")
}

/// The slot of a key.
pub fn slot_of(redis: &Redis, key: &str) -> u16 {
    if redis.slots() == 1 {
        0
    } else {
        slot_of_key(key.as_bytes())
    }
}

/// Calls a script with keys of one slot.
pub fn send(redis: &Redis, script: &'static Script, keys: &[&str]) -> oneshot::Receiver<Outcome> {
    let (sender, receiver) = oneshot::channel();
    let owned: Vec<String> = keys.iter().map(ToString::to_string).collect();
    let build = move |_: &Link| {
        let mut parts = Parts::new();
        for key in &owned {
            parts.key(key);
        }
        parts
    };
    redis.call(slot_of(redis, keys[0]), script, build, |outcome| {
        let _ = sender.send(outcome);
    });
    receiver
}

/// Waits for an outcome.
pub async fn outcome(receiver: oneshot::Receiver<Outcome>) -> Outcome {
    let waited = tokio::time::timeout(PATIENCE, receiver).await;
    waited.expect("an outcome").expect("exactly one outcome")
}

/// Counts a key.
pub async fn count(redis: &Redis, key: &str) -> Outcome {
    outcome(send(redis, &COUNT, &[key])).await
}

pub const fn not_run(why: Why) -> Outcome {
    Err(Failure::NotRun(why))
}

/// Looks again and again until something is so.
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !is_so().await {
        assert!(started.elapsed() < PATIENCE, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Calls until a call runs, and gives its result. Calls before that must not have run.
pub async fn until_counted(redis: &Redis, key: &str) -> Value {
    let mut counted = None;
    until("a call that runs", async || {
        match count(redis, key).await {
            Ok(value) => counted = Some(value),
            Err(Failure::NotRun(_)) => {}
            Err(other) => panic!("{other}"),
        }
        counted.is_some()
    })
    .await;
    counted.unwrap()
}

/// What calls for a key are built with, once one can be sent.
pub async fn known(redis: &Redis, key: &str) -> Link {
    let mut known = None;
    until("a call that is sent", async || {
        let (sender, receiver) = oneshot::channel();
        let mut sender = Some(sender);
        let owned = key.to_owned();
        let build = move |link: &Link| {
            if let Some(sender) = sender.take() {
                let _ = sender.send(link.clone());
            }
            let mut parts = Parts::new();
            parts.key(&owned);
            parts
        };
        redis.call(slot_of(redis, key), &NOTHING, build, |_| ());
        known = tokio::time::timeout(PATIENCE, receiver).await.unwrap().ok();
        known.is_some()
    })
    .await;
    known.unwrap()
}

/// The owner that calls for a key are built for.
pub async fn owner(redis: &Redis, key: &str) -> Owner {
    known(redis, key).await.owner().clone()
}
