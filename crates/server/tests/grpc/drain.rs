//! The end of a server.

use std::io::{Read, Write};

use crate::asker::{Asker, descriptor, edge};
use crate::common::{Server, file_of, hourly};
use crate::frames::{
    DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, SETTINGS, frame, head, message, question, raw, read_until,
};

#[test]
fn a_server_that_ends_lets_idle_connections_go_and_takes_no_new_ones() {
    let server = Server::start(&file_of(&[hourly("org", "org", 5, "")]), &[]);
    let asker = Asker::of(&server);
    asker.descriptors(vec![descriptor(&[("org", "acme")])]);
    let address = server.grpc;
    server.terminate();
    assert!(server.wait().success());
    assert!(asker.envoy(edge(vec![descriptor(&[("org", "acme")])])).is_err());
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn a_stream_that_nobody_ends_does_not_keep_a_server() {
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;

    let server = Server::start("policies: []", &[]);
    let asker = Asker::of(&server);
    let mut client = HealthClient::new(asker.channel.clone());
    let watch = asker
        .runtime
        .block_on(client.watch(HealthCheckRequest::default()));
    let mut watch = watch.unwrap().into_inner();
    assert!(asker.runtime.block_on(watch.message()).unwrap().is_some());
    server.terminate();
    assert!(server.wait().success());
}

#[test]
fn health_says_before_the_drain_that_no_more_should_be_sent() {
    use tollgate_proto::v1::CheckLimitRequest;
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;

    let server = Server::start("policies: []", &["--drain-delay", "1h"]);
    let asker = Asker::of(&server);
    let mut client = HealthClient::new(asker.channel.clone());
    let watch = asker
        .runtime
        .block_on(client.watch(HealthCheckRequest::default()));
    let mut watch = watch.unwrap().into_inner();
    let mut next = || asker.runtime.block_on(watch.message()).unwrap().unwrap().status;
    assert_eq!(next(), 1);
    server.terminate();
    assert_eq!(next(), 2, "NOT_SERVING");
    let checked = asker
        .runtime
        .block_on(client.check(HealthCheckRequest::default()));
    assert_eq!(checked.unwrap().into_inner().status, 2);
    assert!(
        asker.check(CheckLimitRequest::default()).unwrap().allowed,
        "it serves"
    );
    server.terminate();
    let end = asker.runtime.block_on(watch.message());
    assert_eq!(end.unwrap_err().code(), tonic::Code::Unavailable);
    assert!(server.wait().success());
}

#[test]
fn who_is_connected_is_told_and_what_is_under_way_is_answered() {
    let server = Server::start(&file_of(&[hourly("org", "org", 5, "")]), &[]);
    let mut stream = raw(&server);
    read_until(&mut stream, SETTINGS);
    stream
        .write_all(&frame(HEADERS, END_HEADERS, 1, &head()))
        .unwrap();
    // A second one that is answered says that the first has arrived.
    stream
        .write_all(&frame(HEADERS, END_HEADERS, 3, &head()))
        .unwrap();
    let asked = message(&question("acme"));
    stream.write_all(&frame(DATA, END_STREAM, 3, &asked)).unwrap();
    read_until(&mut stream, DATA);
    let mut silent = std::net::TcpStream::connect(server.grpc).unwrap();
    server.terminate();
    read_until(&mut stream, GOAWAY);
    // Who never said a word is let go while others are still waited for.
    while silent.read(&mut [0; 64]).unwrap() > 0 {}
    stream.write_all(&frame(DATA, END_STREAM, 1, &asked)).unwrap();
    let answer = read_until(&mut stream, DATA);
    assert!(answer.len() > 5, "an answer: {answer:?}");
    drop(stream);
    assert!(server.wait().success());
}
