//! What a fleet keeps in Redis for nodes to come: a text in chunks, and an index that names them.
//!
//! A chunk's name is made of what it holds, so that nobody ever finds another text in it. Whoever has an index finds
//! all of one version or knows that something is missing. What the text says is not known here.

use std::time::Duration;

use super::Value;
use super::carrier::LOOK;
use super::client::Redis;
use super::failure::Failure;
use super::fleet::ask;
use super::keys::Keys;
use super::link::Link;
use super::script::{Parts, Script};

pub(super) static MIRROR: Script = Script::new("mirror", include_str!("mirror.lua"));
pub(super) static PUBLISH: Script = Script::new("publish", include_str!("publish.lua"));
pub(super) static PUT: Script =
    Script::new("put", "return redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])");
pub(super) static RENEW: Script = Script::new("renew", "return redis.call('EXPIRE', KEYS[1], ARGV[1])");

/// Who does not come back for so long is not the writer any more.
const WRITER_FOR: Duration = Duration::from_secs(15);
/// How long a mirror outlives the last node that renewed it.
const LASTS: Duration = Duration::from_hours(30 * 24);
/// How long chunks are kept that only an older index names: whoever has that one may still read them.
const LEFT_FOR: Duration = Duration::from_hours(1);

/// The mirror of one region.
#[derive(Clone)]
pub struct Mirror {
    redis: Redis,
    keys: Keys,
}

/// Which chunks make up a text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Index {
    /// Which version it is.
    pub revision: i64,
    /// How long it is.
    pub bytes: usize,
    /// The names of its chunks, in their order.
    pub chunks: Vec<String>,
}

/// What is there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mirrored {
    /// The index, if there is one.
    pub index: Option<Index>,
    /// Whether the node that looked is the one to write.
    pub writer: bool,
}

impl Mirror {
    /// The mirror of a region.
    pub const fn new(redis: Redis, keys: Keys) -> Self {
        Self { redis, keys }
    }

    /// The index, if there is one.
    pub async fn index(&self) -> Result<Option<Index>, Failure> {
        let value = self.ask(&LOOK, "fleet", self.index_key(), Vec::new()).await?;
        Ok(bytes(value).and_then(|bytes| Index::read(&bytes)))
    }

    /// Looks, for a node that would write if nobody else does.
    pub async fn look(&self, node: &str) -> Result<Mirrored, Failure> {
        let (index, writer) = (self.index_key(), self.keys.of_fleet("mirror-writer"));
        let node = node.to_owned();
        let build = move |_: &Link| {
            let mut parts = Parts::new();
            parts.key(&index).key(&writer);
            parts.arg(&node).arg(WRITER_FOR.as_secs());
            parts
        };
        let value = ask(&self.redis, self.redis.slot_of(b"fleet"), &MIRROR, build).await?;
        let Value::Array(parts) = value else {
            return Ok(Mirrored::default());
        };
        let mut parts = parts.into_iter();
        let writer = matches!(parts.next(), Some(Value::Int(1)));
        let index = parts.next().and_then(bytes);
        Ok(Mirrored {
            index: index.and_then(|index| Index::read(&index)),
            writer,
        })
    }

    /// What a chunk holds, if it is there.
    pub async fn chunk(&self, name: &str) -> Result<Option<Vec<u8>>, Failure> {
        let key = self.keys.chunk(name);
        self.ask(&LOOK, name, key, Vec::new()).await.map(bytes)
    }

    /// Whether a chunk is there; if so it will be for long.
    pub async fn renew_chunk(&self, name: &str) -> Result<bool, Failure> {
        self.expire(name, self.keys.chunk(name), LASTS).await
    }

    /// Puts a chunk there. It may be repeated.
    pub async fn put_chunk(&self, name: &str, text: &[u8]) -> Result<(), Failure> {
        let arguments = vec![text.to_vec(), seconds(LASTS)];
        let put = self.ask(&PUT, name, self.keys.chunk(name), arguments).await;
        put.map(|_| ())
    }

    /// Lets a chunk go that no index names any longer.
    pub async fn leave_chunk(&self, name: &str) -> Result<bool, Failure> {
        self.expire(name, self.keys.chunk(name), LEFT_FOR).await
    }

    /// Has the index last.
    pub async fn renew_index(&self) -> Result<bool, Failure> {
        self.expire("fleet", self.index_key(), LASTS).await
    }

    /// Takes the index away, so that it is written anew.
    pub async fn drop_index(&self) -> Result<bool, Failure> {
        self.expire("fleet", self.index_key(), Duration::ZERO).await
    }

    /// Puts an index in place of an older one, once all its chunks are there. False if another is as new.
    pub async fn publish(&self, index: &Index) -> Result<bool, Failure> {
        let arguments = vec![index.text().into_bytes(), seconds(LASTS)];
        let put = self.ask(&PUBLISH, "fleet", self.index_key(), arguments).await;
        put.map(|put| put == Value::Int(1))
    }

    async fn expire(&self, tag: &str, key: String, after: Duration) -> Result<bool, Failure> {
        let there = self.ask(&RENEW, tag, key, vec![seconds(after)]).await;
        there.map(|there| there == Value::Int(1))
    }

    fn index_key(&self) -> String {
        self.keys.of_fleet("mirror")
    }

    async fn ask(
        &self,
        script: &'static Script,
        tag: &str,
        key: String,
        arguments: Vec<Vec<u8>>,
    ) -> Result<Value, Failure> {
        let build = move |_: &Link| {
            let mut parts = Parts::new();
            parts.key(&key);
            for argument in &arguments {
                parts.arg(argument.as_slice());
            }
            parts
        };
        ask(&self.redis, self.redis.slot_of(tag.as_bytes()), script, build).await
    }
}

impl Index {
    fn text(&self) -> String {
        format!("{} {} {}", self.revision, self.bytes, self.chunks.join(" "))
    }

    fn read(text: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(text).ok()?.split(' ');
        Some(Self {
            revision: words.next()?.parse().ok()?,
            bytes: words.next()?.parse().ok()?,
            chunks: words.filter(|word| !word.is_empty()).map(str::to_owned).collect(),
        })
    }
}

fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    }
}

fn seconds(time: Duration) -> Vec<u8> {
    time.as_secs().to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_read_as_it_was_written() {
        for chunks in [vec![], vec!["a"], vec!["a", "b"]] {
            let index = Index {
                revision: 12,
                bytes: 34,
                chunks: chunks.into_iter().map(str::to_owned).collect(),
            };
            assert_eq!(Index::read(index.text().as_bytes()), Some(index));
        }
        assert_eq!(Index::read(b"x 1 a"), None);
    }
}
