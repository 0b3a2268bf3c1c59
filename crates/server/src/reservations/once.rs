//! Keys that a fleet remembers, so that a request that is sent again counts once wherever it is sent
//! (docs/reservations.md). Without an answer of the shared store each node goes by what it remembers itself.

use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use tokio::sync::oneshot;
use tokio::time::timeout_at;
use tollgate_counters::redis::{Failure, RedisCarrier};
use tollgate_counters::shared::Carrier as _;
use tollgate_counters::shared::once::{Act, KeyName, Print, Room, Said as Heard};
use tollgate_counters::shared::record::Token;

use super::keys::{KEPT, Said, Undo};
use super::records::Records;
use super::{MOST_OF_ORG, Recording};

/// How long a claim lasts whose node says nothing more: longer than any decision takes.
const HOLD: Duration = Duration::from_secs(10);
/// Longer answers are not told to the fleet.
const MOST_BYTES: usize = 16 * 1024;
/// The store is waited for as it is for a decision: it is looked at now and then whether it is there at all.
const STEP: Duration = Duration::from_millis(2);
/// How often a question is asked whose reply was lost: that changes nothing, since the store knows by whom it is.
const TRIES: u32 = 3;

/// A request that carries a key, as all nodes of a fleet know it.
pub struct FleetKey {
    org: Box<str>,
    lane: usize,
    key: KeyName,
    print: Print,
    by: Token,
}

/// What the fleet knows of a key.
#[derive(Debug)]
pub enum Asked {
    /// The request is to be carried out by whoever has this; or nobody has answered, and this node does as if alone.
    Ours(FleetClaim),
    /// It was carried out.
    Answered(Answered),
    /// The key is another request's.
    Other,
    /// Another node is at it.
    InFlight,
}

/// What was answered to a request at another node.
#[derive(Debug)]
pub struct Answered {
    /// The answer.
    pub said: Said,
    /// For how long it is repeated yet.
    pub lasts: Duration,
    /// What can be taken back of it here.
    pub undo: Undo,
    /// The key was free again before: what was answered to it earlier holds no longer.
    pub anew: bool,
}

/// A key that is claimed for a request in all of a fleet; without an answer, it is as if it had never been.
pub struct FleetClaim {
    records: Records,
    key: FleetKey,
    kept: bool,
    /// The key was free again: what was answered to it was refunded.
    freed: bool,
}

impl FleetKey {
    /// The key of an org's request that these parts make up, sent in a lane.
    pub fn new(org: Option<&str>, key: &str, parts: &[&[u8]], lane: usize) -> Result<Self, getrandom::Error> {
        let org = org.unwrap_or_default();
        let name = hash(b"a key of a request", &[org.as_bytes(), key.as_bytes()]);
        let mut short = [0; 16];
        short.copy_from_slice(&name[..16]);
        let mut by = Token::default();
        getrandom::fill(&mut by)?;
        Ok(Self {
            org: org.into(),
            lane,
            key: KeyName(short),
            print: hash(b"a request with a key", parts),
            by,
        })
    }
}

impl Records {
    /// Claims a key in all of the fleet.
    pub async fn claim_key(self, key: FleetKey) -> Asked {
        let mut claim = FleetClaim {
            records: self,
            key,
            kept: false,
            freed: false,
        };
        let hold = micros(HOLD);
        let print = claim.key.print;
        let heard = claim.ask(Act::Claim { print, hold }).await;
        let anew = matches!(heard, Some(Heard::AnsweredAnew(..)));
        match heard {
            Some(Heard::Answered(lasts, answer) | Heard::AnsweredAnew(lasts, answer)) => {
                match read(&answer) {
                    Some((said, undo)) => {
                        claim.leave();
                        Asked::Answered(Answered {
                            said,
                            lasts: Duration::from_micros(lasts),
                            undo,
                            anew,
                        })
                    }
                    // A node of another version has written it.
                    None => Asked::Ours(claim),
                }
            }
            Some(Heard::Other) => {
                claim.leave();
                Asked::Other
            }
            Some(Heard::Busy) => {
                claim.leave();
                Asked::InFlight
            }
            Some(Heard::Freed) => {
                claim.freed = true;
                Asked::Ours(claim)
            }
            Some(Heard::Done | Heard::Late | Heard::Lost) | None => Asked::Ours(claim),
        }
    }

    /// Frees a key whose check is refunded, and says whether that is done.
    pub async fn free_key(self, key: FleetKey) -> bool {
        let freeing = FleetClaim {
            records: self,
            key,
            kept: true,
            freed: false,
        };
        match freeing.ask(Act::Free).await {
            // A slot that has lost its memory knows of no answer.
            Some(Heard::Done | Heard::Lost) => true,
            Some(_) | None => false,
        }
    }
}

impl FleetClaim {
    /// Whether the key was free again since it was last answered.
    pub fn was_freed(&self) -> bool {
        self.freed
    }

    /// What makes the fleet keep an answer for so long. Where that is not to be waited for, it is sent, and nothing is left.
    pub fn keep(
        mut self,
        said: &Said,
        lasts: Option<Duration>,
        undo: &Undo,
        waits: bool,
    ) -> Option<Recording> {
        let answer = write(said, undo);
        if answer.len() > MOST_BYTES {
            return None;
        }
        // From here on the request counts: who does not hear its answer waits until the claim has ended.
        self.kept = true;
        let act = Act::Keep {
            print: self.key.print,
            answer,
            lasts: micros(lasts.unwrap_or(KEPT).min(KEPT)),
        };
        if !waits {
            self.send(act, |_| {});
            return None;
        }
        Some(Box::pin(async move {
            let _ = self.ask(act).await;
        }))
    }

    /// Lets go of what another has.
    fn leave(mut self) {
        self.kept = true;
    }

    /// Asks, and waits as long as a decision would.
    async fn ask(&self, act: Act) -> Option<Heard> {
        let deadline = Instant::now() + self.records.patience;
        for _ in 0..TRIES {
            let (sender, mut receiver) = oneshot::channel();
            self.send(act.clone(), move |heard| {
                let _ = sender.send(heard);
            });
            loop {
                let due = deadline.min(Instant::now() + STEP);
                match timeout_at(due.into(), &mut receiver).await {
                    Ok(Ok(Ok(heard))) => return Some(heard),
                    Ok(Ok(Err(Failure::NotRun(_) | Failure::Failed(_)))) => return None,
                    Ok(_) => break,
                    Err(_) => {}
                }
                if Instant::now() >= deadline || self.carrier().is_away(&self.key.org) {
                    return None;
                }
            }
        }
        None
    }

    fn send(&self, act: Act, then: impl FnOnce(Result<Heard, Failure>) + Send + 'static) {
        let FleetKey {
            org, lane, key, by, ..
        } = &self.key;
        let room = Room {
            most: MOST_OF_ORG as u64,
            kept: micros(KEPT),
        };
        self.carrier()
            .remember((org, *lane), (*key, *by), act, room, then);
    }

    fn carrier(&self) -> &RedisCarrier {
        self.records.carrier()
    }
}

impl Drop for FleetClaim {
    fn drop(&mut self) {
        if !self.kept {
            self.send(Act::Forget, |_| {});
        }
    }
}

impl std::fmt::Debug for FleetClaim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FleetClaim")
            .field("key", &self.key.key)
            .finish_non_exhaustive()
    }
}

/// The version of what is written.
const VERSION: u8 = 1;
const NOTHING: u8 = 0;
const FREE: u8 = 1;
const CHARGED: u8 = 2;
const FIXED_BYTES: usize = 8;

/// An answer as other nodes read it: the version, what can be taken back, the status, how long the head is; head and body.
fn write(said: &Said, undo: &Undo) -> Vec<u8> {
    let undo = match undo {
        Undo::Nothing => NOTHING,
        Undo::Free => FREE,
        Undo::Charge(_) | Undo::Elsewhere | Undo::Done => CHARGED,
    };
    let mut answer = Vec::with_capacity(FIXED_BYTES + said.head.len() + said.body.len());
    answer.extend_from_slice(&[VERSION, undo]);
    answer.extend_from_slice(&said.status.to_be_bytes());
    let head = u32::try_from(said.head.len()).unwrap_or(u32::MAX);
    answer.extend_from_slice(&head.to_be_bytes());
    answer.extend_from_slice(&said.head);
    answer.extend_from_slice(&said.body);
    answer
}

fn read(answer: &[u8]) -> Option<(Said, Undo)> {
    let (fixed, rest) = answer.split_first_chunk::<FIXED_BYTES>()?;
    let [VERSION, undo, high, low, head @ ..] = *fixed else {
        return None;
    };
    let undo = match undo {
        NOTHING => Undo::Nothing,
        FREE => Undo::Free,
        CHARGED => Undo::Elsewhere,
        _ => return None,
    };
    let head = usize::try_from(u32::from_be_bytes(head)).ok()?;
    let (head, body) = rest.split_at_checked(head)?;
    let said = Said {
        status: u16::from_be_bytes([high, low]),
        head: head.into(),
        body: body.into(),
    };
    Some((said, undo))
}

/// A hash of parts that can't be taken for others.
fn hash(what: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(what);
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let said = Said {
            status: 429,
            head: (*b"retry-after: 1\r\n").into(),
            body: (*b"{}").into(),
        };
        let written = write(&said, &Undo::Free);
        let (read_again, undo) = read(&written).unwrap();
        assert!(read_again == said && matches!(undo, Undo::Free));
        for size in 0..FIXED_BYTES + said.head.len() {
            assert!(read(&written[..size]).is_none(), "{size}");
        }
        let mut later = written;
        later[0] = VERSION + 1;
        assert!(read(&later).is_none());
    }

    #[test]
    fn keys_and_requests_are_told_apart() {
        let key = |org, key, parts: &[&[u8]]| FleetKey::new(org, key, parts, 1).unwrap();
        let first = key(Some("acme"), "k", &[b"check", b"{}"]);
        let same = key(Some("acme"), "k", &[b"check", b"{}"]);
        assert!(first.key == same.key && first.print == same.print && first.by != same.by);
        assert_ne!(first.key, key(Some("acm"), "ek", &[]).key);
        assert_ne!(first.key, key(None, "k", &[]).key);
        assert_ne!(first.print, key(Some("acme"), "k", &[b"check{", b"}"]).print);
    }
}
