//! What was asked, with its texts where they lie.

use smallvec::SmallVec;

use super::pb;
use crate::wire::{Fields, Malformed};

/// A domain and descriptors.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Asked<'a> {
    pub(super) domain: &'a str,
    pub(super) descriptors: Vec<Descriptor<'a>>,
    pub(super) hits_addend: u32,
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct Descriptor<'a> {
    pub(super) entries: SmallVec<[(&'a str, &'a str); 4]>,
    pub(super) limit: Option<pb::RateLimitOverride>,
    pub(super) hits_addend: Option<u64>,
    pub(super) is_negative_hits: bool,
}

impl<'a> Asked<'a> {
    /// What a message asks.
    pub(crate) fn of(request: &'a pb::RateLimitRequest) -> Self {
        let entry = |entry: &'a pb::Entry| (entry.key.as_str(), entry.value.as_str());
        let descriptor = |descriptor: &'a pb::RateLimitDescriptor| Descriptor {
            entries: descriptor.entries.iter().map(entry).collect(),
            limit: descriptor.limit,
            hits_addend: descriptor.hits_addend.map(|hits| hits.value),
            is_negative_hits: descriptor.is_negative_hits,
        };
        Self {
            domain: &request.domain,
            descriptors: request.descriptors.iter().map(descriptor).collect(),
            hits_addend: request.hits_addend,
        }
    }

    /// Reads an `envoy.service.ratelimit.v3.RateLimitRequest`.
    pub(crate) fn read(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut asked = Self::default();
        let mut fields = Fields::of(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => asked.domain = value.text()?,
                2 => asked.descriptors.push(Descriptor::read(value.fields()?)?),
                3 => asked.hits_addend = value.short()?,
                _ => {}
            }
        }
        Ok(asked)
    }
}

impl<'a> Descriptor<'a> {
    fn read(mut fields: Fields<'a>) -> Result<Self, Malformed> {
        let mut descriptor = Self::default();
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => descriptor.entries.push(read_entry(value.fields()?)?),
                2 => read_limit(descriptor.limit.get_or_insert_default(), value.fields()?)?,
                3 => read_hits(descriptor.hits_addend.get_or_insert_default(), value.fields()?)?,
                4 => descriptor.is_negative_hits = value.truth()?,
                _ => {}
            }
        }
        Ok(descriptor)
    }
}

fn read_entry(mut fields: Fields<'_>) -> Result<(&str, &str), Malformed> {
    let mut entry = ("", "");
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => entry.0 = value.text()?,
            2 => entry.1 = value.text()?,
            _ => {}
        }
    }
    Ok(entry)
}

fn read_limit(limit: &mut pb::RateLimitOverride, mut fields: Fields<'_>) -> Result<(), Malformed> {
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => limit.requests_per_unit = value.short()?,
            2 => limit.unit = value.short()?.cast_signed(),
            _ => {}
        }
    }
    Ok(())
}

fn read_hits(hits: &mut u64, mut fields: Fields<'_>) -> Result<(), Malformed> {
    while let Some((number, value)) = fields.next()? {
        if number == 1 {
            *hits = value.number()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tollgate_proto::Message;

    use super::*;

    fn descriptor() -> impl Strategy<Value = pb::RateLimitDescriptor> {
        let entry = ("[a-zé]{0,5}", "[a-z]{0,5}").prop_map(|(key, value)| pb::Entry { key, value });
        (
            proptest::collection::vec(entry, 0..6),
            proptest::option::of(any::<(u32, i32)>()),
            proptest::option::of(any::<u64>()),
            any::<bool>(),
        )
            .prop_map(
                |(entries, limit, hits, is_negative_hits)| pb::RateLimitDescriptor {
                    entries,
                    limit: limit.map(|(requests_per_unit, unit)| pb::RateLimitOverride {
                        requests_per_unit,
                        unit,
                    }),
                    hits_addend: hits.map(|value| pb::UInt64Value { value }),
                    is_negative_hits,
                },
            )
    }

    fn question() -> impl Strategy<Value = pb::RateLimitRequest> {
        let descriptors = proptest::collection::vec(descriptor(), 0..4);
        ("[a-zé]{0,5}", descriptors, any::<u32>()).prop_map(|(domain, descriptors, hits_addend)| {
            pb::RateLimitRequest {
                domain,
                descriptors,
                hits_addend,
            }
        })
    }

    proptest! {
        #[test]
        fn it_is_read_as_prost_reads_it(
            question in question(),
            cut in any::<Option<prop::sample::Index>>(),
            flip in any::<Option<(prop::sample::Index, u8)>>(),
        ) {
            let mut bytes = question.encode_to_vec();
            if let (Some((at, bits)), false) = (flip, bytes.is_empty()) {
                let at = at.index(bytes.len());
                bytes[at] ^= bits;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len() + 1));
            }
            let message = pb::RateLimitRequest::decode(&*bytes);
            match (&message, Asked::read(&bytes)) {
                (Ok(message), Ok(asked)) => prop_assert_eq!(asked, Asked::of(message)),
                (Err(_), Err(_)) => {}
                (prost, asked) => prop_assert!(false, "{prost:?} {asked:?} of {bytes:x?}"),
            }
        }
    }
}
