//! `GET /v1/orgs/{orgId}/quotas`: what was used of an org's quotas; and corrections of that by hand.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tollgate_catalog::Request;
use tollgate_catalog::model::Dimension;
use tollgate_catalog::repository::{Alerted, Answering, Corrected, Correcting, Correction, Kept, LedgerName};
use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::calendar::to_jiff;
use tollgate_core::{MAX_LIMIT, Mode, Timestamp};

use super::answer::{Answer, Answered, listed};
use super::ask::{Ask, Path};
use super::openapi::{of, replies};
use super::orgs;
use super::route::{Group, Route};
use super::rule::Rule;
use crate::answer::Problem;
use crate::catalogue::WriteError;
use crate::clock;
use crate::ledger::Ledger;

/// The routes of this file.
pub(super) fn group() -> Group {
    Group {
        name: "Quotas",
        about: "What was used of an org's quotas.",
        routes: vec![
            Route::get("/v1/orgs/{orgId}/quotas", index, "listQuotas", "List an org's quotas")
                .says(
                    "Each counter that was used in its present period, and quotas of the org as a whole that were not. \
                     What nodes let through in the last second may be missing.",
                )
                .by(Rule::ReadOrg)
                .lists("Quota"),
            Route::post(
                "/v1/orgs/{orgId}/quotas/{quotaId}/corrections",
                post,
                "correctQuota",
                "Correct what was used of a quota",
            )
            .says("In its present period. To raise a limit beyond that, make an override that ends with the period.")
            .by(Rule::WriteOrgPlan)
            .takes("CorrectionWritten")
            .writes()
            .answers(
                200,
                replies::plain(
                    "The quota as it is now; with `dryRun=true`, as it would be.",
                    "application/json",
                    &of("Quota"),
                ),
            ),
        ],
    }
}

/// What was used of each quota.
pub(super) async fn index(Path(org): Path<String>, ask: Ask) -> Answered {
    ask.caller.read_org(&org)?;
    orgs::known(&ask, &org).await?;
    let ledger = ledger(&ask)?;
    let (cursor, limit) = ask.page()?;
    let after = match cursor {
        "" => None,
        // After one that is not of this list comes nothing.
        cursor => Some(Kept::name_of(cursor).unwrap_or([u8::MAX; 16])),
    };
    ledger.refresh(&org).await;
    let rows = ledger
        .repository()
        .ledger_of(ledger.region(), &org, after.as_ref(), limit);
    let rows = rows.await.map_err(WriteError::from)?;
    let full = i64::try_from(rows.len()).is_ok_and(|rows| rows == limit);
    let next = rows.last().filter(|_| full).map(Kept::id);
    let oldest = rows.iter().map(|kept| kept.row.starts).min().unwrap_or(0);
    let alerts = ledger
        .repository()
        .alerts_of(ledger.region(), &org, oldest / 1_000_000);
    let alerts = alerts.await.map_err(WriteError::from)?;
    let (snapshot, now) = (ask.plane.engine.snapshot_full(), clock::now());
    let effective = snapshot.effective(&org, now);
    let tenant = ask.caller.role.within_org();
    // What a tenant may not see of its policies it may not see here.
    let hidden = |policy: &str| {
        let known = effective.iter().find(|one| one.limit.policy_id() == policy);
        tenant && known.is_none_or(|one| !one.limit.expose || one.limit.mode == Some(Mode::Shadow))
    };
    let current = rows
        .into_iter()
        .filter(|kept| !kept.row.is_over(now) && is_counted(&snapshot, &org, kept, now));
    let current = current.flat_map(|kept| at_present(&snapshot, &org, kept, now));
    let open = reserved(&ask, &org).await;
    let reserved = |kept: &Kept| open.get(&(kept.name, kept.row.ends)).copied().unwrap_or(0);
    let item = |kept: Kept| with_alerts(shown(&kept, reserved(&kept), now), &kept, &alerts);
    let mut items: Vec<Value> = current.map(item).collect();
    if after.is_none() {
        items.extend(untouched(&snapshot, &org, &ledger, now).await?);
    }
    items.retain(|item| !hidden(item["policyId"].as_str().unwrap_or_default()));
    Ok(listed(items, next))
}

/// Corrects what was used.
pub(super) async fn post(Path((org, id)): Path<(String, String)>, ask: Ask) -> Answered {
    ask.caller.write_org_plan(&org)?;
    let members = ask.object()?;
    let (correction, reason) = read(&members)?;
    let name = Kept::name_of(&id).ok_or_else(Problem::not_found)?;
    let ledger = ledger(&ask)?;
    let dry_run = ask.dry_run()?;
    let correct = async {
        // What this node has spent and not told yet was spent before.
        ledger.refresh(&org).await;
        let kept = row_of(&ledger, &org, &name).await?;
        let snapshot = ask.plane.engine.snapshot_full();
        if !kept.is_some_and(|kept| is_counted(&snapshot, &org, &kept, clock::now())) {
            return Err(Problem::not_found());
        }
        let author = ask.author(&reason);
        let open = reserved(&ask, &org).await;
        let reserved = |kept: &Kept| open.get(&(kept.name, kept.row.ends)).copied().unwrap_or(0);
        let present = |kept: &Kept| {
            let (row, now) = (kept.clone(), clock::now());
            let row = at_present(&snapshot, &org, row, now).into_iter().next();
            shown(row.as_ref().unwrap_or(kept), reserved(kept), now)
        };
        let answer = |kept: &Kept| super::idempotency::kept(&Answer::ok(present(kept)));
        let correcting = Correcting {
            place: (ledger.region(), &org, &name),
            correction,
            reserved: &reserved,
            author: &author,
            dry_run,
            once: ask
                .claimed
                .get()
                .map(|claimed| (claimed, &answer as Answering<'_>)),
        };
        let corrected = ledger.repository().correct(&correcting).await;
        match corrected.map_err(WriteError::from)? {
            Corrected::Done(rows) => {
                ledger.refresh(&org).await;
                Ok(Answer::ok(present(&rows[1])))
            }
            Corrected::Absent => Err(Problem::not_found()),
            Corrected::Overtaken => Err(WriteError::Overtaken.into()),
            Corrected::TooMuch(used) => Err(Problem::unprocessable(format!(
                "`grant` is more than was used, {used}: make an override that ends with the period."
            ))),
        }
    };
    ask.once(correct).await
}

/// What an org has reserved of each quota and period: on all nodes of a fleet, else on this one.
pub(super) async fn reserved(ask: &Ask, org: &str) -> HashMap<(LedgerName, u64), u64> {
    let fleets = match ask.plane.engine.records.get() {
        Some(records) => records.reserved(org).await,
        None => None,
    };
    let own = ask
        .plane
        .reservations
        .reserved(org, clock::now(), fleets.is_none());
    let mut all = fleets.unwrap_or_default();
    for (quota, cost) in own {
        let known: &mut u64 = all.entry(quota).or_default();
        *known = known.saturating_add(cost);
    }
    all
}

fn read(members: &Map<String, Value>) -> Result<(Correction, String), Problem> {
    let (mut correction, mut reason) = (None, None);
    for (name, value) in members {
        let bad = |problem: &str| Problem::unprocessable(format!("`{name}` {problem}."));
        let number = || {
            let number = value.as_u64().filter(|number| *number <= MAX_LIMIT);
            number.ok_or_else(|| bad("must be a whole number up to 999999999999999"))
        };
        let given = match name.as_str() {
            "used" => Correction::Used(number()?),
            "grant" => Correction::Grant(number()?),
            "reason" => {
                let text = value.as_str().filter(|text| !text.trim().is_empty());
                reason = Some(text.ok_or_else(|| bad("must be text"))?.to_owned());
                continue;
            }
            _ => return Err(bad("is not a known field")),
        };
        if correction.replace(given).is_some() {
            return Err(Problem::unprocessable("Give one of `used` and `grant`."));
        }
    }
    match (correction, reason) {
        (Some(correction), Some(reason)) => Ok((correction, reason)),
        (None, _) => Err(Problem::unprocessable("One of `used` and `grant` is missing.")),
        (_, None) => Err(Problem::unprocessable(
            "`reason` is missing: the audit keeps why a quota was corrected.",
        )),
    }
}

/// The ledger, if quotas are kept by one.
pub(super) fn ledger(ask: &Ask) -> Result<Arc<Ledger>, Problem> {
    let ledger = ask.plane.engine.ledger.get().cloned();
    ledger.ok_or_else(|| {
        Problem::conflict(
            "Quotas are counted in Redis alone: with a database that all nodes share there is a ledger.",
        )
    })
}

/// Whether anything is counted in a row under the present policies. It is not since a policy counts otherwise or is gone, or
/// the counter was emptied.
fn is_counted(snapshot: &Snapshot, org: &str, kept: &Kept, now: Timestamp) -> bool {
    snapshot.counts_under(&kept.name, &asked_by(org, &kept.label()), now)
}

/// A request of whom a row's label is about.
pub(super) fn asked_by<'l>(org: &'l str, label: &'l Value) -> Request<'l> {
    let id = |name: &str| label[name].as_str();
    let mut request = Request {
        org: Some(org),
        app: id("appId"),
        key: id("keyId"),
        user: id("userId"),
        ip: id("ip").and_then(|ip| Request::address(ip).ok()),
        test: id("environment") == Some("test"),
        ..Request::new()
    };
    let members = label.as_object().into_iter().flatten();
    let others = members.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)));
    request.descriptors.extend(others);
    request
}

/// A row as each of the present policies on its counter has it. What only some app, key or user may use, nodes have told
/// with it.
fn at_present(snapshot: &Snapshot, org: &str, kept: Kept, now: Timestamp) -> Vec<Kept> {
    let label = kept.label();
    let mut rows: Vec<Kept> = Vec::new();
    let mut shown: Vec<&str> = Vec::new();
    for limit in snapshot.quotas_on(&kept.name, &asked_by(org, &label), now) {
        if shown.contains(&limit.policy_id()) {
            continue;
        }
        shown.push(limit.policy_id());
        let mut row = kept.clone();
        if label["policyId"] != limit.policy_id() || limit.scope.single() == Some(&Dimension::Org) {
            let mut label = label.clone();
            label["policyId"] = json!(limit.policy_id());
            row.label = label.to_string();
            row.limit = limit.rule.limit;
        }
        rows.push(row);
    }
    if rows.is_empty() {
        rows.push(kept);
    }
    rows
}

/// A row of the ledger.
fn shown(kept: &Kept, reserved: u64, now: Timestamp) -> Value {
    let row = &kept.row;
    let mut item: Value = serde_json::from_str(&kept.label).unwrap_or_else(|_| json!({}));
    item["quotaId"] = json!(kept.id());
    // What is reserved was charged, too.
    let reserved = reserved.min(row.used);
    let counts = (row.used - reserved, reserved);
    tell(&mut item, kept.limit, counts, (row.starts, row.ends), now);
    item
}

/// An item with the alerts of its period.
fn with_alerts(mut item: Value, kept: &Kept, alerts: &[Alerted]) -> Value {
    let own = alerts
        .iter()
        .filter(|alert| (alert.name, alert.starts) == (kept.name, kept.row.starts));
    let told = own.map(|alert| {
        let at = Timestamp::from_millis(alert.at_ms).unwrap_or(Timestamp::EPOCH);
        json!({"threshold": alert.threshold, "at": to_jiff(at).to_string()})
    });
    item["alerts"] = told.collect();
    item
}

/// Quotas of the org as a whole that nothing was used of.
async fn untouched(
    snapshot: &Snapshot,
    org: &str,
    ledger: &Ledger,
    now: Timestamp,
) -> Result<Vec<Value>, Problem> {
    let request = Request {
        org: Some(org),
        ..Request::new()
    };
    let limits = snapshot.effective(org, now).into_iter().map(|one| one.limit);
    let quotas = limits.filter(|limit| {
        limit.is_quota() && limit.scope.single() == Some(&Dimension::Org) && limit.mode.is_some()
    });
    let mut items: Vec<Value> = Vec::new();
    for limit in quotas {
        let Some((start, end)) = snapshot.period_of(org, limit, now) else {
            continue;
        };
        let known = row_of(ledger, org, &snapshot.name_under(limit, &request)).await?;
        if known.is_some_and(|kept| !kept.row.is_over(now)) {
            continue;
        }
        let mut item = json!({
            "quotaId": null,
            "policyId": limit.policy_id(),
            "scope": limit.scope_name,
            "endpointPattern": limit.pattern.to_string(),
            "window": limit.window.to_string(),
            "unit": limit.unit,
            "environment": "live",
        });
        tell(
            &mut item,
            limit.rule.limit,
            (0, 0),
            (start.nanos(), end.nanos()),
            now,
        );
        if !items.iter().any(|known| known["policyId"] == item["policyId"]) {
            items.push(item);
        }
    }
    Ok(items)
}

/// The row of a counter's name, if the org has one.
async fn row_of(ledger: &Ledger, org: &str, name: &LedgerName) -> Result<Option<Kept>, Problem> {
    let before = u128::from_be_bytes(*name).checked_sub(1).map(u128::to_be_bytes);
    let rows = ledger
        .repository()
        .ledger_of(ledger.region(), org, before.as_ref(), 1);
    let rows = rows.await.map_err(WriteError::from)?;
    Ok(rows.into_iter().next().filter(|kept| kept.name == *name))
}

/// Says what was used of a limit in a period.
fn tell(
    item: &mut Value,
    limit: u64,
    (used, reserved): (u64, u64),
    (start, end): (u64, u64),
    now: Timestamp,
) {
    let at = |nanos: u64| json!(to_jiff(Timestamp::from_nanos(nanos)).to_string());
    item["limit"] = json!(limit);
    item["used"] = json!(used);
    item["reserved"] = json!(reserved);
    item["alerts"] = json!([]);
    item["remaining"] = json!(limit.saturating_sub(used).saturating_sub(reserved));
    item["periodStart"] = at(start);
    item["periodEnd"] = at(end);
    item["nextReset"] = at(end);
    // At the pace of this period so far.
    let elapsed = now.nanos().saturating_sub(start);
    let whole = u128::from(elapsed) * u128::from(limit) / u128::from(used.max(1));
    let runs_out = Timestamp::from_nanos(start).saturating_add(whole).nanos();
    item["projectedEnd"] = if used > 0 && runs_out < end {
        at(runs_out)
    } else {
        Value::Null
    };
}
