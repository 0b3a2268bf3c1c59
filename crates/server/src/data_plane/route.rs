//! Which route a request takes and whether it may: all that its head says, before any of its body is waited for.

use std::time::Instant;

use super::head::Head;
use super::reply::Reply;
use super::token::Place;
use super::{DataPlane, authorize, reserve, rls};
use crate::answer::Problem;
use crate::metrics::Protocol;

/// A route that takes a request with its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    /// Many checks.
    Batch,
    /// Anything else.
    Single(Single),
}

/// A route that is done in one go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Single {
    Check,
    Reserve,
    Settle,
    Refund,
    Authorize,
    /// What envoyproxy/ratelimit takes as JSON.
    Descriptors,
}

impl DataPlane {
    /// The route of a request that may take it; any other is answered, whatever its body is.
    pub(super) fn route(&self, head: &Head<'_>, reply: &mut Reply) -> Option<Route> {
        let route = match head.path {
            "/v1/check" => Route::Single(Single::Check),
            "/v1/check/batch" => Route::Batch,
            authorize::PATH => Route::Single(Single::Authorize),
            reserve::PATH => Route::Single(Single::Reserve),
            "/v1/settle" => Route::Single(Single::Settle),
            "/v1/refund" => Route::Single(Single::Refund),
            "/json" => Route::Single(Single::Descriptors),
            _ => {
                self.answer_without_body(head, reply);
                return None;
            }
        };
        let place = match route {
            Route::Single(Single::Authorize) => Place::Gateway,
            _ => Place::Caller,
        };
        if let Err(problem) = self.admit(head, place) {
            self.refuse(&problem, reply);
            if place == Place::Caller {
                reply.header("www-authenticate", b"Bearer");
            }
            return None;
        }
        if place == Place::Caller && head.method != "POST" {
            self.refuse(
                &Problem {
                    status: 405,
                    error: "method_not_allowed",
                    title: "Method not allowed",
                    detail: "This address takes POST.".into(),
                },
                reply,
            );
            reply.header("allow", b"POST");
            return None;
        }
        Some(route)
    }

    #[cold]
    fn answer_without_body(&self, head: &Head<'_>, reply: &mut Reply) {
        if head.path != "/healthcheck" {
            return self.refuse(&Problem::not_found(), reply);
        }
        let started = Instant::now();
        reply.clear();
        rls::health(reply);
        self.metrics.observe_request(Protocol::Http, started.elapsed());
    }

    #[cold]
    fn refuse(&self, problem: &Problem, reply: &mut Reply) {
        let started = Instant::now();
        reply.problem(problem);
        self.metrics.observe_request(Protocol::Http, started.elapsed());
    }
}
