//! Health and reflection.

use std::collections::BTreeSet;

use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

use crate::asker::Asker;
use crate::common::Server;

#[test]
fn each_service_says_that_it_serves() {
    let server = Server::start("policies: []", &[]);
    let asker = Asker::of(&server);
    let health = |service: &str| {
        let request = HealthCheckRequest {
            service: service.to_owned(),
        };
        let mut client = HealthClient::new(asker.channel.clone());
        let answer = asker.runtime.block_on(client.check(request));
        answer.map(|answer| answer.into_inner().status)
    };
    for service in [
        "",
        "tollgate.v1.RateLimiter",
        "envoy.service.ratelimit.v3.RateLimitService",
        "envoy.service.rate_limit_quota.v3.RateLimitQuotaService",
    ] {
        assert_eq!(health(service).unwrap(), 1, "{service}");
    }
    assert_eq!(health("nobody").unwrap_err().code(), tonic::Code::NotFound);
}

#[test]
fn whoever_watches_hears_of_unknown_services_and_of_the_end() {
    let server = Server::start("policies: []", &[]);
    let asker = Asker::of(&server);
    let watch = |service: &str| {
        let request = HealthCheckRequest {
            service: service.to_owned(),
        };
        let mut client = HealthClient::new(asker.channel.clone());
        let answers = asker.runtime.block_on(client.watch(request));
        answers.unwrap().into_inner()
    };
    let mut open = Vec::new();
    for (service, status) in [("", 1), ("tollgate.v1.RateLimiter", 1), ("nobody", 3)] {
        let mut answers = watch(service);
        let first = asker.runtime.block_on(answers.message()).unwrap();
        assert_eq!(first.unwrap().status, status, "{service}");
        open.push(answers);
    }
    let still = open.iter_mut().all(|answers| {
        let soon = std::time::Duration::from_millis(50);
        let next = async { tokio::time::timeout(soon, answers.message()).await };
        asker.runtime.block_on(next).is_err()
    });
    assert!(still, "nothing has changed, and the streams stay open");
    server.terminate();
    for mut answers in open {
        let end = asker.runtime.block_on(answers.message());
        assert_eq!(end.unwrap_err().code(), tonic::Code::Unavailable);
    }
    assert!(server.wait().success());
}

fn ask(asker: &Asker, message: MessageRequest) -> MessageResponse {
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(message),
    };
    let mut client = ServerReflectionClient::new(asker.channel.clone());
    asker.runtime.block_on(async {
        let answers = client.server_reflection_info(tokio_stream::once(request)).await;
        let answer: Option<ServerReflectionResponse> = answers.unwrap().into_inner().message().await.unwrap();
        answer.unwrap().message_response.unwrap()
    })
}

#[test]
fn reflection_lists_the_services_and_describes_them() {
    let server = Server::start("policies: []", &[]);
    let asker = Asker::of(&server);
    let MessageResponse::ListServicesResponse(list) =
        ask(&asker, MessageRequest::ListServices(String::new()))
    else {
        panic!("not a list");
    };
    let names: BTreeSet<_> = list.service.iter().map(|service| service.name.as_str()).collect();
    for name in [
        "grpc.health.v1.Health",
        "tollgate.v1.RateLimiter",
        "envoy.service.ratelimit.v3.RateLimitService",
        "envoy.service.auth.v3.Authorization",
    ] {
        assert!(names.contains(name), "{name} is not among {names:?}");
    }
    for symbol in [
        "tollgate.v1.RateLimiter.CheckLimits",
        "grpc.health.v1.HealthCheckRequest",
        "envoy.service.ratelimit.v3.RateLimitService.ShouldRateLimit",
        "envoy.service.auth.v3.CheckRequest",
        "envoy.service.rate_limit_quota.v3.RateLimitQuotaUsageReports",
    ] {
        let answer = ask(&asker, MessageRequest::FileContainingSymbol(symbol.to_owned()));
        let MessageResponse::FileDescriptorResponse(files) = answer else {
            panic!("{symbol} is not described: {answer:?}");
        };
        assert!(!files.file_descriptor_proto.is_empty());
    }
}
