//! The end of the audit.

use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

/// What this node last saw of it. Nothing is shown before it has.
#[derive(Debug, Default)]
pub struct AuditMetrics {
    head: ArcSwapOption<(i64, String)>,
    contradicted: AtomicBool,
}

impl AuditMetrics {
    /// Notes the last row's number and hash.
    pub fn head(&self, revision: i64, hash: &str) {
        let known = self.head.load();
        if known
            .as_deref()
            .is_none_or(|known| known.0 != revision || known.1 != hash)
        {
            self.head.store(Some((revision, hash.to_owned()).into()));
        }
    }

    /// Notes whether the audit is another than the one that was seen.
    pub fn contradicted(&self, contradicted: bool) {
        self.contradicted.store(contradicted, Ordering::Relaxed);
    }

    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        if let Some(head) = self.head.load_full() {
            let help = "The number of the audit's last row, with its hash";
            let mut family = encoder.encode_descriptor("audit_head", help, None, MetricType::Gauge)?;
            let labels = [("hash", head.1.as_str())];
            ConstGauge::new(head.0).encode(family.encode_family(&labels)?)?;
        }
        let help = "1 if the audit is not the one that this node has seen: rows were cut off or replaced";
        let gauge = ConstGauge::new(i64::from(self.contradicted.load(Ordering::Relaxed)));
        gauge.encode(encoder.encode_descriptor("audit_contradicted", help, None, MetricType::Gauge)?)
    }
}
