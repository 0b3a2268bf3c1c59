//! A request's method and path in their one form.

use std::borrow::Cow;
use std::fmt;

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
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "is longer than 8192 bytes",
            Self::Method => "must be a method and a path, such as `POST /v1/exports`",
            Self::NoSlash => "must have a path that begins with `/`",
            Self::Escape => "has a `%` that is not followed by two hexadecimal digits",
            Self::Control => "contains a control character",
        })
    }
}

impl std::error::Error for EndpointError {}

/// A method and a normalised path.
///
/// In this order: the query and fragment are dropped, escapes decoded once, backslashes made slashes,
/// matrix parameters (`;…`) cut off each segment, empty and `.` segments left out, `..` taken back, letters
/// lowered. `/V1//Exports/%2e%2e/exports;x=1/?q` is `/v1/exports`.
///
/// Some services take an escaped slash for one that separates, others for a part of a segment. Nobody knows which stands
/// behind this, so an endpoint that has some is matched in both readings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint<'a> {
    method: Option<Cow<'a, str>>,
    /// The path without its first slash; segments are separated by single slashes.
    path: Cow<'a, [u8]>,
    /// The same with escaped slashes within their segments, if there are any.
    whole: Option<Box<[u8]>>,
}

/// What stands for a slash within a segment. No path has one otherwise.
const WITHIN: u8 = 0x1f;

impl Endpoint<'_> {
    /// The same, to be kept.
    pub fn to_static(&self) -> Endpoint<'static> {
        Endpoint {
            method: self.method.as_deref().map(|method| Cow::Owned(method.to_owned())),
            path: Cow::Owned(self.path.to_vec()),
            whole: self.whole.clone(),
        }
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
        if path.len() > MAX_BYTES && path.find(['?', '#']).is_none_or(|end| end > MAX_BYTES) {
            return Err(EndpointError::TooLong);
        }
        let method = method.map(read_method).transpose()?;
        let Some(rest) = path.strip_prefix('/') else {
            return Err(EndpointError::NoSlash);
        };
        if is_normal(rest.as_bytes()) {
            let (path, whole) = (Cow::Borrowed(rest.as_bytes()), None);
            return Ok(Self { method, path, whole });
        }
        let decoded = decode(rest.as_bytes())?;
        let whole = decoded.contains(&WITHIN).then(|| normalise(&decoded).into());
        let separated: Vec<u8> = decoded.into_iter().map(separating).collect();
        let path = Cow::Owned(normalise(&separated));
        Ok(Self { method, path, whole })
    }

    /// The method in capitals.
    pub fn method(&self) -> Option<&str> {
        self.method.as_deref()
    }

    /// The segments of the path, escaped slashes between them.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        segments(&self.path)
    }

    /// The segments with escaped slashes within them, if there are any.
    pub fn whole_segments(&self) -> Option<impl Iterator<Item = &[u8]>> {
        self.whole.as_deref().map(segments)
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

fn separating(byte: u8) -> u8 {
    if byte == WITHIN { b'/' } else { byte }
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

fn normalise(decoded: &[u8]) -> Vec<u8> {
    let mut normal: Vec<u8> = Vec::with_capacity(decoded.len());
    for segment in decoded.split(|byte| *byte == b'/') {
        let end = segment.iter().position(|byte| *byte == b';');
        match &segment[..end.unwrap_or(segment.len())] {
            b"" | b"." => {}
            b".." => {
                let parent = normal.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                normal.truncate(parent);
            }
            name => {
                if !normal.is_empty() {
                    normal.push(b'/');
                }
                normal.extend_from_slice(name);
            }
        }
    }
    normal
}

/// A path without its query and fragment, with escapes decoded.
fn decode(path: &[u8]) -> Result<Vec<u8>, EndpointError> {
    let end = path.iter().position(|byte| matches!(byte, b'?' | b'#'));
    let path = &path[..end.unwrap_or(path.len())];
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
        decoded.push(match byte {
            0..0x20 | 0x7f => return Err(EndpointError::Control),
            b'/' | b'\\' if escaped => WITHIN,
            b'\\' => b'/',
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
}
