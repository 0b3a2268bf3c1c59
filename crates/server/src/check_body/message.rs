//! A check as it comes over gRPC, read where it lies.

use super::{CheckBody, MAX_ITEMS, Pairs, Text, Texts};
use crate::wire::{Fields, Malformed, Value};

/// A check, and what only gRPC says of it.
#[derive(Debug, Default)]
pub(crate) struct CheckMessage<'a> {
    pub(crate) body: CheckBody<'a>,
    /// Whether the answer is to have headers.
    pub(crate) with_headers: bool,
    /// Whether it is to be carried out once for a key.
    pub(crate) has_key: bool,
}

impl<'a> CheckMessage<'a> {
    /// Reads a `tollgate.v1.CheckLimitRequest`.
    pub(crate) fn read(mut fields: Fields<'a>) -> Result<Self, Malformed> {
        let mut read = Self::default();
        let body = &mut read.body;
        let text = |value: Value<'a>| value.text().map(|text| Some(Text::from(text)));
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => body.org_id = text(value)?,
                2 => body.app_id = text(value)?,
                3 => body.key_id = text(value)?,
                4 => body.user_id = text(value)?,
                5 => body.ip = text(value)?,
                6 => body.endpoint = text(value)?,
                7 => {
                    let Texts(scopes) = body.scopes.get_or_insert_with(|| Texts(Vec::new()));
                    scopes.push(value.text()?.into());
                }
                8 => body.cost = Some(value.number()?),
                9 => {
                    let costs = body.costs.get_or_insert_with(|| Pairs(Vec::new()));
                    let (unit, cost) = entry(value, 0, Value::number)?;
                    costs.put(unit, cost);
                }
                10 => {
                    let descriptors = body.descriptors.get_or_insert_with(|| Pairs(Vec::new()));
                    let (name, value) = entry(value, "", Value::text)?;
                    descriptors.put(name, value.into());
                }
                11 => body.dry_run = Some(value.truth()?),
                12 => body.api_key = text(value)?,
                13 => read.with_headers = value.truth()?,
                14 => {
                    value.text()?;
                    read.has_key = true;
                }
                _ => {}
            }
        }
        Ok(read)
    }
}

impl<'a, V> Pairs<'a, V> {
    /// Puts a value under a name, in place of what was there. More than may be is refused later; until then the
    /// search stays short.
    fn put(&mut self, name: &'a str, value: V) {
        let Self(pairs) = self;
        let mut known = pairs.iter_mut().take(MAX_ITEMS + 1);
        match known.find(|(known, _)| known.0 == name) {
            Some((_, known)) => *known = value,
            None => pairs.push((name.into(), value)),
        }
    }
}

/// An entry of a map.
fn entry<'a, V>(
    entry: Value<'a>,
    mut held: V,
    read: impl Fn(Value<'a>) -> Result<V, Malformed>,
) -> Result<(&'a str, V), Malformed> {
    let mut fields = entry.fields()?;
    let mut name = "";
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => name = value.text()?,
            2 => held = read(value)?,
            _ => {}
        }
    }
    Ok((name, held))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tollgate_proto::Message;
    use tollgate_proto::v1::CheckLimitRequest;

    use super::*;

    fn text() -> impl Strategy<Value = Option<String>> {
        proptest::option::of("[a-zé]{0,9}")
    }

    fn message() -> impl Strategy<Value = CheckLimitRequest> {
        let ids = (text(), text(), text(), text(), text(), text());
        let items = (
            proptest::collection::vec("[a-z]{0,5}", 0..4),
            proptest::collection::hash_map("[a-z]{0,3}", any::<u64>(), 0..4),
            proptest::collection::hash_map("[a-z]{0,3}", "[a-z]{0,3}", 0..4),
        );
        let rest = (
            proptest::option::of(any::<u64>()),
            proptest::option::of(any::<bool>()),
            proptest::option::of(any::<bool>()),
            text(),
            text(),
        );
        (ids, items, rest).prop_map(|(ids, items, rest)| CheckLimitRequest {
            org_id: ids.0,
            app_id: ids.1,
            key_id: ids.2,
            user_id: ids.3,
            ip: ids.4,
            endpoint: ids.5,
            scopes: items.0,
            costs: items.1,
            descriptors: items.2,
            cost: rest.0,
            dry_run: rest.1,
            with_headers: rest.2,
            api_key: rest.3,
            idempotency_key: rest.4,
        })
    }

    /// A body without the order of its maps.
    fn shown(mut body: CheckBody<'_>) -> String {
        if let Some(Pairs(pairs)) = &mut body.costs {
            pairs.sort_by(|one, other| one.0.0.cmp(&other.0.0));
        }
        if let Some(Pairs(pairs)) = &mut body.descriptors {
            pairs.sort_by(|one, other| one.0.0.cmp(&other.0.0));
        }
        format!("{body:?}")
    }

    proptest! {
        #[test]
        fn it_is_read_as_prost_reads_it(message in message()) {
            let bytes = message.encode_to_vec();
            let read = CheckMessage::read(Fields::of(&bytes)).unwrap();
            prop_assert_eq!(read.with_headers, message.with_headers());
            prop_assert_eq!(read.has_key, message.idempotency_key.is_some());
            prop_assert_eq!(shown(read.body), shown(CheckBody::from(&message)));
        }

        #[test]
        fn what_prost_refuses_is_refused(message in message(), cut in any::<prop::sample::Index>(), flip in any::<(prop::sample::Index, u8)>()) {
            let mut bytes = message.encode_to_vec();
            if !bytes.is_empty() {
                bytes[flip.0.index(message.encoded_len())] ^= flip.1;
                bytes.truncate(cut.index(bytes.len() + 1));
            }
            let message = CheckLimitRequest::decode(&*bytes);
            match (&message, CheckMessage::read(Fields::of(&bytes))) {
                (Ok(message), Ok(read)) => prop_assert_eq!(shown(read.body), shown(CheckBody::from(message))),
                (Err(_), Err(_)) => {}
                // Prost does not look at the type of a map's field.
                (Ok(_), Err(error)) if format!("{error:?}").contains("wire type") => {}
                (prost, read) => prop_assert!(false, "{prost:?} {read:?} of {bytes:x?}"),
            }
        }
    }
}
