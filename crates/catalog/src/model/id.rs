//! Ids of orgs, apps, keys and users, and of policies.

/// The longest id.
pub const MAX_ID_BYTES: usize = 256;

/// Checks an org's, app's, key's or user's id, or a descriptor.
#[inline]
pub fn check_id(id: &str) -> Result<(), &'static str> {
    let of_length = (1..=MAX_ID_BYTES).contains(&id.len());
    if of_length && is_printable(id.as_bytes()) {
        return Ok(());
    }
    check_other_id(id)
}

/// Whether all of a text is printable ASCII. Most ids are short: their first and last bytes are looked at together.
#[inline]
fn is_printable(text: &[u8]) -> bool {
    if text.len() > 16 {
        return text.iter().all(|byte| (0x20..0x7f).contains(byte));
    }
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        return are_printable(*first) && are_printable(*last);
    }
    if let (Some([a, b, c, d]), Some([e, f, g, h])) = (text.first_chunk(), text.last_chunk()) {
        return are_printable([*a, *b, *c, *d, *e, *f, *g, *h]);
    }
    text.iter().all(|byte| (0x20..0x7f).contains(byte))
}

/// Looks at eight bytes as one word: none has its highest bit, none gets it when one is added, and each keeps it, were it
/// there, when a space is taken away.
#[inline]
fn are_printable(bytes: [u8; 8]) -> bool {
    const HIGHEST: u64 = 0x8080_8080_8080_8080;
    const ONES: u64 = 0x0101_0101_0101_0101;
    let word = u64::from_le_bytes(bytes);
    let below_space = !((word | HIGHEST).wrapping_sub(ONES * 0x20));
    (word | word.wrapping_add(ONES) | below_space) & HIGHEST == 0
}

/// The same of an id that is not printable ASCII throughout.
#[inline(never)]
fn check_other_id(id: &str) -> Result<(), &'static str> {
    if id.is_empty() {
        return Err("must not be empty");
    }
    if id.len() > MAX_ID_BYTES {
        return Err("must be at most 256 bytes");
    }
    if id.chars().any(char::is_control) {
        return Err("must not contain control characters");
    }
    Ok(())
}

/// Checks a policy's id.
pub fn check_policy_id(id: &str) -> Result<(), String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    if id.is_empty() || id.len() > 128 || !id.bytes().all(allowed) {
        return Err(format!(
            "`{}` is not an id: 1 to 128 letters, digits and any of `.`, `_`, `:`, `-`",
            id.escape_debug()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each byte at each place of texts of each length, among others that are printable.
    #[test]
    fn what_is_not_printable_is_seen_wherever_it_stands() {
        for length in 1..=20 {
            for place in 0..length {
                for byte in 0..=u8::MAX {
                    for others in [b' ', b'k', b'~'] {
                        let mut text = vec![others; length];
                        text[place] = byte;
                        assert_eq!(is_printable(&text), (0x20..0x7f).contains(&byte), "{text:?}");
                    }
                }
            }
        }
    }
}
