//! Some values of some policies: those that a change makes others, or that overrides leave to the policy they are for.
//!
//! Where these don't meet, what is compiled of an org outlives the change.

use crate::model::ValueSet;

/// By the policy's number, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PolicyValues(Vec<(u32, ValueSet)>);

impl PolicyValues {
    pub(super) fn add(&mut self, policy: u32, values: ValueSet) {
        match self.0.binary_search_by_key(&policy, |(policy, _)| *policy) {
            Ok(place) => self.0[place].1 = self.0[place].1.and(values),
            Err(place) => self.0.insert(place, (policy, values)),
        }
    }

    pub(super) fn add_all(&mut self, others: &Self) {
        for (policy, values) in &others.0 {
            self.add(*policy, *values);
        }
    }

    pub(super) fn meet(&self, others: &Self) -> bool {
        self.0.iter().any(|(policy, values)| {
            let other = others.0.binary_search_by_key(policy, |(policy, _)| *policy);
            other.is_ok_and(|place| others.0[place].1.meets(*values))
        })
    }
}

impl FromIterator<(u32, ValueSet)> for PolicyValues {
    fn from_iter<I: IntoIterator<Item = (u32, ValueSet)>>(all: I) -> Self {
        let mut values = Self::default();
        for (policy, of_it) in all {
            values.add(policy, of_it);
        }
        values
    }
}
