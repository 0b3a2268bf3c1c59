//! Making a connection, up to the point where commands can be sent: TCP, TLS, user and password, database.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, RedisConnectionInfo, Value};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;

use super::address::{Address, Server};
use super::settings::Settings;
use super::trouble::{StartError, Trouble};

/// Bytes that are collected before they are written: a burst of calls goes out in few writes.
const WRITE_BUFFER: usize = 64 << 10;
/// Places in the client's own queue beyond those of calls, for probes and for learning the map.
const SPARE_PLACES: usize = 64;

/// Makes connections.
pub(super) struct Dialler {
    address: Address,
    tls: Option<TlsConnector>,
    places: usize,
}

/// A connection that commands can be sent on. The client repeats nothing by itself and reconnects never: the first
/// error of the stream ends it, and with it everything that had no reply yet.
pub(super) struct Line {
    pub(super) pipe: MultiplexedConnection,
    /// Closed when the connection is.
    pub(super) open: watch::Receiver<()>,
    pub(super) driver: AbortHandle,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Dialler {
    pub(super) fn new(settings: &Settings) -> Result<Self, StartError> {
        let address = settings.address.clone();
        let tls = match &settings.tls {
            _ if !address.secure => None,
            Some(config) => Some(config.clone()),
            None => Some(Arc::new(system_authorities()?)),
        };
        Ok(Self {
            address,
            tls: tls.map(TlsConnector::from),
            places: settings.in_flight + SPARE_PLACES,
        })
    }

    pub(super) const fn is_cluster(&self) -> bool {
        self.address.cluster
    }

    /// Connects. It is up to the caller to stop waiting.
    pub(super) async fn dial(&self, server: &Server) -> Result<Line, Trouble> {
        let stream = TcpStream::connect((&*server.host, server.port)).await;
        let stream = stream.map_err(|error| Trouble::lost(&error))?;
        stream.set_nodelay(true).map_err(|error| Trouble::lost(&error))?;
        let line = match &self.tls {
            None => self.drive(stream).await?,
            Some(tls) => {
                let name = ServerName::try_from(server.host.to_string());
                let name = name.map_err(|error| Trouble::lost(&error))?;
                let stream = tls.connect(name, stream).await;
                self.drive(stream.map_err(|error| Trouble::lost(&error))?).await?
            }
        };
        self.log_in(&line).await?;
        Ok(line)
    }

    async fn drive<S>(&self, stream: S) -> Result<Line, Trouble>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // The client could log in by itself, and would tell less of what goes wrong.
        let nobody = RedisConnectionInfo::default().set_skip_set_lib_name();
        let config = AsyncConnectionConfig::new()
            // Its timeout would drop a reply that still counts.
            .set_response_timeout(None)
            .set_pipeline_buffer_size(self.places)
            .set_write_backpressure_boundary(WRITE_BUFFER);
        let made = MultiplexedConnection::new_with_config(&nobody, stream, config).await;
        let (pipe, driver) = made.map_err(|error| Trouble::lost(&error))?;
        let (closed, open) = watch::channel(());
        let driver = tokio::spawn(async move {
            driver.await;
            drop(closed);
        });
        Ok(Line {
            pipe,
            open,
            driver: driver.abort_handle(),
        })
    }

    async fn log_in(&self, line: &Line) -> Result<(), Trouble> {
        if let Some(login) = &self.address.login {
            let mut auth = redis::cmd("AUTH");
            if let Some(user) = &login.user {
                auth.arg(user);
            }
            line.ask("AUTH", auth.arg(&login.password)).await?;
        }
        if self.address.database != 0 {
            let mut select = redis::cmd("SELECT");
            line.ask("SELECT", select.arg(self.address.database)).await?;
        }
        Ok(())
    }
}

impl Line {
    /// Sends a command that is not a call, and takes an error for trouble.
    pub(super) async fn ask(&self, name: &str, command: &Cmd) -> Result<Value, Trouble> {
        let reply = self.pipe.clone().send_packed_command(command).await;
        match reply.map_err(|error| Trouble::lost(&error))? {
            Value::ServerError(error) => Err(Trouble::answered(name, &error)),
            value => Ok(value),
        }
    }

    /// Sends a command that is answered with text.
    pub(super) async fn ask_text(&self, words: &[&str]) -> Result<String, Trouble> {
        let mut command = Cmd::new();
        command.arg(words);
        let name = words.join(" ");
        let text = redis::from_redis_value(self.ask(&name, &command).await?);
        text.map_err(|_| Trouble::Strange(format!("{name} is not answered with text")))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.open.has_changed().is_err()
    }

    /// Waits until the connection is lost.
    pub(super) async fn closed(&self) {
        let mut open = self.open.clone();
        while open.changed().await.is_ok() {}
    }
}

fn system_authorities() -> Result<ClientConfig, StartError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(StartError::Tls(
            "this system has no authorities to trust".to_owned(),
        ));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| StartError::Tls(error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
