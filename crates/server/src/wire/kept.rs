//! Part of a message that is written again and again.

/// What is copied at a time.
const PIECE: usize = 32;

/// Written once, and padded to whole pieces: to copy those takes fewer steps than to copy as much as there is.
#[derive(Default)]
pub(crate) struct Kept {
    pieces: Vec<u8>,
    length: usize,
}

impl Kept {
    /// Keeps something else.
    pub(crate) fn renew(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.pieces.clear();
        write(&mut self.pieces);
        self.length = self.pieces.len();
        self.pieces.resize(self.length.next_multiple_of(PIECE), 0);
    }

    /// Appends what is kept.
    #[inline]
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let end = out.len() + self.length;
        for piece in self.pieces.as_chunks::<PIECE>().0 {
            out.extend_from_slice(piece);
        }
        out.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_written() {
        let mut kept = Kept::default();
        for length in [0, 1, 31, 32, 33, 64, 200, 7] {
            let text: Vec<u8> = (0..length).collect();
            kept.renew(|out| out.extend_from_slice(&text));
            let mut out = vec![7];
            kept.write(&mut out);
            kept.write(&mut out);
            assert_eq!(out, [&[7][..], &text, &text].concat());
        }
    }
}
