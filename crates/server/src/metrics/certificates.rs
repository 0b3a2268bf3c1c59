//! When the certificates run out that are served. Without TLS nothing of it is shown.

use arc_swap::ArcSwap;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

/// How many certificates of a chain are told of.
const MOST: usize = 8;

/// The certificates that are served.
#[derive(Debug, Default)]
pub struct CertificateMetrics {
    /// When each runs out, in Unix seconds, the server's own first; `None` where that can't be read.
    expiries: ArcSwap<Vec<Option<i64>>>,
}

impl CertificateMetrics {
    /// Notes which are served from now on.
    pub fn serve(&self, expiries: Vec<Option<i64>>) {
        self.expiries.store(expiries.into());
    }

    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let expiries = self.expiries.load();
        if expiries.is_empty() {
            return Ok(());
        }
        let help =
            "When a certificate that is served runs out, in Unix seconds; position 0 is the server's own";
        let name = "tls_certificate_expiry_seconds";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (position, expiry) in expiries.iter().take(MOST).enumerate() {
            if let Some(expiry) = expiry {
                let labels = [("position", position.to_string())];
                ConstGauge::new(*expiry).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
