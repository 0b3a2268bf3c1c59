//! Messages put together, of fields whose number is below 16. As in proto3 a field that has its default value is left out, unless it is said to be there.

/// A varint.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "below 0x80 it is a byte")]
pub(crate) fn varint(number: u64, out: &mut Vec<u8>) {
    if number < 0x80 {
        out.push(number as u8);
    } else if number < 1 << 56 {
        // All eight are copied and the rest is let go of: that takes fewer steps than to copy just so many.
        let (bytes, length) = short_varint(number);
        let end = out.len() + length;
        out.extend_from_slice(&bytes.to_le_bytes());
        out.truncate(end);
    } else {
        long_varint(number, out);
    }
}

/// The bytes of a varint below 2^56, and how many they are. Each but the last says that there are more.
#[inline]
fn short_varint(number: u64) -> (u64, usize) {
    let more = ((number | 1).ilog2() / 7) as usize;
    let marks = 0x0080_8080_8080_8080 >> (8 * (7 - more));
    (spread(number) | marks, more + 1)
}

/// Fields of up to 16 bytes together, for whoever lays them down in one go or elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packed {
    pub(crate) bytes: u128,
    pub(crate) length: usize,
}

impl Packed {
    /// A number. One of 56 bits and more does not come so.
    #[inline]
    pub(crate) fn number(field: u8, number: u64) -> Option<Self> {
        match number {
            0 => Some(Self { bytes: 0, length: 0 }),
            _ => Self::some_number(field, number),
        }
    }

    /// A number that is there, whatever it is.
    #[inline]
    pub(crate) fn some_number(field: u8, number: u64) -> Option<Self> {
        let (bytes, length) = (number < 1 << 56).then(|| short_varint(number))?;
        Some(Self {
            bytes: u128::from(bytes) << 8 | u128::from(field << 3),
            length: length + 1,
        })
    }

    /// Both, one after the other.
    #[inline]
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes | other.bytes << (8 * self.length),
            length: self.length + other.length,
        }
    }

    /// Appends them.
    #[inline]
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        let end = out.len() + self.length;
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out.truncate(end);
    }
}

/// Seven bits to a byte, of a number below 2^56: by halves, by halves of those, and by theirs.
#[inline]
fn spread(number: u64) -> u64 {
    let number = number & 0x0fff_ffff | (number & 0x00ff_ffff_f000_0000) << 4;
    let number = number & 0x0000_3fff_0000_3fff | (number & 0x0fff_c000_0fff_c000) << 2;
    number & 0x007f_007f_007f_007f | (number & 0x3f80_3f80_3f80_3f80) << 1
}

#[cold]
#[expect(clippy::cast_possible_truncation, reason = "seven bits at a time")]
fn long_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A number that is there, whatever it is.
#[inline]
pub(crate) fn some_number(field: u8, number: u64, out: &mut Vec<u8>) {
    out.push(field << 3);
    varint(number, out);
}

/// A number.
#[inline]
pub(crate) fn number(field: u8, number: u64, out: &mut Vec<u8>) {
    if number > 0 {
        some_number(field, number, out);
    }
}

/// A text that is there, even if it is empty.
#[inline]
pub(crate) fn some_text(field: u8, text: &[u8], out: &mut Vec<u8>) {
    out.push(field << 3 | 2);
    varint(text.len() as u64, out);
    out.extend_from_slice(text);
}

/// A text.
#[inline]
pub(crate) fn text(field: u8, text: &[u8], out: &mut Vec<u8>) {
    if !text.is_empty() {
        some_text(field, text, out);
    }
}

/// A message within the message, most likely of less than 128 bytes.
#[inline]
pub(crate) fn message(field: u8, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    sized::<1>(field, out, write);
}

/// A message within the message, most likely of 128 bytes or more.
#[inline]
pub(crate) fn long_message(field: u8, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    sized::<2>(field, out, write);
}

/// A message within the message, with so much room before it for its length.
#[inline]
fn sized<const ROOM: usize>(field: u8, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(field << 3 | 2);
    out.extend_from_slice(&[0; ROOM]);
    let start = out.len();
    write(out);
    let length = out.len() - start;
    let fills_room = ROOM == 1 || length >> (7 * (ROOM - 1)) > 0;
    if fills_room && length >> (7 * ROOM) == 0 {
        put_length(length, &mut out[start - ROOM..start]);
    } else {
        let needed = length.checked_ilog2().map_or(0, |log| log as usize / 7) + 1;
        out.splice(start - ROOM..start, std::iter::repeat_n(0, needed));
        put_length(length, &mut out[start - ROOM..start - ROOM + needed]);
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "seven bits at a time")]
fn put_length(mut length: usize, room: &mut [u8]) {
    for byte in &mut *room {
        *byte = length as u8 | 0x80;
        length >>= 7;
    }
    if let Some(last) = room.last_mut() {
        *last &= 0x7f;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Fields, Value};
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for length in [0, 1, 127, 128, 129, 16_383, 16_384, 70_000, 3_000_000] {
            let mut out = vec![7];
            message(1, &mut out, |out| out.resize(out.len() + length, b'x'));
            long_message(4, &mut out, |out| out.resize(out.len() + length, b'z'));
            number(2, length as u64, &mut out);
            text(3, &vec![b'y'; length], &mut out);
            let mut fields = Fields::of(&out[1..]);
            let mut next = || fields.next().unwrap();
            assert_eq!(next(), Some((1, Value::Bytes(&vec![b'x'; length]))));
            assert_eq!(next(), Some((4, Value::Bytes(&vec![b'z'; length]))));
            if length > 0 {
                assert_eq!(next(), Some((2, Value::Number(length as u64))));
                assert_eq!(next(), Some((3, Value::Bytes(&vec![b'y'; length]))));
            }
            assert_eq!(next(), None);
        }
    }

    #[test]
    fn numbers_are_read_again_and_take_up_no_more_than_they_must() {
        for bits in 1..=64 {
            let most = u64::MAX >> (64 - bits);
            for number in [most, most / 2 + 1, most - most / 3] {
                let mut out = Vec::new();
                some_number(1, number, &mut out);
                assert_eq!(out.len(), 2 + number.ilog2() as usize / 7, "{number}");
                assert_eq!(Fields::of(&out).next(), Ok(Some((1, Value::Number(number)))));
            }
        }
    }

    #[test]
    fn defaults_are_left_out_unless_they_are_there() {
        let mut out = Vec::new();
        number(1, 0, &mut out);
        text(2, b"", &mut out);
        assert!(out.is_empty());
        some_number(1, 0, &mut out);
        some_text(2, b"", &mut out);
        some_number(3, u64::MAX, &mut out);
        let mut fields = Fields::of(&out);
        for expected in [
            (1, Value::Number(0)),
            (2, Value::Bytes(b"")),
            (3, Value::Number(u64::MAX)),
        ] {
            assert_eq!(fields.next(), Ok(Some(expected)));
        }
    }
}
