//! From a policy set to a snapshot, and from one snapshot to the next. Whatever does not fit together is found
//! here, before anything is used.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;

use tollgate_core::{IdHash, KeySeed, Nanos, Timestamp};

use super::archive::{Archive, Span};
use super::keys::KeyTable;
use super::limit::Limit;
use super::org::{Counting, OrgEntry};
use super::sets::Sets;
use super::table::OrgTable;
use super::{Catalogue, Replaced, Snapshot, slowing};
use crate::document::Problems;
use crate::model::{KeptOverride, Org, OrgRecord, PolicySet};

/// How many past snapshots are remembered for the limits that count anew since.
const MAX_PASTS: usize = 4;

impl Snapshot {
    /// Compiles a policy set. With the snapshot it replaces, limits that orgs' overrides now let count anew start with
    /// no more room than their old counters have left; policies bring along how they [counted](crate::model::Eras).
    pub fn compile(
        set: &PolicySet,
        seed: KeySeed,
        replaces: Option<(&Arc<Self>, Timestamp)>,
    ) -> Result<Self, Problems> {
        let (snapshot, problems) = Self::compile_noting(set, seed, replaces);
        problems.sorted()?;
        Ok(snapshot)
    }

    /// Compiles a policy set with whatever is wrong with it, which is noted. Overrides that don't fit have no effect.
    pub fn compile_noting(
        set: &PolicySet,
        seed: KeySeed,
        replaces: Option<(&Arc<Self>, Timestamp)>,
    ) -> (Self, Problems) {
        let mut problems = Problems::default();
        let sets = Arc::new(Sets::of_set(set, seed, &mut problems));
        let records = records(set);
        let mut orgs = OrgTable::sized(records.len());
        for record in records {
            let entry = sets.compile_org(&record, &mut problems);
            let (hash, record) = (seed.id(record.org.id.as_bytes()), Arc::new(record));
            orgs.put(hash, record.clone(), Some((record, entry)));
        }
        let catalogue = Arc::new(Catalogue { sets, orgs });
        let formers = replaces.map_or_else(Vec::new, |(past, now)| {
            let shared = || catalogue.sets.limits().map(Counting::on);
            let before = past.catalogue.own_limits(now).chain(shared());
            past.remembered(
                counts_anew(before, catalogue.own_limits(now).chain(shared())),
                now,
            )
        });
        let slowings = replaces.map_or_else(Vec::new, |(past, now)| {
            let (before, after) = (past.catalogue.in_force(now), catalogue.in_force(now));
            slowing::with(&past.slowings, slowing::slowing(before, after, now), now)
        });
        let keys = replaces.map_or_else(|| Arc::new(KeyTable::sized(0)), |(past, _)| past.keys.clone());
        let snapshot = Self {
            catalogue,
            formers,
            slowings,
            keys,
        };
        (snapshot, problems)
    }

    /// The same with other policies, tiers and classes, or another rollout. Orgs whom that
    /// concerns are compiled anew when they are asked for.
    pub fn with_common(&self, set: &PolicySet, now: Timestamp) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        let sets = Sets::of_set(set, self.seed(), &mut problems);
        problems.sorted()?;
        let orgs = match sets.values_changed(&self.catalogue.sets) {
            Some(changed) => self.catalogue.orgs.after(&changed),
            None => self.catalogue.orgs.forgotten(),
        };
        let slower = slowing::slowing(self.catalogue.sets.limits(), sets.limits(), now);
        Ok(Self {
            keys: self.keys.clone(),
            formers: self.remembered(None, now),
            slowings: slowing::with(&self.slowings, slower, now),
            catalogue: Arc::new(Catalogue {
                sets: Arc::new(sets),
                orgs,
            }),
        })
    }

    /// The same with some orgs as they are now; those without a record are gone. Costs what these orgs cost.
    pub fn with_orgs(
        &self,
        changes: Vec<(String, Option<OrgRecord>)>,
        now: Timestamp,
    ) -> Result<Self, Problems> {
        let (snapshot, problems) = self.with_orgs_noting(changes, now);
        let all = problems.into_iter().flat_map(|(_, problems)| problems.0);
        Problems(all.collect()).sorted()?;
        Ok(snapshot)
    }

    /// The same with whatever is wrong with them, which is noted by org. Overrides that don't fit have no effect.
    pub fn with_orgs_noting(
        &self,
        changes: Vec<(String, Option<OrgRecord>)>,
        now: Timestamp,
    ) -> (Self, Vec<(String, Problems)>) {
        let mut noted = Vec::new();
        let sets = &self.catalogue.sets;
        let mut orgs = self.catalogue.orgs.settled();
        let (mut anew, mut slowings) = (None, self.slowings.clone());
        for (id, record) in changes {
            let hash = self.seed().id(id.as_bytes());
            let before = self.catalogue.orgs.get(hash, &id, sets);
            let mut slow_down_to = |after: &OrgEntry| {
                let (org, common) = sets.deciding(before, Some(&id));
                let (before, after) = (org.in_force(common, now), after.in_force(sets.of(after), now));
                slowings = slowing::with(&slowings, slowing::slowing(before, after, now), now);
            };
            let Some(record) = record else {
                slow_down_to(sets.deciding(None, Some(&id)).0);
                orgs.remove(hash);
                continue;
            };
            let read = record.read();
            let mut problems = Problems::default();
            let entry = sets.compile_org(&read, &mut problems);
            if !problems.0.is_empty() {
                noted.push((id.clone(), problems));
            }
            let common = sets.of(&entry);
            slow_down_to(&entry);
            let before = before.into_iter().flat_map(|org| org.limits(sets.of(org), now));
            let shared = || common.limits.iter().map(Counting::on);
            let (before, present) = (before.chain(shared()), entry.limits(common, now));
            anew = anew.max(counts_anew(before, present.chain(shared())));
            orgs.put(hash, Arc::new(record), Some((Arc::new(read), entry)));
        }
        let snapshot = Self {
            keys: self.keys.clone(),
            formers: self.remembered(anew, now),
            slowings,
            catalogue: Arc::new(Catalogue {
                sets: sets.clone(),
                orgs,
            }),
        };
        (snapshot, noted)
    }

    /// What is wrong with an org's record by the policies in force.
    pub fn problems_of(&self, record: &OrgRecord) -> Problems {
        let mut problems = Problems::default();
        self.catalogue.sets.compile_org(&record.read(), &mut problems);
        problems
    }

    /// The same with some more orgs that were checked before. They are compiled when they are first asked for.
    #[must_use]
    pub fn with_idle_orgs(&self, records: Vec<OrgRecord>) -> Self {
        let seed = self.seed();
        let mut orgs = self.catalogue.orgs.settled();
        for record in records {
            orgs.put(seed.id(record.org.id.as_bytes()), Arc::new(record), None);
        }
        self.with_table(orgs)
    }

    /// The same with some more orgs that were checked before, by the hashes of their ids, whose records lie in an
    /// archive.
    #[must_use]
    pub fn with_archive(&self, archive: Arc<dyn Archive>, orgs: Vec<(IdHash, Span)>) -> Self {
        self.with_table(self.catalogue.orgs.filed(archive, orgs))
    }

    /// Whether no org was asked for since it was made.
    pub fn is_settled(&self) -> bool {
        self.catalogue.orgs.is_settled()
    }

    /// The same, in which orgs that were asked for since it was made are found quicker.
    #[must_use]
    pub fn settled(&self) -> Self {
        self.with_table(self.catalogue.orgs.settled())
    }

    /// The same with all orgs idle. Those that are busy are read and compiled again when they are next asked for.
    #[must_use]
    pub fn cooled(&self) -> Self {
        self.with_table(self.catalogue.orgs.cooled())
    }

    /// How many orgs are not idle: what they were made from was read, and mostly they are compiled.
    pub fn orgs_in_use(&self) -> usize {
        self.catalogue.orgs.in_use()
    }

    fn with_table(&self, orgs: OrgTable) -> Self {
        Self {
            keys: self.keys.clone(),
            formers: self.formers.clone(),
            slowings: self.slowings.clone(),
            catalogue: Arc::new(Catalogue {
                sets: self.catalogue.sets.clone(),
                orgs,
            }),
        }
    }

    /// What the orgs were made from; some that don't mention a word may be left out.
    pub fn records_mentioning(&self, word: &str) -> impl Iterator<Item = io::Result<Arc<OrgRecord>>> {
        self.catalogue.orgs.records_mentioning(word)
    }

    fn seed(&self) -> KeySeed {
        self.catalogue.sets.active.seed
    }

    /// The past that a snapshot after this one has to keep, while a counter of it may still matter. `anew` is
    /// how long the counters that are left behind can matter; `None` if there are none.
    fn remembered(&self, anew: Option<Nanos>, now: Timestamp) -> Vec<Replaced> {
        let inherited = self.formers.iter().filter(|older| now < older.until);
        let mut formers: Vec<Replaced> = inherited.cloned().collect();
        if let Some(longest) = anew {
            formers.push(Replaced {
                catalogue: self.catalogue.clone(),
                left: now,
                until: now.saturating_add(longest),
            });
        }
        let surplus = formers.len().saturating_sub(MAX_PASTS);
        formers.drain(..surplus);
        formers
    }
}

impl Catalogue {
    /// The limits that are counted at an instant: those of the policies, and orgs' own of those that are compiled.
    fn in_force(&self, now: Timestamp) -> impl Iterator<Item = &Limit> {
        let own = self.own_limits(now).filter(|counting| !counting.ended);
        own.map(|counting| counting.limit).chain(self.sets.limits())
    }

    /// The limits that are orgs' own at an instant, of those that are compiled.
    fn own_limits(&self, now: Timestamp) -> impl Iterator<Item = Counting<'_>> {
        let orgs = self.orgs.compiled();
        orgs.flat_map(move |org| org.limits(self.sets.of(org), now))
    }
}

/// The orgs of a set with their overrides. An org that is only named by an override is one of the default tier.
fn records(set: &PolicySet) -> Vec<OrgRecord> {
    let mut places = HashMap::new();
    let mut records = Vec::with_capacity(set.orgs.len());
    for org in &set.orgs {
        places.insert(org.id.as_str(), records.len());
        records.push(OrgRecord::plain(org.clone()));
    }
    for change in &set.overrides {
        let place = *places.entry(change.org.as_str()).or_insert_with(|| {
            records.push(OrgRecord::plain(Org::named(&change.org)));
            records.len() - 1
        });
        records[place]
            .overrides
            .push(KeptOverride::Read(Arc::new(change.clone())));
    }
    records
}

/// How long the past counters can matter of limits that, under the same id, now count elsewhere.
fn counts_anew<'l>(
    past: impl Iterator<Item = Counting<'l>>,
    present: impl Iterator<Item = Counting<'l>>,
) -> Option<Nanos> {
    let (past, present): (Vec<_>, Vec<_>) = (past.collect(), present.collect());
    let (before, after) = (by_id(&past), by_id(&present));
    let changed = |id: &str| {
        let pair = before.get(id).zip(after.get(id));
        pair.is_some_and(|(before, after)| before != after)
    };
    // One may hold more of what the other had counted.
    past.iter()
        .chain(&present)
        .filter(|counting| changed(&counting.limit.id))
        .map(|counting| counting.limit.rule.horizon_ns())
        .max()
}

fn by_id<'l>(all: &[Counting<'l>]) -> HashMap<&'l str, HashSet<(IdHash, bool)>> {
    let mut counters: HashMap<&str, HashSet<(IdHash, bool)>> = HashMap::new();
    for Counting { limit, ended } in all {
        let of_id = counters.entry(&limit.id).or_default();
        of_id.insert((limit.counter, *ended));
    }
    counters
}
