//! The seal of the file on disk: its first line, which says how much of the file there must be, and what it adds up
//! to.
//!
//! A file that has lost its end could be taken for an older state of the catalogue, or for an empty one. The seal is
//! set after what it seals, so that a write that breaks off leaves the state before.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// What a seal begins with, as no state of an entry does.
const MARK: &str = "[\"catalogue\",1,";
/// How many bytes a seal has, whatever it says.
const SEAL_BYTES: usize = MARK.len() + 49;

/// A checksum that goes on from where it was: FNV-1a with 64 bits. It is against accidents, not against forgers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sum(u64);

impl Default for Sum {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Sum {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        self.0 = bytes.iter().fold(self.0, step);
    }
}

/// What a file says of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Seal {
    /// How many bytes there are, the seal's own among them.
    pub(super) length: u64,
    /// What those after the seal add up to.
    pub(super) sum: Sum,
    /// True if policies were ever made, whatever became of them.
    pub(super) had_policies: bool,
}

impl Seal {
    /// How many bytes a seal has.
    pub(super) const BYTES: u64 = SEAL_BYTES as u64;

    /// The seal as a line. It has as many bytes whatever it says.
    pub(super) fn line(&self) -> String {
        let Self {
            length,
            sum,
            had_policies,
        } = self;
        format!("{MARK}\"{length:020}\",\"{:016x}\",{:5}]\n", sum.0, had_policies)
    }

    /// The seal of a file; `None` if it has none, as those of earlier versions.
    pub(super) fn read(file: &File) -> io::Result<Option<Self>> {
        let mut line = [0; SEAL_BYTES];
        match file.read_exact_at(&mut line, 0) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        if !line.starts_with(MARK.as_bytes()) {
            return Ok(None);
        }
        let broken = || io::Error::new(io::ErrorKind::InvalidData, "its seal is broken");
        Self::parse(&line).map(Some).ok_or_else(broken)
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let (_, _, length, sum, had_policies): (String, u32, String, String, bool) =
            serde_json::from_slice(line).ok()?;
        Some(Self {
            length: length.parse().ok()?,
            sum: Sum(u64::from_str_radix(&sum, 16).ok()?),
            had_policies,
        })
    }

    /// Sets the seal of a file, after all that it seals is on the disk.
    pub(super) fn set(&self, file: &File) -> io::Result<()> {
        file.sync_data()?;
        file.write_all_at(self.line().as_bytes(), 0)?;
        file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_is_as_long_whatever_it_says_and_is_read_as_it_was_written() {
        for (length, had_policies) in [(0, false), (u64::MAX, true), (12_345, false)] {
            let mut sum = Sum::default();
            sum.add(&length.to_le_bytes());
            let seal = Seal {
                length,
                sum,
                had_policies,
            };
            let line = seal.line();
            assert_eq!(line.len(), SEAL_BYTES, "{line}");
            assert_eq!(Seal::parse(line.as_bytes()), Some(seal), "{line}");
        }
    }

    #[test]
    fn a_sum_goes_on_from_where_it_was() {
        let (mut whole, mut parts) = (Sum::default(), Sum::default());
        whole.add(b"one and two");
        parts.add(b"one ");
        parts.add(b"and two");
        assert_eq!(whole, parts);
        assert_ne!(whole, Sum::default());
    }
}
