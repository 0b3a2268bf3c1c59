//! What a node counts of its fleet.

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tollgate_counters::shared::node::CLASSES;

use crate::fleet::Fleet;

pub(super) fn encode(fleet: &Fleet, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
    let (holdings, fallbacks) = (fleet.shared.holdings(), fleet.shared.fallbacks());
    let region = [("region", fleet.region())];
    let gauges = [
        (
            "fleet_nodes",
            "Nodes by which limits are shared while the shared store does not answer",
            fleet.sharing().0,
        ),
        (
            "lease_counters",
            "Counters of which this node knows or holds something",
            holdings.counters as u64,
        ),
        (
            "fallback_active",
            "1 while the shared store does not answer",
            u64::from(fleet.is_away()),
        ),
        (
            "store_evicts",
            "1 while a server of the shared store may evict counters",
            u64::from(fleet.evicts()),
        ),
    ];
    for (name, help, value) in gauges {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
        gauge.encode(family.encode_family(&region)?)?;
    }
    let help = "1 for where the number of nodes is known from: redis, dataDirectory, setting or assumption";
    let mut family = encoder.encode_descriptor("fleet_nodes_source", help, None, MetricType::Gauge)?;
    let labels = [("region", fleet.region()), ("source", fleet.sharing().1.name())];
    ConstGauge::new(1_i64).encode(family.encode_family(&labels)?)?;
    let counters = [
        ("lease_grants", "Leases that were asked for", holdings.leases),
        ("lease_tokens", "Tokens that were lent", holdings.lent),
        (
            "lease_tokens_unspent",
            "Tokens lent and not spent: given back, or lost",
            holdings.unspent,
        ),
        (
            "store_losses",
            "Times that a slot of the shared store was found to have lost its memory",
            holdings.losses,
        ),
        (
            "store_crowded",
            "Requests refused because as many of their org waited for the shared store as may",
            fleet.shared.turned_away(),
        ),
        (
            "fallback_decisions",
            "Decisions made by a limit's fallback",
            fallbacks.decided,
        ),
        (
            "fallback_refused",
            "Requests not decided because a limit wants none decided without the store",
            fallbacks.closed,
        ),
    ];
    for (name, help, value) in counters {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(family.encode_family(&region)?)?;
    }
    let help = "Part of a limit that lies unused in this node's leases, by the accuracy of its policy: average and most";
    let mut family = encoder.encode_descriptor("lease_unused_ratio", help, None, MetricType::Gauge)?;
    for ((_, class), unused) in CLASSES.iter().zip(fleet.unused()) {
        for (of, ratio) in [("average", unused.average()), ("most", unused.most())] {
            let labels = [("region", fleet.region()), ("accuracy", class), ("of", of)];
            ConstGauge::new(ratio).encode(family.encode_family(&labels)?)?;
        }
    }
    let help = "Time for which the shared store did not answer";
    let mut family = encoder.encode_descriptor("fallback_seconds", help, None, MetricType::Counter)?;
    ConstCounter::new(fleet.away_for().as_secs_f64()).encode(family.encode_family(&region)?)?;
    let help = "Calls to the shared store by what became of them";
    let mut family = encoder.encode_descriptor("store_calls", help, None, MetricType::Counter)?;
    for (result, count) in fleet.outcomes() {
        let labels = [("region", fleet.region()), ("result", result)];
        ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
