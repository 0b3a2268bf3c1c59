//! TLS on the addresses: the certificate in force, replaced when its files change, and handshakes that hold
//! nobody else up.
//!
//! [`files`] reads PEM into what each address offers, [`certificates`] keeps the last good of it,
//! [`handshake`] makes handshakes on a thread of their own. What is said on a connection afterwards is no business of this
//! module.

mod certificates;
mod expiry;
mod files;
mod handshake;
mod offer;

pub use certificates::{Certificates, watch};
pub use files::{TlsFileError, TlsFiles, TlsFlags};
pub(crate) use files::{read_certificates, read_key};
pub use handshake::{Handshakes, Session};
pub use offer::{Address, Offers};
