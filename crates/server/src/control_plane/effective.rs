//! `GET /v1/orgs/{orgId}/ratelimit/policies`: what is in force for an org, each value with where it came from.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tollgate_catalog::model::{Window, anchor_name};
use tollgate_catalog::snapshot::{Effective, Limit};
use tollgate_core::{Algorithm, Mode};

use super::answer::{Answer, Answered};
use super::ask::{Ask, Path};
use super::openapi::{of, replies};
use super::orgs;
use super::route::{Group, Route};
use super::rule::Rule;
use crate::answer::mode_name;
use crate::clock;
use crate::explanation::{Side, algorithm_name, hidden_limit, origin};
use crate::warnings::used_up;

/// The routes of this file.
pub(super) fn group() -> Group {
    Group {
        name: "Effective policies",
        about: "What is in force for an org.",
        routes: vec![
            Route::get(
                "/v1/orgs/{orgId}/ratelimit/policies",
                get,
                "getEffectivePolicies",
                "Show what is in force for an org",
            )
            .says(
                "Each value with where it came from and what it hides, and the tightest at each level. A tenant does \
                 not see what is hidden from clients or only being tried.",
            )
            .by(Rule::ReadOrg)
            .answers(
                200,
                replies::plain("The effective policies.", "application/json", &of("EffectivePolicies")),
            ),
        ],
    }
}

/// The effective policies, from broad to narrow, and the tightest at each level.
pub(super) async fn get(Path(org): Path<String>, ask: Ask) -> Answered {
    ask.caller.read_org(&org)?;
    orgs::known(&ask, &org).await?;
    let snapshot = ask.plane.engine.snapshot_full();
    let effective = snapshot.effective(&org, clock::now());
    let tenant = ask.caller.role.within_org();
    // What protects the service from all orgs, and what is only being tried, is not the tenant's to see.
    let visible =
        |one: &&Effective<'_>| !tenant || (one.limit.expose && one.limit.mode != Some(Mode::Shadow));
    let visible: Vec<&Effective<'_>> = effective.iter().filter(visible).collect();
    let mut tightest: BTreeMap<&str, &Limit> = BTreeMap::new();
    for one in visible.iter().filter(|one| one.limit.mode == Some(Mode::Enforce)) {
        let known = tightest.entry(&one.limit.scope_name).or_insert(one.limit);
        if rate_below(one.limit, known) {
            *known = one.limit;
        }
    }
    let tightest: BTreeMap<&str, Value> = tightest
        .into_iter()
        .map(|(scope, limit)| {
            let window = limit.window.to_string();
            (
                scope,
                json!({"policyId": limit.id, "limit": limit.rule.limit, "window": window}),
            )
        })
        .collect();
    let limits: Vec<&Limit> = visible.iter().map(|one| one.limit).collect();
    let warnings: Vec<String> = used_up(&limits).into_iter().collect();
    let file = ask.plane.catalogue.file();
    let items = visible.into_iter().map(|one| {
        let mut item = shown(one);
        if file.given && one.limit.is_of_file() {
            item["source"] = json!("file");
        }
        item
    });
    let mut answer = json!({
        "orgId": org,
        "tier": snapshot.tier_of(Some(&org)).name,
        "items": items.collect::<Vec<_>>(),
        "tightest": tightest,
        "warnings": warnings,
    });
    // Whom something is tried on is the platform's to know.
    if !tenant {
        answer["rollout"] = json!(Side::of(&snapshot, Some(&org)));
    }
    Ok(Answer::ok(answer))
}

fn shown(one: &Effective<'_>) -> Value {
    let (limit, base) = (one.limit, one.hidden);
    let value = |of: &dyn Fn(&Limit) -> Value| {
        let present = of(limit);
        match base.map(of).filter(|hidden| *hidden != present) {
            Some(hidden) => json!({"value": present, "from": "override", "hides": hidden}),
            None if base.is_some() || limit.origin.overridden.is_none() => {
                json!({"value": present, "from": "policy"})
            }
            None => match one.beside.map(of) {
                Some(same) if same == present => json!({"value": present, "from": "policy"}),
                _ => json!({"value": present, "from": "override"}),
            },
        }
    };
    let conditions = limit.descriptors().iter();
    let conditions: Map<_, _> = conditions
        .map(|one| (one.name.clone(), json!(one.to_string())))
        .collect();
    json!({
        "policyId": limit.id,
        "scope": limit.scope_name,
        "endpointPattern": limit.pattern.to_string(),
        "requiredScope": limit.required_scope(),
        "match": conditions,
        "for": one.who,
        "from": origin(limit, hidden_limit(limit, base)),
        "values": {
            "algorithm": value(&|limit| json!(algorithm_name(limit))),
            "limit": value(&|limit| json!(limit.rule.limit)),
            "burst": value(&|limit| burst(limit)),
            "window": value(&|limit| json!(limit.window.to_string())),
            "anchor": value(&|limit| anchor(limit)),
            "timezone": value(&|limit| json!(limit.is_quota().then(|| limit.zone.to_string()))),
            "counter": value(&|limit| json!(limit.count)),
            "unit": value(&|limit| json!(limit.unit)),
            "mode": value(&|limit| limit.mode.map_or(json!("off"), |mode| json!(mode_name(mode)))),
            "failMode": value(&|limit| json!(limit.fail_mode.to_string())),
            "accuracy": value(&|limit| json!(limit.accuracy.to_string())),
            "resetJitter": value(&|limit| jitter(limit)),
            "expose": value(&|limit| json!(limit.expose)),
            "ipv4Prefix": value(&|limit| json!(limit.prefixes().map(|prefixes| prefixes.0))),
            "ipv6Prefix": value(&|limit| json!(limit.prefixes().map(|prefixes| prefixes.1))),
        },
    })
}

fn burst(limit: &Limit) -> Value {
    match limit.rule.algorithm {
        Algorithm::TokenBucket | Algorithm::LeakyBucket => json!(limit.rule.capacity),
        _ => Value::Null,
    }
}

fn anchor(limit: &Limit) -> Value {
    match limit.rule.algorithm {
        Algorithm::FixedWindow(anchor) => json!(anchor_name(anchor)),
        _ => Value::Null,
    }
}

fn jitter(limit: &Limit) -> Value {
    match limit.reset_jitter_ns {
        0 => Value::Null,
        length => json!(Window::Length(length).to_string()),
    }
}

/// Whether one admits less than the other in the long run.
fn rate_below(one: &Limit, other: &Limit) -> bool {
    let scaled = |limit: &Limit, window: u64| u128::from(limit.rule.limit) * u128::from(window);
    scaled(one, other.rule.window_ns) < scaled(other, one.rule.window_ns)
}
