//! `CL.THROTTLE`: the numbers of redis-cell, and its words when something is wrong.

use std::cell::{Cell, RefCell};
use std::time::Instant;

use proptest::test_runner::{Config, TestRunner};
use tollgate_oracle::{Counters, Kind, Level, Limit, Mode};

use crate::common::Server;
use crate::{Wire, packed, start};

const HOUR_NS: u64 = 3_600_000_000_000;

type Says = (i64, i64, i64, i64, i64);

fn connect(server: &Server) -> redis::Connection {
    let url = format!("redis://{}", server.resp.unwrap());
    redis::Client::open(url).unwrap().get_connection().unwrap()
}

fn throttle(connection: &mut redis::Connection, key: &str, numbers: &[i64]) -> Says {
    let mut command = redis::cmd("CL.THROTTLE");
    command.arg(key).arg(numbers);
    command.query(connection).unwrap()
}

#[test]
fn a_burst_is_let_through_and_then_the_time_to_wait_is_told() {
    let server = start(&[]);
    let mut wire = Wire::to(&server);
    // One in an hour and two at once: what passes meanwhile is less than the second that times are rounded to.
    let ask = ["CL.THROTTLE", "user", "1", "1", "3600"];
    wire.asks(&ask, "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:3600\r\n");
    wire.asks(&ask, "*5\r\n:0\r\n:2\r\n:0\r\n:-1\r\n:7200\r\n");
    wire.asks(&ask, "*5\r\n:1\r\n:2\r\n:0\r\n:3600\r\n:7200\r\n");
    let allowed = server.counted("tollgate_throttles_total{outcome=\"allowed\"}");
    let limited = server.counted("tollgate_throttles_total{outcome=\"limited\"}");
    assert_eq!((allowed, limited), (2, 1));
}

#[test]
fn quantities_are_taken_together_and_none_only_looks() {
    let server = start(&[]);
    let mut connection = connect(&server);
    let mut ask = |numbers: &[i64]| throttle(&mut connection, "user", numbers);
    assert_eq!(ask(&[9, 1, 3600, 0]), (0, 10, 10, -1, 0));
    assert_eq!(ask(&[9, 1, 3600, 4]), (0, 10, 6, -1, 4 * 3600));
    assert_eq!(ask(&[9, 1, 3600, 7]), (1, 10, 6, 3600, 4 * 3600));
    assert_eq!(ask(&[9, 1, 3600, 0]), (0, 10, 6, -1, 4 * 3600));
    // More than there is room for at all: no wait helps.
    assert_eq!(ask(&[9, 1, 3600, 11]), (1, 10, 6, -1, 4 * 3600));
}

#[test]
fn other_numbers_for_a_key_go_on_with_its_count() {
    let server = start(&[]);
    let mut connection = connect(&server);
    let mut ask = |numbers: &[i64]| throttle(&mut connection, "user", numbers);
    // Six hours are owed.
    assert_eq!(ask(&[9, 1, 3600, 6]), (0, 10, 4, -1, 6 * 3600));
    // Of intervals of two hours that is three.
    assert_eq!(ask(&[9, 1, 7200, 0]), (0, 10, 7, -1, 6 * 3600));
    // A bucket of three is beyond full, and stays it for three hours and a token's one.
    assert_eq!(ask(&[2, 1, 3600, 1]), (1, 3, 0, 4 * 3600, 6 * 3600));
}

#[test]
fn random_commands_are_answered_as_the_oracle_says() {
    let server = start(&[]);
    let connection = RefCell::new(connect(&server));
    let mut runner = TestRunner::new(Config::with_cases(64));
    let case = proptest::collection::vec((0..20_u64, 0..9_u64), 1..30);
    let key = Cell::new(0);
    let run = runner.run(&(case, 0..30_u64), |(requests, burst)| {
        key.set(key.get() + 1);
        let key = format!("key-{}", key.get());
        let limit = Limit {
            kind: Kind::TokenBucket,
            limit: 1,
            burst: Some(burst + 1),
            window_ns: HOUR_NS,
        };
        let mut oracle = Counters::default();
        let (began, start) = (Instant::now(), 1_700_000_000_000_000_000);
        for (take, other) in requests {
            let tokens = if other < 7 { 1 } else { take };
            let numbers = [burst, 1, 3600, tokens].map(|number| i64::try_from(number).unwrap());
            let says = throttle(&mut connection.borrow_mut(), &key, &numbers);
            let now = start + u64::try_from(began.elapsed().as_nanos()).unwrap();
            let verdict = oracle.decide(&[Level::new(limit, Mode::Enforce, tokens, 1)], now);
            assert_eq!((says.0, says.1), (i64::from(!verdict.allowed), numbers[0] + 1));
            assert_eq!(says.2, i64::try_from(verdict.levels[0].remaining).unwrap());
            // Its clock is read a little earlier than this one.
            let slack = i64::try_from(began.elapsed().as_secs()).unwrap() + 1;
            let near = |says: i64, exact: u128| {
                let exact = i64::try_from(exact.div_ceil(1_000_000_000)).unwrap();
                assert!((exact - 1..=exact + slack).contains(&says), "{says} for {exact}");
            };
            near(says.4, verdict.levels[0].reset_ns);
            match verdict.retry_ns.filter(|_| !verdict.allowed) {
                Some(retry) => near(says.3, retry),
                None => assert_eq!(says.3, -1),
            }
        }
        Ok(())
    });
    run.unwrap();
}

#[test]
fn what_is_wrong_is_told_in_the_words_of_redis_cell() {
    let server = start(&[]);
    let mut wire = Wire::to(&server);
    let usage =
        "-Cell error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]\r\n";
    wire.asks(&["CL.THROTTLE"], usage);
    wire.asks(&["cl.throttle", "k", "1", "2"], usage);
    wire.asks(&["cl.throttle", "k", "1", "2", "3", "4", "5"], usage);
    for (numbers, error) in [
        (["many", "1", "1"], "Couldn't parse as integer: many"),
        (["1", "1.5", "1"], "Couldn't parse as integer: 1.5"),
        (["1", "1", ""], "Couldn't parse as integer: "),
        (
            ["1", "1", "9223372036854775808"],
            "Couldn't parse as integer: 9223372036854775808",
        ),
        (["1", "1", "a\r\n+OK"], "Couldn't parse as integer: a  +OK"),
        (["1", "0", "1"], "Zero rates are not supported"),
        (["1", "1", "0"], "Zero rates are not supported"),
        (["-1", "1", "1"], "Negative numbers are not supported"),
        (["9223372036854775807", "1", "1"], "The numbers are too large"),
        (["1", "1", "9223372036854775807"], "The numbers are too large"),
    ] {
        let words = [&["CL.THROTTLE", "k"][..], &numbers[..]].concat();
        wire.asks(&words, &format!("-Cell error: {error}\r\n"));
    }
    wire.asks(&["PING"], "+PONG\r\n");
}

#[test]
fn keys_are_no_policys_counters() {
    let server = start(&[]);
    let mut wire = Wire::to(&server);
    wire.asks(
        &["CL.THROTTLE", "acme", "0", "1", "3600"],
        "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:3600\r\n",
    );
    let acme = serde_json::json!({"orgId": "acme"});
    assert_eq!(server.left("org", &acme), 100);
}

#[test]
fn a_pipeline_is_answered_in_order_and_exactly() {
    let server = start(&[]);
    let mut wire = Wire::to(&server);
    let ask = packed(&["CL.THROTTLE", "user", "499", "1", "3600"]);
    wire.send(ask.repeat(1_000));
    for count in 1..=1_000_i64 {
        let (taken, limited) = (count.min(500), i64::from(count > 500));
        let retry = if limited == 1 { 3600 } else { -1 };
        let (left, reset) = (500 - taken, taken * 3600);
        wire.says(&format!(
            "*5\r\n:{limited}\r\n:500\r\n:{left}\r\n:{retry}\r\n:{reset}\r\n"
        ));
    }
}

#[test]
fn the_kill_switch_refuses_nothing() {
    let server = start(&["--shadow-all"]);
    let mut connection = connect(&server);
    for _ in 0..5 {
        let (limited, _, _, retry, _) = throttle(&mut connection, "user", &[0, 1, 3600]);
        assert_eq!((limited, retry), (0, -1));
    }
}

#[test]
fn there_is_no_room_for_more_keys_than_may_be_counted() {
    let server = start(&["--max-counters", "4"]);
    let mut wire = Wire::to(&server);
    let mut full = 0;
    for number in 0..50 {
        let ask = packed(&["CL.THROTTLE", &format!("user-{number}"), "0", "1", "3600"]);
        wire.send(ask);
        let answer = wire.read(1);
        if answer == "-" {
            wire.says("ERR limiter unavailable: the counter store is full\r\n");
            full += 1;
        } else {
            wire.says("5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:3600\r\n");
        }
    }
    assert_eq!(full, 46);
}
