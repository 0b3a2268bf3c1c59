//! `GET /v1/fleet`: the nodes that share counters, what they hold on lease, and how the store is.

use serde_json::{Value, json};
use tollgate_counters::shared::node::CLASSES;

use super::answer::{Answer, Answered};
use super::ask::Ask;
use super::openapi::{of, replies};
use super::route::{Group, Route};
use super::rule::Rule;
use crate::fleet::Fleet;

/// The routes of this file.
pub(super) fn group() -> Group {
    Group {
        name: "Fleet",
        about: "The nodes that share counters.",
        routes: vec![
            Route::get("/v1/fleet", get, "getFleet", "Nodes, leases, store and fallback")
                .by(Rule::ReadPlatform)
                .answers(
                    200,
                    replies::plain("The fleet.", "application/json", &of("Fleet")),
                ),
        ],
    }
}

async fn get(ask: Ask) -> Answered {
    ask.caller.read_platform()?;
    let plane = &ask.plane;
    let fleet = match &plane.fleet {
        Some(fleet) => shared(fleet),
        None => json!({
            "region": plane.region,
            "store": {"kind": "memory", "address": null, "away": false, "servers": []},
            "nodes": [],
            "sharedBy": 1,
            "sharedByFrom": null,
            "leases": null,
            "fallback": null,
            "mirror": null,
            "accuracy": [],
        }),
    };
    Ok(Answer::ok(fleet))
}

fn shared(fleet: &Fleet) -> Value {
    let servers = fleet.health();
    let servers = servers.iter().map(|server| {
        json!({
            "server": server.server,
            "connected": server.connected,
            "callsUnderWay": server.in_flight,
            "awayForMs": server.open_since.map(|since| millis(since.elapsed())),
            "trouble": server.trouble.as_ref().map(ToString::to_string),
            "evicts": server.evicts,
        })
    });
    let nodes = fleet.members().into_iter().map(|member| {
        json!({
            "id": member.id,
            "self": member.id == fleet.id(),
            "alive": member.is_alive(),
            "silentMs": millis(member.silent),
            "says": serde_json::from_str::<Value>(&member.info).unwrap_or(Value::Null),
        })
    });
    let (shared_by, source) = fleet.sharing();
    let (holdings, fallbacks) = (fleet.shared.holdings(), fleet.shared.fallbacks());
    let mirrored = fleet.mirror.seen();
    let mirror = mirrored.index.map(|index| {
        json!({
            "revision": index.revision,
            "bytes": index.bytes,
            "writtenHere": mirrored.writer,
        })
    });
    json!({
        "region": fleet.region(),
        "store": {
            "kind": "redis",
            "address": fleet.address(),
            "away": fleet.is_away(),
            "servers": servers.collect::<Vec<_>>(),
        },
        "nodes": nodes.collect::<Vec<_>>(),
        "sharedBy": shared_by,
        "sharedByFrom": source.name(),
        "leases": {
            "counters": holdings.counters,
            "taken": holdings.leases,
            "tokens": holdings.lent,
            "unspent": holdings.unspent,
            "calls": fleet.shared.calls(),
            "losses": holdings.losses,
        },
        "fallback": {
            "active": fleet.is_away(),
            "decisions": fallbacks.decided,
            "refused": fallbacks.closed,
            "seconds": fleet.away_for().as_secs_f64(),
        },
        "mirror": mirror,
        "accuracy": accuracy(fleet),
    })
}

/// What of the limits lies unused in the leases of all nodes, by how much may.
fn accuracy(fleet: &Fleet) -> Vec<Value> {
    let classes = CLASSES.iter().zip(fleet.unused_in_fleet());
    let known = classes.filter(|(_, unused)| unused.counters > 0);
    let shown = known.map(|((_, class), unused)| {
        json!({
            "class": class,
            "counters": unused.counters,
            "unusedPercent": unused.average() * 100.0,
            "mostUnusedPercent": unused.most() * 100.0,
        })
    });
    shown.collect()
}

fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
