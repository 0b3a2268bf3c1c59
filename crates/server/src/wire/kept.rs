//! A message that is written again and again with another number in it.

use super::write::{self, Packed};

/// What may be kept: so much that it and a field are copied in a few steps, and a length that takes up one byte.
const MOST: usize = 112;
/// A field between two others may take up so much.
const FIELD: usize = 16;

/// A message within a message, written once. It is copied with all the room it has, and what is too much is let go of: that
/// takes fewer steps than to copy as much as there is.
pub(crate) struct Kept {
    bytes: [u8; MOST + FIELD],
    /// How long it is; 0 if nothing is kept.
    length: usize,
    /// Where the field is that is another each time, and how long it is.
    field: usize,
    field_length: usize,
    /// What follows it.
    after: [u8; FIELD],
}

impl Default for Kept {
    fn default() -> Self {
        Self {
            bytes: [0; MOST + FIELD],
            length: 0,
            field: 0,
            field_length: 0,
            after: [0; FIELD],
        }
    }
}

impl Kept {
    /// Keeps another message, in the field with this number of the one around it, if it is not too long: its head, the
    /// field that is another each time, and its tail.
    pub(crate) fn renew(
        &mut self,
        number: u8,
        head: impl FnOnce(&mut Vec<u8>),
        field: Packed,
        tail: impl FnOnce(&mut Vec<u8>),
    ) {
        let mut written = Vec::with_capacity(2 * MOST);
        let mut head_length = 0;
        write::message(number, &mut written, |out| {
            let start = out.len();
            head(out);
            head_length = out.len() - start;
            field.write(out);
            tail(out);
        });
        self.length = 0;
        if written.len() > MOST {
            return;
        }
        self.length = written.len();
        self.field = 2 + head_length;
        self.field_length = field.length;
        self.bytes = [0; MOST + FIELD];
        self.bytes[..written.len()].copy_from_slice(&written);
        let after = self.field + field.length;
        self.after.copy_from_slice(&self.bytes[after..after + FIELD]);
    }

    /// Appends it with another field that is as long. Not so if it is not, or nothing is kept.
    #[inline]
    pub(crate) fn write_with(&self, field: Packed, out: &mut Vec<u8>) -> bool {
        if self.length == 0 || field.length != self.field_length {
            return false;
        }
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        let Some(whole) = out.last_chunk_mut::<{ MOST + FIELD }>() else {
            return false;
        };
        let after = self.field + field.length;
        whole[self.field..self.field + FIELD].copy_from_slice(&field.bytes.to_le_bytes());
        whole[after..after + FIELD].copy_from_slice(&self.after);
        out.truncate(start + self.length);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(length: usize) -> Vec<u8> {
        (0..length).map(|at| u8::try_from(at).unwrap_or(0) | 1).collect()
    }

    #[test]
    fn what_is_kept_is_written_as_it_would_be_by_itself() {
        let numbers = [0, 1, 127, 128, 99_999, (1 << 56) - 1];
        let mut written = 0;
        for (first, second) in [
            (0, 0),
            (1, 64),
            (33, 32),
            (64, 1),
            (64, 64),
            (40, 80),
            (127, 0),
            (0, 127),
            (200, 0),
        ] {
            let (head, tail) = (text(first), text(second));
            for (kept_with, number) in numbers.iter().flat_map(|one| numbers.map(|other| (*one, other))) {
                let mut kept = Kept::default();
                let [before, field] = [kept_with, number].map(|number| Packed::number(4, number).unwrap());
                kept.renew(
                    7,
                    |_| {},
                    Packed::number(4, 9).unwrap(),
                    |out| out.extend_from_slice(b"something else"),
                );
                kept.renew(
                    8,
                    |out| out.extend_from_slice(&head),
                    before,
                    |out| out.extend_from_slice(&tail),
                );
                let mut expected = vec![7];
                write::message(8, &mut expected, |out| {
                    out.extend_from_slice(&head);
                    write::number(4, number, out);
                    out.extend_from_slice(&tail);
                });
                let mut out = vec![7];
                if kept.write_with(field, &mut out) {
                    assert_eq!(out, expected, "{first} {number} {second}");
                    written += 1;
                } else {
                    assert_eq!(out, [7]);
                    assert!(before.length != field.length || expected.len() > 1 + MOST);
                }
            }
        }
        assert!(written > 30, "{written}");
        assert_eq!(Packed::number(4, 1 << 56), None);
    }
}
