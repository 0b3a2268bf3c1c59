//! Overrides: other values for one org, or for one app, key or user of it.

use std::sync::Arc;

use tollgate_core::Timestamp;

use super::policy::Values;
use super::scope::{Dimension, Scope};
use crate::document::{FieldLines, Fields, Node, Problems, path_of};
use crate::request::Request;
use crate::route::Pattern;

/// Whom of the org an override is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Who {
    /// Everyone.
    Org,
    /// One app.
    App(String),
    /// One user.
    User(String),
    /// One key.
    Key(String),
}

impl Who {
    /// Whether a request is theirs.
    #[inline]
    pub fn includes(&self, request: &Request<'_>) -> bool {
        match self {
            Self::Org => true,
            Self::App(id) => request.app == Some(id.as_str()),
            Self::User(id) => request.user == Some(id.as_str()),
            Self::Key(id) => request.key == Some(id.as_str()),
        }
    }

    /// The dimension it narrows to.
    pub fn dimension(&self) -> Dimension {
        match self {
            Self::Org => Dimension::Org,
            Self::App(_) => Dimension::App,
            Self::User(_) => Dimension::User,
            Self::Key(_) => Dimension::Key,
        }
    }
}

impl std::fmt::Display for Who {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Org => f.write_str("org"),
            Self::App(id) => write!(f, "app {id}"),
            Self::User(id) => write!(f, "user {id}"),
            Self::Key(id) => write!(f, "key {id}"),
        }
    }
}

/// Other values for one org, or for one app, key or user of it.
#[derive(Debug, Clone)]
pub struct Override {
    /// The org it belongs to.
    pub org: String,
    /// Whom of it.
    pub who: Who,
    /// The policy it is for, by id…
    pub policy: Option<String>,
    /// …else by scope,
    pub scope: Option<Scope>,
    /// routes,
    pub pattern: Option<Pattern>,
    /// permission and window.
    pub required_scope: Option<String>,
    /// The new values. The window is one of them only beside a policy's id.
    pub values: Values,
    /// When it ends.
    pub expires: Option<Timestamp>,
    /// Why it was made.
    pub reason: Option<String>,
    /// The line it stands on.
    pub line: usize,
    /// Those of its fields.
    pub lines: FieldLines,
    /// Its path in the document.
    pub path: String,
}

/// An override as an org's record keeps it: read, or the JSON it was written as, which takes a fraction of the
/// memory. Most orgs are idle most of the time.
#[derive(Debug, Clone)]
pub enum KeptOverride {
    /// Read.
    Read(Arc<Override>),
    /// As it was written.
    Json(Box<str>),
}

impl KeptOverride {
    /// The override; `None` if it can't be read, which only another version could have written.
    pub fn get(&self) -> Option<Arc<Override>> {
        match self {
            Self::Read(read) => Some(read.clone()),
            Self::Json(json) => {
                let node = Node::from_json(&serde_json::from_str(json).ok()?);
                let mut problems = Problems::default();
                let fields = Fields::of(&node, "", &mut problems)?;
                Override::read(fields, &mut problems).map(Arc::new)
            }
        }
    }

    /// Whether it is for a policy by that one's id.
    pub fn names(&self, policy: &str) -> bool {
        let may = match self {
            Self::Read(_) => true,
            Self::Json(json) => json.contains(policy),
        };
        may && self
            .get()
            .is_some_and(|read| read.policy.as_deref() == Some(policy))
    }
}

impl Override {
    /// Whether it sets no value: then it could only leave the policy it is for as it is. Without a policy's id the
    /// window is what that is found by.
    pub fn changes_nothing(&self) -> bool {
        let mut values = self.values.clone();
        if self.policy.is_none() {
            values.window = None;
        }
        values == Values::default()
    }

    /// The line of a field, or its own if it has none.
    pub fn line_of(&self, name: &str) -> usize {
        self.lines.of(name, self.line)
    }

    /// Notes a problem with a field, or with all of it where that has no name.
    pub(crate) fn problem(&self, problems: &mut Problems, field: &str, message: impl Into<String>) {
        problems.add(self.line_of(field), path_of(&self.path, field), message);
    }

    /// Reads an override.
    pub fn read(mut fields: Fields<'_>, problems: &mut Problems) -> Option<Self> {
        let before = problems.0.len();
        let mut id = |name: &'static str, problems: &mut Problems| {
            fields.parsed(name, problems, |text| {
                super::check_id(text)
                    .map(|()| text.to_owned())
                    .map_err(str::to_owned)
            })
        };
        let org = id("orgId", problems);
        let named = [
            id("appId", problems).map(Who::App),
            id("userId", problems).map(Who::User),
            id("keyId", problems).map(Who::Key),
        ];
        if !fields.has("orgId") {
            fields.problem(problems, "orgId", "is missing");
        }
        let mut named = named.into_iter().flatten();
        let who = named.next().unwrap_or(Who::Org);
        if named.next().is_some() {
            problems.add(
                fields.line,
                &fields.path,
                "names more than one of appId, keyId and userId",
            );
        }
        let policy = fields.text("policyId", problems).map(str::to_owned);
        let path = fields.path_of("scope");
        let scope = fields
            .node("scope")
            .and_then(|node| Scope::read(node, &path, problems));
        let pattern = fields.parsed("endpointPattern", problems, Pattern::parse);
        let required_scope = fields.text("requiredScope", problems).map(str::to_owned);
        let values = Values::read(&mut fields, problems);
        let expires = fields.parsed("expiresAt", problems, |text| {
            let at = text.parse::<jiff::Timestamp>().ok();
            let nanos = at.and_then(|at| u64::try_from(at.as_nanosecond()).ok());
            nanos
                .map(Timestamp::from_nanos)
                .ok_or_else(|| format!("`{text}` is not an instant such as 2024-07-15T00:00:00Z"))
        });
        let reason = fields.text("reason", problems).map(str::to_owned);
        let (line, lines, path) = (fields.line, fields.lines(), fields.path.clone());
        fields.finish(problems);
        if problems.0.len() > before {
            return None;
        }
        Some(Self {
            org: org?,
            who,
            policy,
            scope,
            pattern,
            required_scope,
            values,
            expires,
            reason,
            line,
            lines,
            path,
        })
    }
}
