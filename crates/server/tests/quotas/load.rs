//! Checks of one org over one connection, until the server is gone.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};

use crate::common::DEADLINE;

/// A connection that asks for decisions.
pub struct Load {
    reader: Option<BufReader<TcpStream>>,
    request: Vec<u8>,
}

impl Load {
    pub fn on(address: SocketAddr, org: &str) -> Self {
        Self::asking(address, &json!({"orgId": org}))
    }

    /// The same of any check.
    pub fn asking(address: SocketAddr, body: &Value) -> Self {
        let body = body.to_string();
        let request = format!(
            "POST /v1/check HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let stream = TcpStream::connect_timeout(&address, DEADLINE).ok();
        let reader = stream.map(|stream| {
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            stream.set_nodelay(true).unwrap();
            BufReader::new(stream)
        });
        Self {
            reader,
            request: request.into_bytes(),
        }
    }

    /// The status of one more check; `None` if the server died before it was told.
    pub fn check(&mut self) -> Option<u16> {
        let reader = self.reader.as_mut()?;
        reader.get_mut().write_all(&self.request).ok()?;
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let status: u16 = line.split(' ').nth(1)?.parse().ok()?;
        let mut length = 0;
        loop {
            line.clear();
            reader.read_line(&mut line).ok()?;
            if line == "\r\n" {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        // Its head said what was decided.
        let _ = reader.read_exact(&mut body);
        Some(status)
    }
}
