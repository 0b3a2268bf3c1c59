//! A server on a moved clock, with the stores that quotas may be in.

use serde_json::Value;

use crate::common::clock::Clock;
use crate::common::{Answer, Ask, Launch, Server, wait_for};
use crate::postgres::Postgres;
use crate::servers;

/// Where quotas are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stores {
    Sqlite,
    Postgres,
    /// Quotas are in PostgreSQL, everything else in Redis.
    Fleet,
    /// Quotas are in Redis, too.
    Redis,
}

impl Stores {
    /// Quotas are kept by a ledger, which shows them and makes statements.
    pub fn has_ledger(self) -> bool {
        self != Self::Redis
    }

    /// Nodes that start know what was reserved before.
    pub fn has_records(self) -> bool {
        matches!(self, Self::Fleet | Self::Redis)
    }
}

/// The server looks at each counter once a second.
const LOOKED_AT: i64 = 1_500;

/// A server, its clock and its stores.
pub struct World {
    pub server: Server,
    pub clock: Clock,
    pub stores: Stores,
    _postgres: Option<Postgres>,
    _redis: Option<servers::Server>,
}

/// An answer, and what the clock showed before the request was sent and after the answer had come.
pub struct Timed {
    pub answer: Answer,
    pub sent: i64,
    pub heard: i64,
}

impl World {
    /// Starts a server, when its clock shows this time, on a policy file. PostgreSQL has the machine's clock; Redis, whose clock decides
    /// what is kept in it, has the server's.
    pub fn start(stores: Stores, time: i64, policies: &str) -> Self {
        let clock = Clock::at(time);
        let environment = clock.environment();
        let environment: Vec<(&str, &str)> = environment
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        let postgres = matches!(stores, Stores::Postgres | Stores::Fleet).then(Postgres::start);
        let redis = stores
            .has_records()
            .then(|| servers::Server::start_in(&environment));
        let database = postgres.as_ref().map(Postgres::create);
        let url = redis.as_ref().map(servers::Server::url);
        let mut flags = vec!["--threads", "2"];
        flags.extend(database.iter().flat_map(|database| ["--database", database]));
        flags.extend(url.iter().flat_map(|url| ["--redis", url]));
        let server = Server::launch(&Launch {
            policies: Some(policies),
            flags: &flags,
            environment: &environment,
            ..Launch::default()
        });
        clock.set(time);
        Self {
            server,
            clock,
            stores,
            _postgres: postgres,
            _redis: redis,
        }
    }

    /// Moves the clock to just before a turn, once the server has seen that nobody asks any more. Then all counters have been idle for
    /// as long as the clock was moved.
    pub fn lie_idle(&self, turn: i64) {
        self.clock.wait_until(self.clock.now() + LOOKED_AT);
        self.jump(turn - 250);
    }

    /// Moves the clock. A node remembers by its monotonic clock that Redis had nothing left, for up to a second; that clock is
    /// not moved.
    pub fn jump(&self, time: i64) {
        if self.stores == Stores::Redis {
            self.clock.wait_until(self.clock.now() + LOOKED_AT);
        }
        self.clock.set(time);
    }

    /// Sends a request to the data plane, and again while a store is too slow to answer: nothing was charged then.
    pub fn post(&self, route: &str, key: Option<&str>, body: &Value) -> Timed {
        wait_for("an answer other than 503", || {
            let ask = self.server.ask("POST", route).body(body.to_string());
            let ask = key
                .iter()
                .fold(ask, |ask, key| ask.header("Idempotency-Key", key));
            Some(self.timed(ask)).filter(|timed| timed.answer.status != 503)
        })
    }

    fn timed(&self, ask: Ask) -> Timed {
        let sent = self.clock.now();
        let answer = ask.send();
        // The server may have begun to count a millisecond before.
        Timed {
            answer,
            sent: sent - 1,
            heard: self.clock.now() + 1,
        }
    }
}
