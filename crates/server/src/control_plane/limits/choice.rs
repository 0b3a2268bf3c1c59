//! Which limits the control plane has, as the setting says.

use std::path::PathBuf;

use super::Limits;
use crate::answer::HeaderStyles;

/// The value of `--admin-limits`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AdminLimits {
    /// Those that come with the program.
    #[default]
    BuiltIn,
    /// Those of a policy file.
    File(PathBuf),
    /// None.
    Off,
}

impl From<Option<PathBuf>> for AdminLimits {
    fn from(given: Option<PathBuf>) -> Self {
        match given {
            None => Self::BuiltIn,
            Some(word) if word.as_os_str() == "off" => Self::Off,
            Some(path) => Self::File(path),
        }
    }
}

impl AdminLimits {
    /// Reads them, if there are to be any. The error is a sentence that names the flag.
    pub fn read(&self, styles: HeaderStyles, shadow_all: bool) -> Result<Option<Limits>, String> {
        let file = match self {
            Self::Off => return Ok(None),
            Self::BuiltIn => None,
            Self::File(path) => Some(path.as_path()),
        };
        Limits::read(file, styles, shadow_all).map(Some)
    }
}
