//! Which addresses may be bound: beyond loopback only those that something protects.

use std::net::SocketAddr;

/// What the server is protected by.
#[derive(Debug, Clone, Copy)]
pub struct Protection {
    /// Connections are encrypted, and the server shows who it is.
    pub tls: bool,
    /// Callers of the data plane show who they are, by certificate or token. The admin address always asks for a
    /// token.
    pub callers: bool,
}

impl Protection {
    /// Whether an address of this name may be bound; the error is a sentence that says what is missing.
    pub fn allows(self, name: &str, address: SocketAddr) -> Result<(), String> {
        let callers = self.callers || name == "admin";
        let missing = match (self.tls, callers) {
            _ if address.ip().is_loopback() => return Ok(()),
            (true, true) => return Ok(()),
            (false, true) => "TLS (--tls-cert and --tls-key)",
            (true, false) => "callers that show who they are (--tls-client-ca or --data-token)",
            (false, false) => {
                "TLS (--tls-cert and --tls-key) and callers that show who they are (--tls-client-ca or --data-token)"
            }
        };
        Err(format!(
            "--{name}: {address} is reachable from outside and needs {missing}; else bind a loopback address, or say --insecure-bind"
        ))
    }
}
