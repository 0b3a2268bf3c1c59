//! A check's JSON as most clients write it: known fields, each once, with plain text, whole numbers and flags. Whatever
//! else JSON allows, and whatever is wrong with it, is left to serde.

use super::{At, CheckBody};

/// Reads a body that is that plain; `None` if it is not.
pub(super) fn read(json: &str) -> Option<CheckBody<'_>> {
    let mut rest = Rest { json, at: 0 };
    let mut body = CheckBody::default();
    if rest.next()? != b'{' {
        return None;
    }
    loop {
        let name = rest.text()?;
        if rest.next()? != b':' {
            return None;
        }
        match name {
            "orgId" => once(&mut body.org_id, rest.text()?.into())?,
            "appId" => once(&mut body.app_id, rest.text()?.into())?,
            "keyId" => once(&mut body.key_id, rest.text()?.into())?,
            "userId" => once(&mut body.user_id, rest.text()?.into())?,
            "ip" => once(&mut body.ip, rest.text()?.into())?,
            "endpoint" => once(&mut body.endpoint, rest.text()?.into())?,
            "apiKey" => once(&mut body.api_key, rest.text()?.into())?,
            "cost" => once(&mut body.cost, rest.number()?)?,
            "ttlMs" => once(&mut body.ttl_ms, rest.number()?)?,
            "dryRun" => once(&mut body.dry_run, rest.flag()?)?,
            "at" => once(&mut body.at, rest.instant()?)?,
            _ => return None,
        }
        match rest.next()? {
            b',' => {}
            b'}' => return rest.is_empty().then_some(body),
            _ => return None,
        }
    }
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
    fn next(&mut self) -> Option<u8> {
        self.skip_space();
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn is_empty(&mut self) -> bool {
        self.skip_space();
        self.at == self.json.len()
    }

    /// Text without escapes, in ASCII.
    fn text(&mut self) -> Option<&'a str> {
        if self.next()? != b'"' {
            return None;
        }
        let (json, from) = (self.json, self.at);
        let is_end = |byte: &u8| !matches!(byte, 0x20..0x7f) || matches!(byte, b'"' | b'\\');
        let length = json.as_bytes().get(from..)?.iter().position(is_end)?;
        self.at = from + length;
        let text = json.get(from..self.at)?;
        (self.next()? == b'"').then_some(text)
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
    const VALUES: [&str; 24] = [
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
    ];
    const BETWEEN: [&str; 4] = ["", " ", "\n\t", "\u{c}"];
    const AFTER: [&str; 6] = ["}", "} \n", "}x", ",}", "", "} {}"];

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
            match (read(&json), by_serde) {
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
