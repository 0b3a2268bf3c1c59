//! The data plane in Redis's protocol, with the clients that people use, and byte by byte.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

#[path = "../common/mod.rs"]
mod common;

mod bounds;
mod clients;
mod parser;
mod settings;
mod throttle;

use std::io::{Read, Write};
use std::net::TcpStream;

use common::{DEADLINE, Server, file_of, hourly};

/// A server that speaks it.
fn start(flags: &[&str]) -> Server {
    let flags = [&["--resp", "127.0.0.1:0"], flags].concat();
    Server::start(&file_of(&[hourly("org", "org", 100, "")]), &flags)
}

/// A connection on which every byte shows.
struct Wire(TcpStream);

impl Wire {
    fn to(server: &Server) -> Self {
        let stream = TcpStream::connect(server.resp.unwrap()).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        Self(stream)
    }

    fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).unwrap();
    }

    /// As many bytes as are expected.
    fn read(&mut self, length: usize) -> String {
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[track_caller]
    fn says(&mut self, expected: &str) {
        assert_eq!(self.read(expected.len()), expected);
    }

    /// Sends words and looks at the answer.
    #[track_caller]
    fn asks(&mut self, words: &[&str], expected: &str) {
        self.send(packed(words));
        self.says(expected);
    }

    /// What comes until it is closed.
    fn rest(&mut self) -> String {
        let mut text = String::new();
        self.0.read_to_string(&mut text).unwrap();
        text
    }
}

/// A command as an array of bulk strings.
fn packed(words: &[&str]) -> String {
    let bulks = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), bulks.collect::<String>())
}
