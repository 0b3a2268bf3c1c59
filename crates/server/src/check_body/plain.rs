//! A check's JSON as most clients write it: known fields, each once, with plain text, whole numbers and flags. Whatever
//! else JSON allows, and whatever is wrong with it, is left to serde.

use super::{At, CheckBody};

/// Reads into a blank body what is that plain; `None` if it is not. In place: a body is large enough for each move of it to
/// show.
pub(super) fn read<'a>(json: &'a str, body: &mut CheckBody<'a>) -> Option<()> {
    let mut rest = Rest { json, at: 0 };
    if rest.next()? != b'{' {
        return None;
    }
    loop {
        let name = rest.name()?;
        if rest.next()? != b':' {
            return None;
        }
        match name {
            ORG_ID => once(&mut body.org_id, rest.text()?.into())?,
            APP_ID => once(&mut body.app_id, rest.text()?.into())?,
            KEY_ID => once(&mut body.key_id, rest.text()?.into())?,
            USER_ID => once(&mut body.user_id, rest.text()?.into())?,
            IP => once(&mut body.ip, rest.text()?.into())?,
            ENDPOINT => once(&mut body.endpoint, rest.text()?.into())?,
            API_KEY => once(&mut body.api_key, rest.text()?.into())?,
            COST => once(&mut body.cost, rest.number()?)?,
            TTL_MS => once(&mut body.ttl_ms, rest.number()?)?,
            DRY_RUN => once(&mut body.dry_run, rest.flag()?)?,
            AT => once(&mut body.at, rest.instant()?)?,
            _ => return None,
        }
        match rest.next()? {
            b',' => {}
            b'}' => return rest.is_empty().then_some(()),
            _ => return None,
        }
    }
}

// The names of fields as words, which are compared at once.
const ORG_ID: u64 = word(b"orgId");
const APP_ID: u64 = word(b"appId");
const KEY_ID: u64 = word(b"keyId");
const USER_ID: u64 = word(b"userId");
const IP: u64 = word(b"ip");
const ENDPOINT: u64 = word(b"endpoint");
const API_KEY: u64 = word(b"apiKey");
const COST: u64 = word(b"cost");
const TTL_MS: u64 = word(b"ttlMs");
const DRY_RUN: u64 = word(b"dryRun");
const AT: u64 = word(b"at");

/// Up to eight bytes as a word, with zeros behind them.
const fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let mut at = 0;
    while at < bytes.len() {
        word[at] = bytes[at];
        at += 1;
    }
    u64::from_le_bytes(word)
}

/// How many bytes of a word come before the first that plain text does not have: a quote, a backslash, or what is not
/// printable ASCII. All eight are looked at together: the highest bit of each stays set where it is such a byte, and
/// perhaps where one stands before it.
fn plain_bytes(word: u64) -> usize {
    const EACH: u64 = u64::from_le_bytes([1; 8]);
    const HIGHEST: u64 = EACH << 7;
    let below = |word: u64, byte: u8| word.wrapping_sub(EACH * u64::from(byte)) & !word;
    let is = |byte: u8| below(word ^ (EACH * u64::from(byte)), 1);
    let unprintable = below(word, b' ') | word | word.wrapping_add(EACH);
    let others = (unprintable | is(b'"') | is(b'\\')) & HIGHEST;
    (others.trailing_zeros() / 8) as usize
}

#[inline]
fn once<T>(field: &mut Option<T>, value: T) -> Option<()> {
    if field.is_some() {
        return None;
    }
    *field = Some(value);
    Some(())
}

/// What is still to be read.
struct Rest<'a> {
    json: &'a str,
    at: usize,
}

impl<'a> Rest<'a> {
    fn peek(&self) -> Option<u8> {
        self.json.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// The next byte that is no space.
    #[inline]
    fn next(&mut self) -> Option<u8> {
        let mut byte = self.peek()?;
        if byte <= b' ' {
            self.skip_space();
            byte = self.peek()?;
        }
        self.at += 1;
        Some(byte)
    }

    fn is_empty(&mut self) -> bool {
        self.skip_space();
        self.at == self.json.len()
    }

    /// The next eight bytes, with zeros behind the end.
    #[inline]
    fn word(&self) -> u64 {
        let rest = self.json.as_bytes().get(self.at..).unwrap_or_default();
        match rest.first_chunk() {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => word(rest),
        }
    }

    /// The name of a field as a word. All that are known have at most eight bytes.
    #[expect(clippy::cast_possible_truncation, reason = "at most eight")]
    #[inline]
    fn name(&mut self) -> Option<u64> {
        if self.next()? != b'"' {
            return None;
        }
        let name = self.word();
        let length = plain_bytes(name);
        self.at += length;
        self.close()?;
        let behind = u64::MAX.checked_shl(8 * length as u32).unwrap_or(0);
        Some(name & !behind)
    }

    /// Text without escapes, in ASCII.
    #[inline]
    fn text(&mut self) -> Option<&'a str> {
        if self.next()? != b'"' {
            return None;
        }
        let from = self.at;
        loop {
            let length = plain_bytes(self.word());
            self.at += length;
            if length < 8 {
                break;
            }
        }
        let text = self.json.get(from..self.at)?;
        self.close()?;
        Some(text)
    }

    /// The quote behind a text, with nothing before it: what looks like space there is a part of the text that JSON does
    /// not allow.
    #[inline]
    fn close(&mut self) -> Option<()> {
        let closed = self.peek()? == b'"';
        self.at += 1;
        closed.then_some(())
    }

    /// A whole number of up to 19 digits, which 64 bits always hold.
    fn number(&mut self) -> Option<u64> {
        self.skip_space();
        let from = self.at;
        let mut number = 0;
        while let Some(digit @ b'0'..=b'9') = self.peek()
            && self.at < from + 19
        {
            number = number * 10 + u64::from(digit - b'0');
            self.at += 1;
        }
        let length = self.at - from;
        let leading_zero = length > 1 && self.json.as_bytes()[from] == b'0';
        (length > 0 && !leading_zero).then_some(number)
    }

    fn flag(&mut self) -> Option<bool> {
        self.skip_space();
        let rest = self.json.get(self.at..)?;
        let (flag, length) = match rest {
            rest if rest.starts_with("true") => (true, 4),
            rest if rest.starts_with("false") => (false, 5),
            _ => return None,
        };
        self.at += length;
        Some(flag)
    }

    fn instant(&mut self) -> Option<At<'a>> {
        self.skip_space();
        match self.peek()? {
            b'"' => self.text().map(|text| At::Rfc3339(text.into())),
            _ => self.number().map(At::Millis),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces that bodies are made of, plain ones and others.
    const NAMES: [&str; 13] = [
        "\"orgId\"",
        "\"appId\"",
        "\"keyId\"",
        "\"userId\"",
        "\"ip\"",
        "\"endpoint\"",
        "\"apiKey\"",
        "\"cost\"",
        "\"ttlMs\"",
        "\"dryRun\"",
        "\"at\"",
        "\"scopes\"",
        "\"\\u0061t\"",
    ];
    const VALUES: [&str; 29] = [
        "\"acme\"",
        "\"\"",
        "\"a b/c?d=e\"",
        "\"caf\u{e9}\"",
        "\"a\\\"b\"",
        "\"a\\\\\"",
        "\"tab\there\"",
        "\"del\u{7f}\"",
        "0",
        "1",
        "007",
        "-1",
        "1.5",
        "1e3",
        "9999999999999999999",
        "18446744073709551615",
        "18446744073709551616",
        "true",
        "false",
        "truer",
        "null",
        "[\"read\"]",
        "\"2024-07-15T00:00:00Z\"",
        "\"open",
        "\"tab at its end\t\"",
        "\"line\n\"",
        "\"of sixteen bytes\"",
        "\"with more than those sixteen\"",
        "\"a quote in the \\\" second word\"",
    ];
    const BETWEEN: [&str; 4] = ["", " ", "\n\t", "\u{c}"];
    const AFTER: [&str; 6] = ["}", "} \n", "}x", ",}", "", "} {}"];

    /// Each byte at each place, behind others that are plain and before others of any kind.
    #[test]
    fn plain_bytes_are_those_that_need_no_second_look() {
        let mut others = 0x9e37_79b9_7f4a_7c15_u64;
        for place in 0..8 {
            for byte in 0..=u8::MAX {
                others = others.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let mut bytes = others.to_le_bytes();
                for plain in &mut bytes[..place] {
                    *plain = b"az09 !~#[]{}:,/-"[usize::from(*plain) % 16];
                }
                bytes[place] = byte;
                let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
                let expected = bytes.iter().take_while(|byte| is_plain(byte)).count();
                assert_eq!(plain_bytes(u64::from_le_bytes(bytes)), expected, "{bytes:?}");
            }
        }
    }

    /// Whatever is read here, serde reads to the same; and what serde refuses is not read here.
    #[test]
    fn reads_what_serde_reads() {
        let mut seed = 1_u64;
        let mut pick = |bound: usize| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(seed >> 33).unwrap() % bound
        };
        let (mut plain, mut refused) = (0, 0);
        for _ in 0..200_000 {
            let mut json = String::from("{");
            for field in 0..pick(5) {
                // Spaces of any kind are rare, so that many bodies are plain.
                let mut between = || BETWEEN[pick(40).saturating_sub(36)];
                let spaces = [between(), between(), between()];
                let comma = if field > 0 { "," } else { "" };
                // Most values fit their names.
                let name = pick(NAMES.len());
                let value = match (pick(4), name) {
                    (0, _) => VALUES[pick(VALUES.len())],
                    (_, 7 | 8 | 10) => VALUES[8 + pick(2)],
                    (_, 9) => VALUES[17 + pick(2)],
                    _ => VALUES[pick(3)],
                };
                let [before, middle, after] = spaces;
                json.push_str(&[comma, before, NAMES[name], middle, ":", after, value].concat());
            }
            json.push_str(AFTER[pick(30).saturating_sub(24)]);
            let by_serde = serde_json::from_str::<CheckBody<'_>>(&json);
            let mut body = CheckBody::default();
            match (read(&json, &mut body).map(|()| body), by_serde) {
                (Some(read), Ok(expected)) => {
                    assert_eq!(format!("{read:?}"), format!("{expected:?}"), "{json}");
                    plain += 1;
                }
                (Some(_), Err(error)) => panic!("{json} was read, and is wrong: {error}"),
                (None, Err(_)) => refused += 1,
                (None, Ok(_)) => {}
            }
        }
        assert!(
            plain > 20_000 && refused > 20_000,
            "{plain} read, {refused} refused"
        );
    }
}
