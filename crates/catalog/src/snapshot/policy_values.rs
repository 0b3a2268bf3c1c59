//! Some values of some policies: those that a change makes others, or that overrides leave to the policy they are for.
//!
//! Where these don't meet, what is compiled of an org outlives the change.

use crate::model::ValueSet;

/// By the policy's number, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PolicyValues(Vec<(u32, ValueSet)>);

impl PolicyValues {
    fn add(&mut self, policy: u32, values: ValueSet) {
        match self.0.binary_search_by_key(&policy, |(policy, _)| *policy) {
            Ok(place) => self.0[place].1 = self.0[place].1.and(values),
            Err(place) => self.0.insert(place, (policy, values)),
        }
    }

    /// Those of one policy.
    pub(super) fn of(&self, policy: u32) -> ValueSet {
        let place = self.0.binary_search_by_key(&policy, |(policy, _)| *policy);
        place.map_or_else(|_| ValueSet::default(), |place| self.0[place].1)
    }

    pub(super) fn meet(&self, others: impl IntoIterator<Item = (u32, ValueSet)>) -> bool {
        let mut others = others.into_iter();
        others.any(|(policy, values)| self.of(policy).meets(values))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, ValueSet)> {
        self.0.iter().copied()
    }
}

impl Extend<(u32, ValueSet)> for PolicyValues {
    fn extend<I: IntoIterator<Item = (u32, ValueSet)>>(&mut self, all: I) {
        for (policy, values) in all {
            self.add(policy, values);
        }
    }
}

impl FromIterator<(u32, ValueSet)> for PolicyValues {
    fn from_iter<I: IntoIterator<Item = (u32, ValueSet)>>(all: I) -> Self {
        let mut values = Self::default();
        values.extend(all);
        values
    }
}
