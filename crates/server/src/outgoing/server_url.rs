//! The URL of a running server: a scheme, a host and a port, and nothing else.

use http::Uri;

/// Where a server is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ServerUrl {
    /// TLS is spoken there.
    pub(crate) secure: bool,
    /// A name or an address, an IPv6 one without its brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Host and port as they were written, for `Host` and for messages.
    pub(crate) authority: String,
}

impl ServerUrl {
    /// Reads a URL. Without a scheme it is `http`, without a port the scheme's own.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let problem =
            || format!("`{text}` is not a server such as http://127.0.0.1:8080 or https://host:8080");
        let uri: Uri = text.parse().map_err(|_| problem())?;
        let secure = match uri.scheme_str() {
            None | Some("http") => false,
            Some("https") => true,
            Some(_) => return Err(problem()),
        };
        let authority = uri.authority().ok_or_else(problem)?;
        let bare =
            matches!(uri.path(), "" | "/") && uri.query().is_none() && !authority.as_str().contains('@');
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        if !bare || host.is_empty() {
            return Err(problem());
        }
        Ok(Self {
            secure,
            host: host.to_owned(),
            port: authority.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            authority: authority.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_scheme_host_and_port() {
        for (text, secure, host, port) in [
            ("http://127.0.0.1:8080", false, "127.0.0.1", 8080),
            ("http://127.0.0.1:8080/", false, "127.0.0.1", 8080),
            ("127.0.0.1:8080", false, "127.0.0.1", 8080),
            ("https://tollgate.example:8443", true, "tollgate.example", 8443),
            ("https://tollgate.example", true, "tollgate.example", 443),
            ("http://localhost", false, "localhost", 80),
            ("https://[::1]:8080", true, "::1", 8080),
        ] {
            let url = ServerUrl::parse(text).unwrap();
            assert_eq!(
                (url.secure, url.host.as_str(), url.port),
                (secure, host, port),
                "{text}"
            );
        }
    }

    #[test]
    fn refuses_what_is_more_or_less_than_a_server() {
        for text in [
            "",
            "/",
            "https://",
            "ftp://a",
            "http://a/v1",
            "http://a?b",
            "http://u:p@a",
            "a b",
        ] {
            let problem = ServerUrl::parse(text).unwrap_err();
            assert!(
                problem.starts_with(&format!("`{text}` is not a server")),
                "{problem}"
            );
        }
    }
}
