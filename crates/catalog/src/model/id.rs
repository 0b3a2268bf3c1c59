//! Ids of orgs, apps, keys and users, and of policies.

/// The longest id.
pub const MAX_ID_BYTES: usize = 256;

/// Checks an org's, app's, key's or user's id, or a descriptor.
pub fn check_id(id: &str) -> Result<(), &'static str> {
    if id.is_empty() {
        return Err("must not be empty");
    }
    if id.len() > MAX_ID_BYTES {
        return Err("must be at most 256 bytes");
    }
    // Bytes above 0x7f are parts of characters; the C1 controls among those are U+0080 to U+009F.
    let plain = id.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    if !plain && id.chars().any(char::is_control) {
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
