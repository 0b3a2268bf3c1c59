//! `tollgate openapi`.

use std::io::Write;
use std::process::ExitCode;

use super::Outcome;
use crate::control_plane::openapi_document;

pub(crate) fn run() -> Outcome {
    let document = serde_json::to_string_pretty(&openapi_document());
    let document = document.map_err(|error| format!("the document can't be written: {error}"))?;
    writeln!(std::io::stdout(), "{document}")?;
    Ok(ExitCode::SUCCESS)
}
