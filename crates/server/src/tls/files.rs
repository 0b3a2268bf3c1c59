//! The files of certificates and keys, all of them PEM.

use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The largest file that is read: a bundle of every public authority is a tenth of this.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// The flags of `tollgate serve` that name them.
#[derive(Debug, Clone, Default, Args)]
pub struct TlsFlags {
    /// Speak TLS on every address, with this certificate (PEM, its chain after it); read again when it changes
    #[arg(long, env = "TOLLGATE_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, env = "TOLLGATE_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Let only clients with a certificate of this authority ask the data plane (PEM)
    #[arg(long, env = "TOLLGATE_TLS_CLIENT_CA", value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,
}

/// Files that belong together.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The server's certificate and those between it and its authority.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authority of clients.
    pub client_ca: Option<PathBuf>,
}

/// What is wrong with a file, and which flag names it.
#[derive(Debug)]
pub struct TlsFileError {
    flag: &'static str,
    path: PathBuf,
    problem: String,
}

impl TlsFileError {
    pub(super) fn new(flag: &'static str, path: &Path, problem: impl Into<String>) -> Self {
        Self {
            flag,
            path: path.to_owned(),
            problem: problem.into(),
        }
    }
}

impl fmt::Display for TlsFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.flag, self.path.display(), self.problem)
    }
}

impl std::error::Error for TlsFileError {}

impl TlsFlags {
    /// These flags where they are given, else those of the configuration file.
    #[must_use]
    pub fn over(self, file: Self) -> Self {
        Self {
            tls_cert: self.tls_cert.or(file.tls_cert),
            tls_key: self.tls_key.or(file.tls_key),
            tls_client_ca: self.tls_client_ca.or(file.tls_client_ca),
        }
    }

    /// The files, if TLS is wanted; one without the others is a sentence that names what is missing.
    pub fn files(self) -> Result<Option<TlsFiles>, String> {
        match (self.tls_cert, self.tls_key, self.tls_client_ca) {
            (Some(cert), Some(key), client_ca) => Ok(Some(TlsFiles { cert, key, client_ca })),
            (None, None, None) => Ok(None),
            (Some(_), None, _) => Err("--tls-cert: the certificate needs its key, --tls-key".to_owned()),
            (None, Some(_), _) => Err("--tls-key: the key needs its certificate, --tls-cert".to_owned()),
            (None, None, Some(_)) => Err(
                "--tls-client-ca: clients can show certificates only over TLS, which needs --tls-cert and --tls-key"
                    .to_owned(),
            ),
        }
    }
}

/// Every certificate of a file; there is at least one.
pub(crate) fn read_certificates(
    flag: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let text = read(flag, path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let certificates =
        certificates.map_err(|_| TlsFileError::new(flag, path, "the file is not well-formed PEM"))?;
    if certificates.is_empty() {
        return Err(TlsFileError::new(flag, path, "the file holds no certificate"));
    }
    Ok(certificates)
}

/// The private key of a file.
pub(crate) fn read_key(flag: &'static str, path: &Path) -> Result<PrivateKeyDer<'static>, TlsFileError> {
    let text = read(flag, path)?;
    // What the reader has to say might repeat some of the key, so it is not asked.
    PrivateKeyDer::from_pem_slice(&text)
        .map_err(|_| TlsFileError::new(flag, path, "the file holds no private key in PEM"))
}

fn read(flag: &'static str, path: &Path) -> Result<Vec<u8>, TlsFileError> {
    let fail = |error: std::io::Error| TlsFileError::new(flag, path, error.to_string());
    let metadata = std::fs::metadata(path).map_err(fail)?;
    if metadata.len() > MAX_FILE_BYTES {
        return Err(TlsFileError::new(flag, path, "the file is larger than 4 MiB"));
    }
    std::fs::read(path).map_err(fail)
}
