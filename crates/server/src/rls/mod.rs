//! Rate limits as Envoy asks for them: a domain and descriptors, all of which are decided as one.
//!
//! Over gRPC the question comes as it is, over HTTP as JSON ([`json`]); [`Asked`] is either. Each descriptor becomes a request
//! ([`Question`]); what was decided on all of them becomes a status for each ([`answer`]).

mod answer;
mod asked;
pub(crate) mod json;
mod question;

pub(crate) use answer::refusal;
pub(crate) use asked::Asked;
pub(crate) use question::{MAX_ENTRIES, Question, Unread, bounded, read_entries};

/// The messages.
pub(crate) mod pb {
    pub(crate) use envoy_types::pb::envoy::config::core::v3::HeaderValue;
    pub(crate) use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
    pub(crate) use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
        Entry, RateLimitOverride,
    };
    pub(crate) use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
    pub(crate) use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{
        Code, DescriptorStatus, RateLimit,
    };
    pub(crate) use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
    pub(crate) use envoy_types::pb::google::protobuf::{Duration, UInt64Value};
}

const SECOND_NS: u64 = 1_000_000_000;
const DAY_NS: u64 = 86_400 * SECOND_NS;

/// The units, and how long each is: a month and a year are as many days, whatever the calendar says.
const UNITS: [(pb::Unit, u64); 7] = [
    (pb::Unit::Second, SECOND_NS),
    (pb::Unit::Minute, 60 * SECOND_NS),
    (pb::Unit::Hour, 3600 * SECOND_NS),
    (pb::Unit::Day, DAY_NS),
    (pb::Unit::Week, 7 * DAY_NS),
    (pb::Unit::Month, 30 * DAY_NS),
    (pb::Unit::Year, 365 * DAY_NS),
];
