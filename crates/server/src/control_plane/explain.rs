//! `POST /v1/ratelimit/explain`: which policies apply to a request, which don't, and why.

use super::answer::{Answer, Answered};
use super::ask::Ask;
use super::openapi::{of, replies};
use super::route::{Group, Route};
use super::rule::Rule;
use crate::answer::Problem;
use crate::check_body::{CheckBody, read_object};
use crate::clock;
use crate::explanation::explain as explain_request;

/// The routes of this file.
pub(super) fn group() -> Group {
    Group {
        name: "Explanations",
        about: "Why a request is decided the way it is.",
        routes: vec![
            Route::post("/v1/ratelimit/explain", explain, "explain", "Explain a decision")
                .says("Which policies apply to a request, which don't and why, and which one binds. Charges nothing.")
                .by(Rule::ReadPlatform)
                .takes("Check")
                .answers(
                    200,
                    replies::plain("The explanation.", "application/json", &of("Explanation")),
                ),
        ],
    }
}

/// Takes a check's body; charges nothing.
pub(super) async fn explain(ask: Ask) -> Answered {
    ask.caller.read_platform()?;
    let body: CheckBody<'_> = read_object(&ask.body)
        .map_err(|error| Problem::bad_request(format!("The body is not a check: {error}.")))?;
    let (snapshot, now) = (ask.plane.engine.snapshot_full(), clock::now());
    let request = body.request(Some(&snapshot), now)?;
    let mut explanation = explain_request(&ask.plane.engine, &snapshot, &request, now)?;
    if !ask.plane.catalogue.file().given {
        // The lines are those of the demonstration, which nobody owns.
        explanation.applied.iter_mut().for_each(|one| one.source = None);
    }
    let explanation = serde_json::to_value(explanation);
    explanation
        .map(Answer::ok)
        .map_err(|_| Problem::unavailable("The explanation can't be written."))
}
