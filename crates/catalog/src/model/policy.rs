//! A policy: one limit, and whom it is for.

use std::fmt;

use jiff::tz::TimeZone;
use tollgate_core::{Algorithm, Anchor, MAX_LIMIT, MAX_LOG_LIMIT, Mode};

use super::descriptor_path::DescriptorPath;
use super::scope::Scope;
use super::value_set::ValueSet;
use super::window::Window;
use crate::document::{FieldLines, Fields, Node, Problems, Value, path_of};
use crate::route::Pattern;

/// What a policy does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyMode {
    /// It takes part in decisions.
    On(Mode),
    /// It does nothing.
    Off,
}

/// What happens when a shared store can't answer. The memory store always can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailMode {
    /// Let through.
    Open,
    /// Refuse.
    Closed,
    /// Count on this node alone.
    Local,
}

/// How much of a limit may lie unused in leases of a shared store. The memory store is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accuracy {
    /// None: every decision is made in the store.
    Exact,
    /// This share, in hundredths of a percent.
    Within(u32),
}

/// Whose midnight a quota resets at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Zone {
    /// A named zone's.
    Fixed(TimeZone),
    /// The org's own.
    Org,
}

/// A condition on one of a request's descriptors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    /// The descriptor's name.
    pub name: String,
    /// The value, or what it begins with.
    pub value: String,
    /// Whether it is only the beginning.
    pub prefix: bool,
}

/// The values that a policy sets and an override may set anew.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Values {
    /// How it counts, without a fixed window's anchor or a quota's period.
    pub algorithm: Option<&'static str>,
    /// What a window admits.
    pub limit: Option<u64>,
    /// A bucket's capacity.
    pub burst: Option<u64>,
    /// The window.
    pub window: Option<Window>,
    /// Where a fixed window begins.
    pub anchor: Option<Anchor>,
    /// Whose midnight counts.
    pub zone: Option<Zone>,
    /// The count's name.
    pub counter: Option<String>,
    /// What of the request it counts.
    pub unit: Option<String>,
    /// What happens when a shared store is away.
    pub fail_mode: Option<FailMode>,
    /// What it does.
    pub mode: Option<PolicyMode>,
    /// How much may lie unused in leases.
    pub accuracy: Option<Accuracy>,
    /// How far apart clients are told to come back.
    pub reset_jitter_ns: Option<u64>,
    /// Whether clients may see it.
    pub expose: Option<bool>,
    /// How many bits of an IPv4 address are counted apart.
    pub ipv4_prefix: Option<u8>,
    /// How many bits of an IPv6 address are counted apart.
    pub ipv6_prefix: Option<u8>,
}

/// One limit, and whom it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Its id.
    pub id: String,
    /// The tier it is for; `None` for all.
    pub tier: Option<String>,
    /// What is counted together.
    pub scope: Scope,
    /// The routes it is for.
    pub pattern: Pattern,
    /// The permission a request must carry.
    pub required_scope: Option<String>,
    /// Conditions on descriptors.
    pub descriptors: Vec<Descriptor>,
    /// The descriptor it is for, where requests bring a domain and entries; `None` for all.
    pub path: Option<DescriptorPath>,
    /// Policies, by their ids, that do not count for requests for which this one does.
    pub replaces: Vec<String>,
    /// Of the descriptors of a request that have such a limit, only all together can refuse it.
    pub quota_mode: bool,
    /// Its numbers and modes.
    pub values: Values,
    /// The app whose use is counted apart, though it is not counted by app: an override's, where one count can't be held
    /// against its numbers and against the policy's.
    pub apart: Option<String>,
    /// The [era](super::Eras) it counts in: the number of the change since which it counts the way it does; 0 if that
    /// was its first.
    pub since: u64,
    /// The same as far as all nodes number it alike, for counters that they share.
    pub shared_since: u64,
    /// The line it stands on.
    pub line: usize,
    /// Those of its fields.
    pub lines: FieldLines,
}

const MODES: [(&str, PolicyMode); 4] = [
    ("enforce", PolicyMode::On(Mode::Enforce)),
    ("shadow", PolicyMode::On(Mode::Shadow)),
    ("soft", PolicyMode::On(Mode::Soft)),
    ("off", PolicyMode::Off),
];

const FAIL_MODES: [(&str, FailMode); 3] = [
    ("open", FailMode::Open),
    ("closed", FailMode::Closed),
    ("local", FailMode::Local),
];

const ANCHORS: [(&str, Anchor); 2] = [("epoch", Anchor::Epoch), ("first", Anchor::First)];

const ALGORITHMS: [(&str, &str); 6] = [
    ("token_bucket", "token_bucket"),
    ("leaky_bucket", "leaky_bucket"),
    ("fixed_window", "fixed_window"),
    ("sliding_window_log", "sliding_window_log"),
    ("sliding_window_counter", "sliding_window_counter"),
    ("quota", "quota"),
];

impl Policy {
    /// Reads a policy.
    pub fn read(mut fields: Fields<'_>, problems: &mut Problems) -> Option<Self> {
        let before = problems.0.len();
        let id = fields.parsed("id", problems, |text| {
            super::check_policy_id(text)?;
            Ok(text.to_owned())
        });
        let tier = fields.text("orgTier", problems).filter(|tier| *tier != "*");
        let scope = read_scope(&mut fields, problems);
        let pattern = fields.parsed("endpointPattern", problems, Pattern::parse);
        let required_scope = fields.text("requiredScope", problems).map(str::to_owned);
        let path = fields.path_of("match");
        let conditions = fields.node("match");
        let descriptors = conditions.map_or_else(Vec::new, |node| read_descriptors(node, &path, problems));
        let path = fields.path_of("descriptor");
        let descriptor = fields.node("descriptor");
        let descriptor = descriptor.and_then(|node| DescriptorPath::read(node, &path, problems));
        let replaces = read_replaced(&mut fields, problems);
        let quota_mode = fields.flag("quotaMode", problems).unwrap_or(false);
        let values = Values::read(&mut fields, problems);
        for name in ["limit", "window"] {
            if !fields.has(name) {
                fields.problem(problems, name, "is missing");
            }
        }
        let (line, lines) = (fields.line, fields.lines());
        let path = fields.path.clone();
        fields.finish(problems);
        if problems.0.len() > before {
            return None;
        }
        let mut policy = Self {
            id: id.unwrap_or_default(),
            tier: tier.map(str::to_owned),
            scope: scope.unwrap_or_default(),
            pattern: pattern.unwrap_or_default(),
            required_scope,
            descriptors,
            path: descriptor,
            replaces,
            quota_mode,
            values,
            apart: None,
            since: 0,
            shared_since: 0,
            line,
            lines,
        };
        if policy.id.is_empty() {
            policy.id = policy.derived_id();
        }
        let line_of = |name: &str| policy.line_of(name);
        policy.values.check(line_of, &path, problems);
        (problems.0.len() == before).then_some(policy)
    }

    /// A policy that says nothing but its id.
    pub fn named(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            tier: None,
            scope: Scope::default(),
            pattern: Pattern::default(),
            required_scope: None,
            descriptors: Vec::new(),
            path: None,
            replaces: Vec::new(),
            quota_mode: false,
            values: Values::default(),
            apart: None,
            since: 0,
            shared_since: 0,
            line: 0,
            lines: FieldLines::default(),
        }
    }

    /// The line of a field, or its own if it has none.
    pub fn line_of(&self, name: &str) -> usize {
        self.lines.of(name, self.line)
    }

    /// Whether another is the same, wherever it stands.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        *self
            == Self {
                line: self.line,
                lines: self.lines.clone(),
                ..other.clone()
            }
    }

    /// In what it differs from another that is for the same requests.
    pub(crate) fn differing(&self, other: &Self) -> ValueSet {
        let values = ValueSet::differing(&self.values, &other.values);
        let same = self.descriptors == other.descriptors
            && self.path == other.path
            && self.replaces == other.replaces
            && self.quota_mode == other.quota_mode
            && self.since == other.since;
        if same {
            return values;
        }
        values.and(ValueSet::REST)
    }
}

impl Values {
    /// The algorithm's name: a quota where the window is a calendar period, else a token bucket by default.
    pub fn algorithm_name(&self) -> &'static str {
        self.algorithm.unwrap_or(match self.window {
            Some(Window::Calendar(_)) => "quota",
            _ => "token_bucket",
        })
    }

    /// The algorithm with its anchor or period.
    pub fn algorithm(&self) -> Algorithm {
        match (self.algorithm_name(), self.window) {
            ("leaky_bucket", _) => Algorithm::LeakyBucket,
            ("fixed_window", _) => Algorithm::FixedWindow(self.anchor.unwrap_or(Anchor::Epoch)),
            ("sliding_window_log", _) => Algorithm::SlidingLog,
            ("sliding_window_counter", _) => Algorithm::SlidingCounter,
            (_, Some(Window::Calendar(period))) => Algorithm::Quota(period),
            _ => Algorithm::TokenBucket,
        }
    }

    /// These values where they are set, else those of `base`.
    #[must_use]
    pub fn over(&self, base: &Self) -> Self {
        let this = self.clone();
        let base = base.clone();
        // A burst that was left to follow the limit goes on following it; one that was set stays.
        Self {
            algorithm: this.algorithm.or(base.algorithm),
            limit: this.limit.or(base.limit),
            burst: this.burst.or(base.burst),
            window: this.window.or(base.window),
            anchor: this.anchor.or(base.anchor),
            zone: this.zone.or(base.zone),
            counter: this.counter.or(base.counter),
            unit: this.unit.or(base.unit),
            fail_mode: this.fail_mode.or(base.fail_mode),
            mode: this.mode.or(base.mode),
            accuracy: this.accuracy.or(base.accuracy),
            reset_jitter_ns: this.reset_jitter_ns.or(base.reset_jitter_ns),
            expose: this.expose.or(base.expose),
            ipv4_prefix: this.ipv4_prefix.or(base.ipv4_prefix),
            ipv6_prefix: this.ipv6_prefix.or(base.ipv6_prefix),
        }
    }

    /// Reads the fields that policies and overrides have in common.
    pub fn read(fields: &mut Fields<'_>, problems: &mut Problems) -> Self {
        let id = |text: &str| {
            super::check_id(text)
                .map(|()| text.to_owned())
                .map_err(str::to_owned)
        };
        let prefix = |number: u64| u8::try_from(number).ok();
        let few = problems.are_few();
        let values = Self {
            algorithm: fields.one_of("algorithm", problems, &ALGORITHMS),
            limit: fields.whole("limit", MAX_LIMIT, problems),
            burst: fields.whole("burst", MAX_LIMIT, problems),
            window: fields.parsed("window", problems, Window::parse),
            anchor: fields.one_of("anchor", problems, &ANCHORS),
            zone: fields.parsed("timezone", problems, |name| match name {
                "org" => Ok(Zone::Org),
                name => super::org::read_zone(name, few).map(Zone::Fixed),
            }),
            counter: fields.parsed("counter", problems, id),
            unit: fields.parsed("unit", problems, id),
            fail_mode: fields.one_of("failMode", problems, &FAIL_MODES),
            mode: fields.one_of("mode", problems, &MODES),
            accuracy: fields.parsed("accuracy", problems, read_accuracy),
            reset_jitter_ns: fields.parsed("resetJitter", problems, Window::parse_length),
            expose: fields.flag("expose", problems),
            ipv4_prefix: fields.whole("ipv4Prefix", 32, problems).and_then(prefix),
            ipv6_prefix: fields.whole("ipv6Prefix", 128, problems).and_then(prefix),
        };
        let later = [
            "softThreshold",
            "maxDelayMs",
            "phaseIn",
            "adaptive",
            "graphqlCosts",
        ];
        fields.unavailable(&later, problems);
        values
    }

    /// Notes values that contradict each other.
    pub(crate) fn check(&self, line_of: impl Fn(&str) -> usize, path: &str, problems: &mut Problems) {
        let algorithm = self.algorithm_name();
        let mut add =
            |field: &str, message: String| problems.add(line_of(field), path_of(path, field), message);
        match (algorithm, self.window) {
            ("quota", Some(Window::Length(_))) => {
                add(
                    "window",
                    "a quota's window is day, week, month or billing_month".into(),
                );
            }
            (name, Some(Window::Calendar(_))) if name != "quota" => {
                add(
                    "window",
                    format!("only a quota has a calendar window; {name} takes one such as 1m"),
                );
            }
            _ => {}
        }
        if algorithm == "sliding_window_log" && self.limit > Some(MAX_LOG_LIMIT) {
            add(
                "limit",
                "a sliding_window_log remembers each request: its limit is at most 100000".into(),
            );
        }
        if self.burst.is_some() && !algorithm.ends_with("bucket") {
            add(
                "burst",
                format!("means nothing to {algorithm}; only buckets have one"),
            );
        }
        if self.anchor.is_some() && algorithm != "fixed_window" {
            add(
                "anchor",
                format!("means nothing to {algorithm}; only fixed_window has one"),
            );
        }
        if self.zone.is_some() && algorithm != "quota" {
            add(
                "timezone",
                format!("means nothing to {algorithm}; only quota has one"),
            );
        }
    }
}

/// The name of a value in a table of names.
fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: &T) -> &'static str {
    let known = names.iter().find(|(_, known)| known == value);
    known.map_or("", |(name, _)| name)
}

/// Where a fixed window begins, as policies write it.
pub fn anchor_name(anchor: Anchor) -> &'static str {
    name_of(&ANCHORS, &anchor)
}

impl fmt::Display for PolicyMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(&MODES, self))
    }
}

impl fmt::Display for FailMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(&FAIL_MODES, self))
    }
}

impl fmt::Display for Accuracy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact => f.write_str("exact"),
            Self::Within(hundredths) if hundredths % 100 == 0 => write!(f, "{}%", hundredths / 100),
            Self::Within(hundredths) if hundredths % 10 == 0 => {
                write!(f, "{}.{}%", hundredths / 100, hundredths % 100 / 10)
            }
            Self::Within(hundredths) => write!(f, "{}.{:02}%", hundredths / 100, hundredths % 100),
        }
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(zone) => f.write_str(zone.iana_name().unwrap_or("UTC")),
            Self::Org => f.write_str("org"),
        }
    }
}

impl fmt::Display for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.value, if self.prefix { "*" } else { "" })
    }
}

fn read_scope(fields: &mut Fields<'_>, problems: &mut Problems) -> Option<Scope> {
    let path = fields.path_of("scope");
    Scope::read(fields.node("scope")?, &path, problems)
}

fn read_replaced(fields: &mut Fields<'_>, problems: &mut Problems) -> Vec<String> {
    let mut ids = Vec::new();
    for (path, node) in fields.list("replaces", problems) {
        match &node.value {
            Value::Scalar { text, .. } => match super::check_policy_id(text) {
                Ok(()) => ids.push(text.clone()),
                Err(problem) => problems.add(node.line, path, problem),
            },
            _ => problems.add(node.line, path, "must be a policy's id"),
        }
    }
    ids
}

fn read_accuracy(text: &str) -> Result<Accuracy, String> {
    if text == "exact" {
        return Ok(Accuracy::Exact);
    }
    let hundredths = text.strip_suffix('%').and_then(|number| {
        let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
        let part = format!("{part:0<2}");
        let digits = |text: &str| {
            text.bytes()
                .all(|byte| byte.is_ascii_digit())
                .then(|| text.parse::<u32>().ok())
        };
        let (whole, part) = (
            digits(whole)??,
            digits(part.get(..2).filter(|two| *two == part)?)??,
        );
        whole.checked_mul(100)?.checked_add(part)
    });
    hundredths
        .filter(|hundredths| (1..=10_000).contains(hundredths))
        .map(Accuracy::Within)
        .ok_or_else(|| format!("`{text}` is neither exact nor a percentage such as 5%"))
}

fn read_descriptors(node: &Node, path: &str, problems: &mut Problems) -> Vec<Descriptor> {
    let Value::Map(items) = &node.value else {
        problems.add(
            node.line,
            path,
            format!("must be a mapping of names to values, not {}", node.kind()),
        );
        return Vec::new();
    };
    let mut descriptors = Vec::new();
    for (name, node) in items {
        let path = format!("{path}.{name}");
        let Value::Scalar { text, .. } = &node.value else {
            problems.add(node.line, path, "must be text");
            continue;
        };
        if let Err(problem) = super::check_id(name).and(super::check_id(text)) {
            problems.add(node.line, path, problem);
            continue;
        }
        let value = text.strip_suffix('*').unwrap_or(text);
        descriptors.push(Descriptor {
            name: name.clone(),
            value: value.to_owned(),
            prefix: value.len() < text.len(),
        });
    }
    descriptors
}
