//! Keys of a test's own, and the tokens that they sign.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RsaEncoding, RsaKeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

/// Somebody who signs tokens with one key by one algorithm.
pub struct Signer {
    id: String,
    algorithm: &'static str,
    key: Key,
}

enum Key {
    Rsa(Box<RsaKeyPair>, &'static dyn RsaEncoding),
    Ec(Box<EcdsaKeyPair>),
    Ed(Ed25519KeyPair),
}

impl Signer {
    /// A signer by an algorithm. All RSA signers have the same key, which takes long to make.
    pub fn new(id: &str, algorithm: &'static str) -> Self {
        let random = SystemRandom::new();
        let ec = |curve| {
            let document = EcdsaKeyPair::generate_pkcs8(curve, &random).unwrap();
            Key::Ec(Box::new(
                EcdsaKeyPair::from_pkcs8(curve, document.as_ref(), &random).unwrap(),
            ))
        };
        let rsa = |encoding| {
            let document = PrivatePkcs8KeyDer::from_pem_slice(include_bytes!("rsa.pem")).unwrap();
            let pair = RsaKeyPair::from_pkcs8(document.secret_pkcs8_der()).unwrap();
            Key::Rsa(Box::new(pair), encoding)
        };
        let key = match algorithm {
            "RS256" => rsa(&signature::RSA_PKCS1_SHA256),
            "RS384" => rsa(&signature::RSA_PKCS1_SHA384),
            "RS512" => rsa(&signature::RSA_PKCS1_SHA512),
            "PS256" => rsa(&signature::RSA_PSS_SHA256),
            "PS384" => rsa(&signature::RSA_PSS_SHA384),
            "PS512" => rsa(&signature::RSA_PSS_SHA512),
            "ES256" => ec(&signature::ECDSA_P256_SHA256_FIXED_SIGNING),
            "ES384" => ec(&signature::ECDSA_P384_SHA384_FIXED_SIGNING),
            "EdDSA" => {
                let document = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
                Key::Ed(Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap())
            }
            other => panic!("no signer for {other}"),
        };
        Self {
            id: id.to_owned(),
            algorithm,
            key,
        }
    }

    /// The public key as its issuer publishes it.
    pub fn jwk(&self) -> Value {
        let mut jwk = match &self.key {
            Key::Rsa(pair, _) => {
                let public: PublicKeyComponents<Vec<u8>> = pair.public().into();
                json!({"kty": "RSA", "n": base64url(public.n), "e": base64url(public.e)})
            }
            Key::Ec(pair) => {
                let point = &pair.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                let curve = if x.len() == 32 { "P-256" } else { "P-384" };
                json!({"kty": "EC", "crv": curve, "x": base64url(x), "y": base64url(y)})
            }
            Key::Ed(pair) => json!({"kty": "OKP", "crv": "Ed25519", "x": base64url(pair.public_key())}),
        };
        jwk["kid"] = json!(self.id);
        jwk["use"] = json!("sig");
        jwk
    }

    /// A token that says this.
    pub fn sign(&self, claims: &Value) -> String {
        self.sign_under(&self.header(), claims)
    }

    /// The header of its tokens.
    pub fn header(&self) -> Value {
        json!({"alg": self.algorithm, "kid": self.id, "typ": "JWT"})
    }

    /// A token with another header, signed all the same.
    pub fn sign_under(&self, header: &Value, claims: &Value) -> String {
        let signed = unsigned(header, claims);
        let signature = self.signature(signed.as_bytes());
        format!("{signed}.{}", base64url(signature))
    }

    fn signature(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.key {
            Key::Rsa(pair, encoding) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(*encoding, &random, message, &mut signature).unwrap();
                signature
            }
            Key::Ec(pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Key::Ed(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }
}

/// Header and claims, without a signature.
pub fn unsigned(header: &Value, claims: &Value) -> String {
    format!(
        "{}.{}",
        base64url(header.to_string()),
        base64url(claims.to_string())
    )
}

pub fn base64url(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}
