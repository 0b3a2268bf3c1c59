//! `/v1/audit`: who changed what and when, before and after.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tollgate_catalog::model::check_id;
use tollgate_catalog::repository::{Inspected, JournalRow, Kind, Page, Repository, RepositoryError};

use super::answer::{Answer, Answered, listed, presentable};
use super::ask::{Ask, Path};
use super::openapi::{of, replies};
use super::route::{Group, Route};
use super::rule::Rule;
use super::sight::Sight;
use crate::answer::Problem;
use crate::catalogue::WriteError;

/// How many rows an export reads at once. Each may be as large as a body.
const ROWS: i64 = 100;

/// The routes of this file.
pub(super) fn group() -> Group {
    let rows = |route: Route| {
        route
            .by(Rule::ReadOrg)
            .asks("limit")
            .asks("auditCursor")
            .asks("format")
            .answers(200, replies::list_or_lines("AuditRow", "application/jsonl"))
    };
    Group {
        name: "Audit",
        about: "Who changed what and when, before and after, each row chained to the one before. What is about an org \
                is all that belongs to it, the org itself, and the tokens of its tenants.",
        routes: vec![
            rows(
                Route::get("/v1/audit", index, "listAudit", "List changes, newest first")
                    .says("A tenant sees those of its own org."),
            ),
            Route::get(
                "/v1/audit/verify",
                verify,
                "verifyAudit",
                "Whether the chain is intact",
            )
            .says("And whether each entry is what the last row about it says, and nothing is missing at the end.")
            .by(Rule::ReadPlatform)
            .answers(
                200,
                replies::plain("The verdict.", "application/json", &of("Verification")),
            ),
            rows(Route::get(
                "/v1/orgs/{orgId}/audit",
                of_org,
                "listOrgAudit",
                "List an org's changes, newest first",
            )),
        ],
    }
}

/// The newest changes first; a tenant sees those of its own org. `format=jsonl` exports all, oldest first.
pub(super) async fn index(ask: Ask) -> Result<Response, Problem> {
    let own = ask.caller.org.clone().filter(|_| ask.caller.role.within_org());
    if own.is_none() {
        ask.caller.read_platform()?;
    }
    shown_as_asked(&ask, own.as_deref()).await
}

/// The changes of one org.
pub(super) async fn of_org(Path(org): Path<String>, ask: Ask) -> Result<Response, Problem> {
    ask.caller.read_org(&org)?;
    // An org that is gone has left its rows behind; what can't be an org has none.
    check_id(&org).map_err(|_| Problem::not_found())?;
    shown_as_asked(&ask, Some(&org)).await
}

async fn shown_as_asked(ask: &Ask, org: Option<&str>) -> Result<Response, Problem> {
    let span = span(ask)?;
    match ask.query.get("format").map(String::as_str) {
        None | Some("json") => Ok(page(ask, org, span).await?.into_response()),
        Some("jsonl") => export(ask, org).await,
        Some(_) => Err(Problem::bad_request("`format` can only be json or jsonl.")),
    }
}

/// Whether every row is chained to the one before.
pub(super) async fn verify(ask: Ask) -> Answered {
    ask.caller.read_platform()?;
    let catalogue = &ask.plane.catalogue;
    // What is in force here was there: an audit that ends before it was cut.
    let in_force = catalogue.revision();
    let inspected = catalogue.repository().inspect().await.map_err(WriteError::from)?;
    let Inspected { chain, head, .. } = &inspected;
    let cut = (head.0 < in_force).then_some(head.0 + 1);
    let anchor = ask.plane.audit_anchor.contradicted(catalogue.repository()).await;
    let broken = chain.broken.or(cut).or(anchor.map_err(WriteError::from)?);
    let differing = inspected.differing.iter();
    let differing = differing.map(|(kind, org, id)| {
        let org = if org.is_empty() { Value::Null } else { json!(org) };
        json!({"kind": kind, "orgId": org, "id": id})
    });
    Ok(Answer::ok(json!({
        "intact": broken.is_none() && inspected.differing.is_empty(),
        "rows": chain.rows,
        "firstBroken": broken,
        "differing": differing.collect::<Value>(),
        "head": {"revision": head.0, "hash": head.1},
        "keyedFrom": inspected.keyed_from,
    })))
}

/// Before which row the page begins, and how many it has at most.
fn span(ask: &Ask) -> Result<(i64, i64), Problem> {
    let (cursor, limit) = ask.page()?;
    let before = match cursor {
        "" => i64::MAX,
        cursor => cursor
            .parse()
            .ok()
            .filter(|_| cursor.bytes().all(|byte| byte.is_ascii_digit()))
            .ok_or_else(|| Problem::bad_request("`cursor` is not one of this list."))?,
    };
    Ok((before, limit))
}

async fn page(ask: &Ask, org: Option<&str>, (before, limit): (i64, i64)) -> Answered {
    let rows = ask
        .plane
        .catalogue
        .repository()
        .journal_back(before, org, limit)
        .await;
    let Page { rows, more } = rows.map_err(WriteError::from)?;
    let next = rows.last().filter(|_| more).map(|row| row.revision.to_string());
    let sight = Sight::of(ask);
    Ok(listed(
        rows.iter().filter_map(|row| seen(row, &sight)).collect(),
        next,
    ))
}

/// All changes up to now, oldest first. They are read as fast as the client takes them, so that little of even a long
/// journal is in memory. Should the database go away meanwhile, the connection breaks off.
async fn export(ask: &Ask, org: Option<&str>) -> Result<Response, Problem> {
    let repository = ask.plane.catalogue.repository().clone();
    let end = repository.head().await.map_err(WriteError::from)?;
    let (org, sight) = (org.map(str::to_owned), Sight::of(ask));
    let (sender, pages) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut after = 0;
        while after < end {
            let page = lines_after(&repository, after, org.as_deref(), &sight).await;
            let lines = match page {
                Ok((_, last)) if last == after => return,
                Ok((lines, last)) => {
                    after = last;
                    Ok(lines)
                }
                Err(error) => {
                    tracing::error!("an export of the audit broke off: {error}");
                    after = end;
                    Err(error)
                }
            };
            // Whoever is gone needs no more.
            if sender.send(lines).await.is_err() {
                return;
            }
        }
    });
    let lines = Body::from_stream(ReceiverStream::new(pages));
    let headers = [(CONTENT_TYPE, "application/jsonl"), (CACHE_CONTROL, "no-store")];
    Ok((headers, lines).into_response())
}

/// A page of the journal as lines, of all orgs or of one, and the number of its last row.
async fn lines_after(
    repository: &Repository,
    mut after: i64,
    org: Option<&str>,
    sight: &Sight,
) -> Result<(String, i64), RepositoryError> {
    let mut lines = String::new();
    for row in repository.journal(after, ROWS).await? {
        after = row.revision;
        let meant = org.is_none() || row.org().as_deref() == org;
        if let Some(row) = meant.then(|| seen(&row, sight)).flatten() {
            lines.push_str(&row.to_string());
            lines.push('\n');
        }
    }
    Ok((lines, after))
}

/// A row as it is shown to somebody, if it is.
fn seen(row: &JournalRow, sight: &Sight) -> Option<Value> {
    let shown = shown(row);
    let sees = |side: &Value| side.is_null() || sight.of_change(row.place.kind, side);
    let seen = sees(&shown["before"]) && sees(&shown["after"]);
    seen.then_some(shown)
}

fn shown(row: &JournalRow) -> Value {
    let is_known = row.place.kind != Kind::Unknown;
    let body = |body: &Option<String>| {
        // Nobody knows here what of it may be shown.
        let body = body.as_ref().filter(|_| is_known);
        let body = body.map(|body| serde_json::from_str::<Value>(body));
        body.map_or(Value::Null, |body| body.map_or(Value::Null, presentable))
    };
    let at = jiff::Timestamp::from_millisecond(row.author.at_ms).map(|at| at.to_string());
    json!({
        "revision": row.revision,
        "at": at.unwrap_or_default(),
        "actor": row.author.actor,
        "route": row.author.route,
        "requestId": row.author.request,
        "reason": if row.author.reason.is_empty() { Value::Null } else { json!(row.author.reason) },
        "kind": row.place.kind.name(),
        "orgId": row.org(),
        "id": row.place.id,
        "before": body(&row.before),
        "after": body(&row.after),
        "hash": row.hash,
    })
}
