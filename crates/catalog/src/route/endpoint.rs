//! A request's method and path in their one form.

use std::borrow::Cow;
use std::fmt::{self, Write};

use super::readings::{BACKSLASH, DOT, ESCAPED, FRAGMENT, Readings, SEMICOLON, SLASH};

/// The longest endpoint that is looked at.
const MAX_BYTES: usize = 8192;

/// Why an endpoint is not one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointError {
    /// It is longer than 8192 bytes.
    TooLong,
    /// The method is not a word.
    Method,
    /// The path does not begin with a slash.
    NoSlash,
    /// A percent sign is not followed by two hexadecimal digits.
    Escape,
    /// There is a control character in it.
    Control,
    /// Services read it in more ways than can be looked at.
    Ambiguous,
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "is longer than 8192 bytes",
            Self::Method => "must be a method and a path, such as `POST /v1/exports`",
            Self::NoSlash => "must have a path that begins with `/`",
            Self::Escape => "has a `%` that is not followed by two hexadecimal digits",
            Self::Control => "contains a control character",
            Self::Ambiguous => {
                "can be read in too many ways: write it without `;`, `\\`, `#`, `//`, escaped slashes and dot segments"
            }
        })
    }
}

impl std::error::Error for EndpointError {}

/// A method and a normalised path.
///
/// In this order: the query and fragment are dropped, escapes decoded once, slashes made of backslashes, matrix parameters
/// (`;…`) cut off each segment, empty and `.` segments left out, `..` resolved, letters lowered.
/// `/V1//Exports/%2e%2e/exports;x=1/?q` is `/v1/exports`.
///
/// Services differ in some of these steps. A path where that matters has other readings in addition, each in its own
/// normal form, and an endpoint matches what any of them does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint<'a> {
    method: Option<Cow<'a, str>>,
    /// The path without its first slash; segments are separated by single slashes.
    path: Cow<'a, [u8]>,
    odd: Option<Box<OddPath>>,
}

/// A path that can be read in several ways.
#[derive(Debug, Clone, PartialEq, Eq)]
struct OddPath {
    /// As it came, without its query.
    spelling: Box<str>,
    /// Its readings besides the normal one.
    readings: Box<[Box<[u8]>]>,
}

impl Endpoint<'_> {
    /// The same, to be kept.
    pub fn to_static(&self) -> Endpoint<'static> {
        Endpoint {
            method: self.method.as_deref().map(|method| Cow::Owned(method.to_owned())),
            path: Cow::Owned(self.path.to_vec()),
            odd: self.odd.clone(),
        }
    }

    /// A text that [`Endpoint::parse`] reads as this very endpoint, with all its readings.
    pub fn spelling(&self) -> String {
        let mut text = self
            .method
            .as_ref()
            .map_or_else(String::new, |method| format!("{method} "));
        if let Some(odd) = &self.odd {
            text.push_str(&odd.spelling);
            return text;
        }
        text.push('/');
        for byte in self.path.iter() {
            if is_plain(*byte) || b"/.".contains(byte) {
                text.push(char::from(*byte));
            } else {
                let _ = write!(text, "%{byte:02x}");
            }
        }
        text
    }
}

impl<'a> Endpoint<'a> {
    /// Reads `METHOD /path` or `/path`.
    pub fn parse(text: &'a str) -> Result<Self, EndpointError> {
        match text.split_once(' ') {
            _ if text.starts_with('/') => Self::of(None, text),
            Some((method, path)) => Self::of(Some(method), path),
            None => Err(EndpointError::Method),
        }
    }

    /// An endpoint of a method and a path as they came in a request.
    pub fn of(method: Option<&'a str>, path: &'a str) -> Result<Self, EndpointError> {
        let end = path.find('?').unwrap_or(path.len());
        if end > MAX_BYTES {
            return Err(EndpointError::TooLong);
        }
        let path = &path[..end];
        let method = method.map(read_method).transpose()?;
        let Some(rest) = path.strip_prefix('/') else {
            return Err(EndpointError::NoSlash);
        };
        if is_normal(rest.as_bytes()) {
            let path = Cow::Borrowed(rest.as_bytes());
            return Ok(Self {
                method,
                path,
                odd: None,
            });
        }
        let readings = Readings::of(&decode(rest.as_bytes())?).map_err(|_| EndpointError::Ambiguous)?;
        let odd = (!readings.others.is_empty()).then(|| OddPath {
            spelling: path.into(),
            readings: readings.others.into(),
        });
        Ok(Self {
            method,
            path: Cow::Owned(readings.normal),
            odd: odd.map(Box::new),
        })
    }

    /// The method in capitals.
    pub fn method(&self) -> Option<&str> {
        self.method.as_deref()
    }

    /// The segments of the path in its normal form.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        segments(&self.path)
    }

    /// The segments of the other readings, if there are any.
    pub fn other_readings(&self) -> impl Iterator<Item = impl Iterator<Item = &[u8]>> {
        let readings = self.odd.iter().flat_map(|odd| odd.readings.iter());
        readings.map(|path| segments(path))
    }
}

impl fmt::Display for Endpoint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(method) = &self.method {
            write!(f, "{method} ")?;
        }
        write!(f, "/{}", String::from_utf8_lossy(&self.path))
    }
}

fn segments(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let none = path.is_empty();
    path.split(|byte| *byte == b'/').filter(move |_| !none)
}

fn read_method(method: &str) -> Result<Cow<'_, str>, EndpointError> {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if method.is_empty() || method.len() > 32 || !method.bytes().all(word) {
        return Err(EndpointError::Method);
    }
    Ok(if method.bytes().any(|byte| byte.is_ascii_lowercase()) {
        Cow::Owned(method.to_ascii_uppercase())
    } else {
        Cow::Borrowed(method)
    })
}

/// Whether a path (without its first slash) is in its normal form as it stands. Most are, and need no copy.
fn is_normal(path: &[u8]) -> bool {
    let mut previous = b'/';
    for byte in path {
        let plain = match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'~' | b':' | b'@' | b'{' | b'}' | b',' | b'+' => true,
            b'/' | b'.' => previous != b'/',
            _ => false,
        };
        if !plain {
            return false;
        }
        previous = *byte;
    }
    path.is_empty() || previous != b'/'
}

/// Whether a character may stand in a path as it is, and means nothing there.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_~!$&'()*+,=:@".contains(&byte)
}

/// A path with escapes decoded, and marks in place of what services read in several ways.
fn decode(path: &[u8]) -> Result<Vec<u8>, EndpointError> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path.iter();
    while let Some(byte) = rest.next() {
        let escaped = *byte == b'%';
        let byte = if escaped {
            let mut digit = || rest.next().and_then(|byte| (*byte as char).to_digit(16));
            let (Some(high), Some(low)) = (digit(), digit()) else {
                return Err(EndpointError::Escape);
            };
            #[expect(
                clippy::cast_possible_truncation,
                reason = "two hexadecimal digits make a byte"
            )]
            let byte = (high * 16 + low) as u8;
            byte
        } else {
            *byte
        };
        if escaped && is_plain(byte) {
            decoded.push(ESCAPED);
        }
        decoded.push(match byte {
            0..0x20 | 0x7f => return Err(EndpointError::Control),
            b'/' if escaped => SLASH,
            b'\\' if escaped => BACKSLASH,
            b';' if escaped => SEMICOLON,
            b'.' if escaped => DOT,
            b'#' if !escaped => FRAGMENT,
            byte => byte.to_ascii_lowercase(),
        });
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(text: &str) -> String {
        Endpoint::parse(text).unwrap().to_string()
    }

    #[test]
    fn tricks_do_not_make_another_path() {
        for trick in [
            "POST /v1/exports",
            "post /v1/exports",
            "POST /V1/Exports",
            "POST /v1/exports/",
            "POST //v1///exports//",
            "POST /v1/./exports",
            "POST /v1/x/../exports",
            "POST /v1/x/%2e%2E/exports",
            "POST /v1/x/..;a=b/exports",
            "POST /v1;jsessionid=7/exports;v=2",
            "POST /v1%2fexports",
            "POST /v1\\exports",
            "POST /v1%5cexports",
            "POST /%76%31/%45xports",
            "POST /v1/exports?limit=7",
            "POST /v1/exports#top",
            "POST /v1/exports?a=/../b",
            "POST /../../v1/exports",
        ] {
            assert_eq!(normal(trick), "POST /v1/exports", "{trick}");
        }
        assert_eq!(normal("/"), "/");
        assert_eq!(normal("GET /.."), "GET /");
        assert_eq!(normal("GET /a.b/.c/..d"), "GET /a.b/.c/..d");
        assert_eq!(
            normal("GET /%252e%252e/a"),
            "GET /%2e%2e/a",
            "escapes are decoded once"
        );
    }

    #[test]
    fn what_is_not_an_endpoint_is_refused() {
        for (text, error) in [
            ("exports", EndpointError::Method),
            ("GET exports", EndpointError::NoSlash),
            ("GET http://host/", EndpointError::NoSlash),
            ("G@T /", EndpointError::Method),
            ("GET /%2", EndpointError::Escape),
            ("GET /%zz", EndpointError::Escape),
            ("GET /a%00b", EndpointError::Control),
            ("GET /a\nb", EndpointError::Control),
        ] {
            assert_eq!(Endpoint::parse(text), Err(error), "{text}");
        }
        let long = format!("/{}", "a".repeat(9000));
        assert_eq!(Endpoint::parse(&long), Err(EndpointError::TooLong));
    }

    #[test]
    fn a_query_is_no_part_of_a_path() {
        let query = format!("GET /a?{}#;/../%zz", "b".repeat(9000));
        assert_eq!(Endpoint::parse(&query), Endpoint::parse("GET /a"));
    }

    #[test]
    fn a_spelling_is_read_as_the_same_endpoint() {
        for text in [
            "/",
            "GET /V1//exports/",
            "GET /%252e%252e/%C3%A9+x",
            "GET /%61/b%2Bc",
            "POST /v1/..%3B/x%2fy?z",
            "POST /v1/search/;x#y?z",
        ] {
            let endpoint = Endpoint::parse(text).unwrap();
            assert_eq!(
                Endpoint::parse(&endpoint.spelling()).as_ref(),
                Ok(&endpoint),
                "{text}"
            );
        }
    }
}
