//! `tollgate explain`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ArgMatches;
use clap::parser::ValueSource;
use serde_json::Value;
use tollgate_core::KeySeed;

use super::identity::Identity;
use super::table::Table;
use super::trust::Trust;
use super::warned::print_warnings;
use super::{ERROR, GOOD, Outcome, WARNING, http_client};
use crate::answer::grouped;
use crate::check_body::CheckBody;
use crate::clock;
use crate::engine::Engine;
use crate::warnings::NO_LIMIT_APPLIES;
use crate::{explanation, policies};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    identity: Identity,
    /// Explain by this policy file, without a server and with untouched counters
    #[arg(long, env = "TOLLGATE_POLICIES", value_name = "FILE")]
    policies: Option<PathBuf>,
    /// The admin address of the server to ask
    #[arg(
        long,
        env = "TOLLGATE_ADMIN_URL",
        default_value = "http://127.0.0.1:8090",
        value_name = "URL"
    )]
    admin: String,
    #[command(flatten)]
    trust: Trust,
    /// The admin token [default: the one in DATA_DIR/admin-token]
    #[arg(
        long,
        env = "TOLLGATE_ADMIN_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true
    )]
    admin_token: Option<String>,
    /// Where the server keeps its admin token
    #[arg(
        long,
        env = "TOLLGATE_DATA_DIR",
        default_value = "./tollgate-data",
        value_name = "DIR"
    )]
    data_dir: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, matches: Option<&ArgMatches>) -> Outcome {
    let body = Value::Object(args.identity.body()?);
    let explained = match &args.policies {
        Some(path) if !is_for_a_server(matches) => by_file(path, &body)?,
        _ => by_server(args, &body)?,
    };
    if args.json {
        writeln!(io::stdout(), "{explained}")?;
    } else {
        print(&mut anstream::stdout(), &explained)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether flags say which server to ask, while a policy file is only in the environment.
fn is_for_a_server(matches: Option<&ArgMatches>) -> bool {
    let flag = |name: &str| {
        let source = matches.and_then(|matches| matches.value_source(name));
        source == Some(ValueSource::CommandLine)
    };
    let server = [
        "admin",
        "admin_token",
        "data_dir",
        "ca",
        "client_cert",
        "client_key",
    ];
    !flag("policies") && server.into_iter().any(flag)
}

fn by_file(path: &Path, body: &Value) -> Result<Value, String> {
    let set = policies::read_file(path).map_err(|error| error.to_string())?;
    let engine = Engine::new(&set, KeySeed::new(0, 0), usize::MAX, false)
        .map_err(|problems| policies::PolicyFileError::Invalid(path.to_owned(), problems).to_string())?;
    let text = body.to_string();
    let body: CheckBody<'_> = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let request = body
        .request(None, clock::now())
        .map_err(|error| error.to_string())?;
    let explained = explanation::explain(&engine, &engine.snapshot(), &request, clock::now());
    let explained = explained.map_err(|full| full.to_string())?;
    serde_json::to_value(explained).map_err(|error| error.to_string())
}

fn by_server(args: &Args, body: &Value) -> Result<Value, String> {
    let token = match &args.admin_token {
        Some(token) => token.clone(),
        None => {
            let path = args.data_dir.join("admin-token");
            let token = std::fs::read_to_string(&path);
            token.map(|token| token.trim().to_owned()).map_err(|error| {
                format!("no admin token: {}: {error}; give --admin-token, or --policies FILE to explain without a server", path.display())
            })?
        }
    };
    let credential = Some(("authorization", format!("Bearer {token}")));
    let path = "/v1/ratelimit/explain";
    let answer = http_client::post(&args.admin, &args.trust, path, credential, body)?;
    if answer.status != 200 {
        return Err(format!(
            "the server answered {}: {}",
            answer.status,
            answer.json["detail"].as_str().unwrap_or_default()
        ));
    }
    Ok(answer.json)
}

fn print(out: &mut impl Write, explained: &Value) -> io::Result<()> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    writeln!(out, "tier {}", text(&explained["tier"]))?;
    let rollout = &explained["rollout"];
    if let (Some(set), Some(id)) = (rollout["set"].as_str(), rollout["id"].as_str()) {
        writeln!(
            out,
            "decided by the {set} set of the rollout {id} ({} %)",
            rollout["percent"]
        )?;
    }
    if let Some(endpoint) = explained["endpoint"].as_str() {
        let class = explained["class"]
            .as_str()
            .map_or_else(String::new, |class| format!(", class {class}"));
        writeln!(out, "endpoint {endpoint}{class}")?;
    }
    let verdict = if explained["allowed"] == Value::Bool(true) {
        format!("{GOOD}would be allowed{GOOD:#}")
    } else {
        format!("{ERROR}would be denied{ERROR:#}")
    };
    match explained["binds"].as_str() {
        Some(binds) => writeln!(out, "{verdict}; {binds} binds")?,
        None if explained["applied"].as_array().is_none_or(Vec::is_empty) => {
            writeln!(out, "{verdict}; {WARNING}{NO_LIMIT_APPLIES}{WARNING:#}")?;
        }
        None => writeln!(out, "{verdict}; no enforced limit applies")?,
    }
    let mut table = Table::new(&[
        "APPLIES",
        "SCOPE",
        "MODE",
        "ALGORITHM",
        ">LIMIT",
        ">BURST",
        "WINDOW",
        ">LEFT",
        "FROM",
    ]);
    for applied in explained["applied"].as_array().into_iter().flatten() {
        let number = |name: &str| applied[name].as_u64().map_or_else(String::new, grouped);
        table.row(vec![
            text(&applied["policyId"]),
            text(&applied["scope"]),
            text(&applied["mode"]),
            text(&applied["algorithm"]),
            number("limit"),
            number("burst"),
            text(&applied["window"]),
            number("remaining"),
            text(&applied["from"]),
        ]);
    }
    if !table.is_empty() {
        write!(out, "\n{table}")?;
    }
    let mut table = Table::new(&["SKIPPED", "WHY"]);
    for skipped in explained["skipped"].as_array().into_iter().flatten() {
        table.row(vec![text(&skipped["policyId"]), text(&skipped["reason"])]);
    }
    if !table.is_empty() {
        write!(out, "\n{table}")?;
    }
    let warnings = explained["warnings"].as_array().into_iter().flatten();
    print_warnings(out, warnings.map(text))
}
