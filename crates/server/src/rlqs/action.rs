//! What an Envoy is told to do with a bucket.

use super::name::Name;
use super::pb;

/// A token in a year is the least that Envoy can be told to refill.
const YEAR_S: i64 = 365 * 86_400;

/// So many requests, once. Envoy carries the share that is left of a token bucket over to the next one, but not over a blanket rule:
/// with that before it in the same message, what is left of the last one is gone and the new one is full.
pub(super) fn spend(name: &Name, requests: u64, ttl_s: u64) -> [pb::BucketAction; 2] {
    let bucket = pb::TokenBucket {
        max_tokens: u32::try_from(requests).unwrap_or(u32::MAX),
        tokens_per_fill: Some(pb::UInt32Value { value: 1 }),
        fill_interval: Some(pb::Duration {
            seconds: YEAR_S,
            nanos: 0,
        }),
    };
    let spend = assign(name, pb::Strategy::TokenBucket(bucket), ttl_s);
    [deny(name, ttl_s), spend]
}

/// None.
pub(super) fn deny(name: &Name, ttl_s: u64) -> pb::BucketAction {
    assign(
        name,
        pb::Strategy::BlanketRule(pb::BlanketRule::DenyAll.into()),
        ttl_s,
    )
}

/// All of them.
pub(super) fn allow(name: &Name, ttl_s: u64) -> pb::BucketAction {
    assign(
        name,
        pb::Strategy::BlanketRule(pb::BlanketRule::AllowAll.into()),
        ttl_s,
    )
}

/// To forget it until it is asked for again.
pub(super) fn abandon(name: &Name) -> pb::BucketAction {
    pb::BucketAction {
        bucket_id: Some(name.id()),
        bucket_action: Some(pb::Action::AbandonAction(pb::AbandonAction {})),
    }
}

fn assign(name: &Name, strategy: pb::Strategy, ttl_s: u64) -> pb::BucketAction {
    pb::BucketAction {
        bucket_id: Some(name.id()),
        bucket_action: Some(pb::Action::QuotaAssignmentAction(pb::QuotaAssignmentAction {
            assignment_time_to_live: Some(pb::Duration {
                seconds: i64::try_from(ttl_s).unwrap_or(i64::MAX),
                nanos: 0,
            }),
            rate_limit_strategy: Some(pb::RateLimitStrategy {
                strategy: Some(strategy),
            }),
        })),
    }
}
