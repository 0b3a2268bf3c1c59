//! `tollgate validate`.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;
use tollgate_catalog::document::Problems;
use tollgate_catalog::foreign::Unread;
use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::KeySeed;

use super::{ERROR, GOOD, Outcome, WARNING};
use crate::clock;
use crate::data_plane::{RequiredIdentity, UnknownIdentity};
use crate::policies::{self, PolicyFileError};
use crate::warnings::{self, Warning};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The policy file
    file: PathBuf,
    /// Don't warn of what is valid and almost surely a mistake
    #[arg(long)]
    no_warnings: bool,
    /// The server's setting: requests that it refuses need no limit
    #[arg(
        long,
        env = "TOLLGATE_REQUIRE_IDENTITY",
        default_value = "none",
        value_name = "none|org|key",
        value_parser = read_identity
    )]
    require_identity: RequiredIdentity,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Lines of warnings that are printed; JSON has all of them.
const MAX_WARNINGS: usize = 50;

fn read_identity(name: &str) -> Result<RequiredIdentity, UnknownIdentity> {
    name.parse()
}

pub(crate) fn run(args: &Args) -> Outcome {
    let compiled = policies::read_file(&args.file).and_then(|set| {
        let snapshot = Snapshot::compile(&set, KeySeed::new(0, 0), None);
        snapshot
            .map(|snapshot| (set, snapshot))
            .map_err(|problems| PolicyFileError::Invalid(args.file.clone(), problems))
    });
    match compiled {
        Err(error) => {
            report(args, &problems_of(error)?)?;
            Ok(ExitCode::from(1))
        }
        Ok((set, snapshot)) => {
            let warnings = if args.no_warnings {
                Vec::new()
            } else {
                warnings::of_set(&set, &snapshot, args.require_identity, clock::now())
            };
            if args.json {
                let warnings: Vec<String> = warnings.iter().map(Warning::to_string).collect();
                let report = json!({"valid": true, "problems": [], "warnings": warnings});
                writeln!(io::stdout(), "{report}")?;
                return Ok(ExitCode::SUCCESS);
            }
            let mut out = anstream::stdout();
            writeln!(
                out,
                "{GOOD}valid{GOOD:#}: {} tiers, {} orgs, {} policies, {} overrides",
                snapshot.tiers().len(),
                snapshot.org_count(),
                set.policies.len(),
                set.overrides.len()
            )?;
            for warning in warnings.iter().take(MAX_WARNINGS) {
                writeln!(out, "{WARNING}warning:{WARNING:#} {warning}")?;
            }
            if let Some(more) = warnings.len().checked_sub(MAX_WARNINGS).filter(|more| *more > 0) {
                writeln!(out, "and {more} more warnings; --json has all")?;
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// What is wrong with which file; an error if that can't be told, because it can't be read.
fn problems_of(error: PolicyFileError) -> Result<Vec<(String, Problems)>, String> {
    match error {
        PolicyFileError::Invalid(path, problems) => Ok(vec![(path.display().to_string(), problems)]),
        PolicyFileError::Foreign(Unread(files)) => Ok(files),
        PolicyFileError::Unreadable(path, error) if error.kind() == ErrorKind::InvalidData => {
            let mut problems = Problems::default();
            problems.add(line_of_no_text(&path), "", "is not UTF-8");
            Ok(vec![(path.display().to_string(), problems)])
        }
        error @ PolicyFileError::Unreadable(..) => Err(error.to_string()),
    }
}

/// The first line of a file that is not UTF-8.
fn line_of_no_text(path: &Path) -> usize {
    let bytes = std::fs::read(path).unwrap_or_default();
    let text = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    1 + text.bytes().filter(|byte| *byte == b'\n').count()
}

fn report(args: &Args, files: &[(String, Problems)]) -> io::Result<()> {
    let problems = files
        .iter()
        .flat_map(|(file, problems)| problems.0.iter().map(move |problem| (file, problem)));
    if args.json {
        let problems: Vec<_> = problems
            .map(|(file, problem)| {
                json!({"file": file, "line": problem.line, "field": problem.field, "message": problem.message})
            })
            .collect();
        let report = json!({"valid": false, "problems": problems, "warnings": []});
        return writeln!(io::stdout(), "{report}");
    }
    let mut out = anstream::stderr();
    let mut count = 0;
    for (file, problem) in problems {
        count += 1;
        let field = if problem.field.is_empty() {
            String::new()
        } else {
            format!("{}: ", problem.field)
        };
        let place = format!("{file}:{}", problem.line);
        writeln!(out, "{place}: {ERROR}error:{ERROR:#} {field}{}", problem.message)?;
    }
    writeln!(
        out,
        "{count} {} found; nothing of it would be applied",
        if count == 1 { "problem" } else { "problems" }
    )
}
