//! What a trusted proxy says of the request it asks about.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use super::head::Head;
use crate::answer::Problem;

/// A header's value, which must be text.
pub(super) fn header<'b>(head: &Head<'b>, name: &'static str) -> Result<Option<&'b str>, Problem> {
    let Some(value) = head.header(name) else {
        return Ok(None);
    };
    let text = std::str::from_utf8(value);
    text.map(Some)
        .map_err(|_| Problem::bad_request(format!("The header `{name}` is not UTF-8.")))
}

/// One value under two names; both and different is an error.
pub(super) fn either<'b>(
    head: &Head<'b>,
    first: &'static str,
    second: &'static str,
) -> Result<Option<&'b str>, Problem> {
    match (header(head, first)?, header(head, second)?) {
        (Some(one), Some(other)) if one != other => Err(Problem::bad_request(format!(
            "The headers `{first}` and `{second}` disagree."
        ))),
        (one, other) => Ok(one.or(other)),
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
    let lines = hops.filter_map(|line| std::str::from_utf8(line).ok());
    for hop in lines.rev().flat_map(|line| line.rsplit(',')) {
        if !is_trusted(&client) {
            break;
        }
        // What a trusted proxy wrote can be read; anything else ends the chain at the last hop known.
        let Some(address) = hop_address(hop.trim()) else {
            break;
        };
        client = address;
    }
    client
}

fn hop_address(hop: &str) -> Option<IpAddr> {
    let bare = hop
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(hop);
    let address = bare.parse::<IpAddr>().ok();
    address
        .or_else(|| hop.parse::<SocketAddr>().ok().map(|socket| socket.ip()))
        .map(|ip| ip.to_canonical())
}

/// The path of a URI that may come with scheme and authority.
pub(super) fn path_of(uri: &str) -> &str {
    let Some((_, rest)) = uri.split_once("://").filter(|(scheme, _)| !scheme.contains('/')) else {
        return uri;
    };
    rest.find('/').map_or("/", |slash| &rest[slash..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, lines: &[&str]) -> String {
        let lines: Vec<String> = lines
            .iter()
            .map(|line| format!("X-Forwarded-For: {line}\r\n"))
            .collect();
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", lines.concat());
        let head = Head::read(text.as_bytes()).unwrap().unwrap();
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
    fn takes_the_path_of_an_absolute_uri() {
        assert_eq!(path_of("/a?b"), "/a?b");
        assert_eq!(path_of("https://host/a"), "/a");
        assert_eq!(path_of("https://host"), "/");
        assert_eq!(path_of("/a?u=http://b/c"), "/a?u=http://b/c");
    }
}
