//! Orgs that nobody has asked for: where the record of each lies, in twenty bytes.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use tollgate_core::IdHash;

use super::archive::{Archive, Span};
use crate::model::OrgRecord;

/// About how many hashes have a beginning in common.
const ALIKE: usize = 8;

/// An index of an archive. It never changes: orgs that do are kept elsewhere.
pub(super) struct Idle {
    archive: Arc<dyn Archive>,
    /// Half of each org's hash, sorted. Ids are compared when a record is read.
    hashes: Box<[u64]>,
    /// Where the record of each begins, and how long it is. Apart, so that nothing is padded.
    begins: Box<[u64]>,
    lengths: Box<[u32]>,
    /// For each beginning of a hash the place of the first that has it, and at last how many hashes there are.
    firsts: Box<[u32]>,
    /// By how many bits a hash is longer than its beginning.
    shift: u32,
}

impl Idle {
    pub(super) fn new(archive: Arc<dyn Archive>, mut orgs: Vec<(IdHash, Span)>) -> Self {
        orgs.sort_unstable_by_key(|(hash, _)| hash.short());
        let beginnings = (orgs.len() / ALIKE).next_power_of_two().max(2);
        let shift = 64 - beginnings.trailing_zeros();
        let mut firsts = Vec::with_capacity(beginnings + 1);
        for (place, (hash, _)) in (0..).zip(&orgs) {
            while firsts.len() as u64 <= hash.short() >> shift {
                firsts.push(place);
            }
        }
        firsts.resize(beginnings + 1, u32::try_from(orgs.len()).unwrap_or(u32::MAX));
        Self {
            archive,
            hashes: orgs.iter().map(|(hash, _)| hash.short()).collect(),
            begins: orgs.iter().map(|(_, span)| span.at).collect(),
            lengths: orgs.iter().map(|(_, span)| span.bytes).collect(),
            firsts: firsts.into(),
            shift,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether an org is among them, or one with the same half of a hash: of a million, one in 10^13 is.
    pub(super) fn knows(&self, hash: IdHash) -> bool {
        self.places(hash).next().is_some()
    }

    /// The record of an org; `None` if it is not among them.
    pub(super) fn record(&self, hash: IdHash, id: &str) -> io::Result<Option<OrgRecord>> {
        for place in self.places(hash) {
            let record = self.archive.record(self.span(place))?;
            if record.org.id == id {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// The records that may mention a word, but for those of some hashes, of which half is given.
    pub(super) fn mentioning(
        &self,
        word: &str,
        except: impl Fn(u64) -> bool,
    ) -> impl Iterator<Item = io::Result<OrgRecord>> {
        let hashes = self.hashes.iter().enumerate();
        let places = hashes.filter(move |(_, hash)| !except(**hash));
        places
            .filter_map(move |(place, _)| self.archive.record_mentioning(self.span(place), word).transpose())
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "a beginning is a place among the firsts"
    )]
    fn places(&self, hash: IdHash) -> impl Iterator<Item = usize> {
        let beginning = (hash.short() >> self.shift) as usize;
        let alike: Range<usize> = self.firsts[beginning] as usize..self.firsts[beginning + 1] as usize;
        alike.filter(move |place| self.hashes[*place] == hash.short())
    }

    fn span(&self, place: usize) -> Span {
        Span {
            at: self.begins[place],
            bytes: self.lengths[place],
        }
    }
}
