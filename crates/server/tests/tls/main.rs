//! TLS on every address, clients that show certificates, tokens on the data plane, and which addresses may be bound.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

#[path = "../common/mod.rs"]
mod common;

mod authority;
mod client;
mod grpc;

mod binding;
mod command_line;
mod files;
mod handshakes;
mod https;
mod mutual;
mod page;
mod redis_cli;
mod rotation;
mod settings;
mod tokens;

use authority::Authority;
use common::{Launch, Server, file_of, hourly};

/// The flags that turn TLS on, with the files that [`serve`] leaves in the server's directory.
const TLS: [&str; 4] = ["--tls-cert", "server.crt", "--tls-key", "server.key"];

/// Starts a server with a certificate of this authority, and what else is given. An org has 100 an hour.
fn serve(authority: &Authority, flags: &[&str], files: &[(&str, &str)]) -> Server {
    let identity = authority.server();
    let flags = [&TLS, flags].concat();
    let files = [
        &[
            ("server.crt", identity.certificate.as_str()),
            ("server.key", identity.key.as_str()),
        ],
        files,
    ]
    .concat();
    Server::launch(&Launch {
        policies: Some(&file_of(&[hourly("org", "org", 100, "")])),
        flags: &flags,
        files: &files,
        ..Launch::default()
    })
}
