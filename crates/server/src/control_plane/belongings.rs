//! What goes with an entry that is deleted, since it can't be without it.

use tollgate_catalog::repository::{Change, Kind, Repository};

use crate::answer::Problem;
use crate::catalogue::{KeyDocument, WriteError};

/// How many entries are read at once.
const PAGE: i64 = 1_000;

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
}

impl Belongings<'_> {
    /// What takes them away.
    pub(super) async fn gone(&self, repository: &Repository) -> Result<Vec<Change>, Problem> {
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
                let of_org = |body: &str| {
                    let token = serde_json::from_str::<serde_json::Value>(body);
                    token.is_ok_and(|token| token["orgId"] == **org)
                };
                take(repository, Kind::Token, "", &mut gone, of_org).await?;
            }
        }
        Ok(gone)
    }
}

async fn take(
    repository: &Repository,
    kind: Kind,
    org: &str,
    gone: &mut Vec<Change>,
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
        let own = page.into_iter().filter(|entry| belongs(&entry.body));
        gone.extend(own.map(|entry| Change {
            place: entry.place,
            body: None,
        }));
    }
}
