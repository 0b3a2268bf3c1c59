//! What a trusted proxy says of the request it asks about.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use tollgate_catalog::route::{Endpoint, EndpointError};

use super::head::{Head, authority_end};
use crate::answer::Problem;

/// A header's value, which must be text.
pub(super) fn header<'b>(head: &Head<'b>, name: &'static str) -> Result<Option<&'b str>, Problem> {
    only(head, name)?.map(|value| text(name, value)).transpose()
}

/// The value of a header that has one.
pub(super) fn only<'b>(head: &Head<'b>, name: &'static str) -> Result<Option<&'b [u8]>, Problem> {
    the_same(name, head.all(name))
}

/// Headers that prove who a client is. They must come once: of two the service may read the one that is not charged.
const PROOFS: [&str; 2] = ["x-api-key", "authorization"];

/// The value that all lines of a header have. Where a proxy adds its own to a client's, nobody knows which is whose.
pub(crate) fn the_same<'b>(
    name: &'static str,
    mut values: impl Iterator<Item = &'b [u8]>,
) -> Result<Option<&'b [u8]>, Problem> {
    let first = values.next();
    let mut again = 0;
    for value in values {
        if Some(value) != first {
            let detail = format!("The header `{name}` comes more than once, with different values.");
            return Err(Problem::bad_request(detail));
        }
        again += 1;
    }
    let is_joined = |value: &[u8]| PROOFS.contains(&name) && is_joined(value);
    if (again > 0 && PROOFS.contains(&name)) || first.is_some_and(is_joined) {
        return Err(Problem::bad_request(format!(
            "The header `{name}` comes more than once."
        )));
    }
    Ok(first)
}

/// True for the values of two headers that a proxy made one of. No key or bearer token has a comma, other schemes may.
fn is_joined(value: &[u8]) -> bool {
    let mut parts = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let first = parts.next().unwrap_or_default();
    let is_bearer = |part: &[u8]| {
        part.get(..7)
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer "))
    };
    let mut others = parts.peekable();
    let one_word = !first.contains(&b' ');
    others.peek().is_some() && (one_word || is_bearer(first) || others.any(is_bearer))
}

pub(crate) fn text<'b>(name: &'static str, value: &'b [u8]) -> Result<&'b str, Problem> {
    std::str::from_utf8(value).map_err(|_| Problem::bad_request(format!("The header `{name}` is not UTF-8.")))
}

/// What the client asks for, if the proxy says its URI.
pub(super) fn endpoint<'b>(head: &Head<'b>) -> Result<Option<Endpoint<'b>>, Problem> {
    let method = either(head, "x-forwarded-method", "x-original-method")?;
    let Some((uri_name, uri)) = either(head, "x-forwarded-uri", "x-original-uri")? else {
        return Ok(None);
    };
    // What follows the path need not even be text.
    let path = text(uri_name, path_of(uri))?;
    let endpoint = match method {
        None => Endpoint::of(None, path),
        Some((name, method)) => Endpoint::of(Some(text(name, method)?), path),
    };
    endpoint.map(Some).map_err(|error| match (error, method) {
        (EndpointError::Method, Some((name, _))) => {
            Problem::bad_request(format!("The header `{name}` is not a method."))
        }
        _ => Problem::bad_request(format!("The header `{uri_name}` {error}.")),
    })
}

/// One value under two names, with the one that it has; both and different is an error.
fn either<'b>(
    head: &Head<'b>,
    first: &'static str,
    second: &'static str,
) -> Result<Option<(&'static str, &'b [u8])>, Problem> {
    match (only(head, first)?, only(head, second)?) {
        (Some(one), Some(other)) if one != other => Err(Problem::bad_request(format!(
            "The headers `{first}` and `{second}` disagree."
        ))),
        (one, other) => Ok(one.map(|one| (first, one)).or(other.map(|other| (second, other)))),
    }
}

/// The client's address: the nearest hop that is not a trusted proxy, seen from here.
pub(crate) fn client_address<'h>(
    hops: impl DoubleEndedIterator<Item = &'h [u8]>,
    peer: IpAddr,
    trusted: &[IpNet],
) -> IpAddr {
    let peer = peer.to_canonical();
    let is_trusted = |ip: &IpAddr| trusted.iter().any(|net| net.contains(ip));
    let mut client = peer;
    for hop in hops.rev().flat_map(|line| line.rsplit(|byte| *byte == b',')) {
        if !is_trusted(&client) {
            break;
        }
        // What a trusted proxy wrote can be read; anything else ends the chain at the last hop known.
        let Some(address) = std::str::from_utf8(hop).ok().and_then(hop_address) else {
            break;
        };
        client = address;
    }
    client
}

fn hop_address(hop: &str) -> Option<IpAddr> {
    let hop = hop.trim();
    let bare = hop
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(hop);
    let address = bare.parse::<IpAddr>().ok();
    address
        .or_else(|| hop.parse::<SocketAddr>().ok().map(|socket| socket.ip()))
        .map(|ip| ip.to_canonical())
}

/// The path of a URI that may come with scheme and authority, without its query. Services do not agree whether there is a
/// fragment to be dropped.
fn path_of(uri: &[u8]) -> &[u8] {
    let (path, absolute) = match authority_end(uri) {
        Some(end) => (&uri[end..], true),
        None => (uri, false),
    };
    let end = path.iter().position(|byte| *byte == b'?');
    match &path[..end.unwrap_or(path.len())] {
        b"" | [b'#', ..] if absolute => b"/",
        path => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, lines: &[&str]) -> String {
        let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
        client_of(peer, &lines)
    }

    fn client_of(peer: &str, lines: &[&[u8]]) -> String {
        let mut text = b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec();
        for line in lines {
            text.extend_from_slice(&[b"X-Forwarded-For: ", *line, b"\r\n"].concat());
        }
        text.extend_from_slice(b"\r\n");
        let head = Head::read(&text).unwrap().unwrap();
        let trusted = ["127.0.0.0/8".parse().unwrap(), "10.0.0.0/8".parse().unwrap()];
        client_address(head.all("x-forwarded-for"), peer.parse().unwrap(), &trusted).to_string()
    }

    #[test]
    fn believes_only_trusted_hops() {
        assert_eq!(client("127.0.0.1", &[]), "127.0.0.1");
        assert_eq!(client("127.0.0.1", &["203.0.113.9"]), "203.0.113.9");
        assert_eq!(
            client("203.0.113.1", &["198.51.100.7"]),
            "203.0.113.1",
            "an outsider says nothing"
        );
        assert_eq!(
            client("127.0.0.1", &["198.51.100.7, 203.0.113.9"]),
            "203.0.113.9",
            "a spoofed first hop"
        );
        assert_eq!(
            client("127.0.0.1", &["198.51.100.7", "203.0.113.9, 10.0.0.3"]),
            "203.0.113.9"
        );
        assert_eq!(client("127.0.0.1", &["10.0.0.9, 10.0.0.3"]), "10.0.0.9");
        assert_eq!(client("127.0.0.1", &["nonsense"]), "127.0.0.1");
        assert_eq!(client("127.0.0.1", &["[2001:db8::1]:443"]), "2001:db8::1");
        assert_eq!(client("127.0.0.1", &["203.0.113.9:1234"]), "203.0.113.9");
        assert_eq!(client("::ffff:127.0.0.1", &["::ffff:203.0.113.9"]), "203.0.113.9");
    }

    #[test]
    fn bytes_that_are_no_text_end_the_walk_and_hide_nothing() {
        let spoofed: &[u8] = b"\xff, 203.0.113.9";
        assert_eq!(client_of("127.0.0.1", &[spoofed]), "203.0.113.9");
        assert_eq!(client_of("127.0.0.1", &[b"1.2.3.4", spoofed]), "203.0.113.9");
        assert_eq!(client_of("127.0.0.1", &[b"1.2.3.4, \xff, 10.0.0.3"]), "10.0.0.3");
        assert_eq!(client_of("127.0.0.1", &[b"1.2.3.4", b"\xff"]), "127.0.0.1");
    }

    #[test]
    fn two_proofs_in_one_header_are_told_from_one() {
        for (value, joined) in [
            ("tgk_a", false),
            ("tgk_a,tgk_b", true),
            ("Bearer tgk_a", false),
            ("Bearer tgk_a, Bearer tgk_b", true),
            ("Basic abc=, bearer tgk_b", true),
            ("Digest username=\"a\", realm=\"b\"", false),
            ("AWS4-HMAC-SHA256 Credential=a, SignedHeaders=b", false),
            ("", false),
        ] {
            assert_eq!(is_joined(value.as_bytes()), joined, "{value}");
        }
    }

    #[test]
    fn takes_the_path_of_a_uri() {
        for (uri, path) in [
            (&b"/a?b"[..], &b"/a"[..]),
            (b"/a#b", b"/a#b"),
            (b"/a?\xff", b"/a"),
            (b"https://host/a", b"/a"),
            (b"https://host", b"/"),
            (b"https://host?x=/v1/exports", b"/"),
            (b"https://host#/v1/exports", b"/"),
            (b"/a?u=http://b/c", b"/a"),
            (b"/http://b/c", b"/http://b/c"),
            (b"a?http://b/c", b"a"),
            (b"*", b"*"),
            (b"", b""),
        ] {
            assert_eq!(path_of(uri), path, "{}", uri.escape_ascii());
        }
    }
}
