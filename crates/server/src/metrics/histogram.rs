//! Latency histograms that a thread fills without waiting.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{MetricEncoder, NoLabelSet};

/// Bounds from a quarter of a microsecond to four seconds, each four times the last.
const BOUNDS: usize = 13;
const FIRST_NANOS: u64 = 250;

#[derive(Debug, Default)]
pub(super) struct Histogram {
    /// What fell at or below each bound and above the last, then what fell above all.
    counts: [AtomicU64; BOUNDS + 1],
    nanos: AtomicU64,
}

impl Histogram {
    pub(super) fn observe(&self, took: Duration) {
        self.observe_each(1, took);
    }

    /// Several that came and went together.
    pub(super) fn observe_each(&self, times: u64, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let mut bucket = 0;
        let mut bound = FIRST_NANOS;
        while bucket < BOUNDS && nanos > bound {
            bound *= 4;
            bucket += 1;
        }
        self.counts[bucket].fetch_add(times, Ordering::Relaxed);
        self.nanos
            .fetch_add(nanos.saturating_mul(times), Ordering::Relaxed);
    }

    /// Writes the sum of several as one.
    #[expect(clippy::cast_precision_loss, reason = "the format's numbers are floats")]
    pub(super) fn encode<'h>(
        parts: impl Iterator<Item = &'h Self>,
        mut encoder: MetricEncoder<'_>,
    ) -> Result<(), std::fmt::Error> {
        let mut counts = [0; BOUNDS + 1];
        let mut nanos = 0;
        for part in parts {
            nanos += part.nanos.load(Ordering::Relaxed);
            for (sum, count) in counts.iter_mut().zip(&part.counts) {
                *sum += count.load(Ordering::Relaxed);
            }
        }
        let mut bound = FIRST_NANOS as f64 / 1e9;
        let mut buckets = Vec::with_capacity(BOUNDS + 1);
        for count in &counts[..BOUNDS] {
            buckets.push((bound, *count));
            bound *= 4.0;
        }
        buckets.push((f64::INFINITY, counts[BOUNDS]));
        encoder.encode_histogram::<NoLabelSet>(nanos as f64 / 1e9, counts.iter().sum(), &buckets, None)
    }
}
