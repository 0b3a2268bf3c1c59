//! Redis as a slot: calls go in, replies come out.

use redis::{Cmd, Connection, ConnectionLike, Value};
use tollgate_core::Mode;
use tollgate_counters::Commit;
use tollgate_counters::redis::{CALL, Keys, Owner, Parts, Script, Tag, decode, encode};
use tollgate_counters::shared::call::{Call, Done, Kind, Micros, Name, Need, Part, Reply, Subject, Terms};

use crate::servers::Server;

/// Later than any clock, since the server expires keys by its own.
pub const START: Micros = 4_000_000_000_000_000;
pub const SECOND: Micros = 1_000_000;
pub const YEAR: Micros = 366 * 86_400 * SECOND;

pub struct Store {
    pub connection: Connection,
    script: Script,
    timed: bool,
    pub keys: Keys,
    pub tag: Tag,
}

impl Store {
    /// One that is told the time with each call.
    pub fn timed(server: &Server) -> Self {
        Self::with(server, timed(&CALL, 3), true)
    }

    /// One that goes by the server's clock.
    pub fn real(server: &Server) -> Self {
        Self::with(server, Script::new(CALL.name(), CALL.source()), false)
    }

    fn with(server: &Server, script: Script, timed: bool) -> Self {
        let client = redis::Client::open(server.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        tell(&mut connection, &script);
        Self {
            connection,
            script,
            timed,
            keys: Keys::new("test"),
            tag: Tag::org("acme"),
        }
    }

    /// The command of a call.
    pub fn command(&self, owner: u64, time: Micros, call: &Call) -> Cmd {
        let owner = owner_of(owner);
        let mut parts = encode(call, &owner, &self.keys, &self.tag, self.tag.slot());
        if self.timed {
            #[expect(clippy::cast_precision_loss, reason = "it is below 2^53")]
            parts.arg((time as f64).to_le_bytes().as_slice());
        }
        self.script.call(&parts)
    }

    /// What the script answers.
    pub fn ask(&mut self, owner: u64, time: Micros, call: &Call) -> Value {
        let command = self.command(owner, time, call);
        self.connection.req_command(&command).unwrap()
    }

    pub fn run(&mut self, owner: u64, time: Micros, call: &Call) -> Result<Reply, String> {
        let value = self.ask(owner, time, call);
        decode(call, &value).map_err(|malformed| format!("{malformed}: {value:?}"))
    }

    /// Runs a call that is in time.
    pub fn done(&mut self, owner: u64, time: Micros, call: &Call) -> Done {
        match self.run(owner, time, call) {
            Ok(Reply::Done(done)) => done,
            other => panic!("{other:?}"),
        }
    }

    pub fn flush(&mut self) {
        redis::cmd("FLUSHALL").exec(&mut self.connection).unwrap();
    }

    /// Every key with the milliseconds until it expires.
    pub fn expiries(&mut self) -> Vec<(String, i64)> {
        let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut self.connection).unwrap();
        let left = |key: &String| redis::cmd("PTTL").arg(key).query(&mut self.connection).unwrap();
        let left: Vec<i64> = keys.iter().map(left).collect();
        keys.into_iter().zip(left).collect()
    }
}

pub fn owner_of(number: u64) -> Owner {
    Owner::from_text(&format!("run {number}"))
}

/// The same script, told the time by an argument behind its own.
pub fn timed(script: &Script, argument: usize) -> Script {
    let clock = "local time = call('TIME') -- the clock\n";
    assert_eq!(script.source().matches(clock).count(), 1);
    let given = format!("local time = {{0, (read('<d', ARGV[{argument}]))}}\n");
    Script::new(script.name(), script.source().replace(clock, &given).leak())
}

/// Tells the server a script.
pub fn tell(connection: &mut Connection, script: &Script) {
    let mut command = redis::cmd("SCRIPT");
    let hash: String = command
        .arg("LOAD")
        .arg(script.source())
        .query(connection)
        .unwrap();
    assert_eq!(hash, script.hash());
}

/// Runs a script that answers with a number.
pub fn number(connection: &mut Connection, script: &Script, parts: &Parts) -> i64 {
    tell(connection, script);
    script.call(parts).query(connection).unwrap()
}

/// A counter of some kind, by its number.
pub fn subject(number: u8, kind: Kind, limit: u64, capacity: u64, window: Micros) -> Subject {
    Subject {
        name: Name([number; 16]),
        terms: Terms {
            kind,
            limit,
            capacity,
            window,
            revision: 1,
            // A period that no test sees the end of.
            period: match kind {
                Kind::Quota => [1, START + YEAR, START + 2 * YEAR],
                _ => [0; 3],
            },
        },
        formers: Vec::new(),
        left: 0,
    }
}

/// A call with one need, of all subjects alike.
pub fn need(subjects: &[Subject], cost: u64, mode: Mode, commit: Commit) -> Call {
    let parts = subjects.iter().enumerate().map(|(subject, of)| Part {
        subject,
        limit: of.terms.limit,
        capacity: of.terms.capacity,
        cost,
        mode,
    });
    Call {
        not_after: u64::MAX,
        subjects: subjects.to_vec(),
        needs: vec![Need {
            commit,
            parts: parts.collect(),
        }],
        ..Call::default()
    }
}
