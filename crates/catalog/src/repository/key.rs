//! A key that the journal's hashes are made with. Whoever can write the database, but has not the key, can then neither
//! make rows nor move the head without being found.

use sha2::{Digest, Sha256};

/// How many bytes a key has at least.
const MIN_KEY_BYTES: usize = 16;
/// How many bytes SHA-256 takes at a time.
const BLOCK: usize = 64;

/// The key. Never shown by `Debug`.
#[derive(Clone)]
pub struct AuditKey {
    inner: [u8; BLOCK],
    outer: [u8; BLOCK],
}

impl std::fmt::Debug for AuditKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AuditKey(…)")
    }
}

impl AuditKey {
    /// A key of these bytes; `None` if they are too few to be one.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < MIN_KEY_BYTES {
            return None;
        }
        let mut block = [0; BLOCK];
        let hashed = Sha256::digest(bytes);
        let fits = if bytes.len() > BLOCK {
            hashed.as_slice()
        } else {
            bytes
        };
        for (place, byte) in block.iter_mut().zip(fits) {
            *place = *byte;
        }
        Some(Self {
            inner: block.map(|byte| byte ^ 0x36),
            outer: block.map(|byte| byte ^ 0x5c),
        })
    }

    /// HMAC-SHA-256 of a text (RFC 2104), in hexadecimal.
    pub(super) fn sign(&self, text: &str) -> String {
        let inner = Sha256::new()
            .chain_update(self.inner)
            .chain_update(text)
            .finalize();
        let outer = Sha256::new()
            .chain_update(self.outer)
            .chain_update(inner)
            .finalize();
        super::chain::hex(&outer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_signs_as_rfc_4231_says() {
        let key = AuditKey::new(&[0x0b; 20]).unwrap();
        assert_eq!(
            key.sign("Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        );
        let long = AuditKey::new(&[0xaa; 131]).unwrap();
        assert_eq!(
            long.sign("Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn what_is_too_short_is_none() {
        assert!(AuditKey::new(&[7; 15]).is_none());
        assert!(!format!("{:?}", AuditKey::new(&[7; 16])).contains('7'));
    }
}
