//! Where it listens, and who may ask.

use crate::common::{Launch, Server, run};
use crate::{Wire, start};

#[test]
fn it_is_off_unless_an_address_is_given() {
    assert!(Server::start("policies: []\n", &[]).resp.is_none());
    let by = |environment: &[(&str, &str)], files: &[(&str, &str)], flags: &[&str]| {
        let server = Server::launch(&Launch {
            policies: Some("policies: []\n"),
            environment,
            files,
            flags,
            ..Launch::default()
        });
        Wire::to(&server).asks(&["PING"], "+PONG\r\n");
    };
    by(&[("TOLLGATE_RESP", "127.0.0.1:0")], &[], &[]);
    by(
        &[],
        &[("tollgate.yaml", "resp: 127.0.0.1:0\n")],
        &["--config", "tollgate.yaml"],
    );
}

#[test]
fn an_address_that_is_none_ends_the_program() {
    let finished = run(&["serve", "--resp", "here"]);
    let complaint = finished.complaint(2);
    let error = "--resp: `here` is not an address such as 127.0.0.1:8080";
    assert!(complaint.contains(error), "{complaint}");
}

#[test]
fn nothing_is_decided_for_whom_no_token_was_shown() {
    let server = start(&["--data-token", "a-token-for-this-test"]);
    let mut wire = Wire::to(&server);
    let ask = ["CL.THROTTLE", "user", "0", "1", "3600"];
    for words in [&ask[..], &["PING"], &["COMMAND"], &["GET", "a"]] {
        wire.asks(words, "-NOAUTH Authentication required.\r\n");
    }
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    wire.asks(&["AUTH", "another-token-0123"], wrong);
    wire.asks(&["HELLO", "3", "AUTH", "default", "another-token-0123"], wrong);
    wire.asks(&ask, "-NOAUTH Authentication required.\r\n");
    wire.asks(&["AUTH", "default", "a-token-for-this-test"], "+OK\r\n");
    wire.asks(&ask, "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:3600\r\n");
}
