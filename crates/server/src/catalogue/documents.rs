//! JSON documents read with the very readers that read policy files.

use serde_json::Value;
use tollgate_catalog::document::{Fields, Node, Problems};
use tollgate_catalog::model::{EndpointClass, Org, Override, Policy, Rollout, UserPlan, read_tier};

/// Something that can be read from a JSON object.
pub trait Document: Sized {
    /// Reads it, noting every problem.
    fn read(fields: Fields<'_>, problems: &mut Problems) -> Option<Self>;
}

/// A tier's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierName(pub String);

impl Document for TierName {
    fn read(fields: Fields<'_>, problems: &mut Problems) -> Option<Self> {
        read_tier(fields, problems).map(Self)
    }
}

macro_rules! document {
    ($($kind:ty),*) => {
        $(impl Document for $kind {
            fn read(fields: Fields<'_>, problems: &mut Problems) -> Option<Self> {
                <$kind>::read(fields, problems)
            }
        })*
    };
}

document!(EndpointClass, Org, Override, Policy, Rollout, UserPlan);

/// Reads a JSON object.
pub fn read_document<T: Document>(value: &Value) -> Result<T, Problems> {
    let mut problems = Problems::default();
    let node = Node::from_json(value);
    let read = Fields::of(&node, "", &mut problems).and_then(|fields| T::read(fields, &mut problems));
    problems.sorted()?;
    read.ok_or_else(Problems::default)
}

/// Reads a JSON list of objects.
pub fn read_list<T: Document>(value: &Value) -> Result<Vec<T>, Problems> {
    let mut problems = Problems::default();
    let mut all = Vec::new();
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let node = Node::from_json(item);
                let fields = Fields::of(&node, &format!("[{index}]"), &mut problems);
                all.extend(fields.and_then(|fields| T::read(fields, &mut problems)));
            }
        }
        _ => problems.add(0, "", "must be a list"),
    }
    problems.sorted()?;
    Ok(all)
}
