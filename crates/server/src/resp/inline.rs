//! Commands that come as a line of words, quoted or not, as Redis reads them.

use std::borrow::Cow;

/// A quote has no end, or a word goes on right after one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unbalanced;

/// A word, and what of its line follows it.
type Word<'l> = (Cow<'l, [u8]>, &'l [u8]);

/// The next word of a line without a NUL, and what follows it; nothing if there is none.
pub(super) fn next_word(line: &[u8]) -> Result<Option<Word<'_>>, Unbalanced> {
    let Some(from) = line.iter().position(|byte| !is_space(*byte)) else {
        return Ok(None);
    };
    let line = &line[from..];
    // Not all that may stand before a word ends one.
    let end = line.iter().position(|byte| b" \n\r\t\"'".contains(byte));
    let end = end.unwrap_or(line.len());
    match line.get(end) {
        Some(b'"' | b'\'') => quoted(line, end).map(Some),
        _ => Ok(Some((Cow::Borrowed(&line[..end]), &line[end..]))),
    }
}

/// A word in which a quote begins at a place.
fn quoted(line: &[u8], at: usize) -> Result<Word<'_>, Unbalanced> {
    let mut word = line[..at].to_vec();
    let mut rest = &line[at..];
    rest = match rest {
        [b'"', within @ ..] => double(within, &mut word)?,
        [_, within @ ..] => single(within, &mut word)?,
        [] => rest,
    };
    match rest.first() {
        Some(byte) if !is_space(*byte) => Err(Unbalanced),
        _ => Ok((Cow::Owned(word), rest)),
    }
}

/// Takes what stands between double quotes, and answers what follows them.
fn double<'l>(mut rest: &'l [u8], word: &mut Vec<u8>) -> Result<&'l [u8], Unbalanced> {
    loop {
        let (byte, after) = match rest {
            [b'\\', b'x', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                ((digit(*high) << 4) | digit(*low), after)
            }
            [b'\\', escaped, after @ ..] => (unescaped(*escaped), after),
            [b'"', after @ ..] => return Ok(after),
            [byte, after @ ..] => (*byte, after),
            [] => return Err(Unbalanced),
        };
        word.push(byte);
        rest = after;
    }
}

/// Takes what stands between single quotes, in which only they can be escaped.
fn single<'l>(mut rest: &'l [u8], word: &mut Vec<u8>) -> Result<&'l [u8], Unbalanced> {
    loop {
        let (byte, after) = match rest {
            [b'\\', b'\'', after @ ..] => (b'\'', after),
            [b'\'', after @ ..] => return Ok(after),
            [byte, after @ ..] => (*byte, after),
            [] => return Err(Unbalanced),
        };
        word.push(byte);
        rest = after;
    }
}

fn unescaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

fn digit(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => byte - b'0',
        _ => byte.to_ascii_lowercase().wrapping_sub(b'a').wrapping_add(10),
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}
