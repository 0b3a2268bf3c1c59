//! Parts of a message that are written again and again.

use super::write::Packed;

/// What a part may take up to be kept.
const ROOM: usize = 64;
/// Two of them, a field of up to 16 bytes between, and what stands before a message.
const WHOLE: usize = 2 + ROOM + 16 + ROOM;

/// Written once. It is copied with all the room it has, and what is too much is let go of: that takes fewer steps than to
/// copy as much as there is.
pub(crate) struct Kept {
    bytes: [u8; ROOM],
    /// None if it has no room.
    length: Option<usize>,
}

impl Default for Kept {
    fn default() -> Self {
        Self {
            bytes: [0; ROOM],
            length: None,
        }
    }
}

impl Kept {
    /// Keeps something else, if it is not too long for it.
    pub(crate) fn renew(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut written = Vec::with_capacity(ROOM);
        write(&mut written);
        let room = self.bytes.get_mut(..written.len());
        self.length = room.map(|room| {
            room.copy_from_slice(&written);
            written.len()
        });
    }

    /// Appends a message within the message: what is kept here, a [packed](super::write::Packed) field, and what is kept
    /// there. Not so if any of it is too long.
    #[inline]
    pub(crate) fn write_with(&self, field: u8, middle: Packed, end: &Self, out: &mut Vec<u8>) -> bool {
        let (Some(first), second, Some(third)) = (self.length, middle.length, end.length) else {
            return false;
        };
        let length = first + second + third;
        // A length that takes up one byte.
        let Some(length_byte) = u8::try_from(length).ok().filter(|length| *length < 0x80) else {
            return false;
        };
        let start = out.len();
        out.extend_from_slice(&[0; WHOLE]);
        let Some(whole) = out.last_chunk_mut::<WHOLE>() else {
            return false;
        };
        whole[0] = field << 3 | 2;
        whole[1] = length_byte;
        whole[2..2 + ROOM].copy_from_slice(&self.bytes);
        whole[2 + first..2 + first + 16].copy_from_slice(&middle.bytes.to_le_bytes());
        whole[2 + first + second..2 + first + second + ROOM].copy_from_slice(&end.bytes);
        out.truncate(start + 2 + length);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::write;
    use super::*;

    fn kept(length: usize) -> (Kept, Vec<u8>) {
        let text: Vec<u8> = (0..length).map(|at| u8::try_from(at).unwrap_or(0) | 1).collect();
        let mut kept = Kept::default();
        kept.renew(|out| out.extend_from_slice(b"something else"));
        kept.renew(|out| out.extend_from_slice(&text));
        (kept, text)
    }

    #[test]
    fn what_is_kept_is_written_as_it_would_be_by_itself() {
        let mut written = 0;
        for (first, second) in [
            (0, 0),
            (1, 64),
            (33, 32),
            (64, 1),
            (64, 64),
            (40, 80),
            (65, 3),
            (200, 0),
        ] {
            for number in [0, 1, 127, 128, 99_999, (1 << 56) - 1] {
                let ((head, first), (tail, second)) = (kept(first), kept(second));
                let mut expected = vec![7];
                write::message(8, &mut expected, |out| {
                    out.extend_from_slice(&first);
                    write::number(4, number, out);
                    out.extend_from_slice(&second);
                });
                let mut out = vec![7];
                let packed = Packed::number(4, number).unwrap();
                if head.write_with(8, packed, &tail, &mut out) {
                    assert_eq!(out, expected, "{} {number} {}", first.len(), second.len());
                    written += 1;
                } else {
                    assert_eq!(out, [7]);
                    assert!(expected.len() > 2 + 128 || first.len().max(second.len()) > ROOM);
                }
            }
        }
        assert!(written > 20, "{written}");
        assert_eq!(Packed::number(4, 1 << 56), None);
    }
}
