//! `GET /v1/orgs/{orgId}/quotas/statement`: what an org used in a month, for whoever writes its bill.

use std::fmt::Write as _;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use jiff::civil::Date;
use serde_json::{Value, json};
use tollgate_catalog::repository::Usage;
use tollgate_core::calendar::to_jiff;
use tollgate_core::{BillingAnchor, Calendar, Period, Timestamp};

use super::answer::Answer;
use super::ask::{Ask, Path};
use super::openapi::{of, replies};
use super::orgs;
use super::quotas::ledger;
use super::route::{Group, Route};
use super::rule::Rule;
use crate::answer::Problem;
use crate::catalogue::WriteError;
use crate::clock;

/// The routes of this file.
pub(super) fn group() -> Group {
    Group {
        name: "Statements",
        about: "What an org used in a month.",
        routes: vec![
            route(
                "/v1/orgs/{orgId}/quotas/statement",
                "getStatement",
                "Show what an org used in a month",
            ),
            route(
                "/v1/orgs/{orgId}/statement",
                "getStatementShort",
                "Show what an org used in a month, by a shorter path",
            ),
        ],
    }
}

fn route(path: &'static str, name: &'static str, title: &'static str) -> Route {
    Route::get(path, get, name, title)
        .says(
            "Allowed and denied requests and their cost, by app, class of endpoint and environment, in a calendar month of \
             the org's time zone. What nodes let through in the last second may be missing.",
        )
        .by(Rule::ReadOrg)
        .asks("month")
        .asks("statementFormat")
        .answers(200, reply())
}

fn reply() -> Value {
    let mut reply = replies::plain("The statement.", "application/json", &of("Statement"));
    reply["content"]["text/csv"] = json!({"schema": {"type": "string"}});
    reply
}

/// The statement of a month.
pub(super) async fn get(Path(org): Path<String>, ask: Ask) -> Result<Response, Problem> {
    ask.caller.read_org(&org)?;
    orgs::known(&ask, &org).await?;
    let ledger = ledger(&ask)?;
    let snapshot = ask.plane.engine.snapshot_full();
    let calendar = Calendar {
        zone: snapshot.zone_of(&org),
        anchor: &BillingAnchor::First,
    };
    let within = match ask.query.get("month") {
        None => clock::now(),
        Some(month) => {
            middle_of(month).ok_or_else(|| Problem::bad_request("`month` must be such as 2026-11."))?
        }
    };
    let (start, end) = calendar.period(Period::Month, within);
    let span = (start.millis(), end.millis());
    ledger.be_settled().await;
    let usage = ledger.repository().usage_of(ledger.region(), &org, span).await;
    let usage = usage.map_err(WriteError::from)?;
    match ask.query.get("format").map(String::as_str) {
        None | Some("json") => Ok(Answer::ok(document(&org, &usage, (start, end))).into_response()),
        Some("csv") => {
            let csv = table(&org, &usage, (start, end));
            Ok(([(CONTENT_TYPE, "text/csv; charset=utf-8")], csv).into_response())
        }
        Some(_) => Err(Problem::bad_request("`format` can only be json or csv.")),
    }
}

/// An instant that is in this month in every zone.
fn middle_of(month: &str) -> Option<Timestamp> {
    let date: Date = format!("{month}-15").parse().ok().filter(|_| month.len() == 7)?;
    let at = date.at(12, 0, 0, 0).in_tz("UTC").ok()?.timestamp();
    Timestamp::from_millis(u64::try_from(at.as_millisecond()).ok()?)
}

fn document(org: &str, usage: &[Usage], (start, end): (Timestamp, Timestamp)) -> Value {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let items = usage.iter().map(|used| {
        json!({
            "appId": text(&used.app),
            "endpoint": text(&used.endpoint),
            "environment": environment(used),
            "allowed": used.allowed,
            "denied": used.denied,
            "cost": used.cost,
        })
    });
    let sum = |of: fn(&Usage) -> u64| usage.iter().map(of).fold(0, u64::saturating_add);
    json!({
        "orgId": org,
        "from": to_jiff(start).to_string(),
        "to": to_jiff(end).to_string(),
        "items": items.collect::<Vec<_>>(),
        "allowed": sum(|used| used.allowed),
        "denied": sum(|used| used.denied),
        "cost": usage.iter().map(|used| used.cost).fold(0, i64::saturating_add),
    })
}

fn table(org: &str, usage: &[Usage], (start, end): (Timestamp, Timestamp)) -> String {
    let mut table = String::from("orgId,from,to,appId,endpoint,environment,allowed,denied,cost\r\n");
    for used in usage {
        let Usage {
            allowed,
            denied,
            cost,
            ..
        } = used;
        let texts = [
            org,
            &to_jiff(start).to_string(),
            &to_jiff(end).to_string(),
            &used.app,
            &used.endpoint,
        ];
        for text in texts {
            let _ = write!(table, "\"{}\",", text.replace('"', "\"\""));
        }
        let _ = write!(table, "{},{allowed},{denied},{cost}\r\n", environment(used));
    }
    table
}

fn environment(used: &Usage) -> &'static str {
    if used.test { "test" } else { "live" }
}
