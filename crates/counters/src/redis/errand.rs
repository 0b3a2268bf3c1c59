//! The way of one call: sent, redirected, repeated where it is certain that it did not run, and answered once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, Value};
use tokio::time::timeout_at;

use super::address::Server;
use super::client::Inner;
use super::connection::{Lost, Seat};
use super::failure::{Failure, Verdict, Why, judge, sentence};
use super::link::Link;
use super::primary::Primary;
use super::script::{Parts, Script};
use super::trouble::Trouble;

/// How often a call may be sent before it is given up; its deadline usually comes first.
const ATTEMPTS: u32 = 16;
/// How long a call waits whose keys are on their way.
const PAUSE: Duration = Duration::from_millis(1);

/// What is done with a call's outcome: exactly once, even if the runtime ends first.
pub(super) struct Answer<T: FnOnce(Result<Value, Failure>)>(Option<T>);

impl<T: FnOnce(Result<Value, Failure>)> Answer<T> {
    pub(super) const fn new(then: T) -> Self {
        Self(Some(then))
    }

    pub(super) fn give(mut self, outcome: Result<Value, Failure>) {
        if let Some(then) = self.0.take() {
            then(outcome);
        }
    }
}

impl<T: FnOnce(Result<Value, Failure>)> Drop for Answer<T> {
    fn drop(&mut self) {
        if let Some(then) = self.0.take() {
            then(Err(Failure::Unknown));
        }
    }
}

/// A call under way.
pub(super) struct Errand<B> {
    pub(super) redis: Arc<Inner>,
    pub(super) slot: u16,
    pub(super) script: &'static Script,
    pub(super) build: B,
}

/// Where a call goes next.
struct Stop {
    primary: Arc<Primary>,
    seat: Seat,
    /// The slot is on its way there: the server takes the call only if it is told so.
    asking: bool,
    /// The server does not know the script.
    untold: bool,
}

impl<B: FnMut(&Link) -> Parts> Errand<B> {
    /// Runs when it has a turn in a lane.
    pub(super) async fn run_in_lane(self, primary: Arc<Primary>, lane: usize) -> Result<Value, Failure> {
        let turn = primary.turn(lane).await;
        let seat = turn.and_then(|turn| Ok((turn, primary.seat()?)));
        let (_turn, seat) = seat.map_err(Failure::NotRun)?;
        self.run(primary, seat).await
    }

    pub(super) async fn run(mut self, primary: Arc<Primary>, seat: Seat) -> Result<Value, Failure> {
        let deadline = Instant::now() + self.redis.means.settings.deadline;
        let mut stop = Stop {
            primary,
            seat,
            asking: false,
            untold: false,
        };
        let mut last = Why::Moved;
        for _ in 0..ATTEMPTS {
            let reply = self.send(&stop).await?;
            let verdict = judge(reply);
            if let Verdict::NotRun(why @ (Why::Loading | Why::DiskError | Why::Busy), _) = verdict {
                stop.primary.fail(Trouble::Unwell(why));
                return Err(Failure::NotRun(why));
            }
            stop.primary.answered();
            let (why, next) = match verdict {
                Verdict::Ran(value) => return Ok(value),
                Verdict::Failed(error) => return Err(Failure::Failed(error)),
                Verdict::Moved(to) => (Why::Moved, follow(&self.redis, &stop, &to, false, deadline).await),
                Verdict::Ask(to) => (Why::Moved, follow(&self.redis, &stop, &to, true, deadline).await),
                // Once told, it knows.
                Verdict::NotRun(Why::NoScript, _) if !stop.untold => {
                    (Why::NoScript, Ok(Stop { untold: true, ..stop }))
                }
                Verdict::NotRun(Why::TryAgain, _) => {
                    tokio::time::sleep(PAUSE).await;
                    (Why::TryAgain, self.restart())
                }
                Verdict::NotRun(why, error) => {
                    self.take_note(&stop, why, &sentence(&error));
                    return Err(Failure::NotRun(why));
                }
            };
            match next {
                Ok(next) if Instant::now() < deadline => (stop, last) = (next, why),
                Ok(_) => return Err(Failure::NotRun(why)),
                Err(why) => return Err(Failure::NotRun(why)),
            }
        }
        Err(Failure::NotRun(last))
    }

    /// Sends the call and waits for the reply, beyond its deadline if it must be.
    async fn send(&mut self, stop: &Stop) -> Result<Value, Failure> {
        let connection = stop.seat.connection();
        let parts = (self.build)(&connection.link());
        let mut before: Vec<Cmd> = Vec::new();
        if stop.untold {
            before.push(self.script.load());
        }
        if stop.asking {
            before.push(redis::cmd("ASKING"));
        }
        let sent = stop.primary.now_sent();
        let exchange = stop.seat.exchange(&before, self.script.call(&parts));
        let Some(reply) = stop.primary.outlast(sent, exchange).await else {
            connection.close();
            return Err(Failure::Unknown);
        };
        reply.map_err(|lost| match lost {
            Lost::BeforeSending => Failure::NotRun(Why::NotConnected),
            Lost::Perhaps => Failure::Unknown,
            Lost::Unwitnessed => {
                stop.primary.fail(Trouble::Unwell(Why::TooFewReplicas));
                Failure::Unknown
            }
        })
    }

    /// Begins anew at the slot's primary.
    fn restart(&self) -> Result<Stop, Why> {
        let primary = self.redis.primary_of(self.slot).ok_or(Why::NotConnected)?;
        let seat = primary.seat()?;
        Ok(Stop {
            primary,
            seat,
            asking: false,
            untold: false,
        })
    }

    /// Does what a refusal calls for beyond the call itself.
    fn take_note(&self, stop: &Stop, why: Why, error: &str) {
        match why {
            Why::ReadOnly | Why::MasterDown => stop.primary.doubt(),
            Why::ClusterDown => self.redis.means.astray.notify_one(),
            Why::NotPermitted => stop.seat.connection().complain(&stop.primary.server, error),
            _ => {}
        }
    }
}

/// Goes to the server that another one names.
async fn follow(redis: &Inner, from: &Stop, to: &str, asking: bool, deadline: Instant) -> Result<Stop, Why> {
    let server = Server::told(to, &from.primary.server).ok_or(Why::Moved)?;
    let primary = redis.primary_at(server).ok_or(Why::Moved)?;
    if !asking {
        // Both ends may have become someone else, and the map is wrong.
        from.primary.doubt();
        primary.doubt();
        redis.means.astray.notify_one();
    }
    let _ = timeout_at(deadline.into(), primary.up()).await;
    let seat = primary.seat()?;
    Ok(Stop {
        primary,
        seat,
        asking,
        untold: false,
    })
}
