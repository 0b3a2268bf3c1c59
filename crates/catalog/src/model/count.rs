//! A policy as a count: the name it is kept under, the numbers it is judged by, and a document of just these.

use std::fmt::Write;

use jiff::tz::TimeZone;
use serde_json::{Value, json};
use tollgate_core::{Algorithm, Anchor, Mode, Period, Rule};

use super::descriptor_path::DescriptorPath;
use super::policy::{Descriptor, Policy, PolicyMode, Zone};
use super::window::Window;
use crate::pinned::{self, quoted};

impl Policy {
    /// All that makes its counts its own, but for the [era](Self::since). Limit and burst are left out: a change of
    /// those keeps the count.
    pub(crate) fn count_name(&self) -> String {
        let mut name = self.common_count_name();
        if let Some(app) = &self.apart {
            let _ = write!(name, "\0apart {app}");
        }
        name
    }

    /// The same for all that would be one count but for whom it is counted [apart](Self::apart).
    pub(crate) fn common_count_name(&self) -> String {
        let values = &self.values;
        let mut dimensions = self.scope.dimensions().to_vec();
        dimensions.sort();
        let quota = values.algorithm_name() == "quota";
        // Long enough for most: it is made on the path of a request.
        let mut name = String::with_capacity(128);
        // Without a name of its own a quota is known by what it counts, so that a change of plan keeps it;
        // any other limit is known by its policy.
        let (kind, given, route) = match (&values.counter, quota) {
            (Some(counter), _) => ("counter ", counter.as_str(), None),
            (None, true) => ("quota", "", Some(&self.pattern)),
            (None, false) => ("policy ", self.id.as_str(), Some(&self.pattern)),
        };
        let _ = write!(name, "{kind}{given}\0{}\0", written(values.algorithm()));
        if let Some(window) = values.window {
            let _ = write!(name, "{window}");
        }
        // What is counted in other units is another count, whatever its name.
        let unit = values.unit.as_deref().unwrap_or_default();
        let _ = write!(name, "\0{unit}");
        for dimension in &dimensions {
            let _ = write!(name, "\0{dimension}");
        }
        if let Some(route) = route {
            let scope = self.required_scope.as_deref().unwrap_or_default();
            let mut descriptors = self.descriptors.clone();
            descriptors.sort_by(|one, other| one.name.cmp(&other.name));
            let _ = write!(name, "\0{route}\0{scope}\0");
            write_descriptors(&descriptors, &mut name);
            if let Some(path) = &self.path {
                name.push('\0');
                write_path(path, &mut name);
            }
        }
        if dimensions.contains(&super::Dimension::Ip) {
            name.push('\0');
            pinned::optional(values.ipv4_prefix, &mut name);
            pinned::optional(values.ipv6_prefix, &mut name);
        }
        name
    }

    /// Whether what it counts may be one count with what another policy counts, where that is for other requests. Windows
    /// just add up; but a bucket has one size and one rate, is soft or not, and a quota has one midnight.
    pub(crate) fn can_share_a_count(&self, other: &Self) -> bool {
        let is_soft = |policy: &Self| policy.values.mode == Some(PolicyMode::On(Mode::Soft));
        let named = |policy: &Self| (policy.values.counter.clone(), policy.values.unit.clone());
        let rule = self.rule();
        match rule.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                rule == other.rule() && is_soft(self) == is_soft(other) && named(self) == named(other)
            }
            Algorithm::Quota(_) => self.zone() == other.zone() && named(self) == named(other),
            Algorithm::FixedWindow(_) | Algorithm::SlidingLog | Algorithm::SlidingCounter => true,
        }
    }

    /// Whose midnight its quota resets at.
    pub(crate) fn zone(&self) -> Zone {
        self.values.zone.clone().unwrap_or(Zone::Fixed(TimeZone::UTC))
    }

    /// The numbers of its limit.
    pub(crate) fn rule(&self) -> Rule {
        let values = &self.values;
        let window = values.window.unwrap_or(Window::Length(1));
        let limit = values.limit.unwrap_or(0);
        Rule::new(values.algorithm(), limit, values.burst, window.nanos())
    }

    /// A document of what names its count and what is left of it, to be read as a policy again.
    pub(crate) fn count_document(&self) -> Value {
        let values = &self.values;
        let conditions = self.descriptors.iter().map(|wanted| {
            let rest = if wanted.prefix { "*" } else { "" };
            (wanted.name.clone(), json!(format!("{}{rest}", wanted.value)))
        });
        json!({
            "id": self.id,
            "scope": self.scope.to_string(),
            "endpointPattern": self.pattern.to_string(),
            "requiredScope": self.required_scope,
            "match": conditions.collect::<serde_json::Map<_, _>>(),
            "descriptor": self.path.as_ref().map(super::DescriptorPath::written),
            "algorithm": values.algorithm_name(),
            "limit": values.limit,
            "burst": values.burst,
            "window": values.window.map(|window| window.to_string()),
            "anchor": match values.algorithm() {
                Algorithm::FixedWindow(Anchor::Epoch) => Some("epoch"),
                Algorithm::FixedWindow(Anchor::First) => Some("first"),
                _ => None,
            },
            "timezone": values.zone.as_ref().and_then(|zone| match zone {
                Zone::Org => Some("org"),
                Zone::Fixed(zone) => zone.iana_name(),
            }),
            "counter": values.counter,
            "unit": values.unit,
            "ipv4Prefix": values.ipv4_prefix,
            "ipv6Prefix": values.ipv6_prefix,
        })
    }
}

// What stands below is part of names that are fixed for ever (`pinned`), whatever types and fields are called by now.

fn written(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::TokenBucket => "TokenBucket",
        Algorithm::LeakyBucket => "LeakyBucket",
        Algorithm::FixedWindow(Anchor::Epoch) => "FixedWindow(Epoch)",
        Algorithm::FixedWindow(Anchor::First) => "FixedWindow(First)",
        Algorithm::SlidingLog => "SlidingLog",
        Algorithm::SlidingCounter => "SlidingCounter",
        Algorithm::Quota(Period::Day) => "Quota(Day)",
        Algorithm::Quota(Period::Week) => "Quota(Week)",
        Algorithm::Quota(Period::Month) => "Quota(Month)",
        Algorithm::Quota(Period::BillingMonth) => "Quota(BillingMonth)",
    }
}

fn write_descriptors(descriptors: &[Descriptor], name: &mut String) {
    pinned::listed(['[', ']'], descriptors, name, |wanted, name| {
        name.push_str("Descriptor { name: ");
        quoted(&wanted.name, name);
        name.push_str(", value: ");
        quoted(&wanted.value, name);
        let _ = write!(name, ", prefix: {} }}", wanted.prefix);
    });
}

fn write_path(path: &DescriptorPath, name: &mut String) {
    name.push_str("DescriptorPath { domain: ");
    quoted(&path.domain, name);
    name.push_str(", entries: ");
    pinned::listed(['[', ']'], &path.entries, name, |entry, name| {
        name.push_str("DescriptorEntry { key: ");
        quoted(&entry.key, name);
        name.push_str(", value: ");
        match &entry.value {
            Some(value) => {
                name.push_str("Some(");
                quoted(value, name);
                name.push(')');
            }
            None => name.push_str("None"),
        }
        name.push_str(" }");
    });
    name.push_str(" }");
}
