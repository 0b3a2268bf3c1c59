//! What would be in force with some entries changed: what fits of it, what does not, and what a write would break.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tollgate_catalog::document::{Problem, Problems};
use tollgate_catalog::repository::{Change, Entry, Kind, Place};
use tollgate_catalog::snapshot::{ApiKey, KeyHash, Snapshot};

use super::contents::{Contents, Held, OF_AN_ORG};
use super::left_out::{Reason, place_of_misfit};
use super::{Catalogue, CatalogueError, FileSet};
use crate::clock;

/// What would be in force.
pub(super) struct Preview {
    pub(super) snapshot: Snapshot,
    /// What is wrong with what is to be written, and with what was in force and would not be any more. What had no
    /// effect before is none of a writer's business.
    pub(super) problems: Problems,
}

/// Keys that a change takes away and those that it leaves.
#[derive(Default)]
struct Keys {
    gone: Vec<KeyHash>,
    there: Vec<ApiKey>,
}

impl Catalogue {
    /// The snapshot as it will be with some entries as the database has them, or as `changes` will make them. What
    /// does not fit the rest is left out, and noted in the contents.
    pub(super) async fn preview(
        &self,
        contents: &mut Contents,
        places: BTreeSet<Place>,
        changes: &[Change],
    ) -> Result<Preview, CatalogueError> {
        let file = self.file.load_full();
        let (mut common, mut orgs) = (false, BTreeSet::new());
        let (mut keys, mut tokens) = (Keys::default(), Vec::new());
        let demonstrated = contents.demonstrates(&file);
        let changed: HashMap<&Place, &Change> =
            changes.iter().map(|change| (&change.place, change)).collect();
        for place in places {
            match place.kind {
                Kind::Org => drop(orgs.insert(place.id.clone())),
                kind if OF_AN_ORG.contains(&kind) => drop(orgs.insert(place.org.clone())),
                Kind::Unknown => {}
                kind => {
                    let entry = match changed.get(&place) {
                        Some(change) => entry_of(change),
                        None => self.repository.get(&place).await?,
                    };
                    if kind == Kind::Key {
                        keys.gone.extend_from_slice(contents.keys.of(&place));
                    }
                    keys.there.extend(contents.take(&place, entry.as_ref()));
                    if kind == Kind::Token {
                        tokens.push(place.id);
                    }
                    common |= matches!(
                        kind,
                        Kind::Tier | Kind::Policy | Kind::EndpointClasses | Kind::Rollout | Kind::Eras
                    );
                }
            }
        }
        let mut preview = Preview {
            snapshot: (*self.engine.snapshot_full()).clone(),
            problems: Problems::default(),
        };
        if demonstrated && !contents.demonstrates(&file) {
            // The demonstration ends with its orgs.
            common = true;
            orgs.extend(file.set.orgs.iter().map(|org| org.id.clone()));
        }
        if common {
            self.preview_common(contents, &mut preview, &file, changes);
        }
        if !orgs.is_empty() {
            self.preview_orgs(contents, &mut preview, (&orgs, &*file), changes)
                .await?;
        }
        preview.put_keys(contents, keys);
        contents.note_tokens(&tokens, &orgs, &preview.snapshot);
        contents.left_out.look_again(&preview.snapshot);
        Ok(preview)
    }

    /// Other policies, tiers and classes, or another rollout.
    fn preview_common(
        &self,
        contents: &mut Contents,
        preview: &mut Preview,
        file: &FileSet,
        changes: &[Change],
    ) {
        let (set, misfits) = contents.set_with(file).fitting(self.engine.seed());
        let unreadable = &contents.unreadable;
        contents
            .left_out
            .forget_misfits(|place| unreadable.contains(place));
        for misfit in misfits {
            let place = place_of_misfit(&misfit);
            let is_written = changes.iter().any(|change| change.place == place);
            if is_written || preview.snapshot.has_in_force(&misfit) {
                preview.problems.0.extend(misfit.problems.0.iter().cloned());
            }
            contents.left_out.insert(place, Reason::from(&misfit));
        }
        match preview.snapshot.with_common(&set, clock::now()) {
            Ok(snapshot) => preview.snapshot = snapshot,
            Err(problems) => {
                // Nothing is left that could be taken out: the policies stay as they are, and all else goes on.
                tracing::error!("the policies in force stay as they are: {problems}");
                preview.problems.0.extend(problems.0);
            }
        }
    }

    /// Orgs as they are now.
    async fn preview_orgs(
        &self,
        contents: &mut Contents,
        preview: &mut Preview,
        (orgs, file): (&BTreeSet<String>, &FileSet),
        changes: &[Change],
    ) -> Result<(), CatalogueError> {
        let (mut records, mut before, mut after) = (Vec::new(), BTreeMap::new(), Vec::new());
        for org in orgs {
            let mut held = Held::read(&self.repository, org).await?;
            if !changes.is_empty() {
                before.insert(org.clone(), held.clone());
                held.apply(org, changes);
            }
            records.push((org.clone(), held.clone().merged(org, file)));
            after.push((org, held));
        }
        let (snapshot, noted) = preview.snapshot.with_orgs_noting(records, clock::now());
        for (org, problems) in &noted {
            let Some(held) = before.remove(org) else { continue };
            let known = held.merged(org, file).map(|record| snapshot.problems_of(&record));
            let known = known.unwrap_or_default();
            preview.problems.0.extend(new_problems(problems, &known));
        }
        for (org, held) in &after {
            let has_problems = noted.iter().any(|(known, _)| known == *org);
            contents.left_out.note_org(org, held, &snapshot, has_problems);
        }
        preview.snapshot = snapshot;
        Ok(())
    }
}

impl Preview {
    /// Changes keys. One of an org that is not there opens nothing.
    fn put_keys(&mut self, contents: &mut Contents, keys: Keys) {
        let Keys { gone, there } = keys;
        if gone.is_empty() && there.is_empty() {
            return;
        }
        let (there, orphans): (Vec<_>, Vec<_>) = there
            .into_iter()
            .partition(|key| self.snapshot.knows_org(&key.org));
        for key in orphans {
            contents.left_out.note_orphan(Kind::Key, &key.org, &key.id);
        }
        self.snapshot = self.snapshot.with_keys(&gone, there);
    }
}

/// Problems that are not among those that are known. What may have been meant is not part of what is wrong.
fn new_problems(problems: &Problems, known: &Problems) -> Vec<Problem> {
    let essence = |problem: &Problem| {
        let message = problem.message.split("; did you mean").next();
        let message = message.unwrap_or_default().to_owned();
        (problem.line, problem.field.clone(), message)
    };
    let mut left: BTreeMap<_, usize> = BTreeMap::new();
    for problem in &known.0 {
        *left.entry(essence(problem)).or_default() += 1;
    }
    let mut new = problems.0.clone();
    new.retain(|problem| match left.get_mut(&essence(problem)) {
        Some(count @ 1..) => {
            *count -= 1;
            false
        }
        _ => true,
    });
    new
}

/// The entry that a change will make.
pub(super) fn entry_of(change: &Change) -> Option<Entry> {
    change.body.as_ref().map(|body| Entry {
        place: change.place.clone(),
        body: body.clone(),
        revision: i64::MAX,
    })
}

impl Held {
    /// Applies what is about to be written.
    fn apply(&mut self, org: &str, changes: &[Change]) {
        for change in changes {
            let place = &change.place;
            let concerns = (place.kind == Kind::Org && place.id == org)
                || (OF_AN_ORG.contains(&place.kind) && place.org == org);
            if !concerns {
                continue;
            }
            match entry_of(change) {
                Some(entry) => self.take(&entry),
                None => self.forget(place),
            }
        }
    }
}
