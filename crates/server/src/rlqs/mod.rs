//! Envoy's quota streams (docs/adr/0011-envoys-quota-stream.md): an Envoy reports what it let through of each bucket, and is
//! assigned what it may let through next. Everything is charged before it is assigned.
//!
//! [`Lots`](lots::Lots) knows what an Envoy holds, and [`terms`] for how long and how much it may; neither does anything. [`charge`] takes
//! it from the engine and gives it back, [`bucket`] does both by reports, and [`stream`] talks.

mod action;
mod bucket;
mod charge;
mod left;
mod lots;
mod name;
mod size;
mod stream;
mod terms;

pub(crate) use stream::{Quotas, Replies};

/// The messages.
mod pb {
    pub(super) use envoy_types::pb::envoy::r#type::v3::rate_limit_strategy::{BlanketRule, Strategy};
    pub(super) use envoy_types::pb::envoy::r#type::v3::{RateLimitStrategy, TokenBucket};
    pub(super) use envoy_types::pb::envoy::service::rate_limit_quota::v3::rate_limit_quota_response::BucketAction;
    pub(super) use envoy_types::pb::envoy::service::rate_limit_quota::v3::rate_limit_quota_response::bucket_action::{
        AbandonAction, BucketAction as Action, QuotaAssignmentAction,
    };
    pub(super) use envoy_types::pb::envoy::service::rate_limit_quota::v3::rate_limit_quota_usage_reports::BucketQuotaUsage;
    pub(super) use envoy_types::pb::envoy::service::rate_limit_quota::v3::{
        BucketId, RateLimitQuotaResponse, RateLimitQuotaUsageReports,
    };
    pub(super) use envoy_types::pb::google::protobuf::{Duration, UInt32Value};
}

const SECOND_NS: u64 = 1_000_000_000;
/// How often Envoy reports, whatever its configuration says.
const REPORT_NS: u64 = 5 * SECOND_NS;
/// How long an assignment may be spent at most, in seconds: two reports.
const TTL_S: u64 = 10;
