//! The body of a request: as many bytes as its head says, or chunks.

use super::head::Length;

/// The longest body that is read.
pub(super) const MAX_BYTES: usize = 1024 * 1024;
/// The longest a chunk's size line, with what else may stand on it, or a trailer may be.
const MAX_LINE: usize = 4096;

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
    /// The last chunk has been seen; trailers may follow, up to here.
    trailers_from: Option<usize>,
}

impl Chunks {
    /// Gets ready for another request's body.
    pub(super) fn clear(&mut self) {
        self.joined.clear();
        self.at = 0;
        self.trailers_from = None;
    }

    fn join(&mut self, buffer: &[u8]) -> Result<Option<usize>, BodyError> {
        while self.trailers_from.is_none() {
            let Some((line, after)) = line(buffer, self.at)? else {
                return Ok(None);
            };
            let size = chunk_size(line)?;
            if self.joined.len() + size > MAX_BYTES {
                return Err(BodyError::TooLarge);
            }
            if size == 0 {
                self.at = after;
                self.trailers_from = Some(after);
                break;
            }
            let Some(chunk) = buffer.get(after..after + size + 2) else {
                return Ok(None);
            };
            let (data, end) = chunk.split_at(size);
            if end != b"\r\n" {
                return Err(BodyError::Chunks);
            }
            self.joined.extend_from_slice(data);
            self.at = after + size + 2;
        }
        self.skip_trailers(buffer)
    }

    fn skip_trailers(&mut self, buffer: &[u8]) -> Result<Option<usize>, BodyError> {
        let from = self.trailers_from.unwrap_or(self.at);
        loop {
            match line(buffer, self.at)? {
                None => return Ok(None),
                Some((b"", after)) => return Ok(Some(after)),
                Some((_, after)) if after - from > MAX_LINE => return Err(BodyError::Chunks),
                Some((_, after)) => self.at = after,
            }
        }
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

/// The line that begins at a place, and where the next begins. Only CR LF ends a line.
fn line(buffer: &[u8], at: usize) -> Result<Option<(&[u8], usize)>, BodyError> {
    let rest = &buffer[at..];
    match rest.iter().position(|byte| *byte == b'\n') {
        Some(end) if end > MAX_LINE => Err(BodyError::Chunks),
        Some(end) => match rest[..end].strip_suffix(b"\r") {
            Some(line) => Ok(Some((line, at + end + 1))),
            None => Err(BodyError::Chunks),
        },
        None if rest.len() > MAX_LINE => Err(BodyError::Chunks),
        None => Ok(None),
    }
}

/// A chunk's size: hexadecimal digits, then perhaps an extension, which means nothing here.
fn chunk_size(line: &[u8]) -> Result<usize, BodyError> {
    let digits = line
        .split(|byte| *byte == b';')
        .next()
        .unwrap_or_default()
        .trim_ascii_end();
    let hexadecimal = !digits.is_empty() && digits.len() <= 8 && digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits)
        .ok()
        .filter(|_| hexadecimal)
        .ok_or(BodyError::Chunks)?;
    usize::from_str_radix(text, 16).map_err(|_| BodyError::Chunks)
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
        ] {
            assert_eq!(chunks(text), Err(BodyError::Chunks), "{text}");
        }
        assert_eq!(chunks("100001\r\n"), Err(BodyError::TooLarge));
        assert_eq!(chunks(&"1".repeat(5000)), Err(BodyError::Chunks));
        let endless = format!("0\r\n{}", "a: b\r\n".repeat(1000));
        assert_eq!(chunks(&endless), Err(BodyError::Chunks));
    }
}
