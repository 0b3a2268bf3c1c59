//! Policy files made into snapshots, and snapshots asked what applies.
#![allow(dead_code, missing_docs, clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use tollgate_catalog::Request;
use tollgate_catalog::document::Problems;
use tollgate_catalog::parse_policy_set;
use tollgate_catalog::route::Endpoint;
use tollgate_catalog::snapshot::{Snapshot, Stack};
use tollgate_core::{KeySeed, Timestamp};

pub const SEED: KeySeed = KeySeed::new(1, 2);

/// Some instant.
pub fn now() -> Timestamp {
    instant("2024-07-15T12:00:00Z")
}

pub fn instant(text: &str) -> Timestamp {
    let at: jiff::Timestamp = text.parse().unwrap();
    Timestamp::from_nanos(u64::try_from(at.as_nanosecond()).unwrap())
}

/// A file, compiled.
pub fn compiled(file: &str) -> Result<Snapshot, Problems> {
    Snapshot::compile(&parse_policy_set(file)?, SEED, None)
}

/// A file that must be right.
pub fn snapshot(file: &str) -> Arc<Snapshot> {
    Arc::new(compiled(file).unwrap_or_else(|problems| panic!("{problems}\n{file}")))
}

/// The only problem of a file.
pub fn problem(file: &str) -> String {
    let problems = compiled(file)
        .err()
        .unwrap_or_else(|| panic!("nothing is wrong with\n{file}"));
    assert_eq!(problems.0.len(), 1, "{problems}\n{file}");
    problems.to_string()
}

/// A request in one line: `org/app key=k user=u ip=… scope=… x=descriptor POST /route`.
pub fn request(text: &str) -> Request<'_> {
    let mut request = Request::new();
    let mut words = text;
    while let Some((word, rest)) = words
        .split_once(' ')
        .or_else(|| (!words.is_empty()).then_some((words, "")))
    {
        let method = word.bytes().all(|byte| byte.is_ascii_uppercase()) && rest.starts_with('/');
        if word.starts_with('/') || method {
            request.endpoint = Some(Endpoint::parse(words).unwrap());
            break;
        }
        match word.split_once('=') {
            Some(("key", id)) => request.key = Some(id),
            Some(("user", id)) => request.user = Some(id),
            Some(("app", id)) => request.app = Some(id),
            Some(("ip", ip)) => request.ip = Some(Request::address(ip).unwrap()),
            Some(("scope", scope)) => request.scopes.push(scope),
            Some(pair) => request.descriptors.push(pair),
            None => {
                let (org, app) = word.split_once('/').unwrap_or((word, ""));
                request.org = Some(org);
                request.app = Some(app).filter(|app| !app.is_empty());
            }
        }
        words = rest;
    }
    request
}

/// What applies to a request, as `id=limit` from broad to narrow.
pub fn applied_at(snapshot: &Snapshot, text: &str, now: Timestamp) -> String {
    let stack = resolved(snapshot, &request(text), now);
    shown(&stack)
}

pub fn applied(snapshot: &Snapshot, text: &str) -> String {
    applied_at(snapshot, text, now())
}

fn shown(stack: &Stack<'_>) -> String {
    assert_eq!(stack.levels.len(), stack.limits.len());
    let one = |limit: &&tollgate_catalog::snapshot::Limit| format!("{}={}", limit.id, limit.rule.limit);
    stack.limits.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// The stack of a request.
pub fn resolved<'s>(snapshot: &'s Snapshot, request: &Request<'_>, now: Timestamp) -> Stack<'s> {
    let mut stack = snapshot.blank();
    snapshot.resolve(request, now, &mut stack);
    stack
}
