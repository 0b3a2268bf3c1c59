//! A public key of the issuer, from its JWK (RFC 7517). The key says by which algorithms it may be used, never the token.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;

use super::algorithm::{Algorithm, Curve};

/// The fewest and most bytes of an RSA modulus: 2,048 and 8,192 bits.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;
/// The most bytes of an RSA exponent.
const EXPONENT_BYTES: usize = 8;
/// The most bytes of a key's id.
const MAX_ID_BYTES: usize = 256;

/// A key that may verify tokens.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) id: String,
    /// The only algorithm it is for, if it names one.
    algorithm: Option<Algorithm>,
    material: Material,
}

#[derive(Debug)]
enum Material {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    Point { curve: Curve, point: Vec<u8> },
    Ed25519(Vec<u8>),
}

/// A key as issuers publish it. Members that are not needed are not looked at.
#[derive(Debug, Deserialize)]
pub(super) struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl Key {
    /// The key, unless it is not for signatures, of a kind that is not taken, or malformed.
    pub(super) fn read(jwk: &Jwk) -> Option<Self> {
        let for_signatures = jwk.purpose.as_deref().is_none_or(|purpose| purpose == "sig");
        let verifies = jwk
            .key_ops
            .as_ref()
            .is_none_or(|uses| uses.iter().any(|name| name == "verify"));
        let id = jwk
            .kid
            .clone()
            .filter(|id| !id.is_empty() && id.len() <= MAX_ID_BYTES)?;
        let algorithm = match jwk.alg.as_deref() {
            Some(name) => Some(Algorithm::named(name)?),
            None => None,
        };
        let key = Self {
            id,
            algorithm,
            material: Material::read(jwk)?,
        };
        let fits = algorithm.is_none_or(|algorithm| key.material.is_for(algorithm));
        (for_signatures && verifies && fits).then_some(key)
    }

    /// Whether it may be used by an algorithm.
    pub(super) fn is_for(&self, algorithm: Algorithm) -> bool {
        self.material.is_for(algorithm) && self.algorithm.is_none_or(|only| only == algorithm)
    }

    /// Whether a signature was made with its private part.
    pub(super) fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        if !self.is_for(algorithm) {
            return false;
        }
        let verified = match (&self.material, algorithm) {
            (Material::Rsa { modulus, exponent }, Algorithm::Rsa(algorithm)) => {
                let key = RsaPublicKeyComponents {
                    n: modulus,
                    e: exponent,
                };
                key.verify(algorithm.parameters(), message, signature)
            }
            (Material::Point { curve, point }, _) => {
                UnparsedPublicKey::new(curve.parameters(), point).verify(message, signature)
            }
            (Material::Ed25519(key), _) => {
                UnparsedPublicKey::new(&signature::ED25519, key).verify(message, signature)
            }
            (Material::Rsa { .. }, _) => return false,
        };
        verified.is_ok()
    }
}

impl Material {
    fn read(jwk: &Jwk) -> Option<Self> {
        match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => {
                let (modulus, exponent) = (number(jwk.n.as_deref())?, number(jwk.e.as_deref())?);
                let fits =
                    RSA_BYTES.contains(&modulus.len()) && (1..=EXPONENT_BYTES).contains(&exponent.len());
                fits.then_some(Self::Rsa { modulus, exponent })
            }
            ("EC", Some(name)) => {
                let curve = Curve::named(name)?;
                // The form of an uncompressed point: a four, and both coordinates.
                let mut point = vec![4];
                for coordinate in [&jwk.x, &jwk.y] {
                    let coordinate = decoded(coordinate.as_deref())?;
                    point.extend((coordinate.len() == curve.bytes()).then_some(coordinate)?);
                }
                Some(Self::Point { curve, point })
            }
            ("OKP", Some("Ed25519")) => {
                let key = decoded(jwk.x.as_deref())?;
                (key.len() == 32).then_some(Self::Ed25519(key))
            }
            _ => None,
        }
    }

    fn is_for(&self, algorithm: Algorithm) -> bool {
        match self {
            Self::Rsa { .. } => matches!(algorithm, Algorithm::Rsa(_)),
            Self::Point { curve, .. } => curve.algorithm() == algorithm,
            Self::Ed25519(_) => algorithm == Algorithm::EdDsa,
        }
    }
}

fn decoded(text: Option<&str>) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(text?).ok()
}

/// A whole number, without zeros in front of it.
fn number(text: Option<&str>) -> Option<Vec<u8>> {
    let bytes = decoded(text)?;
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    Some(bytes.into_iter().skip(zeros).collect())
}
