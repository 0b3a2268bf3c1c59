//! Questions and answers as JSON, for callers that speak no gRPC: the names and forms are those that protobuf has for
//! its messages, so that what was written for envoyproxy/ratelimit goes on working.

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::pb;
use crate::check_body::read_object;

/// Reads a question. The error says what is wrong with it.
pub(crate) fn read(body: &[u8]) -> Result<pb::RateLimitRequest, serde_json::Error> {
    read_object::<QuestionBody>(body).map(pb::RateLimitRequest::from)
}

/// Writes an answer. What has its default value is left out.
pub(crate) fn write(response: &pb::RateLimitResponse, out: &mut Vec<u8>) {
    let mut answer = Map::new();
    let code = |code: i32| pb::Code::try_from(code).map_or("UNKNOWN", |code| code.as_str_name());
    answer.insert("overallCode".into(), code(response.overall_code).into());
    let statuses: Vec<Value> = response
        .statuses
        .iter()
        .map(|one| status(one, code(one.code)))
        .collect();
    answer.insert("statuses".into(), statuses.into());
    if !response.response_headers_to_add.is_empty() {
        let headers = response.response_headers_to_add.iter();
        let headers: Vec<Value> = headers
            .map(|header| json!({"key": header.key, "value": header.value}))
            .collect();
        answer.insert("responseHeadersToAdd".into(), headers.into());
    }
    if !response.raw_body.is_empty() {
        use base64::Engine as _;
        let body = base64::engine::general_purpose::STANDARD.encode(&response.raw_body);
        answer.insert("rawBody".into(), body.into());
    }
    // Writing to memory can't fail.
    let _ = answer.serialize(&mut serde_json::Serializer::new(out));
}

fn status(status: &pb::DescriptorStatus, code: &str) -> Value {
    let mut shown = Map::new();
    shown.insert("code".into(), code.into());
    if let Some(limit) = &status.current_limit {
        let unit = pb::Unit::try_from(limit.unit).map_or("UNKNOWN", |unit| unit.as_str_name());
        let limit = json!({"requestsPerUnit": limit.requests_per_unit, "unit": unit, "name": limit.name});
        shown.insert("currentLimit".into(), limit);
    }
    if status.limit_remaining > 0 {
        shown.insert("limitRemaining".into(), status.limit_remaining.into());
    }
    if let Some(reset) = &status.duration_until_reset {
        shown.insert("durationUntilReset".into(), format!("{}s", reset.seconds).into());
    }
    shown.into()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[derive(Default)]
struct QuestionBody {
    domain: String,
    descriptors: Vec<DescriptorBody>,
    #[serde(alias = "hits_addend")]
    hits_addend: Number,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct DescriptorBody {
    entries: Vec<EntryBody>,
    limit: Option<LimitBody>,
    #[serde(alias = "hits_addend")]
    hits_addend: Option<Number>,
    #[serde(alias = "is_negative_hits")]
    is_negative_hits: bool,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct EntryBody {
    key: String,
    value: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct LimitBody {
    #[serde(alias = "requests_per_unit")]
    requests_per_unit: Number,
    unit: UnitBody,
}

/// A whole number, or its digits as text, which is how protobuf writes large ones.
#[derive(Default, Clone, Copy)]
struct Number(u64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = match Value::deserialize(deserializer)? {
            Value::Number(number) => number.as_u64(),
            Value::String(digits) => digits.parse().ok(),
            Value::Null => Some(0),
            _ => None,
        };
        number
            .map(Self)
            .ok_or_else(|| de::Error::custom("not a whole number"))
    }
}

/// A unit by its name or number.
#[derive(Default, Clone, Copy)]
struct UnitBody(i32);

impl<'de> Deserialize<'de> for UnitBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let unit = match Value::deserialize(deserializer)? {
            Value::String(name) => pb::Unit::from_str_name(&name).map(i32::from),
            Value::Number(number) => number.as_i64().and_then(|number| i32::try_from(number).ok()),
            _ => None,
        };
        unit.map(Self).ok_or_else(|| de::Error::custom("not a unit"))
    }
}

impl From<QuestionBody> for pb::RateLimitRequest {
    fn from(body: QuestionBody) -> Self {
        Self {
            domain: body.domain,
            descriptors: body.descriptors.into_iter().map(Into::into).collect(),
            hits_addend: body.hits_addend.clamped(),
        }
    }
}

impl From<DescriptorBody> for pb::RateLimitDescriptor {
    fn from(body: DescriptorBody) -> Self {
        let entries = body.entries.into_iter().map(|entry| pb::Entry {
            key: entry.key,
            value: entry.value,
        });
        Self {
            entries: entries.collect(),
            limit: body.limit.map(|limit| pb::RateLimitOverride {
                requests_per_unit: limit.requests_per_unit.clamped(),
                unit: limit.unit.0,
            }),
            hits_addend: body.hits_addend.map(|Number(value)| pb::UInt64Value { value }),
            is_negative_hits: body.is_negative_hits,
        }
    }
}

impl Number {
    fn clamped(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }
}
