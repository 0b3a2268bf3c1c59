//! The command line. Each command is a file; an error is one clear sentence on standard error.

mod check;
mod completions;
mod explain;
mod failure;
mod http_client;
mod identity;
mod import;
mod log_filter;
mod neat_yaml;
mod openapi;
mod plan;
mod recorded;
mod simulate;
mod table;
mod trust;
mod validate;
mod warned;

use std::io::Write;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use clap::builder::Styles;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::serve::serve;
use crate::settings::{Flags, Settings};
use failure::Failure;

/// A rate limiter that decides on a request's whole stack of limits at once, all or none
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, styles = styles(), max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the service
    Serve(Box<Flags>),
    /// Ask a running server for one decision; exits 0 if allowed, 1 if denied
    Check(check::Args),
    /// Show which policies apply to a request, which don't and why, and which one binds
    Explain(explain::Args),
    /// Check a policy file and say every problem with line and field
    Validate(validate::Args),
    /// Replay recorded requests against a policy file on virtual time
    Simulate(simulate::Args),
    /// Say which limit binds first, when a cap runs out, and what a workload needs
    Plan(plan::Args),
    /// Print another limiter's configuration as a policy file, and what of it could not be carried over
    Import(import::Args),
    /// Print the OpenAPI document of the control plane
    Openapi,
    /// Print a shell's completion script
    Completions(completions::Args),
}

/// How a command ended.
type Outcome = Result<ExitCode, Failure>;

/// Runs the program.
pub fn run() -> ExitCode {
    let outcome = match read() {
        Ok((command, matches)) => perform(command, &matches),
        Err(error) => show(&error),
    };
    // What a command has left in the buffer is its output, too.
    let outcome = outcome.and_then(|code| Ok(std::io::stdout().flush().map(|()| code)?));
    outcome.unwrap_or_else(Failure::report)
}

/// The command, and where each of its settings came from.
fn read() -> Result<(Command, ArgMatches), clap::Error> {
    let matches = Cli::command().try_get_matches()?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut Cli::command()))?;
    Ok((cli.command, matches))
}

fn perform(command: Command, matches: &ArgMatches) -> Outcome {
    match command {
        Command::Serve(flags) => run_server(*flags),
        Command::Check(args) => check::run(&args),
        Command::Explain(args) => explain::run(&args, matches.subcommand_matches("explain")),
        Command::Validate(args) => validate::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Openapi => openapi::run(),
        Command::Completions(args) => completions::run(&args),
    }
}

/// Shows what clap has to say: what is wrong with the flags, or the help that was asked for.
fn show(error: &clap::Error) -> Outcome {
    error.print()?;
    Ok(if error.use_stderr() {
        ExitCode::from(2)
    } else {
        ExitCode::SUCCESS
    })
}

fn run_server(flags: Flags) -> Outcome {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(log_filter::from_environment()?)
        .init();
    serve(Settings::resolve(flags)?)?;
    Ok(ExitCode::SUCCESS)
}

/// How errors, good news and bad news look on a terminal; elsewhere anstream takes the colour away.
pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const HEADING: Style = Style::new().bold();

fn styles() -> Styles {
    Styles::styled()
        .header(HEADING)
        .usage(HEADING)
        .literal(GOOD)
        .error(ERROR)
}

/// The command line's definition, for completions.
pub(crate) fn definition() -> clap::Command {
    Cli::command()
}
