//! The body of a request: as many bytes as its head says, or chunks.

use super::head::Length;

/// The longest body that is read.
pub(super) const MAX_BYTES: usize = 1024 * 1024;
/// What a body may have beside its chunks in all: their extensions, and trailers. The longest line, too.
const MAX_BESIDE: usize = 4096;

/// Why a body can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyError {
    /// It is longer than may be.
    TooLarge,
    /// Its chunks are not well-formed.
    Chunks,
}

/// A chunked body in the making. It is taken up again where it was left when more has arrived.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    /// What the chunks so far add up to.
    pub(super) joined: Vec<u8>,
    /// How far the buffer has been read.
    at: usize,
    expects: Expected,
    /// Bytes of extensions and trailers so far.
    beside: usize,
}

/// What comes next of a chunked body.
#[derive(Debug, Default)]
enum Expected {
    /// A chunk's size.
    #[default]
    Size,
    /// So much of a chunk.
    Data(usize),
    /// The end of a chunk.
    End,
    /// A trailer, or the end of all.
    Trailer,
}

impl Chunks {
    /// Gets ready for another request's body.
    pub(super) fn clear(&mut self) {
        self.joined.clear();
        self.at = 0;
        self.expects = Expected::Size;
        self.beside = 0;
    }

    /// Takes out of a buffer what was joined of the body that begins at a place in it, so that nothing takes up memory
    /// twice.
    pub(super) fn take_out_joined(&mut self, buffer: &mut Vec<u8>, body_from: usize) {
        buffer.drain(body_from..body_from + std::mem::take(&mut self.at));
    }

    fn join(&mut self, buffer: &[u8]) -> Result<Option<usize>, BodyError> {
        loop {
            match self.expects {
                Expected::Size => {
                    let Some((line, after)) = line(buffer, self.at)? else {
                        return Ok(None);
                    };
                    let (size, extension) = chunk_size(line)?;
                    self.has_beside(extension.len())?;
                    if self.joined.len() + size > MAX_BYTES {
                        return Err(BodyError::TooLarge);
                    }
                    self.at = after;
                    self.expects = match size {
                        0 => Expected::Trailer,
                        size => Expected::Data(size),
                    };
                }
                Expected::Data(left) => {
                    let rest = &buffer[self.at..];
                    let piece = &rest[..left.min(rest.len())];
                    self.joined.extend_from_slice(piece);
                    self.at += piece.len();
                    if piece.len() < left {
                        self.expects = Expected::Data(left - piece.len());
                        return Ok(None);
                    }
                    self.expects = Expected::End;
                }
                Expected::End => match &buffer[self.at..] {
                    [b'\r', b'\n', ..] => {
                        self.at += 2;
                        self.expects = Expected::Size;
                    }
                    [] | [b'\r'] => return Ok(None),
                    _ => return Err(BodyError::Chunks),
                },
                Expected::Trailer => match line(buffer, self.at)? {
                    None => return Ok(None),
                    // It is asked again for the end if the request has to wait.
                    Some((b"", after)) => return Ok(Some(after)),
                    Some((trailer, after)) => {
                        self.has_beside(after - self.at)?;
                        if !is_field(trailer) {
                            return Err(BodyError::Chunks);
                        }
                        self.at = after;
                    }
                },
            }
        }
    }

    fn has_beside(&mut self, bytes: usize) -> Result<(), BodyError> {
        self.beside += bytes;
        if self.beside > MAX_BESIDE {
            return Err(BodyError::Chunks);
        }
        Ok(())
    }
}

/// Takes a body off the front of a buffer: the bytes it took up; what chunks add up to is in `chunks`. `None` if
/// it has not arrived whole.
pub(super) fn take(length: Length, buffer: &[u8], chunks: &mut Chunks) -> Result<Option<usize>, BodyError> {
    match length {
        Length::Exactly(size) if size > MAX_BYTES => Err(BodyError::TooLarge),
        Length::Exactly(size) => Ok((buffer.len() >= size).then_some(size)),
        Length::Chunked => chunks.join(buffer),
    }
}

/// The line that begins at a place, and where the next begins. Only CR LF ends a line, and no other control character
/// is in it but tabs.
fn line(buffer: &[u8], at: usize) -> Result<Option<(&[u8], usize)>, BodyError> {
    let rest = &buffer[at..];
    match rest.iter().position(|byte| *byte == b'\n') {
        Some(end) if end > MAX_BESIDE => Err(BodyError::Chunks),
        Some(end) => match rest[..end].strip_suffix(b"\r") {
            Some(line) if line.iter().all(|byte| is_text(*byte)) => Ok(Some((line, at + end + 1))),
            _ => Err(BodyError::Chunks),
        },
        None if rest.len() > MAX_BESIDE => Err(BodyError::Chunks),
        None => Ok(None),
    }
}

fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// A chunk's size, and the extension after it, which means nothing here: hexadecimal digits, then nothing or, perhaps
/// after blanks, a semicolon.
fn chunk_size(line: &[u8]) -> Result<(usize, &[u8]), BodyError> {
    let end = line.iter().position(|byte| !byte.is_ascii_hexdigit());
    let (digits, extension) = line.split_at(end.unwrap_or(line.len()));
    let blanks = extension.iter().take_while(|byte| matches!(byte, b' ' | b'\t'));
    let is_extension = extension.is_empty() || extension.get(blanks.count()) == Some(&b';');
    let size = std::str::from_utf8(digits)
        .ok()
        .filter(|digits| (1..=8).contains(&digits.len()) && is_extension)
        .ok_or(BodyError::Chunks)?;
    let size = usize::from_str_radix(size, 16).map_err(|_| BodyError::Chunks)?;
    Ok((size, extension))
}

/// Whether a line is a header's: a name, a colon, a value.
fn is_field(line: &[u8]) -> bool {
    let Some(colon) = line.iter().position(|byte| *byte == b':') else {
        return false;
    };
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    colon > 0 && line[..colon].iter().all(is_of_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(text: &str) -> Result<Option<(usize, String)>, BodyError> {
        let mut chunks = Chunks::default();
        let taken = take(Length::Chunked, text.as_bytes(), &mut chunks)?;
        Ok(taken.map(|taken| (taken, String::from_utf8(chunks.joined).unwrap())))
    }

    #[test]
    fn joins_chunks() {
        let text = "3\r\nabc\r\nA;x=1\r\n0123456789\r\n0\r\nTrailer: 1\r\n\r\nnext";
        assert_eq!(
            chunks(text),
            Ok(Some((text.len() - 4, "abc0123456789".to_owned())))
        );
        for end in 0..text.len() - 4 {
            assert_eq!(chunks(&text[..end]), Ok(None), "{end}");
        }
    }

    #[test]
    fn takes_up_where_it_was_left() {
        let text = b"3\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: 1\r\n\r\n";
        let mut chunks = Chunks::default();
        for end in 0..text.len() {
            assert_eq!(
                take(Length::Chunked, &text[..end], &mut chunks),
                Ok(None),
                "{end}"
            );
        }
        assert_eq!(take(Length::Chunked, text, &mut chunks), Ok(Some(text.len())));
        assert_eq!(chunks.joined, b"abcde");
    }

    #[test]
    fn refuses_malformed_and_endless_chunks() {
        for text in [
            "x\r\n",
            "-1\r\n",
            "3\nabc\r\n",
            "3\r\nabcd\r\n",
            "\r\n",
            "fffffffff\r\n",
            " 3\r\nabc\r\n",
            "3\r\r\nabc\r\n",
            "3 \r\nabc\r\n",
            "3\x0c\r\nabc\r\n",
            "3;a\rb\r\nabc\r\n",
            "3 a\r\nabc\r\n",
            "0x3\r\nabc\r\n",
            "0\r\njunk\r\n\r\n",
            "0\r\n: a\r\n\r\n",
            "0\r\n a: b\r\n\r\n",
            "0\r\na : b\r\n\r\n",
            "0\r\na: b\n\r\n",
        ] {
            assert_eq!(chunks(text), Err(BodyError::Chunks), "{text}");
        }
        assert_eq!(chunks("100001\r\n"), Err(BodyError::TooLarge));
        assert_eq!(chunks(&"1".repeat(5000)), Err(BodyError::Chunks));
        let endless = format!("0\r\n{}", "a: b\r\n".repeat(1000));
        assert_eq!(chunks(&endless), Err(BodyError::Chunks));
        let padded = "1;aaaaaaaaaaaaaaaa\r\nx\r\n".repeat(1000);
        assert_eq!(chunks(&padded), Err(BodyError::Chunks));
    }

    #[test]
    fn what_is_joined_need_not_stay_in_the_buffer() {
        let text = b"HEAD3\r\nabc\r\n8 ; a=\"b\"\r\n01234567\r\n0\r\na: b\r\n\r\nnext";
        let (mut buffer, mut chunks) = (b"HEAD".to_vec(), Chunks::default());
        let mut most = 0;
        let taken = text[4..].iter().find_map(|byte| {
            buffer.push(*byte);
            let taken = take(Length::Chunked, &buffer[4..], &mut chunks).unwrap();
            if taken.is_none() {
                chunks.take_out_joined(&mut buffer, 4);
                most = most.max(buffer.len());
            }
            taken
        });
        assert_eq!((taken, chunks.joined.as_slice()), (Some(2), &b"abc01234567"[..]));
        assert!(buffer.starts_with(b"HEAD\r\n") && most < 18, "{most}");
    }
}
