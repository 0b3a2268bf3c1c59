//! How much of the catalogue has no effect on this node.

use std::collections::BTreeMap;

use arc_swap::ArcSwap;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

/// The kinds of things that can be left out.
const KINDS: [&str; 7] = ["policy", "rollout", "override", "org", "user", "key", "token"];

/// How much of the catalogue is left out, by kind.
#[derive(Debug, Default)]
pub struct CatalogueMetrics {
    left_out: ArcSwap<BTreeMap<&'static str, i64>>,
}

impl CatalogueMetrics {
    /// Notes what is left out, by the kind of each.
    pub fn leaves_out(&self, kinds: impl Iterator<Item = &'static str>) {
        let mut counts = BTreeMap::new();
        for kind in kinds {
            *counts.entry(kind).or_default() += 1;
        }
        self.left_out.store(counts.into());
    }

    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let help =
            "Entries of the catalogue without effect on this node, since they don't fit its policy file";
        let mut family = encoder.encode_descriptor("catalogue_left_out", help, None, MetricType::Gauge)?;
        let counts = self.left_out.load();
        for kind in KINDS {
            let gauge = ConstGauge::new(counts.get(kind).copied().unwrap_or(0));
            gauge.encode(family.encode_family(&[("kind", kind)])?)?;
        }
        Ok(())
    }
}
