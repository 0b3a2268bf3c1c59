//! Whether a token is meant for this server, and for now.

use serde_json::{Map, Value};

use super::IssuerSettings;
use super::refused::Refused;

/// How many seconds the clocks of issuer and server may differ.
const LEEWAY: i64 = 60;

/// Whether issuer and audience are the configured ones.
pub(super) fn check_address(claims: &Map<String, Value>, settings: &IssuerSettings) -> Result<(), Refused> {
    let issued_by_ours = claims.get("iss").and_then(Value::as_str) == Some(&settings.issuer);
    let ours = |audience: &Value| audience.as_str() == Some(&settings.audience);
    let meant_for_us = match claims.get("aud") {
        Some(Value::Array(audiences)) => audiences.iter().any(ours),
        Some(audience) => ours(audience),
        None => false,
    };
    if issued_by_ours && meant_for_us {
        Ok(())
    } else {
        Err(Refused::Elsewhere)
    }
}

/// Whether this Unix second lies within the token's time. A token without an end is not taken.
pub(super) fn check_times(claims: &Map<String, Value>, now: i64) -> Result<(), Refused> {
    if now >= ends(claims) {
        return Err(Refused::Expired);
    }
    match claims.get("nbf").map(seconds) {
        None => Ok(()),
        Some(Some(begins)) if begins.saturating_sub(LEEWAY) <= now => Ok(()),
        Some(_) => Err(Refused::NotYet),
    }
}

/// When a token's time is over, in Unix seconds.
pub(crate) fn ends(claims: &Map<String, Value>) -> i64 {
    expires(claims).saturating_add(LEEWAY)
}

/// When a token says that its time is over, in Unix seconds.
pub(crate) fn expires(claims: &Map<String, Value>) -> i64 {
    claims.get("exp").and_then(seconds).unwrap_or(0)
}

/// A time as tokens have it: seconds, of which some issuers write fractions.
fn seconds(value: &Value) -> Option<i64> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the fraction does not matter, and what is too large becomes the largest"
    )]
    let whole = |fraction: f64| fraction as i64;
    value.as_i64().or_else(|| value.as_f64().map(whole))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn times(claims: &Value) -> Result<(), Refused> {
        check_times(claims.as_object().unwrap(), 1_000)
    }

    #[test]
    fn a_token_is_good_up_to_a_minute_around_its_time() {
        assert_eq!(times(&json!({"exp": 941})), Ok(()));
        assert_eq!(times(&json!({"exp": 941.5})), Ok(()));
        assert_eq!(times(&json!({"exp": 940})), Err(Refused::Expired));
        assert_eq!(times(&json!({"exp": 2_000, "nbf": 1_060})), Ok(()));
        assert_eq!(times(&json!({"exp": 2_000, "nbf": 1_061})), Err(Refused::NotYet));
    }

    #[test]
    fn a_time_that_is_none_is_never_a_good_one() {
        for exp in [
            json!(null),
            json!("2000"),
            json!([2_000]),
            json!(-1),
            json!(i64::MIN),
        ] {
            assert_eq!(times(&json!({"exp": exp})), Err(Refused::Expired), "{exp}");
        }
        assert_eq!(times(&json!({})), Err(Refused::Expired));
        assert_eq!(times(&json!({"exp": i64::MAX, "nbf": i64::MIN})), Ok(()));
        assert_eq!(times(&json!({"exp": 1e300})), Ok(()));
        for nbf in [json!(null), json!("0"), json!(1e300)] {
            let claims = json!({"exp": 2_000, "nbf": nbf});
            assert_eq!(times(&claims), Err(Refused::NotYet), "{nbf}");
        }
    }
}
