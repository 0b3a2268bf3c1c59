//! The admin token: given, or made at the first start and kept in the data directory.

use std::fmt;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The token of whoever may administer. Never shown by `Debug`.
pub struct AdminToken(String);

/// Why there is no token.
#[derive(Debug)]
pub enum TokenError {
    /// The file that keeps it can't be read or written.
    File(String, std::io::Error),
    /// The operating system gives no randomness.
    Random(getrandom::Error),
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, error) => write!(f, "the admin token's file {path}: {error}"),
            Self::Random(error) => write!(f, "no randomness for an admin token: {error}"),
        }
    }
}

impl std::error::Error for TokenError {}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken(…)")
    }
}

impl AdminToken {
    /// A token that was given.
    pub fn given(token: String) -> Self {
        Self(token)
    }

    /// The token kept in the data directory; made there if there is none, and then returned to be shown once.
    pub fn kept(data_dir: &Path) -> Result<(Self, Option<String>), TokenError> {
        let path = data_dir.join("admin-token");
        let fail = |error| TokenError::File(path.display().to_string(), error);
        match std::fs::read_to_string(&path) {
            Ok(token) if !token.trim().is_empty() => return Ok((Self(token.trim().to_owned()), None)),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(fail(error)),
        }
        let token = random_token()?;
        let mut options = std::fs::OpenOptions::new();
        let file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path);
        file.and_then(|mut file| {
            // A file that was there before, empty, keeps the mode it had until it is told otherwise.
            file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
            writeln!(file, "{token}")
        })
        .map_err(fail)?;
        Ok((Self(token.clone()), Some(token)))
    }

    /// Whether a token is this one.
    pub fn is(&self, token: &str) -> bool {
        equal(token, &self.0)
    }
}

fn random_token() -> Result<String, TokenError> {
    use fmt::Write;

    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(TokenError::Random)?;
    let mut token = String::from("tg_admin_");
    for byte in bytes {
        let _ = write!(token, "{byte:02x}");
    }
    Ok(token)
}

/// Compares without telling by the time taken how much was right.
fn equal(one: &str, other: &str) -> bool {
    let differing = one
        .bytes()
        .zip(other.bytes())
        .fold(0, |sum, (a, b)| sum | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differing) == 0
}
