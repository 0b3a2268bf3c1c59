//! Reading a database's URL, without ever repeating the password that may be in it.

use std::str::FromStr;

use sqlx::any::AnyConnectOptions;

use super::RepositoryError;

/// Which database it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Backend {
    /// A file of this machine.
    Sqlite,
    /// A server.
    Postgres,
}

impl Backend {
    /// Its name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// Where the database is.
pub(super) struct Address {
    /// Which database.
    pub(super) backend: Backend,
    /// How to connect to it.
    pub(super) options: AnyConnectOptions,
}

impl Address {
    /// Reads a URL.
    pub(super) fn parse(url: &str) -> Result<Self, RepositoryError> {
        let Some((scheme, rest)) = url.split_once(':') else {
            return Err(problem("has no scheme"));
        };
        match scheme {
            "sqlite" => Self::sqlite(rest),
            "postgres" | "postgresql" if rest.starts_with("//") => Self::postgres(url),
            "postgres" | "postgresql" => Err(problem("lacks the `//` after its scheme")),
            // Only what stands before a `://` is a scheme: `user:password@host` must not show its user.
            other if rest.starts_with("//") => Err(problem(&format!("has the unknown scheme {other:?}"))),
            _ => Err(problem("has an unknown scheme")),
        }
    }

    /// A file. `sqlite:a.db` and `sqlite://a.db` are the same relative path; a leading slash makes it absolute.
    fn sqlite(rest: &str) -> Result<Self, RepositoryError> {
        let rest = rest.strip_prefix("//").unwrap_or(rest);
        let (path, mode) = match rest.split_once('?') {
            None | Some((_, "")) => (rest.trim_end_matches('?'), "mode=rwc"),
            Some((path, mode @ ("mode=rwc" | "mode=rw"))) => (path, mode),
            // Each connection of the pool would have an empty database of its own.
            Some((_, "mode=memory")) => {
                return Err(problem("names a database in memory, which cannot be shared"));
            }
            Some(_) => {
                return Err(problem(
                    "has options; for SQLite only `mode=rwc` and `mode=rw` are known",
                ));
            }
        };
        if path.is_empty() {
            return Err(problem("names no file"));
        }
        if path == ":memory:" {
            return Err(problem("names a database in memory, which cannot be shared"));
        }
        // A second slash would begin a host name.
        let relative = path.trim_start_matches('/');
        let slash = if relative.len() == path.len() { "" } else { "/" };
        Self::of(Backend::Sqlite, &format!("sqlite:{slash}{relative}?{mode}"))
    }

    /// A server.
    fn postgres(url: &str) -> Result<Self, RepositoryError> {
        Self::of(Backend::Postgres, url)
    }

    fn of(backend: Backend, url: &str) -> Result<Self, RepositoryError> {
        // The reason says what is wrong with the URL's form, and quotes nothing of it.
        let options = AnyConnectOptions::from_str(url).map_err(|error| match error {
            sqlx::Error::Configuration(reason) => problem(&format!("is not well formed: {reason}")),
            _ => problem("is not well formed"),
        })?;
        Ok(Self { backend, options })
    }
}

/// A sentence about the URL.
fn problem(what: &str) -> RepositoryError {
    RepositoryError::Url(format!(
        "the database's URL {what}: it must be sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/DATABASE"
    ))
}
