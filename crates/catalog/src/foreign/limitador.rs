//! Limitador's limits: a list, each with a namespace, conditions and what it counts by.

use tollgate_core::{Anchor, MAX_LIMIT};

use super::cel::{self, Reference};
use super::{ForeignFile, Ids, Imported, Unread};
use crate::document::{Fields, Node, Problems, Value, parse_yaml};
use crate::model::{Descriptor, Dimension, Policy, Scope, Values, Window, check_id};

/// What the domain of a request is called among its descriptors; Limitador calls it the namespace.
const DOMAIN: &str = "domain";
const SECOND_NS: u64 = 1_000_000_000;
const MAX_SECONDS: u64 = 366 * 86_400;

/// Reads files of limits.
pub fn read_limitador(files: &[ForeignFile<'_>]) -> Result<Imported, Unread> {
    let (mut imported, mut unread) = (Imported::default(), Vec::new());
    let mut ids = Ids::default();
    for file in files {
        let (mut problems, mut notes) = (Problems::default(), Problems::default());
        match parse_yaml(file.text) {
            Err(found) => problems = found,
            Ok(Node {
                value: Value::List(items),
                ..
            }) => {
                for (index, node) in items.iter().enumerate() {
                    if let Some(fields) = Fields::of(node, &format!("[{index}]"), &mut problems) {
                        let before = problems.0.len();
                        match read_limit(fields, &mut ids, &mut notes, &mut problems) {
                            Some(policy) => imported.policies.push(policy),
                            None => imported.dropped += usize::from(problems.0.len() == before),
                        }
                    }
                }
            }
            Ok(root) => problems.add(root.line, "", "must be a list of limits"),
        }
        for (found, all) in [(problems, &mut unread), (notes, &mut imported.notes)] {
            if !found.0.is_empty() {
                all.push((file.name.to_owned(), found));
            }
        }
    }
    if unread.is_empty() {
        Ok(imported)
    } else {
        Err(Unread(unread))
    }
}

fn read_limit(
    mut fields: Fields<'_>,
    ids: &mut Ids,
    notes: &mut Problems,
    problems: &mut Problems,
) -> Option<Policy> {
    let before = problems.0.len();
    let namespace = fields.parsed("namespace", problems, |text| {
        check_id(text).map(|()| text.to_owned()).map_err(str::to_owned)
    });
    let limit = fields.whole("max_value", MAX_LIMIT, problems);
    let seconds = fields.whole("seconds", MAX_SECONDS, problems);
    let name = fields.text("name", problems);
    let id = fields.text("id", problems);
    let conditions = texts(&mut fields, "conditions", problems);
    let variables = texts(&mut fields, "variables", problems);
    for name in ["namespace", "max_value", "seconds"] {
        if !fields.has(name) {
            fields.problem(problems, name, "is missing");
        }
    }
    if seconds == Some(0) {
        fields.problem(problems, "seconds", "must be at least 1");
    }
    let (line, path) = (fields.line, fields.path.clone());
    fields.finish(problems);
    if problems.0.len() > before {
        return None;
    }
    let namespace = namespace?;
    let mut left_out = |what: &str, text: &str| {
        let message = format!("the limit is not carried over: policies can't say the {what} `{text}`");
        notes.add(line, path.clone(), message);
    };
    let mut policy = Policy {
        line,
        ..Policy::named("")
    };
    let mut seen: Vec<Reference> = Vec::new();
    policy.descriptors.push(exactly(DOMAIN, &namespace));
    for text in &conditions {
        let Some(all) = cel::conditions(text).filter(|all| all.iter().all(|one| can_be_said(&one.value)))
        else {
            left_out("condition", text);
            return None;
        };
        for one in all {
            let wanted = Descriptor {
                name: one.entry.key.clone(),
                value: one.value,
                prefix: one.prefix,
            };
            if !add(&mut policy.descriptors, wanted) {
                left_out("pair of conditions on", &one.entry.key);
                return None;
            }
            seen.push(one.entry);
        }
    }
    let mut scope = Scope::of(Dimension::Global);
    for text in &variables {
        let Some(entry) =
            cel::reference(text).filter(|entry| check_id(&entry.key).is_ok() && !entry.key.contains('+'))
        else {
            left_out("variable", text);
            return None;
        };
        scope = scope.with(Dimension::Descriptor(entry.key.clone()));
        seen.push(entry);
    }
    if let [first, rest @ ..] = seen.as_slice()
        && rest.iter().any(|entry| entry.descriptor != first.descriptor)
    {
        left_out(
            "combination of several descriptors",
            &format!("{} and others", first.key),
        );
        return None;
    }
    if let Some(entry) = seen.first().filter(|entry| entry.descriptor > 0) {
        let message = format!(
            "it is for every descriptor with these entries, not only for the one at {}",
            entry.descriptor
        );
        notes.add(line, path, message);
    }
    policy.values = Values {
        algorithm: Some("fixed_window"),
        limit,
        window: seconds.map(|seconds| Window::Length(seconds * SECOND_NS)),
        anchor: Some(Anchor::First),
        expose: (scope.single() == Some(&Dimension::Global)).then_some(true),
        ..Values::default()
    };
    policy.scope = scope;
    policy.id = ids.take(&match id.or(name) {
        Some(called) => called.to_owned(),
        None => {
            let mut words = vec![namespace];
            words.extend(seen.iter().map(|entry| entry.key.clone()));
            words.push(format!("{}s", seconds.unwrap_or(0)));
            words.join(".")
        }
    });
    Some(policy)
}

fn exactly(name: &str, value: &str) -> Descriptor {
    Descriptor {
        name: name.to_owned(),
        value: value.to_owned(),
        prefix: false,
    }
}

/// Adds a condition, if none of the same name says otherwise: a policy has one for each name, and with one of two it would
/// be for more than the limit was.
fn add(conditions: &mut Vec<Descriptor>, wanted: Descriptor) -> bool {
    match conditions.iter().find(|known| known.name == wanted.name) {
        Some(known) => *known == wanted,
        None => {
            conditions.push(wanted);
            true
        }
    }
}

/// Whether a condition of a policy can have this value: a `*` at its end would mean something else there.
fn can_be_said(value: &str) -> bool {
    check_id(value).is_ok() && !value.ends_with('*')
}

fn texts(fields: &mut Fields<'_>, name: &'static str, problems: &mut Problems) -> Vec<String> {
    let mut texts = Vec::new();
    for (path, node) in fields.list(name, problems) {
        match &node.value {
            Value::Scalar { text, .. } => texts.push(text.clone()),
            _ => problems.add(node.line, path, "must be text"),
        }
    }
    texts
}
