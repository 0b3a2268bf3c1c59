//! Ids of orgs, apps, keys and users, and of policies.

/// The longest id.
pub const MAX_ID_BYTES: usize = 256;

/// Checks an org's, app's, key's or user's id, or a descriptor.
#[inline]
pub fn check_id(id: &str) -> Result<(), &'static str> {
    let of_length = (1..=MAX_ID_BYTES).contains(&id.len());
    if of_length && id.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return Ok(());
    }
    check_other_id(id)
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
