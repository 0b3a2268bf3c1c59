//! `tollgate plan`: sizing without running anything.

mod fading;
mod flow;
mod lasting;
mod observed;
mod workload;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::KeySeed;

use super::table::Table;
use super::warned::print_warnings;
use super::{HEADING, Outcome, WARNING};
use crate::answer::{elapsed, grouped};
use crate::clock;
use crate::policies::{self, PolicyFileError};
use crate::warnings::{self, NO_LIMIT_APPLIES, Warning};
use workload::{Forecast, Workload};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The policy file [default: the demonstration set]
    #[arg(long, env = "TOLLGATE_POLICIES", value_name = "FILE")]
    policies: Option<PathBuf>,
    /// Plan for this org
    #[arg(long, value_name = "ID", conflicts_with = "tier")]
    org: Option<String>,
    /// Plan for an org of this tier
    #[arg(long, value_name = "NAME")]
    tier: Option<String>,
    /// How many apps of the org work at once
    #[arg(long, default_value_t = 1, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    apps: u64,
    /// How many keys each app uses
    #[arg(long, default_value_t = 1, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    keys: u64,
    /// Requests a second of each app [default: as many as the app's own limits admit]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    rate: Option<u64>,
    /// Hours a day that the workload lasts
    #[arg(long, default_value_t = 24, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=24))]
    hours: u64,
    /// Propose limits from these recorded requests instead; `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["org", "tier", "apps", "keys", "rate", "hours"])]
    from_requests: Option<PathBuf>,
    /// How much more than was observed the proposed limits admit
    #[arg(long, requires = "from_requests", default_value = "1.5", value_name = "FACTOR", value_parser = observed::read_headroom)]
    headroom: observed::Headroom,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    if let Some(requests) = &args.from_requests {
        return observed::run(requests, args.headroom, args.json);
    }
    let set = policies::load(args.policies.as_deref()).map_err(|error| error.to_string())?;
    let snapshot = Snapshot::compile(&set, KeySeed::new(0, 0), None).map_err(|problems| {
        PolicyFileError::Invalid(args.policies.clone().unwrap_or_default(), problems).to_string()
    })?;
    let tier = match &args.tier {
        None => snapshot.tier_of(args.org.as_deref()),
        Some(name) => {
            let names: Vec<&str> = snapshot.tiers().iter().map(|tier| &*tier.name).collect();
            snapshot
                .tier(name)
                .ok_or_else(|| format!("--tier: there is no tier `{name}`, only {}", names.join(", ")))?
        }
    };
    let limits = snapshot.limits_for_org(args.org.as_deref(), tier, clock::now());
    let workload = Workload {
        apps: args.apps,
        keys: args.keys,
        rate: args.rate,
        hours: args.hours,
    };
    let forecast = Forecast::of(&limits, workload);
    let warnings = warnings::of_request(&limits);
    if args.json {
        let mut plan = forecast.json();
        plan["warnings"] = warnings.iter().map(Warning::to_string).collect();
        writeln!(io::stdout(), "{plan}")?;
    } else {
        let mut out = anstream::stdout();
        print(&mut out, &tier.name, workload, &forecast)?;
        print_warnings(&mut out, warnings.iter())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(out: &mut impl Write, tier: &str, workload: Workload, forecast: &Forecast) -> io::Result<()> {
    let Workload { apps, hours, .. } = workload;
    let flow = match apps {
        1 => format!("1 app at {}/s", forecast.per_app.shown()),
        apps => format!(
            "{} apps at {}/s each make {}/s",
            grouped(apps),
            forecast.per_app.shown(),
            forecast.total.shown()
        ),
    };
    writeln!(out, "{HEADING}tier {tier}{HEADING:#}: {flow}, {hours} h a day")?;
    if forecast.lines.is_empty() {
        return writeln!(out, "{WARNING}{NO_LIMIT_APPLIES}{WARNING:#}");
    }
    let mut table = Table::new(&[
        "POLICY",
        "SCOPE",
        ">LIMIT",
        "WINDOW",
        ">OFFERED/S",
        "RUNS OUT AFTER",
        ">NEEDED",
    ]);
    for line in &forecast.lines {
        table.row(vec![
            line.policy.clone(),
            line.scope.clone(),
            grouped(line.limit),
            line.window.clone(),
            line.offered.shown(),
            line.runs_out.map_or_else(|| "never".to_owned(), elapsed),
            line.needed.map_or_else(|| "none".to_owned(), grouped),
        ]);
    }
    write!(out, "\n{table}\n")?;
    match forecast.first() {
        None => writeln!(out, "nothing binds: every limit carries this workload")?,
        Some(first) => {
            let after = first.runs_out.unwrap_or(0);
            let seconds = match u64::try_from(after / 1_000_000_000).unwrap_or(u64::MAX) {
                0..60 => String::new(),
                seconds => format!(" ({} s)", grouped(seconds)),
            };
            writeln!(
                out,
                "{WARNING}{}{WARNING:#} binds first, after {}{seconds}",
                first.policy,
                elapsed(after)
            )?;
        }
    }
    for line in forecast.lines.iter().filter(|line| line.runs_out.is_some()) {
        match line.needed {
            Some(needed) => writeln!(
                out,
                "{} would carry this workload with {} in {}",
                line.policy,
                grouped(needed),
                line.window
            )?,
            None => writeln!(
                out,
                "{} carries this workload with no limit that it may have (at most {})",
                line.policy,
                grouped(line.most)
            )?,
        }
    }
    Ok(())
}

impl Forecast {
    fn json(&self) -> serde_json::Value {
        let lines: Vec<_> = self
            .lines
            .iter()
            .map(|line| {
                json!({
                    "policyId": line.policy, "scope": line.scope, "limit": line.limit, "window": line.window,
                    "offeredPerSecond": line.offered.number(), "needed": line.needed,
                    "carriedByNone": line.needed.is_none(),
                    "runsOutAfterMs": line.runs_out.map(|after| u64::try_from(after / 1_000_000).unwrap_or(u64::MAX)),
                })
            })
            .collect();
        json!({
            "perAppPerSecond": self.per_app.number(),
            "totalPerSecond": self.total.number(),
            "limits": lines,
            "bindsFirst": self.first().map(|line| &line.policy),
        })
    }
}
