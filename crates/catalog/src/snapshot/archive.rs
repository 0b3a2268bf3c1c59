//! Where the records of idle orgs lie when they are not in memory.

use std::io;

use crate::model::OrgRecord;

/// Where a record lies in an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its first byte.
    pub at: u64,
    /// How many there are.
    pub bytes: u32,
}

/// Records on disk. They are read on the path of a request, when an org is asked for the first time, so an archive
/// is a local file and never a database.
pub trait Archive: Send + Sync {
    /// The record of a span.
    fn record(&self, span: Span) -> io::Result<OrgRecord>;

    /// The same, or nothing where the record can't mention a word: quicker when most don't.
    fn record_mentioning(&self, span: Span, word: &str) -> io::Result<Option<OrgRecord>>;
}
