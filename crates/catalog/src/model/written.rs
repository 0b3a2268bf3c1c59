//! Policies, overrides and orgs as somebody would write them: a document that reads as the same again.

use std::fmt::Display;

use serde_json::{Map, Value};
use tollgate_core::BillingAnchor;

use super::org::Org;
use super::overrides::{Override, Who};
use super::policy::{Policy, Values, Zone};
use super::window::Window;

impl Policy {
    /// The document. Whom it is for and how it counts is said even where that was left out.
    pub fn written(&self) -> Map<String, Value> {
        let conditions = self.descriptors.iter();
        let conditions: Map<_, _> = conditions
            .map(|one| (one.name.clone(), one.to_string().into()))
            .collect();
        Document::default()
            .text("id", &self.id)
            .text("orgTier", self.tier.as_deref().unwrap_or("*"))
            .text("scope", &self.scope)
            .text("endpointPattern", &self.pattern)
            .may("requiredScope", self.required_scope.clone())
            .may("match", (!conditions.is_empty()).then_some(conditions))
            .may(
                "descriptor",
                self.path.as_ref().map(super::DescriptorPath::written),
            )
            .may(
                "replaces",
                (!self.replaces.is_empty()).then(|| self.replaces.clone()),
            )
            .may("quotaMode", self.quota_mode.then_some(true))
            .values(&self.values)
            .text("algorithm", self.values.algorithm_name())
            .0
    }
}

impl Override {
    /// The document.
    pub fn written(&self) -> Map<String, Value> {
        let document = Document::default().text("orgId", &self.org);
        let document = match &self.who {
            Who::Org => document,
            Who::App(id) => document.text("appId", id),
            Who::User(id) => document.text("userId", id),
            Who::Key(id) => document.text("keyId", id),
        };
        document
            .may("policyId", self.policy.clone())
            .may_text("scope", self.scope.as_ref())
            .may_text("endpointPattern", self.pattern.as_ref())
            .may("requiredScope", self.required_scope.clone())
            .values(&self.values)
            .may_text("expiresAt", self.expires.map(tollgate_core::calendar::to_jiff))
            .may("reason", self.reason.clone())
            .0
    }
}

impl Org {
    /// The document. Tier and zone are said even where they were left out.
    pub fn written(&self) -> Map<String, Value> {
        let anchor = match self.anchor {
            BillingAnchor::First => None,
            BillingAnchor::Date(date) => Some(date.to_string()),
            BillingAnchor::Instant(at) => Some(at.to_string()),
        };
        Document::default()
            .text("orgId", &self.id)
            .text("tier", &self.tier)
            .text("timezone", Zone::Fixed(self.zone.clone()))
            .may("billingAnchor", anchor)
            .0
    }
}

#[derive(Default)]
struct Document(Map<String, Value>);

impl Document {
    fn may(mut self, name: &str, value: Option<impl Into<Value>>) -> Self {
        if let Some(value) = value {
            self.0.insert(name.to_owned(), value.into());
        }
        self
    }

    fn may_text(self, name: &str, value: Option<impl Display>) -> Self {
        self.may(name, value.map(|value| value.to_string()))
    }

    fn text(self, name: &str, value: impl Display) -> Self {
        self.may_text(name, Some(value))
    }

    fn values(self, values: &Values) -> Self {
        self.may("algorithm", values.algorithm)
            .may("limit", values.limit)
            .may("burst", values.burst)
            .may_text("window", values.window)
            .may_text("anchor", values.anchor.map(super::policy::anchor_name))
            .may_text("timezone", values.zone.as_ref())
            .may("counter", values.counter.clone())
            .may("unit", values.unit.clone())
            .may_text("failMode", values.fail_mode)
            .may_text("mode", values.mode)
            .may_text("accuracy", values.accuracy)
            .may_text("resetJitter", values.reset_jitter_ns.map(Window::Length))
            .may("expose", values.expose)
            .may("ipv4Prefix", values.ipv4_prefix)
            .may("ipv6Prefix", values.ipv6_prefix)
    }
}
