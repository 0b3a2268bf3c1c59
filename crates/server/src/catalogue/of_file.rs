//! What the policy file owns.

use tollgate_catalog::model::Override;
use tollgate_catalog::repository::{Kind, Place};

use super::FileSet;

impl FileSet {
    /// Whether the policy file says what an entry is.
    pub fn owns(&self, place: &Place) -> bool {
        let (set, id) = (&self.set, &place.id);
        self.given
            && match place.kind {
                Kind::Tier => set.tiers.contains(id),
                Kind::Org => set.orgs.iter().any(|org| org.id == *id),
                Kind::Policy => set.policies.iter().any(|policy| policy.id == *id),
                Kind::Override => self.override_of(&place.org, id).is_some(),
                Kind::EndpointClasses => !set.endpoint_classes.is_empty(),
                _ => false,
            }
    }

    /// The overrides that the file has for an org, each with an id: the place it has in the file, which comes before
    /// all ids that are made of time, as the file's overrides count as older.
    pub fn overrides_of(&self, org: &str) -> impl Iterator<Item = (String, &Override)> {
        let all = self.set.overrides.iter().filter(|_| self.given);
        let numbered = all.zip(1_u64..).filter(move |(change, _)| change.org == org);
        numbered.map(|(change, number)| (format!("{number:020x}"), change))
    }

    /// The override of an org that has an id.
    pub fn override_of(&self, org: &str, id: &str) -> Option<&Override> {
        let mut all = self.overrides_of(org);
        all.find(|(known, _)| known == id).map(|(_, change)| change)
    }
}
