//! `tollgate validate`.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use tollgate_catalog::document::Problems;
use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::KeySeed;

use super::{ERROR, GOOD, Outcome, WARNING};
use crate::fit::misfits;
use crate::policies::{self, PolicyFileError};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The policy file
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let compiled = policies::read_file(&args.file).and_then(|set| {
        let snapshot = Snapshot::compile(&set, KeySeed::new(0, 0), None);
        snapshot
            .map(|snapshot| (set, snapshot))
            .map_err(|problems| PolicyFileError::Invalid(args.file.clone(), problems))
    });
    match compiled {
        Err(PolicyFileError::Invalid(_, problems)) => {
            report(args, &problems);
            Ok(ExitCode::from(1))
        }
        Err(error) => Err(error.to_string()),
        Ok((set, snapshot)) => {
            let warnings: Vec<String> = snapshot
                .tiers()
                .iter()
                .flat_map(|tier| {
                    let limits: Vec<_> = snapshot.limits_of(tier).collect();
                    misfits(&limits, 1)
                        .into_iter()
                        .map(|misfit| format!("tier {}: {misfit}", tier.name))
                })
                .collect();
            if args.json {
                println!("{}", json!({"valid": true, "problems": [], "warnings": warnings}));
                return Ok(ExitCode::SUCCESS);
            }
            anstream::println!(
                "{GOOD}valid{GOOD:#}: {} tiers, {} orgs, {} policies, {} overrides",
                snapshot.tiers().len(),
                snapshot.org_count(),
                set.policies.len(),
                set.overrides.len()
            );
            for warning in warnings {
                anstream::println!("{WARNING}warning:{WARNING:#} {warning}");
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn report(args: &Args, problems: &Problems) {
    if args.json {
        let problems: Vec<_> = problems
            .0
            .iter()
            .map(|problem| json!({"line": problem.line, "field": problem.field, "message": problem.message}))
            .collect();
        println!(
            "{}",
            json!({"valid": false, "problems": problems, "warnings": []})
        );
        return;
    }
    for problem in &problems.0 {
        let place = format!("{}:{}", args.file.display(), problem.line);
        let field = if problem.field.is_empty() {
            String::new()
        } else {
            format!("{}: ", problem.field)
        };
        anstream::eprintln!("{place}: {ERROR}error:{ERROR:#} {field}{}", problem.message);
    }
    let count = problems.0.len();
    anstream::eprintln!(
        "{count} {} found; nothing of it would be applied",
        if count == 1 { "problem" } else { "problems" }
    );
}
