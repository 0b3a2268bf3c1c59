//! `tollgate completions`.

use std::process::ExitCode;

use super::Outcome;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

#[expect(clippy::unnecessary_wraps, reason = "every command ends the same way")]
pub(crate) fn run(args: &Args) -> Outcome {
    clap_complete::generate(
        args.shell,
        &mut super::definition(),
        "tollgate",
        &mut std::io::stdout(),
    );
    Ok(ExitCode::SUCCESS)
}
