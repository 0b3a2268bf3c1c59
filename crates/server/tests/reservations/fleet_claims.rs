//! Keys that a node of a fleet has claimed and not answered yet: its ledger keeps it waiting.

use std::io::Write;
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::common::{Server, file_of, wait_for};
use crate::postgres::Postgres;
use crate::servers;
use crate::world::quota;

struct Fleet {
    redis: servers::Server,
    postgres: Postgres,
    nodes: [Server; 2],
}

fn fleet() -> Fleet {
    let (redis, postgres) = (servers::Server::start(), Postgres::start());
    let url = postgres.create();
    let policies = file_of(&[quota("day", 1_000, "failMode: closed")]);
    let flags = ["--threads", "1", "--redis", &redis.url(), "--database", &url];
    let nodes = [(); 2].map(|()| Server::start(&policies, &flags));
    Fleet {
        redis,
        postgres,
        nodes,
    }
}

fn check(cost: u64) -> Value {
    json!({"orgId": "acme", "cost": cost})
}

impl Fleet {
    /// Waits until so many keys are claimed.
    fn claimed(&self, keys: &str) {
        wait_for("a claim", || {
            (self.redis.run(&["HLEN", "tg:local:{acme}:k"]) == keys).then_some(())
        });
    }
}

#[test]
fn an_error_is_kept_nowhere() {
    let fleet = fleet();
    let [a, b] = &fleet.nodes;
    fleet.postgres.pause();
    let ask = a.ask_keyed("/v1/check", "k", &check(5));
    let first = std::thread::spawn(move || ask.send());
    fleet.claimed("1");
    // Another node hears that somebody is at it.
    b.post_keyed("/v1/check", "k", &check(5)).problem(409);
    b.post_keyed("/v1/check", "k", &check(6)).problem(422);
    b.post_keyed("/v1/reserve", "k", &check(5)).problem(422);
    first.join().unwrap().problem(503);
    fleet.claimed("0");
    fleet.postgres.resume();
    let decided = wait_for("the ledger", || {
        let answer = b.post_keyed("/v1/check", "k", &check(5));
        assert!([200, 503].contains(&answer.status), "{}", answer.status);
        (answer.status == 200).then_some(answer.body)
    });
    assert_eq!(a.post_keyed("/v1/check", "k", &check(5)).body, decided);
}

#[test]
fn a_killed_node_leaves_a_claim_that_ends() {
    let fleet = fleet();
    let [a, b] = &fleet.nodes;
    fleet.postgres.pause();
    let (mut stream, body) = (TcpStream::connect(a.http).unwrap(), check(5).to_string());
    let length = body.len();
    write!(
        stream,
        "POST /v1/check HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    fleet.claimed("1");
    a.signal("KILL");
    fleet.postgres.resume();
    b.post_keyed("/v1/check", "k", &check(5)).problem(409);
    let decided = wait_for("the end of the claim", || {
        let answer = b.post_keyed("/v1/check", "k", &check(5));
        assert!([200, 409, 503].contains(&answer.status), "{}", answer.status);
        (answer.status == 200).then_some(answer)
    });
    assert_eq!(decided.json()["allowed"], true);
    assert_eq!(b.post_keyed("/v1/check", "k", &check(5)).body, decided.body);
}
