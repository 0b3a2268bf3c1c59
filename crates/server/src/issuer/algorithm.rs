//! The algorithms by which tokens may be signed. None of them has a secret that this server would share.

use ring::signature::{self, EcdsaVerificationAlgorithm, RsaParameters};

/// An algorithm, by its family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// RSA, with either padding.
    Rsa(RsaAlgorithm),
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

/// A padding and a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RsaAlgorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
}

impl Algorithm {
    /// Reads the name as a token's header or a key has it. `none` and the HMACs are no names here.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::Rsa(RsaAlgorithm::Rs256),
            "RS384" => Self::Rsa(RsaAlgorithm::Rs384),
            "RS512" => Self::Rsa(RsaAlgorithm::Rs512),
            "PS256" => Self::Rsa(RsaAlgorithm::Ps256),
            "PS384" => Self::Rsa(RsaAlgorithm::Ps384),
            "PS512" => Self::Rsa(RsaAlgorithm::Ps512),
            "ES256" => Self::Es256,
            "ES384" => Self::Es384,
            // The second is its newer name (RFC 9864).
            "EdDSA" | "Ed25519" => Self::EdDsa,
            _ => return None,
        })
    }
}

impl RsaAlgorithm {
    /// What ring calls it. Keys of fewer than 2,048 bits are refused.
    pub(super) fn parameters(self) -> &'static RsaParameters {
        match self {
            Self::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Self::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Self::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            Self::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
            Self::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
            Self::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
        }
    }
}

/// A curve of ECDSA. Its hash comes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Curve {
    P256,
    P384,
}

impl Curve {
    /// Reads the name as a key has it.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "P-256" => Some(Self::P256),
            "P-384" => Some(Self::P384),
            _ => None,
        }
    }

    /// The one algorithm that keys on it are for.
    pub(super) fn algorithm(self) -> Algorithm {
        match self {
            Self::P256 => Algorithm::Es256,
            Self::P384 => Algorithm::Es384,
        }
    }

    /// What ring calls it.
    pub(super) fn parameters(self) -> &'static EcdsaVerificationAlgorithm {
        match self {
            Self::P256 => &signature::ECDSA_P256_SHA256_FIXED,
            Self::P384 => &signature::ECDSA_P384_SHA384_FIXED,
        }
    }

    /// How many bytes a coordinate has.
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::P256 => 32,
            Self::P384 => 48,
        }
    }
}
