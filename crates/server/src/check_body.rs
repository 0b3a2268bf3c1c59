//! The JSON of a check, and how it becomes a request. Text is borrowed from the body wherever it can be.

mod fault;
mod message;
mod plain;

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use tollgate_catalog::model::check_id;
use tollgate_catalog::route::Endpoint;
use tollgate_catalog::snapshot::Snapshot;
use tollgate_catalog::{Request, RequestError};
use tollgate_core::Timestamp;
use tollgate_proto::v1::CheckLimitRequest;

use crate::secret::{SecretHash, well_formed};

pub(crate) use message::CheckMessage;

/// How many scopes, descriptors or costs a request may carry.
pub(crate) const MAX_ITEMS: usize = 64;

/// A check as a client writes it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckBody<'a> {
    #[serde(borrow)]
    org_id: Option<Text<'a>>,
    #[serde(borrow)]
    app_id: Option<Text<'a>>,
    #[serde(borrow)]
    key_id: Option<Text<'a>>,
    #[serde(borrow)]
    user_id: Option<Text<'a>>,
    #[serde(borrow)]
    ip: Option<Text<'a>>,
    #[serde(borrow)]
    endpoint: Option<Text<'a>>,
    #[serde(borrow)]
    scopes: Option<Texts<'a>>,
    cost: Option<u64>,
    #[serde(borrow)]
    costs: Option<Pairs<'a, u64>>,
    #[serde(borrow)]
    descriptors: Option<Pairs<'a, Text<'a>>>,
    dry_run: Option<bool>,
    #[serde(borrow)]
    api_key: Option<Text<'a>>,
    /// How long a reservation lasts, in reserves only.
    ttl_ms: Option<u64>,
    /// When the request came, in recorded traffic only.
    #[serde(borrow)]
    at: Option<At<'a>>,
}

/// Why a check can't be decided.
#[derive(Debug, PartialEq, Eq)]
pub enum BodyError {
    /// A field is wrong.
    Field(RequestError),
    /// The key is not known.
    UnknownKey,
}

impl From<RequestError> for BodyError {
    fn from(error: RequestError) -> Self {
        Self::Field(error)
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(error) => error.fmt(f),
            Self::UnknownKey => f.write_str("The API key is unknown or revoked"),
        }
    }
}

impl std::error::Error for BodyError {}

impl<'a> From<&'a CheckLimitRequest> for CheckBody<'a> {
    fn from(request: &'a CheckLimitRequest) -> Self {
        let text = |text: &'a Option<String>| text.as_deref().map(Text::from);
        let some = |empty: bool| (!empty).then_some(());
        Self {
            org_id: text(&request.org_id),
            app_id: text(&request.app_id),
            key_id: text(&request.key_id),
            user_id: text(&request.user_id),
            ip: text(&request.ip),
            endpoint: text(&request.endpoint),
            scopes: some(request.scopes.is_empty()).map(|()| {
                Texts(
                    request
                        .scopes
                        .iter()
                        .map(|scope| Text::from(scope.as_str()))
                        .collect(),
                )
            }),
            cost: request.cost,
            costs: some(request.costs.is_empty()).map(|()| {
                let costs = request.costs.iter();
                Pairs(
                    costs
                        .map(|(unit, cost)| (Text::from(unit.as_str()), *cost))
                        .collect(),
                )
            }),
            descriptors: some(request.descriptors.is_empty()).map(|()| {
                let pairs = request.descriptors.iter();
                let pair = |(name, value): (&'a String, &'a String)| {
                    (Text::from(name.as_str()), Text::from(value.as_str()))
                };
                Pairs(pairs.map(pair).collect())
            }),
            dry_run: request.dry_run,
            api_key: text(&request.api_key),
            ttl_ms: None,
            at: None,
        }
    }
}

impl<'a> CheckBody<'a> {
    /// Reads its JSON, or says what is wrong with it.
    pub fn read(json: &'a [u8]) -> Result<Self, String> {
        let mut body = Self::default();
        match std::str::from_utf8(json).map(|json| plain::read(json, &mut body)) {
            Ok(Some(())) => Ok(body),
            _ => read_object(json).map_err(|error| fault::of(json, &error)),
        }
    }

    /// Whether nothing is to be charged.
    pub fn dry_run(&self) -> bool {
        self.dry_run.unwrap_or(false)
    }

    /// How long a reservation is to last.
    pub fn ttl_ms(&self) -> Option<u64> {
        self.ttl_ms
    }

    /// When a recorded request came.
    pub fn at(&self) -> Option<&At<'a>> {
        self.at.as_ref()
    }

    /// The request it asks about, if it is one. A key's secret is looked up in the snapshot; where there is none,
    /// no key is known.
    pub fn request<'r>(
        &'r self,
        snapshot: Option<&'r Snapshot>,
        now: Timestamp,
    ) -> Result<Request<'r>, BodyError> {
        let mut request = Request {
            org: Request::id("orgId", text(self.org_id.as_ref()))?,
            app: Request::id("appId", text(self.app_id.as_ref()))?,
            key: Request::id("keyId", text(self.key_id.as_ref()))?,
            user: Request::id("userId", text(self.user_id.as_ref()))?,
            ip: text(self.ip.as_ref()).map(Request::address).transpose()?,
            endpoint: text(self.endpoint.as_ref())
                .map(Endpoint::parse)
                .transpose()
                .map_err(RequestError::from)?,
            cost: Request::checked_cost("cost", self.cost.unwrap_or(1))?,
            ..Request::default()
        };
        if let Some(secret) = text(self.api_key.as_ref()) {
            Request::id("apiKey", Some(secret))?;
            identify(&mut request, secret, snapshot, now)?;
        }
        if let Some(Texts(scopes)) = &self.scopes {
            bounded("scopes", scopes.len())?;
            for scope in scopes {
                request.scopes.push(checked("scopes", scope)?);
            }
        }
        if let Some(Pairs(costs)) = &self.costs {
            bounded("costs", costs.len())?;
            for (unit, cost) in costs {
                let cost = Request::checked_cost("costs", *cost)?;
                request.costs.push((checked("costs", unit)?, cost));
            }
        }
        if let Some(Pairs(descriptors)) = &self.descriptors {
            bounded("descriptors", descriptors.len())?;
            for (name, value) in descriptors {
                let pair = (checked("descriptors", name)?, checked("descriptors", value)?);
                request.descriptors.push(pair);
            }
        }
        Ok(request)
    }
}

/// Fills in whom a key's secret stands for. What the request says besides must not contradict it.
pub fn identify<'r>(
    request: &mut Request<'r>,
    secret: &str,
    snapshot: Option<&'r Snapshot>,
    now: Timestamp,
) -> Result<(), BodyError> {
    let known = snapshot.filter(|_| well_formed(secret));
    let known = known.and_then(|snapshot| snapshot.api_key(&SecretHash::of(secret).bytes(), now));
    let key = known.ok_or(BodyError::UnknownKey)?;
    for (field, said, stands_for) in [
        ("orgId", &mut request.org, &key.org),
        ("appId", &mut request.app, &key.app),
        ("keyId", &mut request.key, &key.id),
    ] {
        if said.is_some_and(|said| *said != **stands_for) {
            return Err(RequestError::new(field, "contradicts the API key").into());
        }
        *said = Some(stands_for);
    }
    request.test = key.test;
    Ok(())
}

/// Reads a JSON object. Left to itself serde would take a list for one, too, its items for the fields in order.
pub fn read_object<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, serde_json::Error> {
    match json.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'[') => Err(de::Error::custom("it is a list, not an object")),
        _ => serde_json::from_slice(json),
    }
}

fn text<'t>(text: Option<&'t Text<'_>>) -> Option<&'t str> {
    text.map(|text| &*text.0)
}

fn checked<'t>(field: &'static str, text: &'t Text<'_>) -> Result<&'t str, RequestError> {
    check_id(&text.0).map_err(|problem| RequestError::new(field, problem))?;
    Ok(&text.0)
}

fn bounded(field: &'static str, items: usize) -> Result<(), RequestError> {
    if items > MAX_ITEMS {
        return Err(RequestError::new(field, "must have at most 64 items"));
    }
    Ok(())
}

/// Text that is borrowed unless it has escapes.
#[derive(Debug, PartialEq, Eq)]
pub struct Text<'a>(pub Cow<'a, str>);

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

#[derive(Debug)]
struct Texts<'a>(Vec<Text<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Texts<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextsVisitor;
        impl<'de> Visitor<'de> for TextsVisitor {
            type Value = Texts<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of strings")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut texts = Vec::new();
                while let Some(item) = items.next_element()? {
                    texts.push(item);
                }
                Ok(Texts(texts))
            }
        }
        deserializer.deserialize_seq(TextsVisitor)
    }
}

/// A JSON object as pairs; a name that stands twice is an error.
#[derive(Debug)]
pub struct Pairs<'a, V>(pub Vec<(Text<'a>, V)>);

impl<'de: 'a, 'a, V: Deserialize<'de>> Deserialize<'de> for Pairs<'a, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor<V>(std::marker::PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for PairsVisitor<V> {
            type Value = Pairs<'de, V>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut pairs: Vec<(Text<'de>, V)> = Vec::new();
                while let Some((name, value)) = items.next_entry::<Text<'de>, V>()? {
                    // More than may be is refused later; until then the search stays short.
                    if pairs.len() <= MAX_ITEMS && pairs.iter().any(|(known, _)| *known == name) {
                        return Err(de::Error::custom(format!(
                            "`{}` is given twice",
                            name.0.escape_debug()
                        )));
                    }
                    pairs.push((name, value));
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(PairsVisitor(std::marker::PhantomData))
    }
}

/// A point in recorded time: Unix milliseconds, or an RFC 3339 time.
#[derive(Debug)]
pub enum At<'a> {
    /// Unix milliseconds.
    Millis(u64),
    /// RFC 3339.
    Rfc3339(Cow<'a, str>),
}

impl<'de: 'a, 'a> Deserialize<'de> for At<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AtVisitor;
        impl<'de> Visitor<'de> for AtVisitor {
            type Value = At<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("Unix milliseconds or an RFC 3339 time")
            }
            fn visit_u64<E: de::Error>(self, millis: u64) -> Result<Self::Value, E> {
                Ok(At::Millis(millis))
            }
            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(At::Rfc3339(Cow::Borrowed(text)))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(At::Rfc3339(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_any(AtVisitor)
    }
}
