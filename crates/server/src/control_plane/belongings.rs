//! What goes with an entry that is deleted, since it can't be without it.

use std::collections::BTreeSet;

use tollgate_catalog::repository::{Entry, Kind, Repository};

use crate::answer::Problem;
use crate::catalogue::{KeyDocument, Tokens, WriteError};

/// How many entries are read at once.
const PAGE: i64 = 1_000;
/// How many tokens are asked for by their ids at once.
const TOKENS: usize = 1_000;

/// Whose belongings.
pub(super) enum Belongings<'a> {
    /// Of what has none.
    None,
    /// Of an app: its keys.
    OfApp {
        /// Its org.
        org: &'a str,
        /// The app.
        app: &'a str,
    },
    /// Of an org: all that is its own.
    OfOrg(&'a str),
    /// Of a token: those that it made, and those that these made.
    OfToken(&'a str),
}

impl Belongings<'_> {
    /// The entries that go.
    pub(super) async fn gone(&self, repository: &Repository, tokens: &Tokens) -> Result<Vec<Entry>, Problem> {
        let mut gone = Vec::new();
        match self {
            Self::None => {}
            Self::OfApp { org, app } => {
                take(repository, Kind::Key, org, &mut gone, |body| {
                    KeyDocument::read(body).is_some_and(|key| key.app == *app)
                })
                .await?;
            }
            Self::OfOrg(org) => {
                for kind in [Kind::Override, Kind::Key, Kind::App, Kind::User, Kind::Reset] {
                    take(repository, kind, org, &mut gone, |_| true).await?;
                }
                // Left behind, a token would open the next org of this name.
                let own: BTreeSet<String> = tokens.of_org(org, "").map(str::to_owned).collect();
                let made = tokens.descendants(own.iter().cloned());
                take_tokens(repository, own.union(&made), &mut gone).await?;
            }
            Self::OfToken(id) => {
                let mut made = tokens.descendants([(*id).to_owned()]);
                made.remove(*id);
                take_tokens(repository, made.iter(), &mut gone).await?;
            }
        }
        Ok(gone)
    }
}

async fn take(
    repository: &Repository,
    kind: Kind,
    org: &str,
    gone: &mut Vec<Entry>,
    belongs: impl Fn(&str) -> bool,
) -> Result<(), Problem> {
    let mut after = String::new();
    loop {
        let page = repository.list(kind, org, &after, PAGE).await;
        let page = page.map_err(WriteError::from)?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after.clone_from(&last.place.id);
        gone.extend(page.into_iter().filter(|entry| belongs(&entry.body)));
    }
}

async fn take_tokens<'i>(
    repository: &Repository,
    ids: impl Iterator<Item = &'i String>,
    gone: &mut Vec<Entry>,
) -> Result<(), Problem> {
    let ids: Vec<&str> = ids.map(String::as_str).collect();
    for some in ids.chunks(TOKENS) {
        let entries = repository.some(Kind::Token, "", some).await;
        gone.extend(entries.map_err(WriteError::from)?);
    }
    Ok(())
}
