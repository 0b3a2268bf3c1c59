//! From a domain and descriptors to requests.

use tollgate_catalog::model::{Dimension, Policy, Scope, Values, Window, check_id};
use tollgate_catalog::route::Endpoint;
use tollgate_catalog::snapshot::{Limit, Snapshot};
use tollgate_catalog::{MAX_COST, Request, RequestError};
use tollgate_core::Timestamp;
use tollgate_counters::Commit;

use super::asked::{Asked, Descriptor};
use super::{UNITS, pb};
use crate::answer::Problem;
use crate::data_plane::DataPlane;
use crate::engine::{Checked, Part, Resumed, Together, Undecided};

/// The most that one question may have: what is decided as one is decided under one lock.
const MAX_DESCRIPTORS: usize = 100;
pub(crate) const MAX_ENTRIES: usize = 32;
/// The longest value of an entry. It may be a path or a token, which ids may not.
const MAX_VALUE_BYTES: usize = 8192;
/// What the domain is called among a request's descriptors.
const DOMAIN: &str = "domain";

/// A question that was read.
#[derive(Debug)]
pub(crate) struct Question<'r> {
    /// What takes, in order.
    takes: Vec<Part<'r>>,
    /// What gives back, in order.
    gives: Vec<Part<'r>>,
    /// Of each descriptor whether it gives back.
    pub(super) kinds: Vec<Kind>,
}

/// Why a question can't be decided.
pub(crate) enum Unread {
    /// It is none.
    Question(Problem),
    /// A descriptor has a value that can't be what it is named after. Most values are a client's own: an error would have
    /// Envoy let the client through that Tollgate seems not to be there for.
    Value(usize, Problem),
}

impl From<Problem> for Unread {
    fn from(problem: Problem) -> Self {
        Self::Question(problem)
    }
}

/// What was decided.
pub(crate) struct Decided<'s> {
    /// On what takes.
    pub(super) taken: Together<'s>,
    /// On each that gives back, as far as that is known.
    pub(super) given: Vec<Option<Together<'s>>>,
}

/// What a descriptor is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Takes,
    Gives,
}

impl Decided<'_> {
    /// Whether the request may go on.
    pub(crate) fn is_allowed(&self) -> bool {
        self.taken.checked.decision.allowed
    }
}

impl<'r> Question<'r> {
    /// Reads a question. The error says what is wrong with it.
    pub(crate) fn read(request: &Asked<'r>, snapshot: &Snapshot) -> Result<Self, Unread> {
        let descriptors = &request.descriptors;
        if request.domain.is_empty() {
            return Err(Problem::bad_request("The domain must not be empty.").into());
        }
        bounded("domain", request.domain)?;
        if descriptors.is_empty() {
            return Err(Problem::bad_request("There must be at least one descriptor.").into());
        }
        if descriptors.len() > MAX_DESCRIPTORS {
            return Err(Problem::bad_request(format!(
                "There must be at most {MAX_DESCRIPTORS} descriptors, not {}.",
                descriptors.len()
            ))
            .into());
        }
        let mut question = Self {
            takes: Vec::with_capacity(descriptors.len()),
            gives: Vec::new(),
            kinds: Vec::with_capacity(descriptors.len()),
        };
        for (index, descriptor) in descriptors.iter().enumerate() {
            let placed = |problem: Problem| {
                let detail = format!("descriptors[{index}]: {}", problem.detail);
                Problem { detail, ..problem }
            };
            check_form(descriptor).map_err(placed)?;
            let part = read_part(request, descriptor, snapshot);
            let part = part.map_err(|problem| Unread::Value(index, placed(problem)));
            if descriptor.is_negative_hits {
                question.kinds.push(Kind::Gives);
                question.gives.push(part?);
            } else {
                question.kinds.push(Kind::Takes);
                question.takes.push(part?);
            }
        }
        Ok(question)
    }

    /// Decides it, perhaps after it had to wait for the shared store.
    pub(crate) fn decide<'s>(
        &'s self,
        plane: &DataPlane,
        snapshot: &'s Snapshot,
        now: Timestamp,
        heard: Option<Resumed>,
    ) -> Result<Decided<'s>, (usize, Undecided)> {
        if heard.is_none() {
            self.ask_leave(plane, now).map_err(|undecided| (0, undecided))?;
        }
        let started = std::time::Instant::now();
        let together = plane
            .engine
            .check_together(snapshot, &self.takes, Commit::Charge, now, heard)?;
        Ok(self.decided(plane, snapshot, together, started.elapsed()))
    }

    /// Decides it, and waits for the shared store if that must be.
    pub(crate) async fn decide_in_time<'s>(
        &'s self,
        plane: &DataPlane,
        snapshot: &'s Snapshot,
        now: Timestamp,
    ) -> Result<Decided<'s>, Undecided> {
        self.ask_leave(plane, now)?;
        let started = std::time::Instant::now();
        let together = plane
            .engine
            .check_together_in_time(snapshot, &self.takes, Commit::Charge, now)
            .await?;
        Ok(self.decided(plane, snapshot, together, started.elapsed()))
    }

    /// Whether the orgs that are named may ask; each is counted once.
    fn ask_leave(&self, plane: &DataPlane, now: Timestamp) -> Result<(), Undecided> {
        if plane.org_cap.is_none() {
            return Ok(());
        }
        let orgs = self.takes.iter().map(|part| part.request.org);
        for (index, org) in orgs.clone().enumerate() {
            if !orgs.clone().take(index).any(|before| before == org) {
                plane.ask_leave(org, now)?;
            }
        }
        Ok(())
    }

    /// Adds the question to what the orgs used that it names: one request of each, which costs as much as the descriptor
    /// that costs most, since a counter that several descriptors meet is charged once. What is given back is none.
    fn tally(&self, plane: &DataPlane, snapshot: &Snapshot, checked: &Checked<'_>) {
        if plane.engine.ledger.get().is_none() {
            return;
        }
        let requests = || self.takes.iter().map(|part| &part.request);
        for (index, first) in requests().enumerate() {
            if first.org.is_none() || requests().take(index).any(|before| before.org == first.org) {
                continue;
            }
            let of_org = || requests().filter(|request| request.org == first.org);
            let named = of_org().find(|request| request.app.is_some()).unwrap_or(first);
            let request = Request {
                cost: of_org().map(|request| request.cost).max().unwrap_or(0),
                ..named.clone()
            };
            plane.tally(checked, &request, snapshot);
        }
    }

    fn decided<'s>(
        &'s self,
        plane: &DataPlane,
        snapshot: &'s Snapshot,
        taken: Together<'s>,
        took: std::time::Duration,
    ) -> Decided<'s> {
        plane.metrics.observe_decision(&taken.checked, took);
        self.tally(plane, snapshot, &taken.checked);
        // Who is refused changes nothing, not even by what it gives back.
        let commit = if taken.checked.decision.allowed {
            Commit::Charge
        } else {
            Commit::DryRun
        };
        let now = taken.checked.now;
        let give = |part| plane.engine.give_back(snapshot, part, now, commit);
        Decided {
            given: self.gives.iter().map(give).collect(),
            taken,
        }
    }
}

/// What is wrong with a descriptor whatever its values are.
fn check_form(descriptor: &Descriptor<'_>) -> Result<(), Problem> {
    if descriptor.entries.is_empty() {
        return Err(Problem::bad_request("it has no entries."));
    }
    if descriptor.entries.len() > MAX_ENTRIES {
        return Err(Problem::bad_request(format!(
            "it has more than {MAX_ENTRIES} entries."
        )));
    }
    for (key, _) in &descriptor.entries {
        check_id(key).map_err(|problem| bad(&RequestError::new("key", problem)))?;
    }
    let unit = descriptor.limit.map(|limit| limit.unit);
    if unit.is_some_and(|unit| !UNITS.iter().any(|(known, _)| *known as i32 == unit)) {
        return Err(Problem::bad_request("its limit has no unit that is known."));
    }
    Ok(())
}

fn read_part<'r>(
    request: &Asked<'r>,
    descriptor: &Descriptor<'r>,
    snapshot: &Snapshot,
) -> Result<Part<'r>, Problem> {
    let mut check = read_entries(request.domain, descriptor.entries.iter().copied())?;
    let hits = descriptor
        .hits_addend
        .unwrap_or(request.hits_addend.max(1).into());
    let cost = check.cost.saturating_mul(hits);
    // Of what is given back nothing beyond what was used goes back anyway.
    let checked = if descriptor.is_negative_hits {
        Ok(cost.min(MAX_COST))
    } else {
        Request::checked_cost("cost", cost)
    };
    check.cost = checked.map_err(|error| {
        let message = format!("times the hits {}", error.message);
        bad(&RequestError { message, ..error })
    })?;
    let own = match descriptor.limit {
        Some(limit) => Some(Box::new(own_limit(limit, &check, snapshot)?)),
        None => None,
    };
    Ok(Part { request: check, own })
}

/// The request that a descriptor's entries are of.
pub(crate) fn read_entries<'r>(
    domain: &'r str,
    entries: impl Iterator<Item = (&'r str, &'r str)>,
) -> Result<Request<'r>, Problem> {
    let mut check = Request {
        is_descriptor: true,
        ..Request::new()
    };
    check.descriptors.push((DOMAIN, domain));
    for (key, value) in entries {
        read_entry(key, value, &mut check)?;
    }
    Ok(check)
}

/// Takes an entry for what it is named after, and besides for a descriptor.
fn read_entry<'r>(key: &'r str, value: &'r str, check: &mut Request<'r>) -> Result<(), Problem> {
    check_id(key).map_err(|problem| bad(&RequestError::new("key", problem)))?;
    // A path may have a long query, which is no part of it.
    if key != "endpoint" {
        bounded("value", value)?;
    }
    check.descriptors.push((key, value));
    // An entry that says nothing names nobody.
    if value.is_empty() {
        return Ok(());
    }
    match key {
        "org" => check.org = id("org", value)?,
        "app" => check.app = id("app", value)?,
        "key" => check.key = id("key", value)?,
        "user" => check.user = id("user", value)?,
        "ip" => check.ip = Some(Request::address(value).map_err(|error| bad(&error))?),
        // Elsewhere these are names like any other: what is no path, or no number, is only a descriptor.
        "endpoint" if value.contains('/') => {
            check.endpoint = Some(Endpoint::parse(value).map_err(|error| bad(&error.into()))?);
        }
        "endpoint" => bounded("value", value)?,
        "cost" if is_number(value) => {
            let cost = value.parse().unwrap_or(u64::MAX);
            check.cost = Request::checked_cost("cost", cost).map_err(|error| bad(&error))?;
        }
        _ => {}
    }
    Ok(())
}

/// Whether a value is a whole number, however large.
fn is_number(value: &str) -> bool {
    let digits = value.strip_prefix('+').unwrap_or(value);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn id<'r>(field: &'static str, value: &'r str) -> Result<Option<&'r str>, Problem> {
    Request::id(field, Some(value)).map_err(|error| bad(&error))
}

pub(crate) fn bounded(field: &'static str, value: &str) -> Result<(), Problem> {
    if value.len() > MAX_VALUE_BYTES {
        return Err(bad(&RequestError::new(field, "is longer than 8192 bytes")));
    }
    Ok(())
}

fn bad(error: &RequestError) -> Problem {
    Problem::bad_request(format!("{error}."))
}

/// The limit that a descriptor brings: so many in each unit since the epoch, counted by all of its entries.
fn own_limit(
    given: pb::RateLimitOverride,
    request: &Request<'_>,
    snapshot: &Snapshot,
) -> Result<Limit, Problem> {
    let unit = UNITS.iter().find(|(unit, _)| *unit as i32 == given.unit);
    let Some((_, window_ns)) = unit else {
        return Err(Problem::bad_request("its limit has no unit that is known."));
    };
    let mut scope = Scope::of(Dimension::Descriptor(DOMAIN.to_owned()));
    for (index, (key, _)) in request.descriptors.iter().enumerate().skip(1) {
        let before = request.descriptors[..index].iter();
        scope = scope.with(Dimension::Descriptor(
            match before.filter(|(other, _)| other == key).count() {
                0 => (*key).to_owned(),
                repeated => format!("{key}#{}", repeated + 1),
            },
        ));
    }
    Ok(snapshot.limit_of(&Policy {
        scope,
        values: Values {
            algorithm: Some("fixed_window"),
            limit: Some(given.requests_per_unit.into()),
            window: Some(Window::Length(*window_ns)),
            ..Values::default()
        },
        ..Policy::named("override")
    }))
}
