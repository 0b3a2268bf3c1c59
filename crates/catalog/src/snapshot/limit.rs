//! A policy ready to be resolved: its rule, its conditions, and the name its counters are kept under.

use std::sync::Arc;

use tollgate_core::{Algorithm, CounterKey, IdHash, KeySeed, Mode, Period, Rule};

use super::explain::Skip;
use super::ids::Ids;
use crate::model::{
    Accuracy, Descriptor, Dimension, FailMode, Override, Policy, PolicyMode, Scope, Window, Zone,
};
use crate::request::Request;
use crate::route::{Matches, Pattern};

/// Which routes a limit is for, by the numbers of the snapshot's routers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Routes {
    Any,
    Class(u32),
    Route(u32),
}

/// Where a limit's values came from.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The policy's line in its file; 0 where it has none.
    pub line: usize,
    /// The tier the policy is for; `None` for all.
    pub tier: Option<Box<str>>,
    /// The override that set some of them.
    pub overridden: Option<Arc<Override>>,
    /// The policy set it is of, if that is not the one that decides.
    pub other_set: Option<Box<OtherSet>>,
}

/// The set that a limit is of while a rollout is open and the other one decides.
#[derive(Debug, Clone)]
pub struct OtherSet {
    /// The policy's id there.
    pub policy: Box<str>,
    /// The rollout.
    pub rollout: Box<str>,
    /// Whether it is the candidate, or the active one.
    pub candidate: bool,
}

/// A compiled policy.
#[derive(Debug, Clone)]
pub struct Limit {
    /// The policy's id.
    pub id: Box<str>,
    /// What is counted together.
    pub scope: Scope,
    /// The scope as it is shown.
    pub scope_name: Box<str>,
    /// The numbers.
    pub rule: Rule,
    /// What it does; `None` if it is off.
    pub mode: Option<Mode>,
    /// The routes it is for.
    pub pattern: Pattern,
    /// The window.
    pub window: Window,
    /// Whose midnight a quota resets at.
    pub zone: Zone,
    /// What of the request it counts; `None` for its cost.
    pub unit: Option<Box<str>>,
    /// Whether clients may see it.
    pub expose: bool,
    /// What happens when a shared store is away.
    pub fail_mode: FailMode,
    /// How much may lie unused in a shared store's leases.
    pub accuracy: Accuracy,
    /// How far apart clients are told to come back.
    pub reset_jitter_ns: u64,
    /// Where its values came from.
    pub origin: Origin,
    pub(super) required_scope: Option<Box<str>>,
    pub(super) descriptors: Vec<Descriptor>,
    pub(super) routes: Routes,
    /// It is on, and for every route, permission and descriptor: nothing to look at but its dimensions.
    unconditional: bool,
    prefixes: (u8, u8),
    /// The dimensions in the order in which they make up a key.
    dimensions: Vec<Dimension>,
    /// The hash of all that makes its counts its own.
    pub(super) counter: IdHash,
}

impl Limit {
    pub(super) fn new(policy: &Policy, routes: Routes, seed: KeySeed) -> Self {
        let values = &policy.values;
        let algorithm = values.algorithm();
        let window = values.window.unwrap_or(Window::Length(1));
        let quota = matches!(algorithm, Algorithm::Quota(_));
        let mut dimensions = policy.scope.dimensions().to_vec();
        dimensions.sort();
        Self {
            id: policy.id.as_str().into(),
            scope_name: policy.scope.to_string().into(),
            rule: Rule::new(algorithm, values.limit.unwrap_or(0), values.burst, window.nanos()),
            mode: match values.mode {
                None => Some(Mode::Enforce),
                Some(PolicyMode::On(mode)) => Some(mode),
                Some(PolicyMode::Off) => None,
            },
            pattern: policy.pattern.clone(),
            window,
            zone: values
                .zone
                .clone()
                .unwrap_or(Zone::Fixed(jiff::tz::TimeZone::UTC)),
            unit: values.unit.as_deref().map(Into::into),
            expose: values
                .expose
                .unwrap_or(policy.scope.single() != Some(&Dimension::Global)),
            fail_mode: values
                .fail_mode
                .unwrap_or(if quota { FailMode::Closed } else { FailMode::Local }),
            accuracy: values.accuracy.unwrap_or(Accuracy::Within(500)),
            reset_jitter_ns: values.reset_jitter_ns.unwrap_or(0),
            origin: Origin {
                line: policy.line,
                tier: policy.tier.as_deref().map(Into::into),
                overridden: None,
                other_set: None,
            },
            required_scope: policy.required_scope.as_deref().map(Into::into),
            descriptors: policy.descriptors.clone(),
            routes,
            unconditional: values.mode != Some(PolicyMode::Off)
                && routes == Routes::Any
                && policy.required_scope.is_none()
                && policy.descriptors.is_empty(),
            prefixes: (values.ipv4_prefix.unwrap_or(32), values.ipv6_prefix.unwrap_or(64)),
            counter: seed.id(counter_name(policy, &dimensions).as_bytes()),
            dimensions,
            scope: policy.scope.clone(),
        }
    }

    /// Whether the limit applies, and if so to which counter.
    pub(super) fn applies(
        &self,
        request: &Request<'_>,
        ids: &mut Ids<'_, '_>,
        routes: &Matches,
        class: Option<u32>,
    ) -> Result<(CounterKey, u64), Skip> {
        if self.unconditional {
            return self.key(request, ids);
        }
        if self.mode.is_none() {
            return Err(Skip::Off);
        }
        match self.routes {
            Routes::Any => {}
            Routes::Class(wanted) if class == Some(wanted) => {}
            Routes::Route(wanted) if routes.contains(&wanted) => {}
            Routes::Class(_) | Routes::Route(_) => return Err(Skip::Endpoint),
        }
        if let Some(wanted) = &self.required_scope
            && !request.scopes.contains(&&**wanted)
        {
            return Err(Skip::RequiredScope);
        }
        for descriptor in &self.descriptors {
            let value = request.descriptor(&descriptor.name);
            let fits = |value: &str| {
                let rest = value.strip_prefix(descriptor.value.as_str());
                rest.is_some_and(|rest| descriptor.prefix || rest.is_empty())
            };
            if !value.is_some_and(fits) {
                return Err(Skip::Descriptor(descriptor.name.clone()));
            }
        }
        self.key(request, ids)
    }

    fn key(&self, request: &Request<'_>, ids: &mut Ids<'_, '_>) -> Result<(CounterKey, u64), Skip> {
        let mut key = CounterKey::new(self.counter);
        if let [dimension @ (Dimension::Org | Dimension::App | Dimension::Key | Dimension::User)] =
            self.dimensions.as_slice()
        {
            // The usual limits, without the loop.
            let Some(id) = ids.get(dimension, self.prefixes) else {
                return Err(Skip::Lacks(dimension.clone()));
            };
            if *dimension != Dimension::Org {
                key = key.and(ids.org);
            }
            return Ok((key.and(id), ids.org.short()));
        }
        let mut within_org = false;
        for dimension in &self.dimensions {
            match dimension {
                Dimension::Global => {}
                Dimension::Endpoint if request.endpoint.is_some() => {}
                Dimension::Endpoint => return Err(Skip::Lacks(Dimension::Endpoint)),
                dimension => {
                    let Some(id) = ids.get(dimension, self.prefixes) else {
                        return Err(Skip::Lacks(dimension.clone()));
                    };
                    if dimension.within_org() {
                        within_org = true;
                        if *dimension != Dimension::Org {
                            key = key.and(ids.org);
                        }
                    }
                    key = key.and(id);
                }
            }
        }
        let home = if within_org { ids.org.short() } else { key.home() };
        Ok((key, home))
    }

    /// Makes it refuse nothing, or does away with it.
    pub(super) fn shadow(&mut self, off: bool) {
        self.mode = (!off).then_some(Mode::Shadow);
        self.unconditional &= !off;
    }

    /// The id of the policy it comes from, of whichever set.
    pub fn policy_id(&self) -> &str {
        let other = self.origin.other_set.as_ref();
        other.map_or(&*self.id, |other| &*other.policy)
    }

    /// The kind of limit, as the 429's `limit_type` names it.
    pub fn limit_type(&self) -> &'static str {
        let endpoint = self.scope.single() == Some(&Dimension::Endpoint);
        let pair = match self.window {
            Window::Calendar(Period::Day) => ["daily_quota", "endpoint_daily_quota"],
            Window::Calendar(Period::Week) => ["weekly_quota", "endpoint_weekly_quota"],
            Window::Calendar(_) => ["monthly_quota", "endpoint_monthly_quota"],
            Window::Length(1_000_000_000) => ["per_second", "endpoint_per_second"],
            Window::Length(60_000_000_000) => ["per_minute", "endpoint_per_minute"],
            Window::Length(3_600_000_000_000) => ["per_hour", "endpoint_per_hour"],
            Window::Length(86_400_000_000_000) => ["per_day", "endpoint_per_day"],
            Window::Length(_) => ["window", "endpoint_window"],
        };
        pair[usize::from(endpoint)]
    }

    /// Whether it applies to every request that has its dimensions.
    pub fn is_unconditional(&self) -> bool {
        self.unconditional
    }

    /// Whether it counts users apart.
    pub(super) fn counts_users(&self) -> bool {
        self.dimensions.contains(&Dimension::User)
    }

    /// Whether it counts by calendar.
    pub fn is_quota(&self) -> bool {
        matches!(self.rule.algorithm, Algorithm::Quota(_))
    }
}

/// All that makes a limit's counts its own. Limit and burst are left out: a change of those keeps the count.
fn counter_name(policy: &Policy, dimensions: &[Dimension]) -> String {
    use std::fmt::Write;

    let values = &policy.values;
    let quota = values.algorithm_name() == "quota";
    // Long enough for most: it is made on the path of a request.
    let mut name = String::with_capacity(128);
    // Without a name of its own a quota is known by what it counts, so that a change of plan keeps it;
    // any other limit is known by its policy.
    let (kind, given, route) = match (&values.counter, quota) {
        (Some(counter), _) => ("counter ", counter.as_str(), None),
        (None, true) => ("quota", "", Some(&policy.pattern)),
        (None, false) => ("policy ", policy.id.as_str(), Some(&policy.pattern)),
    };
    // What is counted in other units is another count, whatever its name.
    let unit = values.unit.as_deref().unwrap_or_default();
    let _ = write!(name, "{kind}{given}\0{:?}\0", values.algorithm());
    if let Some(window) = values.window {
        let _ = write!(name, "{window}");
    }
    let _ = write!(name, "\0{unit}");
    for dimension in dimensions {
        let _ = write!(name, "\0{dimension}");
    }
    if let Some(route) = route {
        let scope = policy.required_scope.as_deref().unwrap_or_default();
        let _ = write!(name, "\0{route}\0{scope}\0{:?}", policy.descriptors);
    }
    if dimensions.contains(&Dimension::Ip) {
        let _ = write!(name, "\0{:?}{:?}", values.ipv4_prefix, values.ipv6_prefix);
    }
    name
}
