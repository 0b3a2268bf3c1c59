//! What a node counts of the ledger of quotas.

use std::sync::atomic::Ordering;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::ledger::Ledger;

pub(super) fn encode(ledger: &Ledger, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
    let gauges = [
        (
            "ledger_away",
            "1 while the ledger of quotas does not answer",
            u64::from(ledger.is_away()),
        ),
        (
            "ledger_accounts",
            "Quotas' counters that this node keeps with the ledger",
            ledger.accounts() as u64,
        ),
        (
            "ledger_nodes",
            "Nodes that have lately used the ledger",
            ledger.nodes(),
        ),
    ];
    for (name, help, value) in gauges {
        let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
        gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
    }
    let counts = &ledger.counts;
    let counters = [
        (
            "ledger_exchanges",
            "Transactions with the ledger",
            &counts.exchanged,
        ),
        (
            "ledger_failures",
            "Transactions with the ledger that failed, or of which nobody knows",
            &counts.failed,
        ),
        (
            "ledger_granted",
            "What this node has taken of quotas ahead of time",
            &counts.granted,
        ),
        (
            "ledger_returned",
            "What this node has given back of quotas",
            &counts.returned,
        ),
        (
            "ledger_recovered",
            "What runs had left of quotas that ended without giving it back, and this one did for them",
            &counts.recovered,
        ),
        (
            "ledger_waits",
            "Times that a request had to wait for the ledger",
            &counts.waited,
        ),
        (
            "ledger_crowded",
            "Requests refused because as many waited for their quota as may",
            &counts.crowded,
        ),
        (
            "ledger_refused",
            "Requests not decided because a quota wants none decided without the ledger",
            &counts.refused,
        ),
        (
            "ledger_fallback_decisions",
            "Decisions made by a quota's failMode because the ledger was away",
            &counts.let_off,
        ),
    ];
    let lost = ledger.tallies.lost();
    let help =
        "Decisions that are in no statement: there was no room to count them, or the database refused them";
    ConstCounter::new(lost).encode(encoder.encode_descriptor(
        "usage_lost",
        help,
        None,
        MetricType::Counter,
    )?)?;
    for (name, help, value) in counters {
        let counter = ConstCounter::new(value.load(Ordering::Relaxed));
        counter.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
    }
    Ok(())
}
