//! A client that waits for its answers.

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{Code, DescriptorStatus};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use envoy_types::pb::google::protobuf::UInt64Value;
use tokio::runtime::Runtime;
use tollgate_proto::v1::rate_limiter_client::RateLimiterClient;
use tollgate_proto::v1::{
    CheckLimitRequest, CheckLimitResponse, CheckLimitsRequest, CheckLimitsResponse, ReserveRequest,
    ReserveResponse, SettleRequest, SettleResponse,
};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use crate::common::{DEADLINE, Server};

/// A connection to a server's gRPC address.
pub struct Asker {
    pub runtime: Runtime,
    pub channel: Channel,
    token: Option<(&'static str, String)>,
}

impl Asker {
    pub fn of(server: &Server) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let endpoint = Endpoint::from_shared(format!("http://{}", server.grpc)).unwrap();
        let endpoint = endpoint.timeout(DEADLINE).connect_timeout(DEADLINE);
        let channel = runtime.block_on(endpoint.connect()).unwrap();
        Self {
            runtime,
            channel,
            token: None,
        }
    }

    /// The same, showing this in the metadata of each call.
    pub fn showing(mut self, name: &'static str, value: &str) -> Self {
        self.token = Some((name, value.to_owned()));
        self
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some((name, value)) = &self.token {
            request.metadata_mut().insert(*name, value.parse().unwrap());
        }
        request
    }

    pub fn reserve(&self, reserve: ReserveRequest) -> Result<ReserveResponse, Status> {
        let mut client = RateLimiterClient::new(self.channel.clone());
        let answer = self.runtime.block_on(client.reserve(self.request(reserve)));
        answer.map(tonic::Response::into_inner)
    }

    pub fn settle(&self, settle: SettleRequest) -> Result<SettleResponse, Status> {
        let mut client = RateLimiterClient::new(self.channel.clone());
        let answer = self.runtime.block_on(client.settle(self.request(settle)));
        answer.map(tonic::Response::into_inner)
    }

    pub fn check(&self, check: CheckLimitRequest) -> Result<CheckLimitResponse, Status> {
        let mut client = RateLimiterClient::new(self.channel.clone());
        let answer = self.runtime.block_on(client.check_limit(self.request(check)));
        answer.map(tonic::Response::into_inner)
    }

    pub fn check_all(&self, requests: Vec<CheckLimitRequest>) -> Result<CheckLimitsResponse, Status> {
        let mut client = RateLimiterClient::new(self.channel.clone());
        let request = self.request(CheckLimitsRequest { requests });
        let answer = self.runtime.block_on(client.check_limits(request));
        answer.map(tonic::Response::into_inner)
    }

    /// Asks as Envoy does.
    pub fn envoy(&self, request: RateLimitRequest) -> Result<RateLimitResponse, Status> {
        let mut client = RateLimitServiceClient::new(self.channel.clone());
        let answer = self
            .runtime
            .block_on(client.should_rate_limit(self.request(request)));
        answer.map(tonic::Response::into_inner)
    }

    /// Asks as Envoy does, about descriptors of the domain `edge`.
    pub fn descriptors(&self, descriptors: Vec<RateLimitDescriptor>) -> RateLimitResponse {
        self.envoy(edge(descriptors)).unwrap()
    }

    /// The codes of such an answer: that of all, and of each.
    pub fn codes(&self, descriptors: Vec<RateLimitDescriptor>) -> (bool, Vec<bool>) {
        codes(&self.descriptors(descriptors))
    }
}

/// Whether all may go on, and each by itself.
pub fn codes(answer: &RateLimitResponse) -> (bool, Vec<bool>) {
    let ok = |code: i32| match Code::try_from(code) {
        Ok(Code::Ok) => true,
        Ok(Code::OverLimit) => false,
        other => panic!("{other:?}"),
    };
    let each = answer.statuses.iter().map(|status| ok(status.code));
    (ok(answer.overall_code), each.collect())
}

pub fn edge(descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
    RateLimitRequest {
        domain: "edge".to_owned(),
        descriptors,
        hits_addend: 0,
    }
}

pub fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |(key, value): &(&str, &str)| Entry {
        key: (*key).to_owned(),
        value: (*value).to_owned(),
    };
    RateLimitDescriptor {
        entries: entries.iter().map(entry).collect(),
        ..RateLimitDescriptor::default()
    }
}

pub fn hits(mut descriptor: RateLimitDescriptor, value: u64) -> RateLimitDescriptor {
    descriptor.hits_addend = Some(UInt64Value { value });
    descriptor
}

pub fn gives_back(descriptor: RateLimitDescriptor, value: u64) -> RateLimitDescriptor {
    RateLimitDescriptor {
        is_negative_hits: true,
        ..hits(descriptor, value)
    }
}

pub fn limited(
    mut descriptor: RateLimitDescriptor,
    requests_per_unit: u32,
    unit: i32,
) -> RateLimitDescriptor {
    descriptor.limit = Some(RateLimitOverride {
        requests_per_unit,
        unit,
    });
    descriptor
}

/// What is left by the status of a descriptor.
pub fn left(status: &DescriptorStatus) -> u32 {
    assert!(status.current_limit.is_some(), "{status:?}");
    status.limit_remaining
}
