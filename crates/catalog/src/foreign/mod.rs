//! Other limiters' configuration as policies, with a list of what could not be carried over.

mod cel;
mod descriptor_ids;
mod envoy;
mod limitador;

use std::collections::{HashMap, HashSet};

pub use envoy::{is_envoy, read_envoy};
pub use limitador::read_limitador;

use crate::document::Problems;
use crate::model::Policy;

/// A file of another limiter.
#[derive(Debug, Clone, Copy)]
pub struct ForeignFile<'a> {
    /// What it is called.
    pub name: &'a str,
    /// What it says.
    pub text: &'a str,
}

/// What some files became.
#[derive(Debug, Default)]
pub struct Imported {
    /// The policies.
    pub policies: Vec<Policy>,
    /// What could not be carried over, by file.
    pub notes: Vec<(String, Problems)>,
    /// Limits among that: without them more is let through than before.
    pub dropped: usize,
}

impl Imported {
    /// Lets counts go by their policies' ids, in a file that is written once. Only where files are read again and
    /// again must a count have a name that no change of another limit can touch.
    #[must_use]
    pub fn counted_by_id(mut self) -> Self {
        let mut bearers: HashMap<String, usize> = HashMap::new();
        for policy in &self.policies {
            if let Some(counter) = &policy.values.counter {
                *bearers.entry(counter.clone()).or_default() += 1;
            }
        }
        for policy in &mut self.policies {
            // What is counted together stays so.
            let alone = policy
                .values
                .counter
                .as_ref()
                .is_some_and(|counter| bearers.get(counter) == Some(&1));
            if alone && policy.values.algorithm_name() != "quota" {
                policy.values.counter = None;
            }
        }
        self
    }
}

/// Why some files can't be read, by file.
#[derive(Debug)]
pub struct Unread(pub Vec<(String, Problems)>);

/// Ids that were given out, so that no two are the same.
#[derive(Default)]
struct Ids(HashSet<String>);

/// The longest id, with room for a number that tells it from others.
const MAX_ID_BYTES: usize = 120;

impl Ids {
    /// An id made of what somebody called it.
    fn take(&mut self, called: &str) -> String {
        let mut id = words(called);
        id.truncate(MAX_ID_BYTES);
        let mut free = id.clone();
        let mut number = 2;
        while free.is_empty() || !self.0.insert(free.clone()) {
            free = format!("{id}-{number}");
            number += 1;
        }
        free
    }
}

/// What somebody called a limit, as an id: what ids can't have becomes a dot.
fn words(called: &str) -> String {
    let mut id = String::new();
    for character in called.chars() {
        match character {
            'A'..='Z' | 'a'..='z' | '0'..='9' | '.' | '_' | ':' | '-' => id.push(character),
            _ if id.ends_with('.') => {}
            _ => id.push('.'),
        }
    }
    id
}
