//! The schemas of bodies and answers. What ends in `Written` is what a client sends.
//!
//! The readers of bodies are elsewhere; tests hold the two against each other, both ways.

mod explained;
mod object;
mod platform;
mod policy;
mod quota;
mod rollout;
mod tenant;
mod words;

use serde_json::{Map, Value, json};

pub(in super::super) use object::of;

use object::Object;

/// All schemas by name.
pub(super) fn components() -> Map<String, Value> {
    let all = [
        words::schemas(),
        policy::schemas(),
        quota::schemas(),
        rollout::schemas(),
        tenant::schemas(),
        platform::schemas(),
        explained::schemas(),
    ];
    let all = all.into_iter().flatten();
    all.map(|(name, schema)| (name.to_owned(), schema)).collect()
}

/// What the policy file owns says so, and what has no effect.
fn source(object: Object) -> Object {
    let object = object.may(
        "source",
        json!({"type": "string", "const": "file"}),
        "There if the policy file owns it: the API does not change it.",
    );
    left_out(object)
}

/// What has no effect says so.
fn left_out(object: Object) -> Object {
    object.may(
        "leftOut",
        json!({"type": "string"}),
        "There if it has no effect on the node that answers: why it does not fit that node's policy file.",
    )
}
