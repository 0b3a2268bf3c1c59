//! `ANY /v1/authorize`: what a gateway asks before it forwards.
//!
//! The gateway says in headers what the client asked for and who it is. Headers are believed only from
//! trusted proxies; from anyone else the request is just one from their own address.

use std::sync::Arc;

use tollgate_catalog::model::check_id;
use tollgate_catalog::route::Endpoint;
use tollgate_catalog::snapshot::Snapshot;
use tollgate_catalog::{MAX_COST, Request, RequestError};
use tollgate_core::Timestamp;
use tollgate_counters::Commit;

use super::check::How;
use super::forwarded::{client_address, endpoint, header, text};
use super::head::{Head, split_target};
use super::reply::Reply;
use super::{Asked, DataPlane, Identity, Sender, Turn, Unanswered, query_value};
use crate::answer::{Problem, write_denial, write_headers};
use crate::check_body::{BodyError, MAX_ITEMS, identify};
use crate::engine::Checked;

/// Where gateways ask.
pub(super) const PATH: &str = "/v1/authorize";

/// The header that says which permissions a client has. It is a list, and may come in several lines.
pub(crate) const SCOPES: &str = "x-tollgate-scopes";

/// What Tollgate's own secrets begin with; other bearer tokens are the protected service's.
const KEY_PREFIXES: [&str; 3] = ["tgk_", "tgt_", "tg_"];

pub(super) fn answer(
    plane: &DataPlane,
    asked: &Asked<'_, '_>,
    turn: &Turn,
    reply: &mut Reply,
) -> Result<(), Unanswered> {
    match query_value(asked.head.query, "deny_status") {
        None | Some("429") => decide(plane, asked, turn, reply),
        Some("403") => {
            match decide(plane, asked, turn, reply) {
                Err(Unanswered::Problem(problem)) => reply.problem(&problem),
                answered => answered?,
            }
            reply.behind_403();
            Ok(())
        }
        Some(_) => Err(Problem::bad_request("`deny_status` can only be 403 or 429.").into()),
    }
}

/// Whether a gateway asks that nothing but 401 and 403 be said of its clients' mistakes, even of such that keep its question
/// from being read.
pub(super) fn is_denied_by_403(request: &[u8]) -> bool {
    let mut words = request.split(|byte| *byte == b' ');
    let target = words.nth(1).and_then(|target| std::str::from_utf8(target).ok());
    let parts = target.and_then(|target| split_target(target).ok());
    parts.is_some_and(|(path, query)| path == PATH && query_value(query, "deny_status") == Some("403"))
}

fn decide(
    plane: &DataPlane,
    asked: &Asked<'_, '_>,
    turn: &Turn,
    reply: &mut Reply,
) -> Result<(), Unanswered> {
    let identity;
    let (request, sender) = if plane.trusts(asked.peer) {
        let trusted = Trusted::by(asked.head.query)?;
        identity = plane.identity(&|name| trusted.header(asked.head, name), turn.now)?;
        let mut request = read(
            asked.head,
            trusted,
            turn.snapshot(),
            turn.now,
            identity.as_deref(),
        )?;
        let hops = asked.head.all("x-forwarded-for");
        request.ip = Some(client_address(hops, asked.peer, &plane.trusted_proxies));
        (request, Sender::Gateway)
    } else {
        let request = Request {
            ip: Some(asked.peer.to_canonical()),
            ..Request::new()
        };
        (request, Sender::Untrusted)
    };
    plane.require_identity(&request, sender)?;
    let mut checked = Checked::blank(turn.snapshot(), turn.now);
    let how = How::Plain(Commit::Charge);
    plane.decide(turn, &request, how, turn.answer.take(), &mut checked)?;
    if !checked.decision.allowed {
        write_denial(&checked, &mut reply.body);
        reply.status(429);
        reply.problem_json();
    }
    write_headers(&checked, plane.styles, &mut |name, value| {
        reply.header(name, value);
    });
    Ok(())
}

/// Which headers say who a client is, if a trusted proxy asks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trusted {
    /// The proxy has set or removed all of ours.
    All,
    /// It passes on a client's headers as they came: only those that prove something count.
    Keys,
}

impl Trusted {
    fn by(query: Option<&str>) -> Result<Self, Problem> {
        match query_value(query, "trust") {
            None => Ok(Self::All),
            Some("keys") => Ok(Self::Keys),
            Some(_) => Err(Problem::bad_request("`trust` can only be keys.")),
        }
    }

    fn header<'b>(self, head: &Head<'b>, name: &'static str) -> Result<Option<&'b str>, Problem> {
        if self == Self::Keys && name.starts_with("x-tollgate-") {
            return Ok(None);
        }
        header(head, name)
    }
}

fn read<'r>(
    head: &'r Head<'_>,
    trusted: Trusted,
    snapshot: &'r Snapshot,
    now: Timestamp,
    identity: Option<&'r Identity>,
) -> Result<Request<'r>, Problem> {
    let endpoint = endpoint(head)?;
    let mut request = read_caller(
        &|name| trusted.header(head, name),
        endpoint,
        snapshot,
        now,
        identity,
    )?;
    if trusted == Trusted::All {
        add_scopes(&mut request, head.all(SCOPES).map(|line| text(SCOPES, line)))?;
    }
    Ok(request)
}

/// Adds the permissions that a gateway says the client has.
pub(crate) fn add_scopes<'r>(
    request: &mut Request<'r>,
    lines: impl Iterator<Item = Result<&'r str, Problem>>,
) -> Result<(), Problem> {
    let mut count = 0;
    for line in lines {
        for scope in line?.split([' ', ',']).filter(|scope| !scope.is_empty()) {
            check_id(scope).map_err(|problem| bad(&RequestError::new(SCOPES, problem)))?;
            count += 1;
            if count > MAX_ITEMS {
                return Err(bad(&RequestError::new(SCOPES, "must have at most 64 items")));
            }
            request.scopes.push(scope);
        }
    }
    Ok(())
}

/// A header that a gateway passes on.
pub(crate) type Header<'h, 'r> = &'h dyn Fn(&'static str) -> Result<Option<&'r str>, Problem>;

/// The token of an `Authorization` header.
fn bearer<'r>(header: Header<'_, 'r>) -> Result<Option<&'r str>, Problem> {
    let bearer = header("authorization")?.and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    Ok(bearer)
}

impl DataPlane {
    /// Whom the client's JWT speaks for, if such are taken and it shows one.
    pub(crate) fn identity(
        &self,
        header: Header<'_, '_>,
        now: Timestamp,
    ) -> Result<Option<Arc<Identity>>, Problem> {
        match (&self.jwt, bearer(header)?) {
            (Some(jwt), Some(token)) => jwt.bearer(token, now),
            _ => Ok(None),
        }
    }
}

/// Reads who asks out of the headers that a gateway passes on, but for their permissions.
pub(crate) fn read_caller<'r>(
    header: Header<'_, 'r>,
    endpoint: Option<Endpoint<'r>>,
    snapshot: &'r Snapshot,
    now: Timestamp,
    identity: Option<&'r Identity>,
) -> Result<Request<'r>, Problem> {
    let bearer = bearer(header)?;
    let bearer = bearer.filter(|token| KEY_PREFIXES.iter().any(|prefix| token.starts_with(prefix)));
    let secret = match (header("x-api-key")?, bearer) {
        (Some(key), Some(bearer)) if key != bearer => {
            return Err(Problem::bad_request(
                "`X-API-Key` and `Authorization` are two different keys.",
            ));
        }
        (key, bearer) => key.or(bearer),
    };
    let id = |name: &'static str| {
        let value = header(name)?;
        Request::id(name, value).map_err(|error| bad(&error))
    };
    let mut request = Request {
        org: id("x-tollgate-org")?,
        app: id("x-tollgate-app")?,
        key: id("x-tollgate-key")?,
        user: id("x-tollgate-user")?,
        endpoint,
        ..Request::new()
    };
    if let Some(cost) = header("x-tollgate-cost")? {
        let problem = || {
            RequestError::new(
                "x-tollgate-cost",
                format!("must be a whole number up to {MAX_COST}"),
            )
        };
        let digits = cost.bytes().all(|byte| byte.is_ascii_digit());
        let cost = cost.parse().ok().filter(|cost| digits && *cost <= MAX_COST);
        request.cost = cost.ok_or_else(|| bad(&problem()))?;
    }
    if let Some(secret) = secret {
        identify(&mut request, secret, Some(snapshot), now).map_err(|error| match error {
            BodyError::Field(error) => bad(&of_header(error)),
            error @ BodyError::UnknownKey => error.into(),
        })?;
    }
    if let Some(identity) = identity {
        identity
            .tell(&mut request)
            .map_err(|error| bad(&of_header(error)))?;
    }
    Ok(request)
}

/// A check's field by the header that it is here.
fn of_header(mut error: RequestError) -> RequestError {
    error.field = match error.field {
        "orgId" => "x-tollgate-org",
        "appId" => "x-tollgate-app",
        "keyId" => "x-tollgate-key",
        "userId" => "x-tollgate-user",
        field => field,
    };
    error
}

fn bad(error: &RequestError) -> Problem {
    Problem::bad_request(format!("{error}."))
}
