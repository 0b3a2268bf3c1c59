//! The policies that are for descriptors, as a tree: of those that fit a request's entries, the most specific one.
//!
//! Step by step, an exact value comes before one with `*`, in the order of the policies, and that before a bare key.
//! Only the end of the way counts: who names two entries is not for requests with one, or with three.

use std::collections::HashMap;

use crate::model::DescriptorPath;

/// The place of a descriptor in the tree.
pub(super) type Place = u32;

/// All descriptors that policies are for.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    domains: HashMap<Box<str>, Place>,
    nodes: Vec<Node>,
}

/// What may come next, by its key.
#[derive(Debug, Default)]
struct Node(HashMap<Box<str>, Steps>);

#[derive(Debug, Default)]
struct Steps {
    exact: HashMap<Box<str>, Place>,
    wildcards: Vec<(Box<str>, Place)>,
    bare: Option<Place>,
}

impl Descriptors {
    /// The place of a descriptor, made if there is none yet.
    pub(super) fn add(&mut self, path: &DescriptorPath) -> Place {
        let root = self.domains.get(path.domain.as_str()).copied();
        let mut at = root.unwrap_or_else(|| {
            let place = self.node();
            self.domains.insert(path.domain.as_str().into(), place);
            place
        });
        for entry in &path.entries {
            let next = self.node();
            let node = &mut self.nodes[at as usize];
            let steps = node.0.entry(entry.key.as_str().into()).or_default();
            at = match entry.value.as_deref() {
                None => *steps.bare.get_or_insert(next),
                Some(value) if value.contains('*') => {
                    match steps.wildcards.iter().find(|(known, _)| **known == *value) {
                        Some((_, place)) => *place,
                        None => {
                            steps.wildcards.push((value.into(), next));
                            next
                        }
                    }
                }
                Some(value) => *steps.exact.entry(value.into()).or_insert(next),
            };
        }
        at
    }

    /// Where a request's descriptor leads: its domain comes first, the entries after it.
    pub(super) fn find(&self, descriptors: &[(&str, &str)]) -> Option<Place> {
        let ((_, domain), entries) = descriptors.split_first()?;
        let mut at = *self.domains.get(*domain)?;
        for (key, value) in entries {
            at = self.nodes[at as usize].0.get(*key)?.next(value)?;
        }
        Some(at)
    }

    fn node(&mut self) -> Place {
        self.nodes.push(Node::default());
        u32::try_from(self.nodes.len() - 1).unwrap_or(u32::MAX)
    }
}

impl Steps {
    fn next(&self, value: &str) -> Option<Place> {
        if let Some(next) = self.exact.get(value) {
            return Some(*next);
        }
        let mut wildcards = self.wildcards.iter();
        let wildcard = wildcards.find(|(pattern, _)| fits(pattern, value));
        wildcard.map(|(_, next)| *next).or(self.bare)
    }
}

/// Whether a value is what a pattern says, in which each `*` stands for any characters.
fn fits(pattern: &str, value: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == value;
    };
    let Some(mut left) = value.strip_prefix(first) else {
        return false;
    };
    let (middle, last) = rest
        .rsplit_once('*')
        .map_or((None, rest), |(middle, last)| (Some(middle), last));
    for part in middle.iter().flat_map(|middle| middle.split('*')) {
        let Some(at) = left.find(part) else {
            return false;
        };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DescriptorEntry;

    fn tree(paths: &[&[(&str, Option<&str>)]]) -> (Descriptors, Vec<Place>) {
        let mut tree = Descriptors::default();
        let places = paths.iter().map(|entries| {
            let entries = entries.iter().map(|(key, value)| DescriptorEntry {
                key: (*key).to_owned(),
                value: value.map(str::to_owned),
            });
            tree.add(&DescriptorPath {
                domain: "d".to_owned(),
                entries: entries.collect(),
            })
        });
        let places = places.collect();
        (tree, places)
    }

    #[test]
    fn an_exact_value_comes_before_a_wildcard_before_a_bare_key() {
        let (tree, places) = tree(&[
            &[("k", None)],
            &[("k", Some("a*"))],
            &[("k", Some("ab*"))],
            &[("k", Some("abc"))],
        ]);
        let find = |value| tree.find(&[("domain", "d"), ("k", value)]);
        assert_eq!(find("abc"), Some(places[3]));
        assert_eq!(find("abd"), Some(places[1]), "the first that fits");
        assert_eq!(find("xyz"), Some(places[0]));
        assert_eq!(find(""), Some(places[0]));
    }

    #[test]
    fn only_as_many_entries_as_are_named_fit() {
        let (tree, places) = tree(&[&[("a", Some("1")), ("b", None)]]);
        let found = tree.find(&[("domain", "d"), ("a", "1"), ("b", "x")]);
        assert_eq!(found, Some(places[0]));
        assert_ne!(tree.find(&[("domain", "d"), ("a", "1")]), Some(places[0]));
        for other in [
            &[("domain", "d"), ("a", "1"), ("b", "x"), ("c", "y")][..],
            &[("domain", "d"), ("b", "x"), ("a", "1")],
            &[("domain", "other"), ("a", "1"), ("b", "x")],
        ] {
            assert_eq!(tree.find(other), None, "{other:?}");
        }
    }

    #[test]
    fn the_most_specific_step_is_taken_even_if_it_leads_nowhere() {
        let (tree, _) = tree(&[&[("k", None), ("l", None)], &[("k", Some("a"))]]);
        assert_eq!(tree.find(&[("domain", "d"), ("k", "a"), ("l", "1")]), None);
    }

    #[test]
    fn wildcards_may_stand_anywhere() {
        for (pattern, value, expected) in [
            ("*", "", true),
            ("a*", "a", true),
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "acb", false),
            ("a*bc*d", "axbcxd", true),
            ("a*b*b", "ab", false),
            ("a*b*b", "abb", true),
            ("aa*aa", "aaa", false),
            ("*b*", "abc", true),
            ("*b*", "ac", false),
            ("**", "x", true),
        ] {
            assert_eq!(fits(pattern, value), expected, "{pattern} {value}");
        }
    }
}
