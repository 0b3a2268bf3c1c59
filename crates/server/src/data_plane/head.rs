//! The head of a request, read strictly: whatever could mean two things to two readers is refused.

use std::fmt;

use smallvec::SmallVec;

/// Headers a request may have.
const MAX_HEADERS: usize = 100;

/// Why a request is not answered by a route, and the connection closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Malformed {
    /// It is not HTTP.
    Syntax,
    /// There are too many headers.
    TooManyHeaders,
    /// It has none or several hosts.
    Host,
    /// Its length is given twice, or in a way that is not understood.
    Length,
    /// It asks for something before its body that can't be had.
    Expectation,
    /// It asks for another host's resource or for a tunnel.
    Target,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syntax => "The request is not well-formed HTTP/1.1.",
            Self::TooManyHeaders => "The request has more than 100 headers.",
            Self::Host => "The request must have exactly one `Host`.",
            Self::Length => {
                "The body's length is ambiguous: give one `Content-Length`, or `Transfer-Encoding: chunked`."
            }
            Self::Expectation => "The only expectation that can be met is `100-continue`.",
            Self::Target => "The request's target must be a path.",
        })
    }
}

/// How the end of the body is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// After so many bytes.
    Exactly(usize),
    /// By a last chunk of no bytes.
    Chunked,
}

/// The head of a request.
#[derive(Debug)]
pub(super) struct Head<'b> {
    pub(super) method: &'b str,
    pub(super) path: &'b str,
    pub(super) query: Option<&'b str>,
    pub(super) length: Length,
    pub(super) keep_alive: bool,
    /// The client waits to be told before it sends the body.
    pub(super) waits: bool,
    /// How many bytes of the buffer the head took.
    pub(super) size: usize,
    headers: SmallVec<[(&'b str, &'b [u8]); 16]>,
}

impl<'b> Head<'b> {
    /// Reads a head off the front of a buffer; `None` if it has not arrived whole.
    pub(super) fn read(buffer: &'b [u8]) -> Result<Option<Self>, Malformed> {
        let mut headers = [const { std::mem::MaybeUninit::uninit() }; MAX_HEADERS];
        let mut request = httparse::Request::new(&mut []);
        let parsed = request.parse_with_uninit_headers(buffer, &mut headers);
        let size = match parsed {
            Ok(httparse::Status::Complete(size)) => size,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(Malformed::TooManyHeaders),
            Err(_) => return Err(Malformed::Syntax),
        };
        let (Some(method), Some(target), Some(version)) = (request.method, request.path, request.version)
        else {
            return Err(Malformed::Syntax);
        };
        if !ends_lines_by_crlf(&buffer[..size]) {
            return Err(Malformed::Syntax);
        }
        let (path, query) = split_target(target)?;
        let headers = request
            .headers
            .iter()
            .map(|header| (header.name, header.value))
            .collect();
        let mut head = Self {
            method,
            path,
            query,
            length: Length::Exactly(0),
            keep_alive: version == 1,
            waits: false,
            size,
            headers,
        };
        head.interpret(version == 1)?;
        Ok(Some(head))
    }

    /// The value of a header; of several with the name, the first.
    pub(super) fn header(&self, name: &str) -> Option<&'b [u8]> {
        self.all(name).next()
    }

    /// The values of every header of a name.
    pub(super) fn all<'h>(&'h self, name: &'h str) -> impl DoubleEndedIterator<Item = &'b [u8]> + 'h {
        let named = self
            .headers
            .iter()
            .filter(move |(known, _)| known.eq_ignore_ascii_case(name));
        named.map(|(_, value)| *value)
    }

    /// Draws from the headers what the connection needs to know.
    fn interpret(&mut self, is_1_1: bool) -> Result<(), Malformed> {
        let (mut hosts, mut length, mut chunked) = (0, None, false);
        for (name, value) in &self.headers {
            // Few names matter, and their lengths tell them apart from nearly all others.
            match name.len() {
                4 if name.eq_ignore_ascii_case("host") => hosts += 1,
                6 if name.eq_ignore_ascii_case("expect") => {
                    if !value.eq_ignore_ascii_case(b"100-continue") {
                        return Err(Malformed::Expectation);
                    }
                    self.waits = is_1_1;
                }
                10 if name.eq_ignore_ascii_case("connection") => {
                    for option in value.split(|byte| *byte == b',') {
                        match option.trim_ascii() {
                            option if option.eq_ignore_ascii_case(b"close") => self.keep_alive = false,
                            option if option.eq_ignore_ascii_case(b"keep-alive") && !is_1_1 => {
                                self.keep_alive = true;
                            }
                            _ => {}
                        }
                    }
                }
                14 if name.eq_ignore_ascii_case("content-length") => {
                    if length.is_some() {
                        return Err(Malformed::Length);
                    }
                    length = Some(whole_number(value).ok_or(Malformed::Length)?);
                }
                17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                    if chunked || !is_1_1 || !value.eq_ignore_ascii_case(b"chunked") {
                        return Err(Malformed::Length);
                    }
                    chunked = true;
                }
                _ => {}
            }
        }
        if hosts > 1 || (is_1_1 && hosts == 0) {
            return Err(Malformed::Host);
        }
        self.length = match (chunked, length) {
            (true, Some(_)) => return Err(Malformed::Length),
            (true, None) => Length::Chunked,
            (false, length) => Length::Exactly(length.unwrap_or(0)),
        };
        Ok(())
    }
}

/// Whether each line of a head ends as it must. A line feed by itself ends one for some readers and not for others.
fn ends_lines_by_crlf(head: &[u8]) -> bool {
    // One empty line may come before a request, which some clients send after the last one's body.
    if head.first() == Some(&b'\n') || head.starts_with(b"\r\n\r\n") {
        return false;
    }
    // Without a branch, so that it is done for many bytes at a time.
    let pairs = head.iter().zip(head.get(1..).unwrap_or_default());
    let bare = pairs.fold(0, |bare, (before, byte)| {
        bare | (u8::from(*byte == b'\n') & u8::from(*before != b'\r'))
    });
    bare == 0
}

/// The path and the query of a target, which may come with scheme and authority as proxies are sent it.
pub(super) fn split_target(target: &str) -> Result<(&str, Option<&str>), Malformed> {
    if target.contains('#') {
        return Err(Malformed::Target);
    }
    let target = if target.starts_with('/') {
        target
    } else {
        let (authority, rest) = split_absolute(target).ok_or(Malformed::Target)?;
        if authority.is_empty() || authority.contains('@') {
            return Err(Malformed::Target);
        }
        if !rest.starts_with('/') {
            // There is no path, perhaps a query.
            return Ok(("/", rest.strip_prefix('?')));
        }
        rest
    };
    Ok(match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    })
}

/// Authority and rest of a target with a scheme of HTTP's.
fn split_absolute(target: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = target.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return None;
    }
    Some(rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len())))
}

/// Where the authority of a URI ends that begins with scheme and authority; `None` if it does not.
pub(super) fn authority_end(uri: &[u8]) -> Option<usize> {
    let scheme = uri.iter().position(|byte| b":/?#".contains(byte))?;
    let rest = uri[scheme..].strip_prefix(b"://")?;
    let length = rest.iter().position(|byte| b"/?#".contains(byte));
    Some(scheme + 3 + length.unwrap_or(rest.len()))
}

/// Digits and nothing else: no sign, no list, no spaces within, and no zeros before it, which some take for octal.
fn whole_number(value: &[u8]) -> Option<usize> {
    let padded = value.len() > 1 && value.first() == Some(&b'0');
    let digits = !value.is_empty() && !padded && value.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(value).ok().filter(|_| digits)?;
    // More than can be counted is too much, but it is one length.
    Some(text.parse().unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<Head<'_>>, Malformed> {
        Head::read(text.as_bytes())
    }

    #[test]
    fn reads_what_a_client_sends() {
        let head = read(
            "POST /v1/check?status=200 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nX-A: 1\r\nx-a: 2\r\n\r\n{}",
        );
        let head = head.unwrap().unwrap();
        assert_eq!(
            (head.method, head.path, head.query),
            ("POST", "/v1/check", Some("status=200"))
        );
        assert_eq!(
            (head.length, head.keep_alive, head.waits),
            (Length::Exactly(2), true, false)
        );
        assert_eq!(head.all("X-A").collect::<Vec<_>>(), [b"1", b"2"]);
        let head = read("GET http://host/a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            .unwrap()
            .unwrap();
        assert_eq!((head.path, head.keep_alive), ("/a", true));
        for (target, path, query) in [
            ("http://host", "/", None),
            ("http://host?/v1/check", "/", Some("/v1/check")),
            ("http://host/a?b=http://c/d", "/a", Some("b=http://c/d")),
            ("/a?b=http://c/d", "/a", Some("b=http://c/d")),
        ] {
            assert_eq!(split_target(target), Ok((path, query)), "{target}");
        }
        assert!(read("GET / HTTP/1.1\r\nHost").unwrap().is_none());
        assert!(read("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap().is_some());
    }

    #[test]
    fn refuses_what_could_be_read_in_two_ways() {
        for (text, problem) in [
            ("GET / HTTP/1.1\r\n\r\n", Malformed::Host),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", Malformed::Host),
            (
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
                Malformed::Length,
            ),
            (
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n",
                Malformed::Length,
            ),
            (
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
                Malformed::Length,
            ),
            (
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                Malformed::Length,
            ),
            (
                "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
                Malformed::Length,
            ),
            (
                "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
                Malformed::Length,
            ),
            (
                "POST / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n",
                Malformed::Expectation,
            ),
            (
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 01\r\n\r\n",
                Malformed::Length,
            ),
            ("GET / HTTP/1.1\nHost: a\r\n\r\n", Malformed::Syntax),
            ("GET / HTTP/1.1\r\nHost: a\n\r\n", Malformed::Syntax),
            ("GET / HTTP/1.1\r\nHost: a\r\n\n", Malformed::Syntax),
            ("GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", Malformed::Syntax),
            ("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Malformed::Syntax),
            ("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Malformed::Syntax),
            ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", Malformed::Target),
            ("GET ://a/ HTTP/1.1\r\nHost: a\r\n\r\n", Malformed::Target),
            ("GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", Malformed::Target),
            ("GET http:///a HTTP/1.1\r\nHost: a\r\n\r\n", Malformed::Target),
            ("GET http://b@a/ HTTP/1.1\r\nHost: a\r\n\r\n", Malformed::Target),
            ("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", Malformed::Target),
            ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", Malformed::Syntax),
            ("GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", Malformed::Syntax),
            ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", Malformed::Syntax),
        ] {
            assert_eq!(read(text).map(|head| head.is_some()), Err(problem), "{text}");
        }
    }
}
