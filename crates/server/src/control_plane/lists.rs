//! Lists, page by page.

use std::collections::BTreeMap;

use serde_json::Value;
use tollgate_catalog::repository::{Entry, Kind, MAX_PAGE_BYTES, Page, Place};

use super::answer::{Answer, Answered, listed};
use super::ask::Ask;
use crate::catalogue::WriteError;

/// The place of an entry that is no org's.
pub(super) fn everywhere(kind: Kind, id: &str) -> Place {
    within("", kind, id)
}

/// The place of an org's entry.
pub(super) fn within(org: &str, kind: Kind, id: &str) -> Place {
    Place {
        kind,
        org: org.to_owned(),
        id: id.to_owned(),
    }
}

impl Ask {
    /// What is shown of an entry, with why it has no effect on this node if it has none.
    pub(super) fn with_standing(&self, entry: &Entry, mut shown: Value) -> Value {
        if let Some(why) = self.plane.catalogue.left_out().why(&entry.place) {
            shown["leftOut"] = Value::from(why);
        }
        shown
    }

    /// An entry as it is shown, with why it has no effect on this node if it has none.
    pub(super) fn shows(&self, entry: &Entry, shown: Value) -> Answer {
        Answer::entry(entry, self.with_standing(entry, shown))
    }
}

/// A page of entries, and among them what the policy file says, which hides an entry of the same id.
pub(super) async fn list(
    ask: &Ask,
    kind: Kind,
    org: &str,
    of_file: BTreeMap<String, Value>,
    show: impl Fn(&Entry) -> Value,
) -> Answered {
    list_seen(ask, kind, org, of_file, |entry| Some(show(entry))).await
}

/// The same without entries that are not shown. A page may have fewer for that, or none, and go on.
pub(super) async fn list_seen(
    ask: &Ask,
    kind: Kind,
    org: &str,
    of_file: BTreeMap<String, Value>,
    show: impl Fn(&Entry) -> Option<Value>,
) -> Answered {
    let (after, limit) = ask.page()?;
    let repository = ask.plane.catalogue.repository();
    let Page { rows, more } = repository
        .list_page(kind, org, after, limit)
        .await
        .map_err(WriteError::from)?;
    // What comes after the last that was read is for the next page.
    let end = rows.last().filter(|_| more).map(|entry| entry.place.id.clone());
    let mut all: BTreeMap<String, Value> = rows
        .iter()
        .filter_map(|entry| {
            let shown = ask.with_standing(entry, show(entry)?);
            Some((entry.place.id.clone(), shown))
        })
        .collect();
    let later = of_file.into_iter().filter(|(id, _)| {
        let within = end.as_ref().is_none_or(|end| id <= end);
        id.as_str() > after && within
    });
    all.extend(later);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let full = all.len() > limit;
    let page: Vec<(String, Value)> = all.into_iter().take(limit).collect();
    let next = match page.last() {
        Some((id, _)) if full => Some(id.clone()),
        _ => end,
    };
    Ok(listed(page.into_iter().map(|(_, value)| value).collect(), next))
}

/// A page of an org's tokens, which are looked up: it costs what is on it, and says nothing of how many others have.
pub(super) async fn list_tokens(ask: &Ask, org: &str, show: impl Fn(&Entry) -> Value) -> Answered {
    let (after, limit) = ask.page()?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let tokens = ask.plane.catalogue.tokens();
    let mut ids = tokens.of_org(org, after);
    let wanted: Vec<&str> = ids.by_ref().take(limit).collect();
    let next = ids.next().and(wanted.last().map(|last| (*last).to_owned()));
    let entries = ask
        .plane
        .catalogue
        .repository()
        .some(Kind::Token, "", &wanted)
        .await;
    let entries = entries.map_err(WriteError::from)?;
    let shown = entries.iter().map(|entry| ask.with_standing(entry, show(entry)));
    Ok(listed(shown.collect(), next))
}

/// A page of those entries that are shown at all.
pub(super) async fn list_some(
    ask: &Ask,
    kind: Kind,
    org: &str,
    show: impl Fn(&Entry) -> Option<Value>,
) -> Answered {
    let (after, limit) = ask.page()?;
    let (mut after, mut items, mut bytes) = (after.to_owned(), Vec::new(), 0);
    loop {
        let repository = ask.plane.catalogue.repository();
        let page = repository.list_page(kind, org, &after, limit).await;
        let page = page.map_err(WriteError::from)?;
        for entry in &page.rows {
            if let Some(item) = show(entry) {
                items.push(ask.with_standing(entry, item));
                bytes += i64::try_from(entry.body.len()).unwrap_or(i64::MAX);
            }
            let full = i64::try_from(items.len()).unwrap_or(limit) >= limit || bytes >= MAX_PAGE_BYTES;
            if full {
                return Ok(listed(items, Some(entry.place.id.clone())));
            }
        }
        match page.rows.last() {
            Some(last) if page.more => after.clone_from(&last.place.id),
            _ => return Ok(listed(items, None)),
        }
    }
}
