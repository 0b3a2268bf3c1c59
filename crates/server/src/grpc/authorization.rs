//! `envoy.service.auth.v3.Authorization`: what Envoy asks before it forwards.
//!
//! It is `/v1/authorize` in other clothes: who asks, for what and from where comes out of the client's headers and the
//! route's own settings; a refusal carries the whole 429, and an answer that lets it go on the headers beside it.

use std::net::IpAddr;
use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::address::Address;
use envoy_types::pb::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use envoy_types::pb::envoy::config::core::v3::{HeaderValue, HeaderValueOption};
use envoy_types::pb::envoy::service::auth::v3::attribute_context::Peer;
use envoy_types::pb::envoy::service::auth::v3::check_response::HttpResponse;
use envoy_types::pb::envoy::service::auth::v3::{
    AttributeContext, CheckRequest, CheckResponse, DeniedHttpResponse, OkHttpResponse,
};
use envoy_types::pb::envoy::r#type::v3::HttpStatus;
use envoy_types::pb::google::rpc;
use tollgate_catalog::Request as Check;
use tollgate_catalog::route::Endpoint;
use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::Timestamp;
use tollgate_counters::Commit;
use tonic::Code;

use super::passed_on::PassedOn;
use crate::answer::{Problem, write_denial, write_headers, write_problem};
use crate::clock;
use crate::data_plane::{DataPlane, Identity, SCOPES, Sender, add_scopes, client_address, read_caller, text};
use crate::engine::Checked;

/// The service.
pub(super) struct Authorization {
    plane: Arc<DataPlane>,
}

impl Authorization {
    pub(super) fn new(plane: Arc<DataPlane>) -> Self {
        Self { plane }
    }

    /// What Envoy asks about. Only one that is trusted is believed what it says of the client.
    fn read<'r>(
        &self,
        asked: &'r AttributeContext,
        envoy: IpAddr,
        snapshot: &'r Snapshot,
        now: Timestamp,
        identity: &'r mut Option<Arc<Identity>>,
    ) -> Result<Check<'r>, Problem> {
        let trusted = self.plane.trusts(envoy);
        let http = asked.request.as_ref().and_then(|request| request.http.as_ref());
        let Some(http) = http.filter(|_| trusted) else {
            return Ok(Check {
                ip: Some(envoy.to_canonical()),
                ..Check::new()
            });
        };
        let headers = PassedOn(http);
        // What the route says of itself is stronger than what a client says.
        let header = |name: &'static str| {
            let short = name.strip_prefix("x-tollgate-").unwrap_or_default();
            match asked.context_extensions.get(short) {
                Some(of_route) => Ok(Some(of_route.as_str())),
                None => headers.one(name),
            }
        };
        let path = Some(http.path.as_str()).filter(|path| !path.is_empty());
        let method = Some(http.method.as_str()).filter(|method| !method.is_empty());
        let endpoint = path.map(|path| Endpoint::of(method, path)).transpose();
        let endpoint = endpoint.map_err(|error| Problem::bad_request(format!("`endpoint` {error}.")))?;
        *identity = self.plane.identity(&header, now)?;
        let mut check = read_caller(&header, endpoint, snapshot, now, identity.as_deref())?;
        match asked.context_extensions.get("scopes") {
            Some(of_route) => add_scopes(&mut check, std::iter::once(Ok(of_route.as_str())))?,
            None => add_scopes(&mut check, headers.all(SCOPES).map(|line| text(SCOPES, line)))?,
        }
        check.ip = self
            .client(asked.source.as_ref(), headers)
            .or(Some(envoy.to_canonical()));
        Ok(check)
    }

    /// The client's address: who is connected to Envoy, or whom trusted proxies before it name.
    fn client(&self, source: Option<&Peer>, headers: PassedOn<'_>) -> Option<IpAddr> {
        let address = source?.address.as_ref()?.address.as_ref()?;
        let Address::SocketAddress(address) = address else {
            return None;
        };
        let peer: IpAddr = address.address.parse().ok()?;
        Some(client_address(
            headers.all("x-forwarded-for"),
            peer,
            &self.plane.trusted_proxies,
        ))
    }

    /// Answers Envoy at an address. A refusal of any kind is an answer: an error would let Envoy do as it is set to
    /// when nobody answers.
    pub(super) async fn check(&self, request: CheckRequest, envoy: IpAddr) -> CheckResponse {
        let asked = request.attributes.unwrap_or_default();
        let (snapshot, now) = (self.plane.engine.snapshot_full(), clock::now());
        let answer = async {
            let mut identity = None;
            let check = self.read(&asked, envoy, &snapshot, now, &mut identity)?;
            let sender = if self.plane.trusts(envoy) {
                Sender::Gateway
            } else {
                Sender::Untrusted
            };
            self.plane.require_identity(&check, sender)?;
            let decided = self.plane.decide_in_time(&snapshot, &check, Commit::Charge, now);
            Ok::<_, Problem>(self.write(&decided.await?))
        };
        answer.await.unwrap_or_else(|problem| refused(&problem))
    }

    fn write(&self, checked: &Checked<'_>) -> CheckResponse {
        let mut headers = Vec::new();
        write_headers(checked, self.plane.styles, &mut |name, value| {
            headers.push(header(name, &String::from_utf8_lossy(value)));
        });
        if checked.decision.allowed {
            return CheckResponse {
                status: Some(rpc::Status::default()),
                http_response: Some(HttpResponse::OkResponse(OkHttpResponse {
                    response_headers_to_add: headers,
                    ..OkHttpResponse::default()
                })),
                ..CheckResponse::default()
            };
        }
        let mut body = Vec::new();
        write_denial(checked, &mut body);
        denied(429, headers, &body)
    }
}

fn refused(problem: &Problem) -> CheckResponse {
    let mut body = Vec::new();
    write_problem(problem, &mut body);
    let headers = match problem.status {
        401 => vec![header("www-authenticate", "Bearer")],
        429 | 503 => vec![header("retry-after", "1")],
        _ => Vec::new(),
    };
    denied(problem.status, headers, &body)
}

fn denied(status: u16, mut headers: Vec<HeaderValueOption>, body: &[u8]) -> CheckResponse {
    headers.push(header("content-type", "application/problem+json"));
    let code = match status {
        400 => Code::InvalidArgument,
        401 => Code::Unauthenticated,
        429 => Code::ResourceExhausted,
        _ => Code::Unavailable,
    };
    CheckResponse {
        status: Some(rpc::Status {
            code: code.into(),
            ..rpc::Status::default()
        }),
        http_response: Some(HttpResponse::DeniedResponse(DeniedHttpResponse {
            status: Some(HttpStatus { code: status.into() }),
            headers,
            body: String::from_utf8_lossy(body).into_owned(),
        })),
        ..CheckResponse::default()
    }
}

fn header(name: &str, value: &str) -> HeaderValueOption {
    HeaderValueOption {
        header: Some(HeaderValue {
            key: name.to_owned(),
            value: value.to_owned(),
            ..HeaderValue::default()
        }),
        append_action: HeaderAppendAction::OverwriteIfExistsOrAdd.into(),
        ..HeaderValueOption::default()
    }
}
