//! When a certificate runs out, read from its DER. All else that it says is rustls's to judge.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rustls::pki_types::CertificateDer;

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The certificate's `notAfter`, in Unix seconds.
pub(super) fn expires(certificate: &CertificateDer<'_>) -> Option<i64> {
    let mut signed = Fields(Fields(certificate).sequence()?);
    let mut told = Fields(signed.sequence()?);
    // The serial number, or the version before it.
    if told.next()?.0 == VERSION {
        told.next()?;
    }
    let (_algorithm, _issuer) = (told.sequence()?, told.sequence()?);
    let mut validity = Fields(told.sequence()?);
    let _not_before = validity.next()?;
    let (kind, text) = validity.next()?;
    let text = std::str::from_utf8(text).ok()?;
    let text = match kind {
        // Two digits of a year from 1950 to 2049.
        UTC_TIME if text < "50" => format!("20{text}"),
        UTC_TIME => format!("19{text}"),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let at = DateTime::strptime("%Y%m%d%H%M%SZ", text).ok()?;
    Some(at.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second())
}

/// What is left to read of some fields in a row.
struct Fields<'d>(&'d [u8]);

impl<'d> Fields<'d> {
    /// The next field: its tag and what it holds.
    fn next(&mut self) -> Option<(u8, &'d [u8])> {
        let (tag, rest) = self.0.split_first()?;
        let (first, mut rest) = rest.split_first()?;
        let mut length = usize::from(*first);
        if let Some(digits) = length.checked_sub(0x80) {
            let (long, after) = rest.split_at_checked(digits).filter(|_| digits <= 4)?;
            length = long.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit));
            rest = after;
        }
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, value))
    }

    /// What the next field holds, which must be a sequence.
    fn sequence(&mut self) -> Option<&'d [u8]> {
        self.next()
            .filter(|(tag, _)| *tag == SEQUENCE)
            .map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_has_no_end() {
        for bytes in [
            &b""[..],
            b"\x30",
            b"\x30\x82",
            b"\x30\x84\xff\xff\xff\xff",
            b"\x30\x88\x00\x00\x00\x00\x00\x00\x00\x00",
            b"\x30\x04\x30\x02\x02\x00",
            b"nonsense",
        ] {
            assert_eq!(expires(&CertificateDer::from(bytes)), None, "{bytes:?}");
        }
    }
}
