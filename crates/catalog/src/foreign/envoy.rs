//! The configuration of envoyproxy/ratelimit: a domain a file, and in it descriptors within descriptors.

use std::collections::HashMap;

use tollgate_core::{MAX_LIMIT, Mode};

use super::descriptor_ids::{self, Called};
use super::{ForeignFile, Imported, Unread};
use crate::document::{Fields, Node, Problems, Value, parse_yaml, read_yaml};
use crate::model::{
    DescriptorEntry, DescriptorPath, Dimension, Policy, PolicyMode, Scope, Values, Window, check_id,
};
use crate::policy_file::LISTS;

const SECOND_NS: u64 = 1_000_000_000;
const DAY_NS: u64 = 86_400 * SECOND_NS;

/// The units. Those longer than a day are runs of as many days since the epoch.
const UNITS: [(&str, u64); 7] = [
    ("second", SECOND_NS),
    ("minute", 60 * SECOND_NS),
    ("hour", 3600 * SECOND_NS),
    ("day", DAY_NS),
    ("week", 7 * DAY_NS),
    ("month", 30 * DAY_NS),
    ("year", 365 * DAY_NS),
];

/// Every key there is. Each means something in one place only, and is let stand in others.
const KEYS: [&str; 16] = [
    "domain",
    "key",
    "value",
    "descriptors",
    "rate_limit",
    "unit",
    "requests_per_unit",
    "unlimited",
    "shadow_mode",
    "quota_mode",
    "name",
    "replaces",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "metadata",
];

/// What is set by names, while a domain is read.
struct Domain {
    name: String,
    policies: Vec<Policy>,
    /// What each of them is called.
    called: Vec<Called>,
    /// Who bears a name.
    named: HashMap<String, Vec<String>>,
    /// Whom a policy replaces, by name, with the line that says so.
    replaces: Vec<(usize, String, usize)>,
    notes: Problems,
    problems: Problems,
}

/// One step on the way to a limit.
#[derive(Clone)]
struct Step {
    entry: DescriptorEntry,
    /// All values count together.
    shared: bool,
}

/// Whether a document looks like one of these: only they have a domain. One with a list of ours has it by mistake.
pub fn is_envoy(text: &str) -> bool {
    let root = read_yaml(text, &mut Problems::default());
    let Some(Value::Map(items)) = root.map(|root| root.value) else {
        return false;
    };
    let has = |wanted: &str| items.iter().any(|(name, _)| name == wanted);
    has("domain") && !LISTS.into_iter().any(has)
}

/// Reads files, a domain each.
pub fn read_envoy(files: &[ForeignFile<'_>]) -> Result<Imported, Unread> {
    let (mut imported, mut unread) = (Imported::default(), Vec::new());
    let (mut called, mut domains) = (Vec::new(), HashMap::new());
    for file in files {
        let mut problems = match read_file(file, &mut called, &mut imported) {
            Ok((domain, line)) => {
                let mut problems = Problems::default();
                if let Some(other) = domains.insert(domain.clone(), file.name) {
                    problems.add(
                        line,
                        "domain",
                        format!("`{domain}` is the domain of {other} already"),
                    );
                }
                problems
            }
            Err(problems) => problems,
        };
        if !problems.0.is_empty() {
            problems.0.sort_by_key(|problem| problem.line);
            unread.push((file.name.to_owned(), problems));
        }
    }
    if unread.is_empty() {
        descriptor_ids::shorten(&called, &mut imported.policies);
        Ok(imported)
    } else {
        Err(Unread(unread))
    }
}

fn read_file(
    file: &ForeignFile<'_>,
    called: &mut Vec<Called>,
    imported: &mut Imported,
) -> Result<(String, usize), Problems> {
    let root = parse_yaml(file.text)?;
    let mut problems = Problems::default();
    let Some(mut fields) = Fields::of(&root, "", &mut problems) else {
        return Err(problems);
    };
    let name = fields.parsed("domain", &mut problems, |text| {
        check_id(text).map(|()| text.to_owned()).map_err(str::to_owned)
    });
    if name.is_none() && problems.0.is_empty() {
        fields.problem(&mut problems, "domain", "is missing");
    }
    let line = fields.line_of("domain");
    let mut domain = Domain {
        name: name.unwrap_or_default(),
        policies: Vec::new(),
        called: Vec::new(),
        named: HashMap::new(),
        replaces: Vec::new(),
        notes: Problems::default(),
        problems,
    };
    domain.read_descriptors(&mut fields, &[]);
    domain.finish(fields);
    domain.settle_replaced();
    if !domain.problems.0.is_empty() {
        return Err(domain.problems);
    }
    imported.policies.extend(domain.policies);
    called.extend(domain.called);
    if !domain.notes.0.is_empty() {
        imported.notes.push((file.name.to_owned(), domain.notes));
    }
    Ok((domain.name, line))
}

impl Domain {
    fn read_descriptors(&mut self, fields: &mut Fields<'_>, before: &[Step]) {
        let mut seen: Vec<DescriptorEntry> = Vec::new();
        for (path, node) in fields.list("descriptors", &mut self.problems) {
            let Some(mut fields) = Fields::of(node, &path, &mut self.problems) else {
                continue;
            };
            let Some(step) = self.read_step(&mut fields) else {
                fields.finish(&mut Problems::default());
                continue;
            };
            if seen.contains(&step.entry) {
                fields.problem(&mut self.problems, "key", "stands here twice with the same value");
            }
            seen.push(step.entry.clone());
            let mut steps = before.to_vec();
            steps.push(step);
            self.read_limit(&mut fields, &steps);
            for name in ["detailed_metric", "value_to_metric", "metadata"] {
                if fields.node(name).is_some() {
                    let message = "metrics and answers here have no place for it";
                    self.notes
                        .add(fields.line_of(name), fields.path_of(name), message);
                }
            }
            self.read_descriptors(&mut fields, &steps);
            self.finish(fields);
        }
    }

    fn read_step(&mut self, fields: &mut Fields<'_>) -> Option<Step> {
        let id = |text: &str| check_id(text).map(|()| text.to_owned()).map_err(str::to_owned);
        let key = fields.parsed("key", &mut self.problems, |text| {
            if text.contains('+') {
                return Err("a key with `+` can't be counted by".to_owned());
            }
            id(text)
        });
        if !fields.has("key") {
            fields.problem(&mut self.problems, "key", "is missing");
        }
        let is_empty = |node: &Node| matches!(&node.value, Value::Scalar { text, .. } if text.is_empty());
        let value = match fields.node("value") {
            Some(node) if !is_empty(node) => Some(fields.parsed("value", &mut self.problems, id)?),
            _ => None,
        };
        let shared = fields
            .flag("share_threshold", &mut self.problems)
            .unwrap_or(false);
        if shared && !value.as_ref().is_some_and(|value| value.contains('*')) {
            let message = "means nothing but for a value with `*`";
            fields.problem(&mut self.problems, "share_threshold", message);
        }
        let entry = DescriptorEntry { key: key?, value };
        Some(Step { entry, shared })
    }

    fn read_limit(&mut self, fields: &mut Fields<'_>, steps: &[Step]) {
        let shadow = fields.flag("shadow_mode", &mut self.problems).unwrap_or(false);
        let quota_mode = fields.flag("quota_mode", &mut self.problems).unwrap_or(false);
        let path = fields.path_of("rate_limit");
        let has_more = fields.has("descriptors");
        let Some(node) = fields.node("rate_limit") else {
            // Who is named without a limit has none, even if others of its key have. Who has more below it is known
            // by that.
            if !has_more {
                let values = unlimited(0);
                self.add(None, steps, values, fields.line);
            }
            return;
        };
        let Some(mut limit) = Fields::of(node, &path, &mut self.problems) else {
            return;
        };
        let Some(mut values) = self.read_values(&mut limit) else {
            return self.finish(limit);
        };
        if shadow && values.mode.is_none() {
            values.mode = Some(PolicyMode::On(Mode::Shadow));
        }
        let name = limit.node("name").and_then(|node| match &node.value {
            Value::Scalar { text, .. } if !text.is_empty() => Some(text.clone()),
            _ => None,
        });
        let place = self.add(name.as_deref(), steps, values, limit.line);
        self.policies[place].quota_mode = quota_mode;
        for (path, node) in limit.list("replaces", &mut self.problems) {
            let Some(mut replaced) = Fields::of(node, &path, &mut self.problems) else {
                continue;
            };
            match replaced.text("name", &mut self.problems) {
                Some(other) if Some(other) == name.as_deref() => {
                    replaced.problem(&mut self.problems, "name", "is the limit's own");
                }
                Some(other) => self.replaces.push((place, other.to_owned(), replaced.line)),
                None if !replaced.has("name") => {
                    replaced.problem(&mut self.problems, "name", "is missing");
                }
                None => {}
            }
            self.finish(replaced);
        }
        self.finish(limit);
    }

    fn read_values(&mut self, limit: &mut Fields<'_>) -> Option<Values> {
        let number = limit.whole("requests_per_unit", u32::MAX.into(), &mut self.problems);
        let is_unlimited = limit.flag("unlimited", &mut self.problems).unwrap_or(false);
        let unit = limit.parsed("unit", &mut self.problems, |text| {
            let text = text.to_lowercase();
            let known = UNITS.iter().find(|(name, _)| *name == text);
            known.map(|(_, length)| *length).ok_or_else(|| {
                let names = UNITS.map(|(name, _)| name);
                format!("`{text}` is not one of {}", names.join(", "))
            })
        });
        match (is_unlimited, unit) {
            (true, Some(_)) => {
                limit.problem(&mut self.problems, "unit", "means nothing to what is unlimited");
                None
            }
            (true, None) => Some(unlimited(MAX_LIMIT)),
            (false, None) => {
                if !limit.has("unit") {
                    limit.problem(&mut self.problems, "unit", "is missing");
                }
                None
            }
            (false, Some(length)) => Some(Values {
                algorithm: Some("fixed_window"),
                limit: Some(number.unwrap_or(0)),
                window: Some(Window::Length(length)),
                ..Values::default()
            }),
        }
    }

    /// Adds a policy, and says where.
    fn add(&mut self, name: Option<&str>, steps: &[Step], mut values: Values, line: usize) -> usize {
        let path = DescriptorPath {
            domain: self.name.clone(),
            entries: steps.iter().map(|step| step.entry.clone()).collect(),
        };
        let called = Called::of(name, &path);
        let id = called.id.clone();
        if let Some(name) = name {
            self.named.entry(name.to_owned()).or_default().push(id.clone());
        }
        values.counter = called.counter(&path);
        self.called.push(called);
        let scope = counted_by(steps);
        if scope.single() == Some(&Dimension::Global) {
            // It counts one descriptor, not everything, and its callers may know of it.
            values.expose = Some(true);
        }
        self.policies.push(Policy {
            scope,
            path: Some(path),
            values,
            line,
            ..Policy::named(&id)
        });
        self.policies.len() - 1
    }

    /// Lets policies replace those who bear the names that they named.
    fn settle_replaced(&mut self) {
        for (place, name, line) in std::mem::take(&mut self.replaces) {
            match self.named.get(&name) {
                Some(ids) => self.policies[place].replaces.extend(ids.iter().cloned()),
                None => {
                    let message = format!("no limit of this domain is named `{name}`");
                    self.notes.add(line, "replaces", message);
                }
            }
        }
    }

    /// Notes keys that mean nothing where they are, and refuses those that mean nothing anywhere.
    fn finish(&mut self, mut fields: Fields<'_>) {
        for name in KEYS {
            if !fields.asked_for(name) && fields.node(name).is_some() {
                let message = "means nothing here";
                self.notes
                    .add(fields.line_of(name), fields.path_of(name), message);
            }
        }
        fields.finish(&mut self.problems);
    }
}

/// What is not limited: a policy that is off.
fn unlimited(limit: u64) -> Values {
    Values {
        limit: Some(limit),
        window: Some(Window::Length(SECOND_NS)),
        mode: Some(PolicyMode::Off),
        ..Values::default()
    }
}

/// What a limit is counted by: the entries whose values are not given, each apart. A key that stands there for the
/// second time is told from the first by its number; the domain is a descriptor as well.
fn counted_by(steps: &[Step]) -> Scope {
    let mut scope = Scope::of(Dimension::Global);
    for (index, step) in steps.iter().enumerate() {
        let key = &step.entry.key;
        let fixed = step
            .entry
            .value
            .as_ref()
            .is_some_and(|value| !value.contains('*'));
        if fixed || step.shared {
            continue;
        }
        let before = steps[..index].iter().filter(|other| other.entry.key == *key);
        scope = scope.with(Dimension::Descriptor(
            match before.count() + usize::from(key == "domain") {
                0 => key.clone(),
                repeated => format!("{key}#{}", repeated + 1),
            },
        ));
    }
    scope
}
