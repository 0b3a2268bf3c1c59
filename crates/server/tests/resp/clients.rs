//! Real clients: the redis crate, redis-cli, redis-benchmark.

use std::process::Command;

use crate::common::Server;
use crate::{Wire, start};

fn tool(name: &str, server: &Server, arguments: &[&str]) -> String {
    let port = server.resp.unwrap().port().to_string();
    let output = Command::new(name)
        .args(["-p", &port])
        .args(arguments)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

#[test]
fn redis_cli_asks_and_is_told() {
    let server = start(&[]);
    let says = tool("redis-cli", &server, &["CL.THROTTLE", "user", "15", "1", "3600"]);
    assert_eq!(says, "0\n16\n15\n-1\n3600\n");
    assert_eq!(tool("redis-cli", &server, &["-3", "PING"]), "PONG\n");
    assert_eq!(
        tool("redis-cli", &server, &["-n", "0", "ECHO", "hello"]),
        "hello\n"
    );
    let listed = tool("redis-cli", &server, &["COMMAND"]);
    assert!(
        listed.starts_with("cl.throttle\n-5\nwrite\n1\n1\n1\n"),
        "{listed}"
    );
}

#[test]
fn redis_cli_shows_a_token() {
    let server = start(&["--data-token", "a-token-for-this-test"]);
    let ask = ["CL.THROTTLE", "user", "15", "1", "3600"];
    let shown = [&["-a", "a-token-for-this-test", "--no-auth-warning"], &ask[..]].concat();
    assert_eq!(tool("redis-cli", &server, &shown), "0\n16\n15\n-1\n3600\n");
    let third = [&["-3"], &shown[..]].concat();
    assert_eq!(tool("redis-cli", &server, &third), "0\n16\n14\n-1\n7200\n");
    let none = tool("redis-cli", &server, &ask);
    assert_eq!(none, "NOAUTH Authentication required.\n\n");
}

#[test]
fn the_redis_crate_speaks_both_versions_and_pipelines() {
    let server = start(&["--data-token", "a-token-for-this-test"]);
    let address = server.resp.unwrap();
    for (version, key) in [("resp2", "second"), ("resp3", "third")] {
        let url = format!("redis://:a-token-for-this-test@{address}/0?protocol={version}");
        let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
        let mut pipeline = redis::pipe();
        for _ in 0..3 {
            pipeline.cmd("CL.THROTTLE").arg(key).arg(&[1, 1, 3600]);
        }
        let says: Vec<(i64, i64, i64, i64, i64)> = pipeline.query(&mut connection).unwrap();
        let limited: Vec<i64> = says.iter().map(|says| says.0).collect();
        assert_eq!(limited, [0, 0, 1], "{version}");
    }
    let wrong = redis::Client::open(format!("redis://:another-token-0123@{address}")).unwrap();
    assert!(wrong.get_connection().is_err());
}

#[test]
fn redis_benchmark_loads_it() {
    let server = start(&[]);
    let load = ["-c", "8", "-P", "16", "-n", "20000", "-q"];
    let ask = ["CL.THROTTLE", "user", "99", "1", "3600"];
    tool("redis-benchmark", &server, &[&load[..], &ask[..]].concat());
    let count = |outcome: &str| server.counted(&format!("tollgate_throttles_total{{outcome=\"{outcome}\"}}"));
    assert_eq!(count("allowed"), 100);
    assert!(count("limited") >= 19_900);
}

#[test]
fn what_clients_begin_and_end_with_is_answered() {
    let server = start(&[]);
    let mut wire = Wire::to(&server);
    wire.asks(&["CLIENT", "SETINFO", "LIB-NAME", "redis-py"], "+OK\r\n");
    wire.asks(&["SELECT", "0"], "+OK\r\n");
    wire.asks(&["SELECT", "1"], "-ERR DB index is out of range\r\n");
    wire.asks(&["COMMAND", "DOCS"], "*0\r\n");
    wire.asks(&["PING", "hello"], "$5\r\nhello\r\n");
    wire.asks(&["HELLO", "4"], "-NOPROTO unsupported protocol version\r\n");
    wire.asks(&["HELLO", "3"], "%5\r\n$6\r\nserver\r\n$8\r\ntollgate\r\n");
    let version = env!("CARGO_PKG_VERSION");
    wire.says(&format!("$7\r\nversion\r\n${}\r\n{version}\r\n", version.len()));
    wire.says("$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$5\r\nproto\r\n:3\r\n");
    wire.asks(&["COMMAND", "DOCS"], "%0\r\n");
    wire.asks(
        &["AUTH", "anything"],
        "-ERR AUTH <password> called without any password configured. Are you sure your configuration is correct?\r\n",
    );
    wire.asks(
        &["GET", "a key"],
        "-ERR unknown command 'GET', with args beginning with: 'a key' \r\n",
    );
    wire.asks(
        &["PING", "1", "2"],
        "-ERR wrong number of arguments for 'ping' command\r\n",
    );
    wire.asks(&["QUIT"], "+OK\r\n");
    assert_eq!(wire.rest(), "");
}
