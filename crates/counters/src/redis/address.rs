//! Reading Redis' URL, without ever repeating the password that may be in it.

use std::fmt;
use std::sync::Arc;

/// The port of a server whose address names none.
const PORT: u16 = 6379;

/// Where Redis is, and who this node is there.
#[derive(Clone)]
pub struct Address {
    /// The server, or some that know the others of a Cluster.
    pub(super) servers: Vec<Server>,
    pub(super) cluster: bool,
    pub(super) secure: bool,
    pub(super) database: u32,
    pub(super) login: Option<Login>,
}

/// A user and its password, neither of which is ever shown.
#[derive(Clone)]
pub(super) struct Login {
    /// `None` is Redis' default user.
    pub(super) user: Option<String>,
    pub(super) password: String,
}

/// One server.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Server {
    /// A name or an address, an IPv6 one without its brackets.
    pub(super) host: Arc<str>,
    pub(super) port: u16,
}

/// What is wrong with a URL. It quotes nothing of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressError(&'static str);

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the URL of Redis {}: it must be redis://USER:PASSWORD@HOST:PORT/DATABASE, or \
             redis-cluster://USER:PASSWORD@HOST:PORT,HOST:PORT for a Cluster, or rediss:// or rediss-cluster:// \
             over TLS; user, password and database may be left out",
            self.0
        )
    }
}

impl std::error::Error for AddressError {}

impl Address {
    /// Reads a URL.
    pub fn parse(url: &str) -> Result<Self, AddressError> {
        let (scheme, rest) = url.split_once("://").ok_or(AddressError("has no scheme"))?;
        let (cluster, secure) = match scheme {
            "redis" => (false, false),
            "rediss" => (false, true),
            "redis-cluster" => (true, false),
            "rediss-cluster" => (true, true),
            _ => return Err(AddressError("has an unknown scheme")),
        };
        if rest.contains(['?', '#']) {
            return Err(AddressError(
                "has options, and none are known (in a password, write ? as %3F and # as %23)",
            ));
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if path.contains('@') {
            return Err(AddressError(
                "has a slash before its @ (in a password, write / as %2F)",
            ));
        }
        let (login, hosts) = match authority.rsplit_once('@') {
            None => (None, authority),
            Some((login, hosts)) => (Some(Login::parse(login)?), hosts),
        };
        let servers: Vec<Server> = hosts.split(',').map(Server::written).collect::<Result<_, _>>()?;
        if !cluster && servers.len() > 1 {
            return Err(AddressError("names several servers, which only a Cluster has"));
        }
        let database = match path {
            "" => 0,
            number => number
                .parse()
                .map_err(|_| AddressError("has a database that is no number"))?,
        };
        if cluster && database != 0 {
            return Err(AddressError(
                "names a database, and a Cluster has only database 0",
            ));
        }
        Ok(Self {
            servers,
            cluster,
            secure,
            database,
            login,
        })
    }

    /// Whether it is a Cluster's.
    pub const fn is_cluster(&self) -> bool {
        self.cluster
    }

    /// Whether TLS is spoken there.
    pub const fn is_secure(&self) -> bool {
        self.secure
    }
}

/// The URL without user and password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (secure, cluster) = (
            if self.secure { "s" } else { "" },
            if self.cluster { "-cluster" } else { "" },
        );
        write!(f, "redis{secure}{cluster}://")?;
        for (index, server) in self.servers.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{server}")?;
        }
        if self.database == 0 {
            Ok(())
        } else {
            write!(f, "/{}", self.database)
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Login {
    fn parse(text: &str) -> Result<Self, AddressError> {
        let (user, password) = text.split_once(':').ok_or(AddressError(
            "has no colon before its @ (a password alone is written :PASSWORD@)",
        ))?;
        let user = decode(user)?;
        Ok(Self {
            user: (!user.is_empty()).then_some(user),
            password: decode(password)?,
        })
    }
}

impl Server {
    /// Reads a host with or without a port, as it is written in a URL.
    fn written(text: &str) -> Result<Self, AddressError> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest
                    .split_once(']')
                    .ok_or(AddressError("has a [ without its ]"))?;
                match after {
                    "" => (host, None),
                    _ => (
                        host,
                        Some(
                            after
                                .strip_prefix(':')
                                .ok_or(AddressError("has text after a ]"))?,
                        ),
                    ),
                }
            }
            None => match text.split_once(':') {
                None => (text, None),
                Some((host, port)) => (host, Some(port)),
            },
        };
        if port.is_some_and(|port| port.contains(':')) {
            return Err(AddressError("has an IPv6 address without brackets"));
        }
        if host.is_empty() {
            return Err(AddressError("names no host"));
        }
        let port = match port {
            None => PORT,
            Some(port) => port
                .parse()
                .map_err(|_| AddressError("has a port that is no number"))?,
        };
        Ok(Self {
            host: host.into(),
            port,
        })
    }

    /// Reads what a server of a Cluster says of another. Without a host it means its own.
    pub(super) fn told(text: &str, by: &Self) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        Self::of(host, port.parse().ok()?, by)
    }

    /// A server by what another says of it.
    pub(super) fn of(host: &str, port: u16, by: &Self) -> Option<Self> {
        let host = if matches!(host, "" | "?") {
            by.host.clone()
        } else {
            host.into()
        };
        (port != 0).then_some(Self { host, port })
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Undoes percent-encoding.
fn decode(text: &str) -> Result<String, AddressError> {
    const PROBLEM: AddressError = AddressError("has a % that no two hexadecimal digits follow");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (high, low) = (digit().ok_or(PROBLEM)?, digit().ok_or(PROBLEM)?);
        bytes.push(u8::try_from(high * 16 + low).map_err(|_| PROBLEM)?);
    }
    String::from_utf8(bytes).map_err(|_| AddressError("has a user or password that is no UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_servers_clusters_users_and_databases() {
        for (url, shown, user, password) in [
            ("redis://localhost", "redis://localhost:6379", None, None),
            ("redis://10.0.0.1:7000/3", "redis://10.0.0.1:7000/3", None, None),
            (
                "rediss://:secret@[::1]:7000/",
                "rediss://[::1]:7000",
                None,
                Some("secret"),
            ),
            ("redis://[::1]", "redis://[::1]:6379", None, None),
            (
                "redis://tollgate:p%40ss%2F:word@h",
                "redis://h:6379",
                Some("tollgate"),
                Some("p@ss/:word"),
            ),
            ("redis://u:a@b@h", "redis://h:6379", Some("u"), Some("a@b")),
            (
                "redis-cluster://a:1,b:2,c",
                "redis-cluster://a:1,b:2,c:6379",
                None,
                None,
            ),
            (
                "rediss-cluster://u:p@a:1/0",
                "rediss-cluster://a:1",
                Some("u"),
                Some("p"),
            ),
        ] {
            let address = Address::parse(url).unwrap();
            assert_eq!(address.to_string(), shown);
            assert_eq!(format!("{address:?}"), shown);
            let login = address.login.as_ref();
            assert_eq!(login.and_then(|login| login.user.as_deref()), user, "{url}");
            assert_eq!(login.map(|login| login.password.as_str()), password, "{url}");
        }
    }

    #[test]
    fn says_what_is_wrong_and_shows_no_secret() {
        for (url, what) in [
            ("", "has no scheme"),
            ("secret:secret@secret", "has no scheme"),
            ("http://secret", "has an unknown scheme"),
            ("redis://", "names no host"),
            ("redis://:secret@", "names no host"),
            ("redis://a,b", "names several servers"),
            ("redis-cluster://a,,b", "names no host"),
            ("redis-cluster://a/1", "names a database"),
            ("redis://a/secret", "has a database that is no number"),
            ("redis://a:secret", "has a port that is no number"),
            ("redis://a:99999", "has a port that is no number"),
            ("redis://::1", "has an IPv6 address without brackets"),
            ("redis://[::1", "has a [ without its ]"),
            ("redis://[::1]secret", "has text after a ]"),
            ("redis://secret@a", "has no colon before its @"),
            ("redis://:sec%ret@a", "has a % that no two"),
            ("redis://:secret%2@a", "has a % that no two"),
            ("redis://:%ff@a", "is no UTF-8"),
            ("redis://:sec/ret@a", "has a slash before its @"),
            ("redis://:sec?ret@a", "has options"),
            ("redis://a?secret=1", "has options"),
        ] {
            let problem = Address::parse(url).unwrap_err().to_string();
            assert!(problem.contains(what), "{url}: {problem}");
            assert!(!problem.contains("sec") && !problem.contains("ret@"), "{problem}");
        }
    }

    #[test]
    fn understands_what_servers_say_of_each_other() {
        let by = Server {
            host: "seed".into(),
            port: 1,
        };
        for (text, shown) in [
            ("10.0.0.1:7000", Some("10.0.0.1:7000")),
            ("::1:7000", Some("[::1]:7000")),
            (":7000", Some("seed:7000")),
            ("?:7000", Some("seed:7000")),
            ("a:0", None),
            ("a", None),
        ] {
            let server = Server::told(text, &by).map(|server| server.to_string());
            assert_eq!(server.as_deref(), shown, "{text}");
        }
    }
}
