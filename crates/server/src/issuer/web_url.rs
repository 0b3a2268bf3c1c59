//! A URL that keys may be fetched from: https, or this machine's own.

use std::net::IpAddr;

use http::Uri;

use crate::outgoing::ServerUrl;

/// A server and a path on it.
#[derive(Debug)]
pub(super) struct WebUrl {
    pub(super) server: ServerUrl,
    pub(super) path: String,
}

impl WebUrl {
    /// Reads a URL; the error says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let problem = || format!("`{text}` is not a URL such as https://issuer.example/keys");
        let uri: Uri = text.parse().map_err(|_| problem())?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(problem());
        };
        let server = ServerUrl::parse(&format!("{scheme}://{authority}")).map_err(|_| problem())?;
        // Whoever could change keys on the way could sign any token.
        if !server.secure && !is_loopback(&server.host) {
            return Err(format!("`{text}` must be https, for it is not on this machine"));
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { server, path })
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.parse::<IpAddr>().map(|address| address.to_canonical());
    address.map_or_else(
        |_| host.eq_ignore_ascii_case("localhost"),
        |address| address.is_loopback(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_may_be_asked_without_tls() {
        for good in [
            "https://issuer.example/keys",
            "https://issuer.example:8443",
            "http://127.0.0.1:9/keys?x=1",
            "http://localhost/keys",
            "http://[::1]:9/keys",
        ] {
            WebUrl::parse(good).unwrap();
        }
        for bad in [
            "http://issuer.example/keys",
            "http://127.0.0.1.issuer.example/keys",
            "http://localhost.example/",
            "http://10.0.0.1/keys",
            "http://[::2]/keys",
        ] {
            assert!(WebUrl::parse(bad).unwrap_err().contains("https"), "{bad}");
        }
        for bad in [
            "",
            "keys",
            "/keys",
            "ftp://127.0.0.1/",
            "https://u:p@issuer.example/",
            "https:///keys",
        ] {
            assert!(WebUrl::parse(bad).unwrap_err().contains("is not a URL"), "{bad}");
        }
    }
}
