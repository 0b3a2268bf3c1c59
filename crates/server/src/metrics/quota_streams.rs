//! What Envoys are assigned over quota streams, and what they report.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// The counts. Requests are counted as Envoy does, whatever each of them costs.
#[derive(Debug, Default)]
pub struct QuotaStreamMetrics {
    /// Streams that are open.
    pub streams: AtomicU64,
    /// Buckets that are known on them.
    pub buckets: AtomicU64,
    /// Messages that came.
    pub reports: AtomicU64,
    /// Messages that went.
    pub replies: AtomicU64,
    /// Requests that were assigned.
    pub assigned: AtomicU64,
    /// Requests that were reported as let through.
    pub reported: AtomicU64,
    /// Requests that were assigned, not used, and given back.
    pub given_back: AtomicU64,
    /// Requests that were reported beyond what was assigned.
    pub over_reported: AtomicU64,
    /// Reports of buckets that can't be assigned anything: malformed, or too many.
    pub refused: AtomicU64,
}

impl QuotaStreamMetrics {
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let gauges = [
            (
                "quota_streams",
                "Quota streams of Envoys that are open",
                &self.streams,
            ),
            (
                "quota_stream_buckets",
                "Buckets on quota streams that are not idle",
                &self.buckets,
            ),
        ];
        for (name, help, value) in gauges {
            let value = i64::try_from(value.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        let counters = [
            (
                "quota_stream_reports",
                "Messages of Envoys on quota streams",
                &self.reports,
            ),
            (
                "quota_stream_replies",
                "Messages to Envoys on quota streams",
                &self.replies,
            ),
            (
                "quota_stream_assigned",
                "Requests assigned to Envoys",
                &self.assigned,
            ),
            (
                "quota_stream_reported",
                "Requests that Envoys report to have let through",
                &self.reported,
            ),
            (
                "quota_stream_given_back",
                "Requests assigned to Envoys that were not used and went back",
                &self.given_back,
            ),
            (
                "quota_stream_over_reported",
                "Requests that Envoys report beyond what they were assigned",
                &self.over_reported,
            ),
            (
                "quota_stream_refused",
                "Reports of buckets that are malformed or too many",
                &self.refused,
            ),
        ];
        for (name, help, value) in counters {
            let counter = ConstCounter::new(value.load(Ordering::Relaxed));
            counter.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        Ok(())
    }
}
