//! Tokens over gRPC, asked for as over HTTP.

use tollgate_proto::v1::CheckLimitRequest;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::asker::{Asker, descriptor, edge};
use crate::common::{Server, file_of, hourly};

const TOKEN: &str = "a-token-for-this-test";

#[test]
fn only_who_shows_a_token_gets_a_decision() {
    let policies = file_of(&[hourly("org", "org", 5, "")]);
    let server = Server::start(&policies, &["--data-token", TOKEN]);
    let check = || CheckLimitRequest {
        org_id: Some("acme".to_owned()),
        ..CheckLimitRequest::default()
    };
    let question = || edge(vec![descriptor(&[("org", "acme")])]);
    for stranger in [
        Asker::of(&server),
        Asker::of(&server).showing("x-tollgate-token", "another-token-of-some-length"),
        Asker::of(&server).showing("authorization", "Basic YTpi"),
    ] {
        assert_eq!(stranger.check(check()).unwrap_err().code(), Code::Unauthenticated);
        assert_eq!(
            stranger.envoy(question()).unwrap_err().code(),
            Code::Unauthenticated
        );
        let mut health = HealthClient::new(stranger.channel.clone());
        let answer = stranger
            .runtime
            .block_on(health.check(HealthCheckRequest::default()));
        assert_eq!(answer.unwrap().into_inner().status, 1, "health is for everybody");
    }
    let known = Asker::of(&server).showing("x-tollgate-token", TOKEN);
    assert_eq!(
        known.check(check()).unwrap().remaining,
        Some(4),
        "strangers charged nothing"
    );
    let bearer = Asker::of(&server).showing("authorization", &format!("Bearer {TOKEN}"));
    assert_eq!(bearer.envoy(question()).unwrap().statuses[0].limit_remaining, 3);
}
