//! Messages taken apart where they lie.

use std::fmt;

/// Groups, which nobody sends any more, may be nested so deep.
const MAX_DEPTH: u32 = 100;

/// Why bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(&'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed to decode Protobuf message: {}", self.0)
    }
}

/// The fields of a message, one after the other.
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Something that no message here has.
    Other,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// How many bytes are still to be read.
    #[inline]
    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    /// The next field's number and value.
    #[expect(
        clippy::inline_always,
        reason = "each field of each check comes by, and a fifth of reading was calls"
    )]
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (number, kind) = self.key()?;
        Ok(Some((number, self.value(number, kind, MAX_DEPTH)?)))
    }

    #[inline]
    fn key(&mut self) -> Result<(u32, u32), Malformed> {
        let key = u32::try_from(self.varint()?).map_err(|_| Malformed("invalid key value"))?;
        match key >> 3 {
            0 => Err(Malformed("invalid tag value: 0")),
            number => Ok((number, key & 7)),
        }
    }

    #[inline]
    fn value(&mut self, number: u32, kind: u32, depth: u32) -> Result<Value<'a>, Malformed> {
        match kind {
            0 => Ok(Value::Number(self.varint()?)),
            2 => {
                let length = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
                self.take(length).map(Value::Bytes)
            }
            _ => self.skip(number, kind, depth).map(|()| Value::Other),
        }
    }

    #[cold]
    fn skip(&mut self, number: u32, kind: u32, depth: u32) -> Result<(), Malformed> {
        match kind {
            1 => self.take(8).map(|_| ()),
            3 => self.skip_group(number, depth),
            5 => self.take(4).map(|_| ()),
            _ => Err(Malformed("invalid wire type")),
        }
    }

    fn skip_group(&mut self, group: u32, depth: u32) -> Result<(), Malformed> {
        let depth = depth.checked_sub(1).ok_or(Malformed("recursion limit reached"))?;
        loop {
            match self.key()? {
                (number, 4) if number == group => return Ok(()),
                (number, kind) => self.value(number, kind, depth)?,
            };
        }
    }

    #[inline]
    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(Malformed("buffer underflow"))?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, Malformed> {
        match self.rest {
            [byte, rest @ ..] if *byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for (place, byte) in self.rest.iter().enumerate().take(10) {
            if place == 9 && *byte > 1 {
                break;
            }
            number |= u64::from(byte & 0x7f) << (7 * place);
            if *byte < 0x80 {
                self.rest = &self.rest[place + 1..];
                return Ok(number);
            }
        }
        Err(Malformed("invalid varint"))
    }
}

impl<'a> Value<'a> {
    #[inline]
    pub(crate) fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(Malformed("invalid wire type")),
        }
    }

    #[inline]
    pub(crate) fn text(self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?)
            .map_err(|_| Malformed("invalid string value: data is not UTF-8 encoded"))
    }

    /// A message within the message.
    #[inline]
    pub(crate) fn fields(self) -> Result<Fields<'a>, Malformed> {
        self.bytes().map(Fields::of)
    }

    #[inline]
    pub(crate) fn number(self) -> Result<u64, Malformed> {
        match self {
            Self::Number(number) => Ok(number),
            _ => Err(Malformed("invalid wire type")),
        }
    }

    /// A number that is said to have 32 bits: further ones don't count.
    #[expect(clippy::cast_possible_truncation, reason = "protobuf says so")]
    pub(crate) fn short(self) -> Result<u32, Malformed> {
        self.number().map(|number| number as u32)
    }

    pub(crate) fn truth(self) -> Result<bool, Malformed> {
        self.number().map(|number| number != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(message: &[u8]) -> Result<Vec<(u32, Value<'_>)>, Malformed> {
        let mut fields = Fields::of(message);
        let mut all = Vec::new();
        while let Some(field) = fields.next()? {
            all.push(field);
        }
        Ok(all)
    }

    #[test]
    fn every_kind_of_field_is_taken_whole() {
        let message = [
            &[0x08, 0x96, 0x01][..],
            &[0x11, 1, 2, 3, 4, 5, 6, 7, 8],
            &[0x1a, 2, b'h', b'i'],
            &[0x23, 0x08, 1, 0x2b, 0x2c, 0x24],
            &[0x2d, 1, 2, 3, 4],
            &[0x30, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        ];
        let expected = vec![
            (1, Value::Number(150)),
            (2, Value::Other),
            (3, Value::Bytes(b"hi")),
            (4, Value::Other),
            (5, Value::Other),
            (6, Value::Number(u64::MAX)),
        ];
        assert_eq!(all(&message.concat()), Ok(expected));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let mut deep = vec![0x0b; 101];
        deep.extend([0x0c; 101]);
        for message in [
            &[0x08][..],
            &[0x08, 0x80],
            &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
            &[0x00, 0x01],
            &[0x0a, 5, 1],
            &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
            &[0x09, 1, 2, 3],
            &[0x0d, 1],
            &[0x0e],
            &[0x0c],
            &[0x0b, 0x08, 1],
            &[0x0b, 0x14],
            &[0xf8, 0xff, 0xff, 0xff, 0x7f, 0x00],
            &deep,
        ] {
            assert!(all(message).is_err(), "{message:x?}");
        }
        assert!(all(&[&[0x0b; 100][..], &[0x0c; 100]].concat()).is_ok());
        assert!(Value::Bytes(&[0xc3, 0x28]).text().is_err());
        assert!(Value::Number(1).text().is_err() && Value::Other.number().is_err());
    }
}
