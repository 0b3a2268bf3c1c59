//! A set without what does not fit the rest of it.
//!
//! What is made through the control plane was checked where it was made, beside another policy file perhaps. Here it
//! must not keep anything else from coming into force. It does not know what becomes of what is left out.

use std::collections::HashSet;

use tollgate_core::KeySeed;

use super::Snapshot;
use super::sets::Sets;
use crate::document::{Problem, Problems};
use crate::model::PolicySet;

/// A policy or a rollout that is left out, since it does not fit what else there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// The id of the policy, or of the rollout.
    pub id: String,
    /// It is the rollout.
    pub is_rollout: bool,
    /// Why it does not fit.
    pub problems: Problems,
}

impl Snapshot {
    /// True if this is in force that does not fit elsewhere.
    pub fn has_in_force(&self, misfit: &Misfit) -> bool {
        if misfit.is_rollout {
            return self.share().is_some_and(|share| share.rollout == misfit.id);
        }
        self.has_policy(&misfit.id)
    }
}

/// The path of a field of a policy in a compiled set.
pub(super) fn field_of(policy: &str, field: &str) -> String {
    format!("policies ({policy}).{field}")
}

/// The policy that a problem is about.
fn policy_of(problem: &Problem) -> Option<&str> {
    let rest = problem.field.strip_prefix("policies (")?;
    rest.split_once(')').map(|(policy, _)| policy)
}

impl PolicySet {
    /// The same without those policies that do not fit the rest, and without a rollout that does not. The policies of
    /// a file, which have lines, are never left out: the file was checked by itself.
    #[must_use]
    pub fn fitting(&self, seed: KeySeed) -> (Self, Vec<Misfit>) {
        let mut set = self.clone();
        let (rollout, mut misfits) = (set.rollout.take(), Vec::new());
        // Each round takes at least one out.
        loop {
            let problems = problems_of(&set, seed);
            // One without its class is out first, so that it keeps none out that shares its counter.
            let of_a_class = |problem: &Problem| problem.field.ends_with(".endpointPattern");
            let first = problems.0.iter().any(of_a_class);
            let round = problems.0.iter().filter(|problem| !first || of_a_class(problem));
            let left_out = set.leave_out(round, &mut misfits);
            if !left_out {
                break;
            }
        }
        if let Some(rollout) = rollout {
            let id = rollout.share.rollout.clone();
            set.rollout = Some(rollout);
            let problems = problems_of(&set, seed);
            if !problems.0.is_empty() {
                set.rollout = None;
                misfits.push(Misfit {
                    id,
                    is_rollout: true,
                    problems,
                });
            }
        }
        (set, misfits)
    }

    /// Leaves out the policies that problems are about, and says whether there were any.
    fn leave_out<'p>(
        &mut self,
        problems: impl Iterator<Item = &'p Problem>,
        misfits: &mut Vec<Misfit>,
    ) -> bool {
        let of_api = self.policies.iter().filter(|policy| policy.line == 0);
        let of_api: HashSet<String> = of_api.map(|policy| policy.id.clone()).collect();
        let mut left_out: HashSet<&str> = HashSet::new();
        for problem in problems {
            let Some(policy) = policy_of(problem).filter(|policy| of_api.contains(*policy)) else {
                continue;
            };
            if left_out.insert(policy) {
                misfits.push(Misfit {
                    id: policy.to_owned(),
                    is_rollout: false,
                    problems: Problems(vec![problem.clone()]),
                });
            }
        }
        self.policies
            .retain(|policy| !left_out.contains(policy.id.as_str()));
        !left_out.is_empty()
    }
}

fn problems_of(set: &PolicySet, seed: KeySeed) -> Problems {
    let mut problems = Problems::default();
    Sets::of_set(set, seed, &mut problems);
    problems
}
