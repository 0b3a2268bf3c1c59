//! `tollgate simulate`: recorded requests on virtual time, decided by the very engine that serves live ones.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};
use tollgate_core::{KeySeed, Mode, Timestamp};
use tollgate_counters::Commit;

use super::recorded::Recording;
use super::table::Table;
use super::{HEADING, Outcome, WARNING};
use crate::answer::{elapsed, grouped, rfc3339, write_decision};
use crate::check_body::{At, CheckBody};
use crate::engine::{Checked, Engine};
use crate::policies::{self, PolicyFileError};
use crate::warnings::NO_LIMIT_APPLIES;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The policy file
    #[arg(long, env = "TOLLGATE_POLICIES", value_name = "FILE")]
    policies: PathBuf,
    /// The recorded requests, one JSON object a line; `-` for standard input
    #[arg(long, value_name = "FILE")]
    requests: PathBuf,
    /// Replay this policy file beside the first and report what would change
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// Print only the summary
    #[arg(long)]
    summary_only: bool,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let engine = engine(&args.policies)?;
    let other = args.compare.as_deref().map(self::engine).transpose()?;
    let recording = Recording::open(&args.requests)?;
    let mut out = Lines::default();
    let mut summary = Summary::default();
    let mut changes = Changes::default();
    let snapshot = engine.snapshot();
    let other = other.as_ref().map(|other| (other, other.snapshot()));
    let replayed = recording.each(|body, at| {
        let request = body.request(None, at).map_err(|error| error.to_string())?;
        let commit = if body.dry_run() {
            Commit::DryRun
        } else {
            Commit::Charge
        };
        let mut checked = Checked::blank(&snapshot, at);
        engine
            .check_into(&snapshot, &request, commit, &mut checked)
            .map_err(|full| full.to_string())?;
        summary.take(request.org, &checked);
        if let Some((other, snapshot)) = &other {
            let compared = other
                .check(snapshot, &request, commit, at)
                .map_err(|full| full.to_string())?;
            changes.take(request.org, &checked, &compared);
        }
        if args.summary_only {
            return Ok(());
        }
        Ok(out.add(body, &checked)?)
    });
    // What was decided before a line that is wrong is told, too.
    out.flush()?;
    replayed?;
    let changes = args.compare.is_some().then_some(changes);
    if args.json {
        writeln!(io::stderr(), "{}", summary.json(changes.as_ref()))?;
    } else {
        let mut out = anstream::stderr();
        summary.print(&mut out)?;
        if let Some(changes) = changes {
            changes.print(&mut out)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn engine(path: &Path) -> Result<Engine, String> {
    let set = policies::read_file(path).map_err(|error| error.to_string())?;
    // The same seed each time: a replay gives the same answers.
    Engine::new(&set, KeySeed::new(0, 0), usize::MAX, false)
        .map_err(|problems| PolicyFileError::Invalid(path.to_owned(), problems).to_string())
}

/// Decisions on their way to standard output.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    /// So many bytes are written at once.
    const MANY: usize = 1 << 18;

    fn add(&mut self, body: &CheckBody<'_>, checked: &Checked<'_>) -> io::Result<()> {
        let Self(lines) = self;
        lines.extend_from_slice(b"{\"at\":");
        match body.at() {
            Some(At::Millis(millis)) => {
                lines.extend_from_slice(itoa::Buffer::new().format(*millis).as_bytes());
            }
            Some(At::Rfc3339(text)) => {
                // A time that could be read has no characters to escape.
                lines.push(b'"');
                lines.extend_from_slice(text.as_bytes());
                lines.push(b'"');
            }
            None => lines.extend_from_slice(b"null"),
        }
        lines.push(b',');
        write_decision(checked, lines);
        lines.extend_from_slice(b"}\n");
        if lines.len() >= Self::MANY {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let written = out.write_all(&self.0).and_then(|()| out.flush());
        self.0.clear();
        written
    }
}

#[derive(Default, Clone, Copy)]
struct Count {
    allowed: u64,
    denied: u64,
}

#[derive(Default)]
struct Denials {
    scope: String,
    denied: u64,
    would_deny: u64,
    first: Timestamp,
}

#[derive(Default)]
struct Summary {
    total: Count,
    began: Option<Timestamp>,
    ended: Timestamp,
    orgs: HashMap<Box<str>, Count>,
    policies: HashMap<Box<str>, Denials>,
    /// Requests that no limit applied to.
    unlimited: u64,
    first_bound: Option<(Box<str>, Timestamp)>,
}

impl Summary {
    fn take(&mut self, org: Option<&str>, checked: &Checked<'_>) {
        self.began.get_or_insert(checked.now);
        self.ended = checked.now;
        let org = org.unwrap_or("(none)");
        let count = match self.orgs.get_mut(org) {
            Some(count) => count,
            None => self.orgs.entry(org.into()).or_default(),
        };
        for count in [count, &mut self.total] {
            if checked.decision.allowed {
                count.allowed += 1;
            } else {
                count.denied += 1;
            }
        }
        self.unlimited += u64::from(checked.stack.levels.is_empty());
        for (place, outcome) in checked.decision.outcomes.iter().enumerate() {
            if outcome.fits {
                continue;
            }
            let limit = checked.stack.limits[place];
            let binding = checked.decision.binding == Some(place);
            if !binding && checked.stack.levels[place].mode == Mode::Enforce {
                continue;
            }
            let denials = match self.policies.get_mut(&limit.id) {
                Some(denials) => denials,
                None => self.policies.entry(limit.id.clone()).or_insert_with(|| Denials {
                    scope: limit.scope_name.to_string(),
                    first: checked.now,
                    ..Denials::default()
                }),
            };
            if binding {
                denials.denied += 1;
                self.first_bound
                    .get_or_insert_with(|| (limit.id.clone(), checked.now));
            } else {
                denials.would_deny += 1;
            }
        }
    }

    fn scopes(&self) -> BTreeMap<&str, u64> {
        let mut scopes = BTreeMap::new();
        for denials in self.policies.values() {
            *scopes.entry(denials.scope.as_str()).or_default() += denials.denied;
        }
        scopes
    }

    fn after(&self, at: Timestamp) -> u128 {
        self.began.unwrap_or_default().until_nanos(at.nanos())
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let Count { allowed, denied } = self.total;
        writeln!(
            out,
            "{HEADING}{} requests{HEADING:#} over {}: {} allowed, {} denied",
            grouped(allowed + denied),
            elapsed(self.after(self.ended)),
            grouped(allowed),
            grouped(denied)
        )?;
        match &self.first_bound {
            Some((policy, at)) => writeln!(
                out,
                "{policy} binds first, after {} (at {})",
                elapsed(self.after(*at)),
                shown(*at)
            )?,
            None if self.unlimited > 0 && self.unlimited == allowed => writeln!(
                out,
                "{WARNING}{NO_LIMIT_APPLIES}{WARNING:#} to any of these requests"
            )?,
            None => writeln!(out, "no limit binds")?,
        }
        self.print_orgs(out)?;
        self.print_policies(out)
    }

    fn print_orgs(&self, out: &mut impl Write) -> io::Result<()> {
        let mut table = Table::new(&["ORG", ">ALLOWED", ">DENIED"]);
        let mut orgs: Vec<_> = self.orgs.iter().collect();
        orgs.sort_by_key(|(org, count)| (std::cmp::Reverse(count.denied), *org));
        let more = orgs.len().saturating_sub(MOST_ROWS);
        for (org, count) in orgs.into_iter().take(MOST_ROWS) {
            table.row(vec![
                org.to_string(),
                grouped(count.allowed),
                grouped(count.denied),
            ]);
        }
        write!(out, "\n{table}")?;
        if more > 0 {
            writeln!(out, "and {} more orgs", grouped(more as u64))?;
        }
        Ok(())
    }

    fn print_policies(&self, out: &mut impl Write) -> io::Result<()> {
        let mut table = Table::new(&["POLICY", "SCOPE", ">DENIED", ">WOULD HAVE DENIED", "FIRST AFTER"]);
        for (policy, denials) in self.by_policy() {
            table.row(vec![
                policy.to_owned(),
                denials.scope.clone(),
                grouped(denials.denied),
                grouped(denials.would_deny),
                elapsed(self.after(denials.first)),
            ]);
        }
        if !table.is_empty() {
            write!(out, "\n{table}")?;
        }
        Ok(())
    }

    fn by_policy(&self) -> Vec<(&str, &Denials)> {
        let mut policies: Vec<_> = self
            .policies
            .iter()
            .map(|(id, denials)| (&**id, denials))
            .collect();
        policies.sort_by_key(|(id, denials)| (std::cmp::Reverse(denials.denied), *id));
        policies
    }

    fn json(&self, changes: Option<&Changes>) -> Value {
        let orgs: BTreeMap<_, _> = self
            .orgs
            .iter()
            .map(|(org, count)| (org, json!({"allowed": count.allowed, "denied": count.denied})))
            .collect();
        let policies: BTreeMap<_, _> = self
            .by_policy()
            .into_iter()
            .map(|(id, denials)| {
                let first = denials.first.millis();
                let numbers = json!({"scope": denials.scope, "denied": denials.denied, "wouldHaveDenied": denials.would_deny, "firstAt": first});
                (id, numbers)
            })
            .collect();
        let bound = self.first_bound.as_ref().map(|(policy, at)| {
            json!({"policyId": policy, "at": at.millis(), "afterMs": u64::try_from(self.after(*at) / 1_000_000).unwrap_or(u64::MAX)})
        });
        json!({
            "requests": self.total.allowed + self.total.denied,
            "allowed": self.total.allowed,
            "denied": self.total.denied,
            "unlimited": self.unlimited,
            "orgs": orgs,
            "policies": policies,
            "scopes": self.scopes(),
            "bindsFirst": bound,
            "changes": changes.map(Changes::json),
        })
    }
}

/// Orgs and changes listed one by one; the rest are counted.
const MOST_ROWS: usize = 20;

/// What another policy file would decide otherwise.
#[derive(Default)]
struct Changes {
    newly_denied: BTreeMap<(String, String), u64>,
    newly_allowed: BTreeMap<(String, String), u64>,
}

impl Changes {
    fn take(&mut self, org: Option<&str>, first: &Checked<'_>, second: &Checked<'_>) {
        let (policy, list) = match (first.decision.allowed, second.decision.allowed) {
            (true, false) => (second.binding_id(), &mut self.newly_denied),
            (false, true) => (first.binding_id(), &mut self.newly_allowed),
            _ => return,
        };
        let key = (
            org.unwrap_or("(none)").to_owned(),
            policy.unwrap_or_default().to_owned(),
        );
        *list.entry(key).or_default() += 1;
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let sum = |list: &BTreeMap<_, u64>| grouped(list.values().sum());
        writeln!(
            out,
            "\n{HEADING}With the other file{HEADING:#}: {} more denied, {} more allowed",
            sum(&self.newly_denied),
            sum(&self.newly_allowed)
        )?;
        let denied = self.newly_denied.iter().map(|change| ("newly denied", change));
        let allowed = self.newly_allowed.iter().map(|change| ("newly allowed", change));
        let mut rows: Vec<_> = denied.chain(allowed).collect();
        // A stable sort: those with as many requests stay in the order of their names.
        rows.sort_by_key(|(_, (_, count))| std::cmp::Reverse(**count));
        let more = rows.len().saturating_sub(MOST_ROWS);
        let mut table = Table::new(&["CHANGE", "ORG", "POLICY", ">REQUESTS"]);
        for (change, ((org, policy), count)) in rows.into_iter().take(MOST_ROWS) {
            table.row(vec![
                change.to_owned(),
                org.clone(),
                policy.clone(),
                grouped(*count),
            ]);
        }
        if !table.is_empty() {
            write!(out, "\n{table}")?;
        }
        if more > 0 {
            writeln!(out, "and {} more", grouped(more as u64))?;
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let list = |list: &BTreeMap<(String, String), u64>| -> Vec<Value> {
            list.iter()
                .map(|((org, policy), count)| json!({"org": org, "policyId": policy, "requests": count}))
                .collect()
        };
        json!({"newlyDenied": list(&self.newly_denied), "newlyAllowed": list(&self.newly_allowed)})
    }
}

fn shown(at: Timestamp) -> String {
    let mut text = Vec::new();
    rfc3339(at, 0, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}
