//! HTTP/2 by hand, for what no client would send.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::common::Server;

/// A frame of HTTP/2.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const GOAWAY: u8 = 7;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// A connection on which frames are written by hand.
pub fn raw(server: &Server) -> TcpStream {
    let mut stream = crate::common::http::connect(server.grpc);
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
    stream
}

/// The head of a question, in HPACK's plainest form.
pub fn head() -> Vec<u8> {
    head_of(b"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit")
}

/// The head of a call.
pub fn head_of(path: &[u8]) -> Vec<u8> {
    let mut block = vec![0x83, 0x86];
    let mut literal = |name: &[u8], value: &[u8]| {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend(text);
        }
    };
    literal(b":path", path);
    literal(b":authority", b"a");
    literal(b"content-type", b"application/grpc");
    literal(b"te", b"trailers");
    block
}

/// A message of gRPC.
pub fn message(body: &[u8]) -> Vec<u8> {
    let mut message = vec![0];
    message.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
    message.extend(body);
    message
}

/// Reads frames until one of this kind has come; says what was in it.
pub fn read_until(stream: &mut TcpStream, wanted: u8) -> Vec<u8> {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).expect("a frame");
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        stream.read_exact(&mut payload).expect("a frame's payload");
        if head[3] == wanted {
            return payload;
        }
        assert!(head[3] != GOAWAY, "the connection ends: {payload:?}");
    }
}

/// A question about an org: the domain `edge`, and one descriptor with one entry.
pub fn question(org: &str) -> Vec<u8> {
    let field =
        |number: u8, value: &[u8]| [&[number << 3 | 2, u8::try_from(value.len()).unwrap()], value].concat();
    let entry = [field(1, b"org"), field(2, org.as_bytes())].concat();
    [field(1, b"edge"), field(2, &field(1, &entry))].concat()
}
