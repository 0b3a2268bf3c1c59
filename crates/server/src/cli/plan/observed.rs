//! Limits proposed from recorded requests.
//!
//! For each key and app the sustained rate is the busiest minute's, and the burst what a bucket of that rate
//! needed at its fullest; for each org the quota is the busiest day's. All with headroom, so that a replay of
//! the same requests denies nothing.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use serde_json::json;
use tollgate_core::{MAX_LIMIT, Timestamp};

use super::super::recorded::Recording;
use super::super::table::Table;
use super::super::{HEADING, Outcome};
use crate::answer::{elapsed, grouped};

const MINUTE_NS: u64 = 60_000_000_000;
const DAY_NS: u64 = 86_400_000_000_000;

/// A factor in thousandths, at least 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Headroom(u64);

/// Reads a factor such as 1.5.
pub(super) fn read_headroom(text: &str) -> Result<Headroom, String> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let thousandths = (digits(whole) && digits(part) && part.len() <= 3).then(|| {
        let part = format!("{part:0<3}").parse::<u64>().ok()?;
        whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(part)
    });
    match thousandths.flatten() {
        Some(thousandths @ 1000..=1_000_000) => Ok(Headroom(thousandths)),
        _ => Err("must be a factor from 1 to 1000 with up to three decimals, such as 1.5".to_owned()),
    }
}

impl Headroom {
    fn over(self, observed: u64) -> u64 {
        let raised = (u128::from(observed) * u128::from(self.0)).div_ceil(1000);
        u64::try_from(raised).unwrap_or(MAX_LIMIT).clamp(1, MAX_LIMIT)
    }
}

#[derive(Clone, Copy)]
struct Event {
    at: u64,
    cost: u64,
}

#[derive(Default)]
struct Observed {
    /// Who of an org, and what came from them.
    callers: HashMap<(String, String), Vec<Event>>,
}

impl Observed {
    fn add(&mut self, org: Option<&str>, id: Option<&str>, event: Event) {
        if let Some(id) = id {
            let caller = (org.unwrap_or_default().to_owned(), id.to_owned());
            self.callers.entry(caller).or_default().push(event);
        }
    }

    /// The most that any caller used in one aligned window.
    fn busiest(&self, window: u64) -> u64 {
        let busiest = self.callers.values().map(|events| {
            let (mut most, mut sum, mut current) = (0, 0_u64, None);
            for event in events {
                let window = event.at / window;
                if current != Some(window) {
                    (current, sum) = (Some(window), 0);
                }
                sum = sum.saturating_add(event.cost);
                most = most.max(sum);
            }
            most
        });
        busiest.max().unwrap_or(0)
    }

    /// The burst that a bucket of this many tokens a minute needs to let every caller through, rounded up.
    fn burst(&self, per_minute: u64) -> u64 {
        let window = u128::from(MINUTE_NS);
        let deepest = self.callers.values().map(|events| {
            let (mut debt, mut deepest, mut last) = (0_u128, 0_u128, 0);
            for event in events {
                let drained = u128::from(per_minute) * u128::from(event.at - last);
                debt = debt.saturating_sub(drained) + u128::from(event.cost) * window;
                deepest = deepest.max(debt);
                last = event.at;
            }
            deepest
        });
        u64::try_from(deepest.max().unwrap_or(0).div_ceil(window)).unwrap_or(MAX_LIMIT)
    }
}

struct Proposal {
    id: &'static str,
    scope: &'static str,
    callers: usize,
    observed: u64,
    limit: u64,
    burst: Option<u64>,
    window: &'static str,
}

pub(super) fn run(path: &Path, headroom: Headroom, as_json: bool) -> Outcome {
    let (mut orgs, mut apps, mut keys, mut users) = (
        Observed::default(),
        Observed::default(),
        Observed::default(),
        Observed::default(),
    );
    let mut span: Option<(Timestamp, Timestamp)> = None;
    let requests = Recording::open(path)?.each(|body, at| {
        let request = body.request(None, at).map_err(|error| error.to_string())?;
        let event = Event {
            at: at.nanos(),
            cost: request.cost.min(MAX_LIMIT),
        };
        orgs.add(None, request.org, event);
        apps.add(request.org, request.app, event);
        keys.add(request.org, request.key, event);
        users.add(request.org, request.user, event);
        span = Some((span.map_or(at, |(first, _)| first), at));
        Ok(())
    })?;
    let Some((first, last)) = span else {
        return Err(format!("{}: holds no requests", path.display()).into());
    };
    let mut proposals = Vec::new();
    for (id, scope, observed) in [
        ("app-rate", "app", &apps),
        ("key-rate", "key", &keys),
        ("user-rate", "user", &users),
    ] {
        if observed.callers.is_empty() {
            continue;
        }
        let busiest = observed.busiest(MINUTE_NS);
        let limit = headroom.over(busiest);
        proposals.push(Proposal {
            id,
            scope,
            callers: observed.callers.len(),
            observed: busiest,
            limit,
            burst: Some(headroom.over(observed.burst(limit))),
            window: "1m",
        });
    }
    if !orgs.callers.is_empty() {
        let busiest = orgs.busiest(DAY_NS);
        proposals.insert(
            0,
            Proposal {
                id: "org-day",
                scope: "org",
                callers: orgs.callers.len(),
                observed: busiest,
                limit: headroom.over(busiest),
                burst: None,
                window: "day",
            },
        );
    }
    let covered = first.until_nanos(last.nanos());
    if as_json {
        writeln!(io::stdout(), "{}", to_json(requests, covered, &proposals))?;
    } else {
        print(&mut anstream::stderr(), requests, covered, &proposals)?;
        write_policies(&mut io::stdout().lock(), requests, &proposals)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(out: &mut impl Write, requests: u64, covered: u128, proposals: &[Proposal]) -> io::Result<()> {
    writeln!(
        out,
        "{HEADING}{} requests{HEADING:#} over {}",
        grouped(requests),
        elapsed(covered)
    )?;
    if covered < u128::from(DAY_NS) {
        writeln!(
            out,
            "less than a day was recorded: take the daily quota as a lower bound"
        )?;
    }
    let mut table = Table::new(&["POLICY", ">CALLERS", ">BUSIEST", ">LIMIT", ">BURST", "WINDOW"]);
    for proposal in proposals {
        table.row(vec![
            proposal.id.to_owned(),
            grouped(proposal.callers as u64),
            grouped(proposal.observed),
            grouped(proposal.limit),
            proposal.burst.map_or_else(String::new, grouped),
            proposal.window.to_owned(),
        ]);
    }
    write!(out, "\n{table}\n")
}

fn write_policies(out: &mut impl Write, requests: u64, proposals: &[Proposal]) -> io::Result<()> {
    writeln!(out, "# Proposed from {requests} recorded requests.\npolicies:")?;
    for Proposal {
        id,
        scope,
        limit,
        burst,
        window,
        ..
    } in proposals
    {
        let algorithm = if burst.is_some() { "token_bucket" } else { "quota" };
        let burst = burst.map_or_else(String::new, |burst| format!(", burst: {burst}"));
        writeln!(
            out,
            "  - {{id: {id}, scope: {scope}, algorithm: {algorithm}, limit: {limit}{burst}, window: {window}}}"
        )?;
    }
    Ok(())
}

fn to_json(requests: u64, covered: u128, proposals: &[Proposal]) -> serde_json::Value {
    let policies: Vec<_> = proposals
        .iter()
        .map(|proposal| {
            json!({
                "id": proposal.id, "scope": proposal.scope, "callers": proposal.callers, "busiest": proposal.observed,
                "algorithm": if proposal.burst.is_some() { "token_bucket" } else { "quota" },
                "limit": proposal.limit, "burst": proposal.burst, "window": proposal.window,
            })
        })
        .collect();
    json!({
        "requests": requests,
        "coveredMs": u64::try_from(covered / 1_000_000).unwrap_or(u64::MAX),
        "policies": policies,
    })
}
