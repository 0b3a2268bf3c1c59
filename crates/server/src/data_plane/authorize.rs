//! `ANY /v1/authorize`: what a gateway asks before it forwards.
//!
//! The gateway says in headers what the client asked for and who it is. Headers are believed only from
//! trusted proxies; from anyone else the request is just one from their own address.

use std::sync::Arc;

use tollgate_catalog::model::check_id;
use tollgate_catalog::route::Endpoint;
use tollgate_catalog::snapshot::Snapshot;
use tollgate_catalog::{Request, RequestError};
use tollgate_core::Timestamp;
use tollgate_counters::Commit;

use super::check::How;
use super::forwarded::{client_address, either, header, path_of};
use super::head::Head;
use super::reply::Reply;
use super::{Asked, DataPlane, Identity, Turn, Unanswered, query_value};
use crate::answer::{Problem, write_denial, write_headers};
use crate::check_body::identify;
use crate::engine::Checked;

/// What Tollgate's own secrets begin with; other bearer tokens are the protected service's.
const KEY_PREFIXES: [&str; 3] = ["tgk_", "tgt_", "tg_"];

pub(super) fn answer(
    plane: &DataPlane,
    asked: &Asked<'_, '_>,
    turn: &Turn,
    reply: &mut Reply,
) -> Result<(), Unanswered> {
    let deny_403 = match query_value(asked.head.query, "deny_status") {
        None | Some("429") => false,
        Some("403") => true,
        Some(_) => return Err(Problem::bad_request("`deny_status` can only be 403 or 429.").into()),
    };
    let identity;
    let request = if plane.trusts(asked.peer) {
        identity = plane.identity(&|name| header(asked.head, name), turn.now)?;
        let mut request = read(asked.head, turn.snapshot(), turn.now, identity.as_deref())?;
        let hops = asked.head.all("x-forwarded-for");
        request.ip = Some(client_address(hops, asked.peer, &plane.trusted_proxies));
        request
    } else {
        Request {
            ip: Some(asked.peer.to_canonical()),
            ..Request::new()
        }
    };
    let mut checked = Checked::blank(turn.snapshot(), turn.now);
    let how = How::Plain(Commit::Charge);
    plane.decide(turn, &request, how, turn.answer.take(), &mut checked)?;
    if !checked.decision.allowed {
        refuse(&checked, deny_403, reply);
    }
    write_headers(&checked, plane.styles, &mut |name, value| {
        reply.header(name, value);
    });
    Ok(())
}

fn read<'r>(
    head: &'r Head<'_>,
    snapshot: &'r Snapshot,
    now: Timestamp,
    identity: Option<&'r Identity>,
) -> Result<Request<'r>, Problem> {
    let method = either(head, "x-forwarded-method", "x-original-method")?;
    let path = either(head, "x-forwarded-uri", "x-original-uri")?.map(path_of);
    let endpoint = path.map(|path| Endpoint::of(method, path)).transpose();
    let endpoint = endpoint.map_err(|error| bad(&error.into()))?;
    read_caller(&|name| header(head, name), endpoint, snapshot, now, identity)
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

/// Reads who asks out of the headers that a gateway passes on.
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
    if let Some(scopes) = header("x-tollgate-scopes")? {
        for scope in scopes.split([' ', ',']).filter(|scope| !scope.is_empty()) {
            check_id(scope).map_err(|problem| bad(&RequestError::new("x-tollgate-scopes", problem)))?;
            request.scopes.push(scope);
        }
    }
    if let Some(cost) = header("x-tollgate-cost")? {
        let problem = || bad(&RequestError::new("x-tollgate-cost", "must be a whole number"));
        request.cost = cost.parse().map_err(|_| problem())?;
    }
    if let Some(secret) = secret {
        identify(&mut request, secret, Some(snapshot), now)?;
    }
    if let Some(identity) = identity {
        identity.tell(&mut request).map_err(|error| bad(&error))?;
    }
    Ok(request)
}

fn bad(error: &RequestError) -> Problem {
    Problem::bad_request(format!("{error}."))
}

/// 429 with the problem as its body; for gateways that only pass on a 403, the same in two headers.
fn refuse(checked: &Checked<'_>, deny_403: bool, reply: &mut Reply) {
    write_denial(checked, &mut reply.body);
    if !deny_403 {
        reply.status(429);
        reply.problem_json();
        return;
    }
    reply.status(403);
    reply.header("x-tollgate-status", b"429");
    let ascii = escape_non_ascii(&String::from_utf8_lossy(&reply.body));
    reply.header("x-tollgate-body", ascii.as_bytes());
    reply.body.clear();
}

/// JSON in which every character beyond ASCII is an escape, so that it can be a header.
fn escape_non_ascii(json: &str) -> String {
    use std::fmt::Write;

    let mut ascii = String::with_capacity(json.len());
    for character in json.chars() {
        if (' '..='~').contains(&character) {
            ascii.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(ascii, "\\u{unit:04x}");
            }
        }
    }
    ascii
}
