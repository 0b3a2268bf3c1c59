//! What entries name of each other: nothing may name what is not there, and what is named can't be deleted.

use tollgate_catalog::model::{DEFAULT_TIER, KeptOverride, Org, OrgRecord, Override, Policy, UserPlan};
use tollgate_catalog::repository::{Change, Kind};
use tollgate_catalog::route::Pattern;
use tollgate_catalog::snapshot::Snapshot;

use super::contents::Contents;
use super::documents::{Document, read_document};
use super::{FileSet, WriteError, rollouts};

/// Looks at changes with all the rest as it was before, and as it will be.
pub(super) fn check(
    changes: &[Change],
    before: &Contents,
    contents: &Contents,
    snapshot: &Snapshot,
    file: &FileSet,
) -> Result<(), WriteError> {
    for change in changes {
        let id = &change.place.id;
        rollouts::check(change, before, contents, snapshot, file)?;
        match (&change.body, change.place.kind) {
            (Some(body), Kind::Org) => {
                let org = document::<Org>(body);
                tier_known(contents, file, org.map(|org| org.tier))?;
            }
            (Some(body), Kind::User) => {
                let user = document::<UserPlan>(body);
                tier_known(contents, file, user.map(|user| user.tier))?;
            }
            (Some(body), Kind::Policy) => {
                let policy = document::<Policy>(body);
                tier_known(contents, file, policy.and_then(|policy| policy.tier))?;
            }
            (Some(body), Kind::Override) => {
                let change = document::<Override>(body);
                not_demonstrated(contents, file, change.and_then(|change| change.policy))?;
            }
            (Some(_), Kind::EndpointClasses) => {
                let dropped = before.classes.iter().map(|class| class.class.as_str());
                for class in dropped.filter(|class| !snapshot.has_class(class)) {
                    let overrides = overrides_on(snapshot, class)?;
                    if overrides > 0 {
                        return Err(WriteError::InUse(format!(
                            "{overrides} overrides are for the endpoint class `{class}`."
                        )));
                    }
                }
            }
            (None, Kind::Tier) => {
                let on_it = |record: &OrgRecord| {
                    record.org.tier == *id || record.users.iter().any(|user| user.tier == *id)
                };
                let orgs = count(snapshot, id, |record| usize::from(on_it(record)))?;
                let policies = snapshot.limits().iter();
                let policies = policies.filter(|limit| limit.origin.tier.as_deref() == Some(id));
                let policies = policies.count();
                if orgs + policies > 0 {
                    return Err(WriteError::InUse(format!(
                        "The tier `{id}` is in use by {orgs} orgs and {policies} policies."
                    )));
                }
            }
            (None, Kind::Policy) => {
                let overrides = overrides_of(snapshot, id)?;
                if overrides > 0 {
                    return Err(WriteError::InUse(format!(
                        "{overrides} overrides are for the policy `{id}`."
                    )));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// How many overrides name a policy.
pub(super) fn overrides_of(snapshot: &Snapshot, policy: &str) -> Result<usize, WriteError> {
    count(snapshot, policy, |record| {
        let overrides = record.overrides.iter();
        overrides.filter(|change| change.names(policy)).count()
    })
}

/// How many overrides are for an endpoint class.
fn overrides_on(snapshot: &Snapshot, class: &str) -> Result<usize, WriteError> {
    let on_it = |change: &Override| matches!(&change.pattern, Some(Pattern::Class(name)) if name == class);
    count(snapshot, class, |record| {
        let overrides = record.overrides.iter().filter_map(KeptOverride::get);
        overrides.filter(|change| on_it(change)).count()
    })
}

/// Refuses to build on a policy that goes with the demonstration set.
fn not_demonstrated(contents: &Contents, file: &FileSet, policy: Option<String>) -> Result<(), WriteError> {
    match policy.filter(|policy| contents.demonstrates(file) && !contents.policies.contains_key(policy)) {
        None => Ok(()),
        Some(policy) => Err(WriteError::Unknown(format!(
            "The policy `{policy}` is part of the built-in demonstration set, which goes with the first policy that is \
             made: an override would go with it. Make a policy first."
        ))),
    }
}

/// Counts something in all records that may mention a word. Idle ones are read from disk.
fn count(snapshot: &Snapshot, word: &str, of: impl Fn(&OrgRecord) -> usize) -> Result<usize, WriteError> {
    let mut sum = 0;
    for record in snapshot.records_mentioning(word) {
        sum += of(&*record.map_err(WriteError::Disk)?);
    }
    Ok(sum)
}

pub(super) fn tier_known(
    contents: &Contents,
    file: &FileSet,
    tier: Option<String>,
) -> Result<(), WriteError> {
    let Some(tier) = tier else { return Ok(()) };
    let set = &file.set;
    // A file that declares no tiers has those that it names.
    let of_file = file.given
        && (set.tiers.contains(&tier)
            || set.orgs.iter().any(|org| org.tier == tier)
            || set
                .policies
                .iter()
                .any(|policy| policy.tier.as_ref() == Some(&tier)));
    if tier == DEFAULT_TIER || contents.tiers.contains(&tier) || of_file {
        return Ok(());
    }
    Err(WriteError::Unknown(format!("There is no tier `{tier}`.")))
}

fn document<T: Document>(body: &str) -> Option<T> {
    let value = serde_json::from_str(body).ok()?;
    read_document(&value).ok()
}
