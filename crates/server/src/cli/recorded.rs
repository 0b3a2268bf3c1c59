//! Recorded requests: one JSON object a line, each with the time at which it came.

use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use tollgate_core::Timestamp;

use super::failure::Failure;
use crate::check_body::{At, CheckBody};

/// A file of recorded requests, or standard input.
pub(crate) struct Recording {
    name: String,
    reader: Box<dyn BufRead>,
    progress: ProgressBar,
    read: u64,
    shown: u64,
    line_number: u64,
    latest: Timestamp,
    line: Vec<u8>,
}

/// How many bytes go by between two looks at the progress bar.
const PROGRESS_STEP: u64 = 1 << 20;

const UTF8_MARK: &[u8] = "\u{feff}".as_bytes();

impl Recording {
    /// Opens a file; `-` is standard input. A long file shows its progress on a terminal.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let fail = |error: std::io::Error| format!("{}: {error}", path.display());
        let (reader, size): (Box<dyn BufRead>, u64) = if path == Path::new("-") {
            (Box::new(BufReader::with_capacity(1 << 18, std::io::stdin())), 0)
        } else {
            let file = File::open(path).map_err(fail)?;
            let size = file.metadata().map_err(fail)?.len();
            (Box::new(BufReader::with_capacity(1 << 18, file)), size)
        };
        let progress = if size > 8 * PROGRESS_STEP && std::io::stderr().is_terminal() {
            let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {bytes_per_sec}  {eta} left");
            ProgressBar::new(size).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        } else {
            ProgressBar::hidden()
        };
        let name = if path == Path::new("-") {
            PathBuf::from("standard input")
        } else {
            path.to_owned()
        };
        Ok(Self {
            name: name.display().to_string(),
            reader,
            progress,
            read: 0,
            shown: 0,
            line_number: 0,
            latest: Timestamp::EPOCH,
            line: Vec::new(),
        })
    }

    /// Hands each request to `take`, with its time. The error names the line.
    pub(crate) fn each(
        mut self,
        mut take: impl FnMut(&CheckBody<'_>, Timestamp) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let mut count = 0;
        loop {
            self.line.clear();
            let bytes = self.reader.read_until(b'\n', &mut self.line);
            let bytes = bytes.map_err(|error| format!("{}: {error}", self.name))?;
            if bytes == 0 {
                self.progress.finish_and_clear();
                return Ok(count);
            }
            self.line_number += 1;
            self.read += bytes as u64;
            if self.read - self.shown > PROGRESS_STEP {
                self.progress.set_position(self.read);
                self.shown = self.read;
            }
            // Some editors begin a file with a mark that it is UTF-8.
            let marked = self.line_number == 1 && self.line.starts_with(UTF8_MARK);
            let line = &self.line[if marked { UTF8_MARK.len() } else { 0 }..];
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let place = |message: String| format!("{}:{}: {message}", self.name, self.line_number);
            let body =
                CheckBody::read(line).map_err(|error| place(format!("not a recorded request: {error}")))?;
            if body.ttl_ms().is_some() {
                return Err(place("not a check: `ttlMs` is a field of reservations only".to_owned()).into());
            }
            let at = body.at().ok_or_else(|| place("`at` is missing".to_owned()))?;
            let at = timestamp(at).map_err(place)?;
            if at < self.latest {
                return Err(place("`at` is earlier than on the line before".to_owned()).into());
            }
            self.latest = at;
            take(&body, at).map_err(|failure| failure.at(place))?;
            count += 1;
        }
    }
}

fn timestamp(at: &At<'_>) -> Result<Timestamp, String> {
    let parsed = match at {
        At::Millis(millis) => Timestamp::from_millis(*millis),
        At::Rfc3339(text) => {
            let at = text.parse::<jiff::Timestamp>().ok();
            at.and_then(|at| u64::try_from(at.as_nanosecond()).ok())
                .map(Timestamp::from_nanos)
        }
    };
    parsed
        .ok_or_else(|| "`at` is neither Unix milliseconds nor an RFC 3339 time from 1970 to 2554".to_owned())
}
