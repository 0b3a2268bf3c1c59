//! `tollgate check`.

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::{Value, json};

use super::identity::Identity;
use super::table::Table;
use super::trust::Trust;
use super::{ERROR, GOOD, Outcome, http_client};
use crate::answer::{duration, grouped};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The server to ask
    #[arg(
        long,
        env = "TOLLGATE_SERVER",
        default_value = "http://127.0.0.1:8080",
        value_name = "URL"
    )]
    server: String,
    #[command(flatten)]
    trust: Trust,
    /// The token that the server's data plane asks for; of several, the first is sent
    #[arg(
        long,
        env = "TOLLGATE_DATA_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true
    )]
    data_token: Option<String>,
    #[command(flatten)]
    identity: Identity,
    /// Answer as a real check would, and charge nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the server's answer as it is
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut body = args.identity.body()?;
    if args.dry_run {
        body.insert("dryRun".to_owned(), json!(true));
    }
    // The server's own setting may hold the next token too.
    let token = args.data_token.as_deref().and_then(|list| list.split(',').next());
    let credential = token.map(|token| ("x-tollgate-token", token.trim().to_owned()));
    let body = Value::Object(body);
    let answer = http_client::post(&args.server, &args.trust, "/v1/check", credential, &body)?;
    if !matches!(answer.status, 200 | 429) {
        let detail = answer.json["detail"].as_str().unwrap_or("no reason given");
        return Err(format!("the server answered {}: {detail}", answer.status).into());
    }
    if args.json {
        let mut out = io::stdout();
        out.write_all(&answer.body)?;
        writeln!(out)?;
    } else {
        print(&mut anstream::stdout(), &answer.json)?;
    }
    Ok(if answer.json["allowed"] == json!(true) {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    })
}

fn print(out: &mut impl Write, answer: &Value) -> io::Result<()> {
    if answer["allowed"] == json!(true) {
        write!(out, "{GOOD}allowed{GOOD:#}")?;
        if let Some(remaining) = answer["remaining"].as_u64() {
            write!(out, ", {} left", grouped(remaining))?;
        }
        writeln!(out)?;
        if let Some(delay) = answer["delayMs"].as_u64().filter(|delay| *delay > 0) {
            writeln!(out, "hold it back for {delay} ms")?;
        }
    } else {
        writeln!(
            out,
            "{ERROR}denied{ERROR:#}: {}",
            answer["message"].as_str().unwrap_or_default()
        )?;
    }
    let mut table = Table::new(&["POLICY", "SCOPE", ">LIMIT", ">LEFT", "RESETS IN", "MODE", ""]);
    for limit in answer["limits"].as_array().into_iter().flatten() {
        let text = |name: &str| limit[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| {
            limit[name]
                .as_u64()
                .map_or_else(|| limit[name].to_string(), grouped)
        };
        let reset = limit["resetMs"].as_u64().unwrap_or(u64::MAX);
        table.row(vec![
            text("policyId"),
            text("scope"),
            number("limit"),
            number("remaining"),
            duration(u128::from(reset) * 1_000_000),
            text("mode"),
            if limit["violated"] == json!(true) {
                "no room".to_owned()
            } else {
                String::new()
            },
        ]);
    }
    if table.is_empty() {
        writeln!(out, "no policy applies")
    } else {
        write!(out, "\n{table}")
    }
}
