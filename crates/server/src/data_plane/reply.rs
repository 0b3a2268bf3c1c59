//! An answer in the making: status, headers and body in buffers that are used again and again.

use crate::answer::{Problem, write_problem};
use crate::clock;
use crate::reservations::Said;

/// An answer. Cleared and filled for each request of a connection.
#[derive(Debug, Default)]
pub(super) struct Reply {
    status: u16,
    /// Header lines, each with its line end.
    headers: Vec<u8>,
    /// The body, to be written into.
    pub(super) body: Vec<u8>,
    date: Date,
}

impl Reply {
    /// Starts an answer: 200, no headers, no body.
    pub(super) fn clear(&mut self) {
        self.status = 200;
        self.headers.clear();
        self.body.clear();
    }

    pub(super) fn status(&mut self, status: u16) {
        self.status = status;
    }

    /// Adds a header. Values are ids and numbers; what a header can't hold is left out with its header.
    pub(super) fn header(&mut self, name: &str, value: &[u8]) {
        if value.iter().any(|byte| *byte < 0x20 || *byte == 0x7f) {
            return;
        }
        // Room for the whole line is made once, so that its parts are only copied.
        self.headers.reserve(name.len() + value.len() + 4);
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            self.headers.extend_from_slice(part);
        }
    }

    pub(super) fn json(&mut self) {
        self.headers
            .extend_from_slice(b"content-type: application/json\r\n");
    }

    pub(super) fn problem_json(&mut self) {
        self.headers
            .extend_from_slice(b"content-type: application/problem+json\r\n");
    }

    /// Makes it an error.
    pub(super) fn problem(&mut self, problem: &Problem) {
        self.clear();
        self.status = problem.status;
        self.problem_json();
        match problem.status {
            401 => self.header("www-authenticate", b"Bearer"),
            429 | 503 => self.header("retry-after", b"1"),
            _ => {}
        }
        write_problem(problem, &mut self.body);
    }

    /// Puts what it says behind a 403, for gateways that pass nothing else on: the status and the body in headers, a line of
    /// ASCII. Who is not known stays 401, which they do pass on, if without the body; and what Tollgate itself fails at stays
    /// what it is, since it is for the gateway to say what happens then.
    pub(super) fn behind_403(&mut self) {
        if !(400..500).contains(&self.status) {
            return;
        }
        let status = self.status;
        self.header("x-tollgate-status", itoa::Buffer::new().format(status).as_bytes());
        let ascii = escape_non_ascii(&String::from_utf8_lossy(&self.body));
        self.header("x-tollgate-body", ascii.as_bytes());
        if status != 401 {
            self.status = 403;
            self.body.clear();
        }
    }

    /// What it says, to be said again.
    pub(super) fn kept(&self) -> Said {
        Said {
            status: self.status,
            head: self.headers.clone().into(),
            body: self.body.clone().into(),
        }
    }

    /// Says what was said before.
    pub(super) fn repeat(&mut self, said: &Said) {
        self.clear();
        self.status = said.status;
        self.headers.extend_from_slice(&said.head);
        self.body.extend_from_slice(&said.body);
    }

    /// Says how far the worker's clock has come: the date is looked at anew only when that has changed.
    pub(super) fn at(&mut self, tick: u64) {
        self.date.refresh(tick);
    }

    /// Appends the whole answer to what is to be sent.
    pub(super) fn send(&mut self, head_only: bool, keep_alive: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(status_line(self.status));
        out.extend_from_slice(&self.headers);
        out.extend_from_slice(b"content-length: ");
        out.extend_from_slice(itoa::Buffer::new().format(self.body.len()).as_bytes());
        out.extend_from_slice(b"\r\ndate: ");
        out.extend_from_slice(self.date.text.as_bytes());
        out.extend_from_slice(if keep_alive {
            b"\r\n\r\n"
        } else {
            b"\r\nconnection: close\r\n\r\n"
        });
        if !head_only {
            out.extend_from_slice(&self.body);
        }
    }
}

/// JSON in which every character beyond ASCII is an escape, so that it can be a header.
fn escape_non_ascii(json: &str) -> String {
    use std::fmt::Write;

    let mut ascii = String::with_capacity(json.len());
    for character in json.chars() {
        if (' '..='~').contains(&character) {
            ascii.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(ascii, "\\u{unit:04x}");
            }
        }
    }
    ascii
}

fn status_line(status: u16) -> &'static [u8] {
    match status {
        200 => b"HTTP/1.1 200 OK\r\n",
        400 => b"HTTP/1.1 400 Bad Request\r\n",
        401 => b"HTTP/1.1 401 Unauthorized\r\n",
        403 => b"HTTP/1.1 403 Forbidden\r\n",
        404 => b"HTTP/1.1 404 Not Found\r\n",
        405 => b"HTTP/1.1 405 Method Not Allowed\r\n",
        409 => b"HTTP/1.1 409 Conflict\r\n",
        410 => b"HTTP/1.1 410 Gone\r\n",
        413 => b"HTTP/1.1 413 Content Too Large\r\n",
        417 => b"HTTP/1.1 417 Expectation Failed\r\n",
        422 => b"HTTP/1.1 422 Unprocessable Content\r\n",
        429 => b"HTTP/1.1 429 Too Many Requests\r\n",
        431 => b"HTTP/1.1 431 Request Header Fields Too Large\r\n",
        503 => b"HTTP/1.1 503 Service Unavailable\r\n",
        _ => b"HTTP/1.1 500 Internal Server Error\r\n",
    }
}

/// The `Date` of answers, made anew once a second.
#[derive(Debug, Default)]
struct Date {
    tick: u64,
    second: u64,
    text: String,
}

impl Date {
    fn refresh(&mut self, tick: u64) {
        if self.tick == tick && !self.text.is_empty() {
            return;
        }
        self.tick = tick;
        let now = clock::now();
        if self.second != now.seconds() || self.text.is_empty() {
            self.second = now.seconds();
            let at = tollgate_core::calendar::to_jiff(now).to_zoned(jiff::tz::TimeZone::UTC);
            self.text = at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        }
    }
}
