//! HTTP/1.1 over a plain socket: one request, one answer, all of it visible.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use super::DEADLINE;

/// A request in the making.
#[derive(Debug, Clone)]
pub struct Ask {
    address: SocketAddr,
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    /// Names in lowercase, in the order in which they came.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Ask {
    pub fn new(address: SocketAddr, method: &str, target: &str) -> Self {
        Self {
            address,
            method: method.to_owned(),
            target: target.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sends it on a connection of its own and reads the answer.
    pub fn send(self) -> Answer {
        let stream = connect(self.address);
        self.send_on(stream)
    }

    /// Sends it on this connection, as the last request there, and reads the answer.
    pub fn send_on(self, mut stream: impl Read + Write) -> Answer {
        let mut head = format!(
            "{} {} HTTP/1.1\r\nHost: {}\r\n",
            self.method, self.target, self.address
        );
        for (name, value) in &self.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        let _ = write!(
            head,
            "Content-Length: {}\r\nConnection: close\r\n\r\n",
            self.body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        // A server that has seen enough answers before it has read all; what it says counts.
        let _ = stream.write_all(&self.body);
        Answer::read(&mut BufReader::new(stream), &self.method)
    }
}

/// A connection on which nothing takes longer than the deadline.
pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address, DEADLINE).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.set_write_timeout(Some(DEADLINE)).unwrap();
    stream
}

impl Answer {
    /// Reads an answer to a request of this method.
    pub fn read(reader: &mut impl BufRead, method: &str) -> Self {
        let mut line = || {
            let mut line = String::new();
            reader.read_line(&mut line).expect("a line of the answer's head");
            assert!(line.ends_with("\r\n"), "the head broke off at {line:?}");
            line.trim_end().to_owned()
        };
        let status_line = line();
        let status = status_line
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .unwrap_or_else(|| panic!("not a status line: {status_line:?}"));
        let mut headers = Vec::new();
        loop {
            let line = line();
            let Some((name, value)) = line.split_once(':') else {
                assert_eq!(line, "", "a header without a colon");
                break;
            };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut answer = Self {
            status,
            headers,
            body: Vec::new(),
        };
        if method != "HEAD" && status >= 200 && status != 204 {
            if answer.is_in_pieces() {
                loop {
                    let piece = piece(reader);
                    if piece.is_empty() {
                        break;
                    }
                    answer.body.extend(piece);
                }
            } else {
                let length = answer.header("content-length").expect("a content-length");
                answer.body = bytes(reader, length.parse().unwrap());
            }
        }
        answer
    }

    /// Whether it came without a word on how long it will be.
    pub fn is_in_pieces(&self) -> bool {
        self.header("transfer-encoding") == Some("chunked")
    }

    /// The only value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let values: Vec<&str> = self
            .headers
            .iter()
            .filter(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
            .collect();
        assert!(values.len() < 2, "{name} is there {} times", values.len());
        values.first().copied()
    }

    /// A header that is a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.header(name)
            .map(|value| value.parse().unwrap_or_else(|_| panic!("{name}: {value}")))
    }

    /// The names of the headers that say something about limits.
    pub fn limit_headers(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .headers
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| name.contains("ratelimit") || *name == "retry-after")
            .collect();
        names.sort_unstable();
        names
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a body in UTF-8")
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The JSON of an answer that must have this status.
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// The sentence of an error that must have this status.
    pub fn problem(&self, status: u16) -> String {
        let problem = self.expect(status);
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(problem["status"], status);
        assert_eq!(problem["message"], problem["detail"]);
        problem["detail"].as_str().expect("a detail").to_owned()
    }
}

/// The next piece of a body that comes in pieces; the last is empty.
fn piece(reader: &mut impl BufRead) -> Vec<u8> {
    let mut size = String::new();
    reader.read_line(&mut size).expect("the size of a piece");
    let size = usize::from_str_radix(size.trim_end(), 16);
    let piece = bytes(reader, size.expect("a size in hexadecimal"));
    assert_eq!(bytes(reader, 2), b"\r\n", "a piece of another size");
    piece
}

fn bytes(reader: &mut impl BufRead, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    reader
        .read_exact(&mut bytes)
        .expect("as long a body as announced");
    bytes
}
