//! What a node remembers of the database besides what its snapshot holds: the policies, tiers and classes of all
//! orgs, and which hash each key and token has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use tollgate_catalog::model::{
    EndpointClass, Eras, KeptOverride, Org, OrgRecord, Policy, PolicySet, Reset, Rollout, UserPlan, Who,
};
use tollgate_catalog::repository::{Entry, Kind, Place, Repository, RepositoryError};
use tollgate_catalog::snapshot::{ApiKey, Snapshot};
use tollgate_core::Timestamp;

use super::documents::{Document, read_document, read_list};
use super::key_hashes::KeyHashes;
use super::left_out::LeftOut;
use super::tokens::{Token, Tokens};
use super::{FileSet, KeyDocument};
use crate::control_plane::role::token_id;
use crate::secret::SecretHash;

/// What makes up an org's record besides the org itself.
pub(super) const OF_AN_ORG: [Kind; 3] = [Kind::Override, Kind::User, Kind::Reset];

/// How many entries are read at once.
const PAGE: i64 = 2_000;

#[derive(Debug, Clone, Default)]
pub(super) struct Contents {
    pub(super) revision: i64,
    pub(super) tiers: BTreeSet<String>,
    pub(super) policies: BTreeMap<String, Policy>,
    pub(super) classes: Vec<EndpointClass>,
    /// The one that is open.
    pub(super) rollout: Option<Rollout>,
    pub(super) eras: Eras,
    pub(super) tokens: Tokens,
    pub(super) keys: KeyHashes,
    /// True if a policy was ever made: then the demonstration set is not in force any more.
    pub(super) has_had_policies: bool,
    /// What can't be read, since another version has written it.
    pub(super) unreadable: BTreeSet<Place>,
    /// What has no effect on this node.
    pub(super) left_out: LeftOut,
}

/// What the database holds of one org.
#[derive(Debug, Default, Clone)]
pub(super) struct Held {
    pub(super) org: Option<Org>,
    /// By the revision that made them: older ones first.
    pub(super) overrides: BTreeMap<(i64, String), Box<str>>,
    pub(super) users: BTreeMap<String, UserPlan>,
    pub(super) resets: BTreeMap<String, Reset>,
}

impl Held {
    /// The record of an org, from what the file says of it and what is held. `None` if neither knows it: what else is
    /// held of an org that is gone has no effect.
    pub(super) fn merged(self, id: &str, file: &FileSet) -> Option<OrgRecord> {
        let said = file.given.then_some(&file.set);
        let of_file = said.and_then(|set| set.orgs.iter().find(|org| org.id == id).cloned());
        let mut overrides: Vec<KeptOverride> = said
            .into_iter()
            .flat_map(|set| set.overrides.iter().filter(|change| change.org == id))
            .map(|change| KeptOverride::Read(Arc::new(change.clone())))
            .collect();
        let named = (!overrides.is_empty()).then(|| Org::named(id));
        let org = of_file.or(self.org).or(named)?;
        overrides.extend(self.overrides.into_values().map(KeptOverride::Json));
        Some(OrgRecord {
            org,
            overrides,
            users: self.users.into_values().collect(),
            resets: self.resets.into_values().collect(),
        })
    }

    pub(super) fn take(&mut self, entry: &Entry) {
        let id = entry.place.id.clone();
        match entry.place.kind {
            Kind::Org => self.org = document(entry),
            Kind::Override => {
                self.overrides
                    .insert((entry.revision, id), entry.body.as_str().into());
            }
            Kind::User => self.users.extend(document(entry).map(|user| (id, user))),
            Kind::Reset => self.resets.extend(reset(entry).map(|reset| (id, reset))),
            _ => {}
        }
    }

    /// Takes note that an entry is gone.
    pub(super) fn forget(&mut self, place: &Place) {
        match place.kind {
            Kind::Org => self.org = None,
            Kind::User => drop(self.users.remove(&place.id)),
            Kind::Reset => drop(self.resets.remove(&place.id)),
            _ => self.overrides.retain(|(_, id), _| *id != place.id),
        }
    }

    /// Reads an org anew.
    pub(super) async fn read(repository: &Repository, org: &str) -> Result<Self, RepositoryError> {
        let mut held = Self::default();
        let place = Place {
            kind: Kind::Org,
            org: String::new(),
            id: org.to_owned(),
        };
        if let Some(entry) = repository.get(&place).await? {
            held.take(&entry);
        }
        for kind in OF_AN_ORG {
            let mut after = String::new();
            loop {
                let page = repository.list(kind, org, &after, PAGE).await?;
                let Some(last) = page.last() else { break };
                after.clone_from(&last.place.id);
                for entry in &page {
                    held.take(entry);
                }
            }
        }
        Ok(held)
    }
}

impl Contents {
    /// Takes note of an entry that is not of an org's record: what it is now, or that it is gone. Returns a key
    /// that is there now, once for each of its secrets.
    pub(super) fn take(&mut self, place: &Place, entry: Option<&Entry>) -> Vec<ApiKey> {
        let id = place.id.as_str();
        self.left_out.remove(place);
        if matches!(place.kind, Kind::Policy | Kind::Rollout) {
            self.note_unreadable(place, entry);
        }
        match place.kind {
            Kind::Tier => match entry {
                Some(_) => drop(self.tiers.insert(id.to_owned())),
                None => drop(self.tiers.remove(id)),
            },
            Kind::Policy => {
                self.has_had_policies |= entry.is_some();
                match entry.and_then(document) {
                    Some(policy) => drop(self.policies.insert(id.to_owned(), policy)),
                    None => drop(self.policies.remove(id)),
                }
            }
            Kind::Rollout => self.take_rollout(id, entry.and_then(document)),
            Kind::Eras => self.eras = entry.map_or_else(Eras::default, eras),
            Kind::EndpointClasses => self.classes = entry.map_or_else(Vec::new, classes),
            Kind::Token => self.tokens.set(id, entry.and_then(token)),
            Kind::Key => {
                let key = entry.and_then(|entry| KeyDocument::read(&entry.body));
                let secrets = key.map_or_else(Vec::new, |key| key.compiled(place));
                self.keys
                    .set(place, secrets.iter().map(|secret| secret.hash).collect());
                return secrets;
            }
            Kind::Org
            | Kind::Override
            | Kind::User
            | Kind::Reset
            | Kind::App
            | Kind::Quota
            | Kind::Unknown => {}
        }
        Vec::new()
    }

    /// Takes note of a policy or rollout that can't be read. It has no effect, and nothing else suffers for it.
    fn note_unreadable(&mut self, place: &Place, entry: Option<&Entry>) {
        let readable = entry.is_none_or(|entry| match place.kind {
            Kind::Policy => document::<Policy>(entry).is_some(),
            _ => document::<Rollout>(entry).is_some(),
        });
        if readable {
            self.unreadable.remove(place);
        } else {
            self.unreadable.insert(place.clone());
            let why = "it can't be read: another version has written it".to_owned();
            self.left_out.insert(place.clone(), why);
        }
    }

    /// Notes all tokens of orgs that are not there. They open nothing.
    pub(super) fn note_orphan_tokens(&mut self, snapshot: &Snapshot) {
        for token in self.tokens.values() {
            self.left_out.note_token(token, snapshot);
        }
    }

    /// Notes which of some tokens, and of the tokens of some orgs, are of orgs that are not there.
    pub(super) fn note_tokens(&mut self, ids: &[String], orgs: &BTreeSet<String>, snapshot: &Snapshot) {
        let gone = orgs.iter().filter(|org| !snapshot.knows_org(org));
        let theirs = gone.flat_map(|org| self.tokens.of_org(org, ""));
        let ids = ids.iter().map(String::as_str).chain(theirs);
        for token in ids.filter_map(|id| self.tokens.get(id)) {
            self.left_out.note_token(token, snapshot);
        }
    }

    /// True while the demonstration set is in force.
    pub(super) fn demonstrates(&self, file: &FileSet) -> bool {
        !file.given && !self.has_had_policies
    }

    /// The set to compile: the file's, and beside it what of the database it does not name. Without either the
    /// demonstration set.
    pub(super) fn set_with(&self, file: &FileSet) -> PolicySet {
        let demonstrates = self.demonstrates(file);
        let mut set = if file.given || demonstrates {
            file.set.clone()
        } else {
            PolicySet::default()
        };
        for tier in &self.tiers {
            if !set.tiers.contains(tier) {
                set.tiers.push(tier.clone());
            }
        }
        for policy in self.policies.values() {
            if !set.policies.iter().any(|known| known.id == policy.id) {
                set.policies.push(policy.clone());
            }
        }
        if set.endpoint_classes.is_empty() {
            set.endpoint_classes.clone_from(&self.classes);
        } else if demonstrates {
            // The first match wins: what was made on purpose.
            let builtin = std::mem::replace(&mut set.endpoint_classes, self.classes.clone());
            set.endpoint_classes.extend(builtin);
        }
        set.rollout = self.rollout_beside(file);
        file.eras.mark_here(&mut set);
        self.eras.mark(&mut set);
        set
    }
}

fn document<T: Document>(entry: &Entry) -> Option<T> {
    let value: Value = serde_json::from_str(&entry.body).ok()?;
    match read_document(&value) {
        Ok(read) => Some(read),
        Err(problems) => {
            // It was checked when it was written: another version wrote it.
            tracing::error!(place = ?entry.place, "an entry of the catalogue can't be read: {problems}");
            None
        }
    }
}

fn classes(entry: &Entry) -> Vec<EndpointClass> {
    let value = serde_json::from_str(&entry.body).unwrap_or(Value::Null);
    read_list(&value).unwrap_or_default()
}

fn eras(entry: &Entry) -> Eras {
    Eras::read(&serde_json::from_str(&entry.body).unwrap_or(Value::Null))
}

fn reset(entry: &Entry) -> Option<Reset> {
    let value: Value = serde_json::from_str(&entry.body).ok()?;
    let id = |name: &str| value[name].as_str().map(str::to_owned);
    let named = [
        id("appId").map(Who::App),
        id("keyId").map(Who::Key),
        id("userId").map(Who::User),
    ];
    Some(Reset {
        policy: id("policyId"),
        who: named.into_iter().flatten().next().unwrap_or(Who::Org),
        // Those that say nothing of quotas are of a time when they were always emptied, too.
        quotas: value["quotas"].as_bool().unwrap_or(true),
        epoch: value["epoch"].as_u64()?,
        at: Timestamp::from_nanos(value["at"].as_u64().unwrap_or(0).saturating_mul(1_000_000)),
    })
}

fn token(entry: &Entry) -> Option<(SecretHash, Token)> {
    let value: Value = serde_json::from_str(&entry.body).ok()?;
    let token = Token {
        id: entry.place.id.clone(),
        role: value["role"].as_str()?.parse().ok()?,
        org: value["orgId"].as_str().map(str::to_owned),
        expires_ms: value["expiresAt"].as_i64(),
        maker: value["createdBy"].as_str().and_then(token_id).map(str::to_owned),
    };
    Some((value["hash"].as_str()?.parse().ok()?, token))
}
