//! What a counter is called in a store that others share: the same on every node, in every version.
//!
//! On a node a counter is known by a hash that no other node can make ([`CounterKey`](tollgate_core::CounterKey)). The
//! name is made of the same parts, but only when a counter is new to the node, so that it may cost more: it is a
//! SHA-256, cut to 128 bits.

use sha2::{Digest, Sha256};
use tollgate_core::Timestamp;

use super::ids::network;
use super::limit::Limit;
use super::org::ResetEntry;
use super::resolve::sort_key;
use super::{Snapshot, Stack};
use crate::model::Dimension;
use crate::request::Request;

/// A name.
pub type CounterName = [u8; 16];

impl Stack<'_> {
    /// The name of a level's counter.
    pub fn name(&self, place: usize, request: &Request<'_>) -> CounterName {
        named(self.limits[place], self.resets, request)
    }

    /// The name of a former's counter.
    pub fn former_name(&self, former: usize, request: &Request<'_>) -> CounterName {
        let (limit, resets) = self.past[former];
        named(limit, resets, request)
    }

    /// Whether a level's counter belongs to the request's org, and not to several.
    pub fn is_within_org(&self, place: usize) -> bool {
        self.limits[place].scope.within_org()
    }
}

impl Snapshot {
    /// Whether a counter of this name is one that a request with these ids may be counted by, under the present policies.
    pub fn counts_under(&self, name: &CounterName, request: &Request<'_>, now: Timestamp) -> bool {
        let entry = self.entry_of(request.org);
        let sets = &self.catalogue.sets;
        let plans = || entry.users.iter().map(|user| user.tier).chain([entry.tier]);
        let of_a_plan = |limit: &&Limit| {
            let tiers = &sets.active.tiers;
            let of = |tier: &str| plans().any(|plan| &*tiers[plan as usize].name == tier);
            limit.origin.tier.as_deref().is_none_or(of)
        };
        let own = entry
            .limits(sets.of(entry), now)
            .filter(|counting| !counting.ended);
        let mut limits = sets.limits().filter(of_a_plan).chain(own.map(|own| own.limit));
        limits.any(|limit| limit.mode.is_some() && named(limit, &entry.resets, request) == *name)
    }

    /// The quotas that are in force on the counter of this name for a request with these ids, broad ones first. Several
    /// may watch one counter. If the ids do not lead to any, those that count under the name for somebody else of the org.
    pub fn quotas_on(&self, name: &CounterName, request: &Request<'_>, now: Timestamp) -> Vec<&Limit> {
        let entry = self.entry_of(request.org);
        let common = self.catalogue.sets.of(entry);
        let user = entry.user(request.user);
        let of_org = common.tiers[entry.tier as usize].limits.iter();
        let of_org = of_org.map(|index| (*index, user.is_some(), false));
        let of_user = user.map(|user| common.tiers[user.tier as usize].limits.iter());
        let of_user = of_user.into_iter().flatten().map(|index| (*index, true, true));
        let tiers = of_org.chain(of_user).filter_map(|(index, has_plan, of_plan)| {
            let limit = &common.limits[index as usize];
            // A user with a plan of their own has its limits on users in place of those of the org's plan.
            let counts = !has_plan || limit.counts_users() == of_plan;
            counts.then(|| entry.replacement(index, request, now, common).unwrap_or(limit))
        });
        let counts = |limit: &&Limit| {
            limit.is_quota() && limit.mode.is_some() && named(limit, &entry.resets, request) == *name
        };
        let mut quotas: Vec<&Limit> = tiers
            .chain(entry.extras_for(request, now, common))
            .filter(counts)
            .collect();
        if quotas.is_empty() {
            let others = self.effective(request.org.unwrap_or_default(), now).into_iter();
            quotas.extend(others.map(|one| one.limit).filter(counts));
        }
        quotas.sort_by(|one, other| sort_key(one).cmp(&sort_key(other)));
        quotas
    }

    /// The name of a limit's counter for a request, whether the limit is for the request or not.
    pub fn name_under(&self, limit: &Limit, request: &Request<'_>) -> CounterName {
        named(limit, &self.entry_of(request.org).resets, request)
    }
}

/// The hash of all that makes a limit's counts its own.
pub(super) fn hash(parts: &[&[u8]]) -> CounterName {
    let mut hash = Sha256::new();
    for part in parts {
        write(&mut hash, part);
    }
    cut(hash)
}

fn named(limit: &Limit, resets: &[ResetEntry], request: &Request<'_>) -> CounterName {
    let mut hash = Sha256::new();
    hash.update(limit.name);
    if limit.scope.within_org() {
        hash.update([u8::from(request.test)]);
        write(&mut hash, request.org.unwrap_or_default().as_bytes());
    }
    for dimension in &limit.dimensions {
        match dimension {
            Dimension::Global | Dimension::Endpoint | Dimension::Org => {}
            Dimension::App => write(&mut hash, request.app.unwrap_or_default().as_bytes()),
            Dimension::Key => write(&mut hash, request.key.unwrap_or_default().as_bytes()),
            Dimension::User => write(&mut hash, request.user.unwrap_or_default().as_bytes()),
            Dimension::Ip => {
                if let Some(ip) = request.ip {
                    hash.update(network(ip, limit.prefixes));
                }
            }
            Dimension::Descriptor(name) => {
                let value = request.descriptor(name).unwrap_or_default();
                write(&mut hash, value.as_bytes());
            }
        }
    }
    for reset in resets.iter().filter(|reset| reset.concerns(limit, request)) {
        hash.update(reset.epoch.to_le_bytes());
    }
    cut(hash)
}

/// With its length, so that no two rows of parts are the same bytes.
fn write(hash: &mut Sha256, part: &[u8]) {
    hash.update((part.len() as u64).to_le_bytes());
    hash.update(part);
}

fn cut(hash: Sha256) -> CounterName {
    let mut name = CounterName::default();
    name.copy_from_slice(&hash.finalize()[..16]);
    name
}

#[cfg(test)]
mod tests;
