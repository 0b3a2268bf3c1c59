//! A client's headers as Envoy passes them on: a map with each name once, or, if it is set to `encode_raw_headers`, a list
//! of lines whose values need not be text.

use envoy_types::pb::envoy::config::core::v3::HeaderValue;
use envoy_types::pb::envoy::service::auth::v3::attribute_context::HttpRequest;

use crate::answer::Problem;
use crate::data_plane::{text, the_same};

/// The headers of a request.
#[derive(Clone, Copy)]
pub(super) struct PassedOn<'r>(pub(super) &'r HttpRequest);

impl<'r> PassedOn<'r> {
    /// The value of a header that has one, which must be text.
    pub(super) fn one(self, name: &'static str) -> Result<Option<&'r str>, Problem> {
        let value = the_same(name, self.all(name))?;
        value.map(|value| text(name, value)).transpose()
    }

    /// The lines of a header, in order.
    pub(super) fn all(self, name: &'static str) -> impl DoubleEndedIterator<Item = &'r [u8]> {
        let joined = self.0.headers.get(name).map(String::as_bytes);
        let raw = self.0.header_map.iter().flat_map(|map| &map.headers);
        let raw = raw.filter(move |line| line.key.eq_ignore_ascii_case(name));
        joined.into_iter().chain(raw.map(value))
    }
}

/// Only one of the two is ever set.
fn value(line: &HeaderValue) -> &[u8] {
    if line.raw_value.is_empty() {
        line.value.as_bytes()
    } else {
        &line.raw_value
    }
}
