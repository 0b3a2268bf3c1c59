//! The catalogue's copy in Redis, for nodes that start with an empty disk while the database is away: the same bytes
//! that are on disk, in chunks.
//!
//! One node of the fleet writes it. The file only grows until it is written anew, so that of a change mostly the last
//! chunk goes to Redis.

use std::io;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tollgate_counters::redis::{self, Failure, Index, Mirrored};

use super::disk::Disk;
use super::whole::Kept;
use crate::serve::stopped;

/// How often a node looks whether there is something to write.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How often what is there is renewed, and what is missing noticed.
const RENEW_EVERY: Duration = Duration::from_mins(5);
/// Short enough that calls on the same connection don't wait for one.
const CHUNK: usize = 1 << 16;
/// A larger catalogue is not mirrored: Redis keeps it in memory.
const MOST: u64 = 64 << 20;
/// After so many bytes were written, a second passes before the next version is.
const BYTES_A_SECOND: usize = 1 << 20;
/// How often a mirror is read that changes meanwhile.
const ATTEMPTS: u32 = 3;

/// The copy in Redis, as one node sees it.
pub struct Mirror {
    redis: redis::Mirror,
    node: String,
    seen: ArcSwap<Mirrored>,
}

/// What became of a look.
enum Done {
    Nothing,
    /// So many bytes went to Redis.
    Wrote(usize),
}

impl Mirror {
    /// The copy that a node of this id reads, and may write.
    pub fn new(redis: redis::Mirror, node: String) -> Self {
        Self {
            redis,
            node,
            seen: ArcSwap::default(),
        }
    }

    /// What was last seen of it.
    pub fn seen(&self) -> Mirrored {
        (**self.seen.load()).clone()
    }

    /// Which version is there, if any.
    pub async fn revision(&self) -> Option<i64> {
        let index = self.redis.index().await.ok()?;
        index.map(|index| index.revision)
    }

    /// Reads it onto the disk, as if it had been kept there. `None` if there is none.
    pub async fn fetch(&self, disk: &Disk) -> io::Result<Option<Kept>> {
        for _ in 0..ATTEMPTS {
            let index = self.redis.index().await.map_err(io::Error::other)?;
            let Some(index) = index else { return Ok(None) };
            // What is missing was left behind by a newer version since.
            let Some(text) = self.gathered(&index).await.map_err(io::Error::other)? else {
                continue;
            };
            disk.replace(&text).await?;
            return disk.read();
        }
        Err(io::Error::new(io::ErrorKind::NotFound, "some of it is missing"))
    }

    async fn gathered(&self, index: &Index) -> Result<Option<Vec<u8>>, Failure> {
        let mut text = Vec::new();
        for name in &index.chunks {
            match self.redis.chunk(name).await? {
                Some(chunk) if name_of(&chunk) == *name => text.extend_from_slice(&chunk),
                _ => return Ok(None),
            }
        }
        Ok((text.len() == index.bytes).then_some(text))
    }

    /// Keeps the copy up to date with the file on disk, if this node is the one to do it, until told to stop.
    pub async fn keep(&self, disk: Disk, in_force: watch::Receiver<i64>, mut stop: watch::Receiver<bool>) {
        let (mut renewed, mut pause, mut told) = (None, LOOK_EVERY, false);
        loop {
            let wanted = *in_force.borrow();
            match self.bring_up_to_date(&disk, wanted, &mut renewed).await {
                Ok(Done::Wrote(bytes)) => {
                    pause = LOOK_EVERY.max(Duration::from_secs((bytes / BYTES_A_SECOND) as u64));
                    told = false;
                }
                Ok(Done::Nothing) => (pause, told) = (LOOK_EVERY, false),
                Err(error) if !told => {
                    tracing::warn!("the catalogue is not mirrored to Redis: {error}");
                    told = true;
                }
                Err(_) => {}
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stopped(&mut stop) => return,
            }
        }
    }

    async fn bring_up_to_date(
        &self,
        disk: &Disk,
        wanted: i64,
        renewed: &mut Option<Instant>,
    ) -> io::Result<Done> {
        let seen = self.redis.look(&self.node).await.map_err(io::Error::other)?;
        self.seen.store(seen.clone().into());
        if !seen.writer {
            *renewed = None;
            return Ok(Done::Nothing);
        }
        let known = seen.index.unwrap_or_else(|| Index {
            revision: -1,
            ..Index::default()
        });
        if known.revision < wanted {
            return self.write(disk, &known).await;
        }
        if renewed.is_none_or(|renewed: Instant| renewed.elapsed() > RENEW_EVERY) {
            self.renew(&known).await.map_err(io::Error::other)?;
            *renewed = Some(Instant::now());
        }
        Ok(Done::Nothing)
    }

    /// Writes what is on disk: what is not there yet of its chunks, then the index.
    async fn write(&self, disk: &Disk, known: &Index) -> io::Result<Done> {
        let (disk, than) = (disk.clone(), known.revision);
        let split = tokio::task::spawn_blocking(move || {
            let kept = disk.complete(MOST)?;
            let newer = kept.filter(|(revision, _)| *revision > than);
            io::Result::Ok(newer.map(|(revision, text)| (index_of(revision, &text), text)))
        });
        // The file may be a moment behind what is in force.
        let Some((index, text)) = split.await.map_err(io::Error::other)?? else {
            return Ok(Done::Nothing);
        };
        let mut wrote = 0;
        for (name, chunk) in index.chunks.iter().zip(text.chunks(CHUNK)) {
            if !self.redis.renew_chunk(name).await.map_err(io::Error::other)? {
                self.redis
                    .put_chunk(name, chunk)
                    .await
                    .map_err(io::Error::other)?;
                wrote += chunk.len();
            }
        }
        if self.redis.publish(&index).await.map_err(io::Error::other)? {
            for name in known.chunks.iter().filter(|name| !index.chunks.contains(name)) {
                self.redis.leave_chunk(name).await.map_err(io::Error::other)?;
            }
            let seen = Mirrored {
                index: Some(index),
                writer: true,
            };
            self.seen.store(seen.into());
        }
        Ok(Done::Wrote(wrote))
    }

    /// Has the copy last. If some of it is gone it is written anew.
    async fn renew(&self, index: &Index) -> Result<(), Failure> {
        for name in &index.chunks {
            if !self.redis.renew_chunk(name).await? {
                return self.redis.drop_index().await.map(|_| ());
            }
        }
        self.redis.renew_index().await.map(|_| ())
    }
}

fn index_of(revision: i64, text: &[u8]) -> Index {
    Index {
        revision,
        bytes: text.len(),
        chunks: text.chunks(CHUNK).map(name_of).collect(),
    }
}

fn name_of(chunk: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(&Sha256::digest(chunk)[..16])
}
