//! Messages put together, of fields whose number is below 16. As in proto3 a field that has its default value is left out, unless it is said to be there.

/// A varint.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "seven bits at a time")]
pub(crate) fn varint(mut number: u64, out: &mut Vec<u8>) {
    if number < 0x80 {
        out.push(number as u8);
        return;
    }
    let mut bytes = [0; 10];
    let mut length = 0;
    while number >= 0x80 {
        bytes[length] = number as u8 | 0x80;
        number >>= 7;
        length += 1;
    }
    bytes[length] = number as u8;
    out.extend_from_slice(&bytes[..=length]);
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

/// A message within the message.
#[inline]
pub(crate) fn message(field: u8, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(&[field << 3 | 2, 0]);
    let start = out.len();
    write(out);
    match u8::try_from(out.len() - start) {
        Ok(length) if length < 0x80 => out[start - 1] = length,
        _ => widen(start, out),
    }
}

/// Makes room for a length that takes up more than one byte, before what was written from `start` on.
#[expect(clippy::cast_possible_truncation, reason = "seven bits at a time")]
fn widen(start: usize, out: &mut Vec<u8>) {
    let end = out.len();
    let mut length = end - start;
    let more = (length.ilog2() / 7) as usize;
    out.resize(end + more, 0);
    out.copy_within(start..end, start + more);
    for byte in &mut out[start - 1..start + more] {
        *byte = length as u8 | 0x80;
        length >>= 7;
    }
    out[start + more - 1] &= 0x7f;
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
            number(2, length as u64, &mut out);
            text(3, &vec![b'y'; length], &mut out);
            let mut fields = Fields::of(&out[1..]);
            let mut next = || fields.next().unwrap();
            assert_eq!(next(), Some((1, Value::Bytes(&vec![b'x'; length]))));
            if length > 0 {
                assert_eq!(next(), Some((2, Value::Number(length as u64))));
                assert_eq!(next(), Some((3, Value::Bytes(&vec![b'y'; length]))));
            }
            assert_eq!(next(), None);
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
