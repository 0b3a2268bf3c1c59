//! Idle orgs: their records stay in the file on disk until somebody asks for them.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tollgate_catalog::model::OrgRecord;
use tollgate_catalog::repository::{Kind, Place};
use tollgate_catalog::snapshot::{Archive, Span};

use super::FileSet;
use super::contents::{Held, OF_AN_ORG};
use super::disk::{Extent, Line, State};
use super::seal::{Seal, Sum};

/// The file on disk, read an org at a time, with what the policy file says beside it.
pub(super) struct OrgsOnDisk {
    file: File,
    set: Arc<FileSet>,
    /// Whether it was said that the file can't be read: a broken disk need not fill the log.
    told: AtomicBool,
}

/// The org whose record an entry is part of.
pub(super) fn org_of(place: &Place) -> Option<&str> {
    match place.kind {
        Kind::Org => Some(&place.id),
        kind if OF_AN_ORG.contains(&kind) => Some(&place.org),
        _ => None,
    }
}

impl OrgsOnDisk {
    pub(super) fn new(file: File, set: Arc<FileSet>) -> Self {
        Self {
            file,
            set,
            told: AtomicBool::new(false),
        }
    }

    fn bytes(&self, span: Span) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; span.bytes as usize];
        self.file.read_exact_at(&mut bytes, span.at)?;
        Ok(bytes)
    }

    fn parsed(&self, spans: &[Vec<u8>]) -> io::Result<OrgRecord> {
        let (org, held) = held_in(spans)?;
        let record = org.and_then(|org| held.merged(&org, &self.set));
        record.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not the record of an org"))
    }

    /// What is held of an org in states that lie apart, in their order.
    pub(super) fn held(&self, spans: &[Span]) -> io::Result<Held> {
        let bytes: io::Result<Vec<_>> = spans.iter().map(|span| self.bytes(*span)).collect();
        held_in(&bytes?).map(|(_, held)| held)
    }

    fn tell<T>(&self, result: io::Result<T>) -> io::Result<T> {
        match &result {
            Ok(_) => self.told.store(false, Ordering::Relaxed),
            Err(error) if !self.told.swap(true, Ordering::Relaxed) => {
                tracing::error!("an org can't be read from the catalogue on disk: {error}");
            }
            Err(_) => {}
        }
        result
    }
}

/// What is held of an org, and which one it is, from lines of the file.
fn held_in(spans: &[Vec<u8>]) -> io::Result<(Option<String>, Held)> {
    let (mut held, mut org) = (Held::default(), None);
    for line in spans.iter().flat_map(|bytes| bytes.split(|byte| *byte == b'\n')) {
        if line.is_empty() {
            continue;
        }
        let Some(Line::State(state)) = Line::read(line) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "not a state of an entry",
            ));
        };
        org = org.or_else(|| org_of(&state.place).map(str::to_owned));
        match state.entry() {
            Ok(entry) => held.take(&entry),
            Err(gone) => held.forget(&gone),
        }
    }
    Ok((org, held))
}

impl Archive for OrgsOnDisk {
    fn record(&self, span: Span) -> io::Result<OrgRecord> {
        let read = self.bytes(span).and_then(|bytes| self.parsed(&[bytes]));
        self.tell(read)
    }

    fn record_mentioning(&self, span: Span, word: &str) -> io::Result<Option<OrgRecord>> {
        let bytes = self.bytes(span)?;
        let text = std::str::from_utf8(&bytes).map_err(io::Error::other)?;
        if !text.contains(&as_written(word)) && !self.set.mentions(word) {
            return Ok(None);
        }
        self.parsed(&[bytes]).map(Some)
    }
}

/// A word as it stands in a body, which is JSON in JSON.
fn as_written(word: &str) -> String {
    let inner = |text: &str| {
        let quoted = serde_json::Value::from(text).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    };
    inner(&inner(word))
}

/// What a file on disk holds: where each org's states lie, and all else.
#[derive(Default)]
pub(super) struct Index {
    pub(super) orgs: HashMap<Box<str>, Vec<Span>>,
    /// States of what is no org's record, in their order.
    pub(super) others: Vec<State>,
    pub(super) extent: Extent,
    /// More lies behind what is whole, or there is no seal: it has to be written anew.
    pub(super) torn: bool,
    /// Policies were made, whatever became of them since.
    pub(super) had_policies: bool,
}

impl Index {
    /// Reads through a file, up to where it is whole. One that has lost some of that is refused.
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let sealed = Seal::read(file)?;
        let mut index = Self::default();
        let mut reader = BufReader::with_capacity(1 << 18, file);
        let (mut line, mut at, mut sum) = (Vec::new(), 0, Sum::default());
        reader.seek(SeekFrom::Start(0))?;
        let end = sealed.map_or(u64::MAX, |sealed| sealed.length);
        let mut whole = false;
        while at < end {
            line.clear();
            let read = reader.read_until(b'\n', &mut line)?;
            if read == 0 {
                break;
            }
            if line.last() != Some(&b'\n') {
                whole = false;
                break;
            }
            let bytes = u32::try_from(read).map_err(io::Error::other)?;
            let span = Span { at, bytes };
            at += u64::from(bytes);
            if sealed.is_some() && span.at == 0 {
                continue;
            }
            sum.add(&line);
            whole = index.take(Line::read(&line), span).ok_or_else(|| {
                let place = format!("line {}: not a state of an entry", index.extent.lines + 1);
                io::Error::new(io::ErrorKind::InvalidData, place)
            })?;
        }
        index.extent.length = at;
        index.extent.sum = sum;
        match sealed {
            Some(sealed) if !whole || at != end || sealed.sum != sum => Err(damaged()),
            Some(sealed) => {
                index.had_policies |= sealed.had_policies;
                index.extent.had_policies = index.had_policies;
                index.torn = file.metadata()?.len() > end;
                Ok(index)
            }
            // It was written by a version that put no seal on it. Nothing tells an empty one from the rest of one.
            None if !whole || index.extent.revision == 0 => Err(damaged()),
            // The next that is written has one.
            None => {
                index.torn = true;
                Ok(index)
            }
        }
    }

    /// Takes a line, and says whether all before it is there.
    fn take(&mut self, line: Option<Line>, span: Span) -> Option<bool> {
        match line? {
            Line::Complete(revision) => {
                if self.extent.began == 0 {
                    self.extent.began = self.extent.lines;
                }
                self.extent.revision = revision;
                return Some(true);
            }
            Line::Unknown => {}
            Line::State(state) => {
                self.extent.lines += 1;
                self.had_policies |= state.place.kind == Kind::Policy;
                let Some(org) = org_of(&state.place) else {
                    self.others.push(state);
                    return Some(false);
                };
                let spans = self.orgs.entry(org.into()).or_default();
                match spans.last_mut() {
                    Some(last) if last.at + u64::from(last.bytes) == span.at => last.bytes += span.bytes,
                    _ => spans.push(span),
                }
            }
        }
        Some(false)
    }
}

fn damaged() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "it is damaged: some of it is missing or not as it was written",
    )
}
