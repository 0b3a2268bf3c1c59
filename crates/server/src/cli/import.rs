//! `tollgate import`: another limiter's configuration as a policy file.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};
use tollgate_catalog::document::Problems;
use tollgate_catalog::foreign::{ForeignFile, Imported, Unread, read_envoy, read_limitador};

use super::{ERROR, Outcome, WARNING, neat_yaml};
use crate::policies;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Whose configuration it is
    #[arg(value_enum)]
    from: Limiter,
    /// Its files, or directories of them
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Exit with 0 although limits could not be carried over
    #[arg(long)]
    allow_dropped: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The exit code if a limit could not be carried over: what is printed lets more through than what was read.
const DROPPED: u8 = 3;

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Limiter {
    /// envoyproxy/ratelimit
    Envoy,
    /// Limitador
    Limitador,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut texts = Vec::new();
    for path in &args.files {
        texts.extend(policies::read_texts(path).map_err(|error| error.to_string())?);
    }
    let files: Vec<ForeignFile<'_>> = texts
        .iter()
        .map(|(name, text)| ForeignFile { name, text })
        .collect();
    let imported = match args.from {
        Limiter::Envoy => read_envoy(&files),
        Limiter::Limitador => read_limitador(&files),
    };
    match imported {
        Ok(imported) => {
            let imported = imported.counted_by_id();
            print(args, &imported)?;
            Ok(match imported.dropped {
                1.. if !args.allow_dropped => ExitCode::from(DROPPED),
                _ => ExitCode::SUCCESS,
            })
        }
        Err(Unread(files)) => {
            if args.json {
                let problems = listed(&files);
                let report = json!({
                    "policies": [], "notCarriedOver": [], "dropped": 0, "problems": problems,
                });
                writeln!(io::stdout(), "{report}")?;
            } else {
                for line in lines(&files) {
                    writeln!(anstream::stderr(), "{ERROR}error:{ERROR:#} {line}")?;
                }
            }
            Ok(ExitCode::from(1))
        }
    }
}

fn print(args: &Args, imported: &Imported) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let policies = &imported.policies;
    if args.json {
        let documents: Vec<Value> = policies
            .iter()
            .map(|policy| Value::from(policy.written()))
            .collect();
        let notes = listed(&imported.notes);
        let report = json!({
            "policies": documents, "notCarriedOver": notes, "dropped": imported.dropped, "problems": [],
        });
        return writeln!(out, "{report}");
    }
    let none = if policies.is_empty() { " []" } else { "" };
    writeln!(out, "policies:{none}")?;
    for policy in policies {
        write!(out, "{}", neat_yaml::item(policy))?;
    }
    let mut err = anstream::stderr();
    for line in lines(&imported.notes) {
        writeln!(err, "{WARNING}not carried over:{WARNING:#} {line}")?;
    }
    if imported.dropped > 0 {
        let of = policies.len() + imported.dropped;
        let accepted = if args.allow_dropped {
            ""
        } else {
            "; --allow-dropped accepts that"
        };
        writeln!(
            err,
            "{ERROR}dropped:{ERROR:#} {} of {of} limits{accepted}",
            imported.dropped
        )?;
    }
    Ok(())
}

fn listed(files: &[(String, Problems)]) -> Vec<Value> {
    let all = files.iter().flat_map(|(name, problems)| {
        let problems = problems.0.iter();
        problems.map(move |problem| {
            json!({"file": name, "line": problem.line, "field": problem.field, "message": problem.message})
        })
    });
    all.collect()
}

fn lines(files: &[(String, Problems)]) -> impl Iterator<Item = String> {
    files.iter().flat_map(|(name, problems)| {
        let problems = problems.0.iter();
        problems.map(move |problem| {
            let field = if problem.field.is_empty() {
                String::new()
            } else {
                format!("{}: ", problem.field)
            };
            format!("{name}:{}: {field}{}", problem.line, problem.message)
        })
    })
}
