//! Policies and overrides that are valid and hardly mean what they say.

use std::fmt::Display;

use tollgate_catalog::model::{FailMode, Override, Policy, PolicyMode, PolicySet, Window};
use tollgate_catalog::route::{Pattern, Segment};
use tollgate_catalog::snapshot::Limit;
use tollgate_core::Timestamp;

use super::Warning;
use crate::answer::rfc3339;

/// A limit of nothing.
const NOTHING: &str =
    "a limit of 0 refuses every request that it applies to; to switch it off write `mode: off`";

/// A quota that turns an outage of its store into one of the API.
const CLOSED: &str = "`failMode: closed` on a quota answers 503 to every request that it applies \
    to while Redis or the database is unavailable; `local` or `open` keep the \
    API up";

/// The mistakes of a policy set, by line.
pub(super) fn of_set(set: &PolicySet, now: Timestamp) -> Vec<Warning> {
    let classes = set.endpoint_classes.iter().filter_map(|class| {
        let literal = literal_parameter(&class.pattern)?;
        Some(Warning::new(
            0,
            format!("endpoint class {}: {literal}", class.class),
        ))
    });
    let policies = set.policies.iter().flat_map(of_policy);
    let overrides = set
        .overrides
        .iter()
        .flat_map(|change| of_override(set, change, now));
    let mut warnings: Vec<Warning> = classes.chain(policies).chain(overrides).collect();
    warnings.sort_by_key(|warning| warning.line);
    warnings
}

/// The mistakes of a limit in force.
pub(super) fn of_limit(limit: &Limit) -> Vec<Warning> {
    let whose = limit.origin.overridden.as_ref();
    // Whoever gives somebody nothing and says why means it.
    let reasoned = whose.is_some_and(|change| change.reason.is_some());
    let sentences = [
        (limit.mode.is_some() && limit.rule.limit == 0 && !reasoned).then(|| NOTHING.to_owned()),
        (limit.is_quota() && limit.origin.fails_closed_by_choice).then(|| CLOSED.to_owned()),
        literal_parameter(&limit.pattern),
    ];
    let of = format!("policy {}", limit.id);
    sentences
        .into_iter()
        .flatten()
        .map(|sentence| Warning::about(0, &of, sentence))
        .collect()
}

fn of_policy(policy: &Policy) -> impl Iterator<Item = Warning> {
    let values = &policy.values;
    let off = values.mode == Some(PolicyMode::Off);
    let quota = values.algorithm_name() == "quota";
    let found = [
        (values.limit == Some(0) && !off).then(|| ("limit", NOTHING.to_owned())),
        (quota && values.fail_mode == Some(FailMode::Closed)).then(|| ("failMode", CLOSED.to_owned())),
        literal_parameter(&policy.pattern).map(|literal| ("endpointPattern", literal)),
    ];
    let of = format!("policy {}", policy.id);
    found
        .into_iter()
        .flatten()
        .map(move |(field, sentence)| Warning::about(policy.line_of(field), &of, sentence))
}

fn of_override(set: &PolicySet, change: &Override, now: Timestamp) -> impl Iterator<Item = Warning> {
    let values = &change.values;
    let expired = change.expires.filter(|expires| *expires <= now);
    let found = [
        expired.map(|expired| ("expiresAt", ended(expired))),
        // Whoever gives somebody nothing and says why means it.
        (values.limit == Some(0) && change.reason.is_none()).then(|| ("limit", NOTHING.to_owned())),
        (values.fail_mode == Some(FailMode::Closed) && is_of_quota(set, change))
            .then(|| ("failMode", CLOSED.to_owned())),
        change
            .pattern
            .as_ref()
            .and_then(literal_parameter)
            .map(|literal| ("endpointPattern", literal)),
    ];
    let of = match &change.policy {
        Some(policy) => format!("override of {policy} for {} of {}", change.who, change.org),
        None => format!("override for {} of {}", change.who, change.org),
    };
    found
        .into_iter()
        .flatten()
        .map(move |(field, sentence)| Warning::about(change.line_of(field), &of, sentence))
}

fn is_of_quota(set: &PolicySet, change: &Override) -> bool {
    let named = change.policy.as_ref();
    let named = named.and_then(|id| set.policies.iter().find(|policy| policy.id == *id));
    let quota = named.is_some_and(|policy| policy.values.algorithm_name() == "quota");
    quota || matches!(change.values.window, Some(Window::Calendar(_)))
}

fn ended(expired: Timestamp) -> String {
    let mut at = Vec::new();
    rfc3339(expired, 0, &mut at);
    format!(
        "it expired at {} and has no effect; remove it, or set a later `expiresAt`",
        String::from_utf8_lossy(&at)
    )
}

/// What is written like a parameter in other routers and is plain text here.
fn literal_parameter(pattern: &Pattern) -> Option<String> {
    let Pattern::Route(route) = pattern else {
        return None;
    };
    let mut names = route.segments.iter().filter_map(|segment| match segment {
        Segment::Text(text) => named_like_a_parameter(text).map(|name| (text, name)),
        Segment::Param(_) => None,
    });
    let (text, name) = names.next()?;
    Some(literal(pattern, text, name))
}

fn literal(pattern: &impl Display, text: &str, name: &str) -> String {
    format!(
        "`{pattern}` matches only paths with the very text `{text}`; for any one segment write `{{{name}}}`"
    )
}

/// The name in `:name` and `<name>`.
fn named_like_a_parameter(text: &str) -> Option<&str> {
    let name = text
        .strip_prefix(':')
        .or_else(|| text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')))?;
    (!name.is_empty()).then_some(name)
}
