//! What a bucket is called, and the request that it stands for.

use std::sync::Arc;

use tollgate_catalog::Request;

use super::pb;
use crate::answer::Problem;
use crate::rls::{MAX_ENTRIES, read_entries};

/// The longest name, all keys and values together.
const MAX_BYTES: usize = 1024;

/// A bucket's name: its domain, and its pairs in the order of their keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Name {
    domain: Arc<str>,
    pairs: Arc<[(String, String)]>,
}

impl Name {
    pub(super) fn of(domain: &Arc<str>, id: pb::BucketId) -> Self {
        let mut pairs: Vec<_> = id.bucket.into_iter().collect();
        pairs.sort_unstable();
        Self {
            domain: domain.clone(),
            pairs: pairs.into(),
        }
    }

    /// One request of the bucket, or what is wrong with its name.
    pub(super) fn request(&self) -> Result<Request<'_>, Problem> {
        let bytes: usize = self
            .pairs
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum();
        if self.pairs.is_empty() || self.pairs.len() > MAX_ENTRIES || bytes > MAX_BYTES {
            return Err(Problem::bad_request("it is empty or too long."));
        }
        let pairs = self.pairs.iter();
        read_entries(
            &self.domain,
            pairs.map(|(key, value)| (key.as_str(), value.as_str())),
        )
    }

    /// The same as Envoy calls it.
    pub(super) fn id(&self) -> pb::BucketId {
        pb::BucketId {
            bucket: self.pairs.iter().cloned().collect(),
        }
    }
}

#[cfg(test)]
impl Name {
    pub(super) fn new(domain: &str, pairs: &[(&str, &str)]) -> Self {
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let bucket = pairs.iter().map(own).collect();
        Self::of(&domain.into(), pb::BucketId { bucket })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_feed_the_stack_in_the_order_of_their_keys() {
        let name = Name::new("edge", &[("org", "acme"), ("cost", "3"), ("endpoint", "GET /v1")]);
        let request = name.request().unwrap_or_else(|problem| panic!("{problem:?}"));
        assert_eq!((request.org, request.cost), (Some("acme"), 3));
        let keys: Vec<&str> = request.descriptors.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, ["domain", "cost", "endpoint", "org"]);
        assert_eq!(name.id().bucket.len(), 3);
    }

    #[test]
    fn a_bad_name_is_told() {
        let (long, no_id) = ("x".repeat(MAX_BYTES), "x".repeat(300));
        for pairs in [
            &[][..],
            &[("org", &*no_id)],
            &[("endpoint", "/%zz")],
            &[("path", &*long)],
        ] {
            assert!(Name::new("edge", pairs).request().is_err(), "{pairs:?}");
        }
    }
}
