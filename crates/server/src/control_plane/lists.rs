//! Lists, page by page.

use std::collections::BTreeMap;

use serde_json::Value;
use tollgate_catalog::repository::{Entry, Kind, Place};

use super::answer::{Answered, listed};
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

/// A page of entries, and among them what the policy file says, which hides an entry of the same id.
pub(super) async fn list(
    ask: &Ask,
    kind: Kind,
    org: &str,
    of_file: BTreeMap<String, Value>,
    show: impl Fn(&Entry) -> Value,
) -> Answered {
    let (after, limit) = ask.page()?;
    let repository = ask.plane.catalogue.repository();
    let entries = repository
        .list(kind, org, after, limit)
        .await
        .map_err(WriteError::from)?;
    let mut all: BTreeMap<String, Value> = entries
        .iter()
        .map(|entry| (entry.place.id.clone(), show(entry)))
        .collect();
    let later = of_file.into_iter().filter(|(id, _)| id.as_str() > after);
    all.extend(later);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = all.len() > limit || i64::try_from(entries.len()).unwrap_or(0) == limit_of(limit);
    let page: Vec<(String, Value)> = all.into_iter().take(limit).collect();
    let next = page.last().filter(|_| more).map(|(id, _)| id.clone());
    Ok(listed(page.into_iter().map(|(_, value)| value).collect(), next))
}

/// A page of those entries that are shown at all.
pub(super) async fn list_some(
    ask: &Ask,
    kind: Kind,
    org: &str,
    show: impl Fn(&Entry) -> Option<Value>,
) -> Answered {
    let (after, limit) = ask.page()?;
    let (mut after, mut items) = (after.to_owned(), Vec::new());
    loop {
        let repository = ask.plane.catalogue.repository();
        let page = repository.list(kind, org, &after, limit).await;
        let page = page.map_err(WriteError::from)?;
        let Some(last) = page.last() else {
            return Ok(listed(items, None));
        };
        after.clone_from(&last.place.id);
        for entry in &page {
            items.extend(show(entry));
            if i64::try_from(items.len()).unwrap_or(limit) >= limit {
                return Ok(listed(items, Some(entry.place.id.clone())));
            }
        }
    }
}

fn limit_of(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
