//! What is known of an issuer's keys. Without an issuer nothing of it is shown.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use tollgate_core::Timestamp;

/// The state of the keys.
#[derive(Debug, Default)]
pub struct IssuerMetrics {
    /// When the keys were last the source's own, in Unix seconds; 0 without an issuer.
    confirmed: AtomicU64,
    keys: AtomicU64,
    away: AtomicBool,
}

impl IssuerMetrics {
    /// Notes that the keys in force are the source's.
    pub fn confirmed(&self, at: Timestamp) {
        self.confirmed.store(at.seconds().max(1), Ordering::Relaxed);
    }

    /// Notes how many keys are in force.
    pub fn keys(&self, count: usize) {
        self.keys.store(count as u64, Ordering::Relaxed);
    }

    /// Notes whether the source gives no keys.
    pub fn away(&self, away: bool) {
        self.away.store(away, Ordering::Relaxed);
    }

    pub(super) fn encode(
        &self,
        prefix: &str,
        now: Timestamp,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> Result<(), std::fmt::Error> {
        let confirmed = self.confirmed.load(Ordering::Relaxed);
        if confirmed == 0 {
            return Ok(());
        }
        let gauges = [
            (
                "keys",
                "Keys of the issuer in force",
                self.keys.load(Ordering::Relaxed),
            ),
            (
                "keys_age_seconds",
                "Time since the keys in force were last confirmed by their source",
                now.seconds().saturating_sub(confirmed),
            ),
            (
                "away",
                "1 while the issuer's keys can't be had",
                u64::from(self.away.load(Ordering::Relaxed)),
            ),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(
                &format!("{prefix}_{name}"),
                help,
                None,
                MetricType::Gauge,
            )?)?;
        }
        Ok(())
    }
}
