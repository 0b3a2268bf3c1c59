//! A JWT in its compact form, taken apart (RFC 7515, RFC 7519). Nothing of it is to be believed yet.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::algorithm::Algorithm;
use super::refused::Refused;

/// The longest token that is looked at.
const MAX_BYTES: usize = 8 * 1024;

/// A token's parts.
pub(super) struct Token<'t> {
    pub(super) algorithm: Algorithm,
    pub(super) key_id: String,
    /// What the signature is of.
    pub(super) signed: &'t str,
    pub(super) signature: Vec<u8>,
    pub(super) claims: Map<String, Value>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: String,
    typ: Option<String>,
    crit: Option<Value>,
}

impl<'t> Token<'t> {
    /// Takes a token apart.
    pub(super) fn read(token: &'t str) -> Result<Self, Refused> {
        if token.len() > MAX_BYTES {
            return Err(Refused::Malformed);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(Refused::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(Refused::Malformed)?;
        let header: Header = part(header)?;
        // Whatever is critical there is not known here, and so must not be ignored.
        if header.crit.is_some() || !header.typ.as_deref().is_none_or(is_access) {
            return Err(Refused::Malformed);
        }
        Ok(Self {
            algorithm: Algorithm::named(&header.alg).ok_or(Refused::Malformed)?,
            key_id: header.kid,
            signed,
            signature: decoded(signature)?,
            claims: part(claims)?,
        })
    }
}

/// Whether a token of this type may open something. Issuers sign others with the same keys: for logging out, for
/// example.
fn is_access(typ: &str) -> bool {
    let known = ["jwt", "at+jwt", "application/at+jwt"];
    known.iter().any(|name| name.eq_ignore_ascii_case(typ))
}

fn part<T: DeserializeOwned>(text: &str) -> Result<T, Refused> {
    serde_json::from_slice(&decoded(text)?).map_err(|_| Refused::Malformed)
}

fn decoded(text: &str) -> Result<Vec<u8>, Refused> {
    BASE64_URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|_| Refused::Malformed)
}
