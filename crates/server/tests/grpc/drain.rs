//! The end of a server.

use crate::asker::{Asker, descriptor, edge};
use crate::common::{Server, file_of, hourly};

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
