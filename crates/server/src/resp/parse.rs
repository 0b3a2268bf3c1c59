//! Commands as clients of Redis send them: an array of bulk strings, or a line of words.

use std::borrow::Cow;
use std::fmt;

use smallvec::SmallVec;

use super::inline::next_word;

/// The arguments of a command at most, its name among them.
pub const MAX_ARGUMENTS: usize = 256;
/// The longest argument.
pub const MAX_BULK: usize = 64 * 1024;
/// The longest command that comes as a line.
pub const MAX_LINE: usize = 8 * 1024;
/// The longest command.
pub const MAX_COMMAND: usize = 256 * 1024;
/// The longest line that says how much follows.
const MAX_COUNT: usize = 32;

/// A command's name and arguments.
pub type Words<'b> = SmallVec<[Cow<'b, [u8]>; 8]>;

/// Why what has arrived is no command. What follows it can't be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The number of arguments is none.
    Count,
    /// The length of an argument is none, or too much.
    Length,
    /// An argument does not begin with `$`, but with this.
    NoBulk(u8),
    /// An argument does not end where it says.
    NoEnd,
    /// A line has no end.
    LineTooLong,
    /// All arguments together are too much.
    TooLong,
    /// A line has a quote without an end.
    Quotes,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count => f.write_str("invalid multibulk length"),
            Self::Length => f.write_str("invalid bulk length"),
            Self::NoBulk(byte) => write!(f, "expected '$', got '{}'", byte.escape_ascii()),
            Self::NoEnd => f.write_str("expected the end of a bulk string"),
            Self::LineTooLong => f.write_str("too big inline request"),
            Self::TooLong => f.write_str("too big command"),
            Self::Quotes => f.write_str("unbalanced quotes in request"),
        }
    }
}

/// Reads the command at the front of a buffer: its words and how many bytes it takes up, or nothing if it has not
/// arrived whole. A command may be empty, and then has no answer.
pub fn command(buffer: &[u8]) -> Result<Option<(Words<'_>, usize)>, Broken> {
    match buffer.first() {
        None => Ok(None),
        Some(b'*') => array(buffer),
        Some(_) => inline(buffer),
    }
}

fn array(buffer: &[u8]) -> Result<Option<(Words<'_>, usize)>, Broken> {
    let Some((count, mut at)) = number(buffer, 1).map_err(|()| Broken::Count)? else {
        return Ok(None);
    };
    // Redis takes fewer than none for none.
    let count = usize::try_from(count).unwrap_or(0);
    if count > MAX_ARGUMENTS {
        return Err(Broken::Count);
    }
    let mut words = Words::new();
    for _ in 0..count {
        match buffer.get(at) {
            None => return Ok(None),
            Some(b'$') => {}
            Some(other) => return Err(Broken::NoBulk(*other)),
        }
        let Some((length, from)) = number(buffer, at + 1).map_err(|()| Broken::Length)? else {
            return Ok(None);
        };
        let length = usize::try_from(length).map_err(|_| Broken::Length)?;
        if length > MAX_BULK {
            return Err(Broken::Length);
        }
        let end = from + length;
        if end > MAX_COMMAND {
            return Err(Broken::TooLong);
        }
        match (buffer.get(end), buffer.get(end + 1)) {
            (Some(b'\r'), Some(b'\n')) => words.push(Cow::Borrowed(&buffer[from..end])),
            (Some(b'\r') | None, None) => return Ok(None),
            _ => return Err(Broken::NoEnd),
        }
        at = end + 2;
    }
    Ok(Some((words, at)))
}

/// Reads the number of a line that begins at a place, and where the next line begins.
fn number(buffer: &[u8], from: usize) -> Result<Option<(i64, usize)>, ()> {
    let rest = buffer.get(from..).unwrap_or_default();
    let (negative, digits) = match rest.first() {
        Some(b'-') => (true, &rest[1..]),
        _ => (false, rest),
    };
    let mut value: i64 = 0;
    for (place, byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' if place < MAX_COUNT => {
                let more = value
                    .checked_mul(10)
                    .and_then(|value| value.checked_add(i64::from(byte - b'0')));
                value = more.ok_or(())?;
            }
            b'\r' if place > 0 => {
                let next = from + usize::from(negative) + place + 2;
                return match digits.get(place + 1) {
                    Some(b'\n') => Ok(Some((if negative { -value } else { value }, next))),
                    Some(_) => Err(()),
                    None => Ok(None),
                };
            }
            _ => return Err(()),
        }
    }
    Ok(None)
}

/// Words with spaces between them, which may be quoted.
fn inline(buffer: &[u8]) -> Result<Option<(Words<'_>, usize)>, Broken> {
    let within = &buffer[..buffer.len().min(MAX_LINE)];
    let Some(end) = within.iter().position(|byte| *byte == b'\n') else {
        return if buffer.len() < MAX_LINE {
            Ok(None)
        } else {
            Err(Broken::LineTooLong)
        };
    };
    let mut words = Words::new();
    // Lines are C strings to Redis, which have no NUL.
    let mut line = buffer[..end].split(|byte| *byte == 0).next().unwrap_or_default();
    while let Some((word, rest)) = next_word(line).map_err(|_| Broken::Quotes)? {
        if words.len() == MAX_ARGUMENTS {
            return Err(Broken::LineTooLong);
        }
        words.push(word);
        line = rest;
    }
    Ok(Some((words, end + 1)))
}
