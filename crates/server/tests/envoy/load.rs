//! Clients that ask and ask.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use crate::common::DEADLINE;

/// A client on a connection of its own that asks until it is dropped.
pub struct Client {
    stop: Arc<AtomicBool>,
    counts: Arc<[AtomicU64; 2]>,
    thread: Option<JoinHandle<()>>,
}

impl Client {
    /// Begins to ask, with these headers.
    pub fn start(envoy: SocketAddr, headers: &[(&str, &str)]) -> Self {
        let lines: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        let lines = lines.concat();
        let request = format!("GET / HTTP/1.1\r\nhost: service\r\n{lines}\r\n");
        let (stop, counts) = (Arc::<AtomicBool>::default(), Arc::<[AtomicU64; 2]>::default());
        let (stopped, counted) = (stop.clone(), counts.clone());
        let thread = std::thread::spawn(move || {
            let mut stream = TcpStream::connect(envoy).unwrap();
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            let mut buffer = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                stream.write_all(request.as_bytes()).unwrap();
                let status = answer(&mut stream, &mut buffer);
                assert!(status == 200 || status == 429, "{status}");
                counted[usize::from(status == 429)].fetch_add(1, Ordering::Relaxed);
            }
        });
        Self {
            stop,
            counts,
            thread: Some(thread),
        }
    }

    /// How many were let through.
    pub fn allowed(&self) -> u64 {
        self.counts[0].load(Ordering::Relaxed)
    }

    /// How many were refused.
    pub fn denied(&self) -> u64 {
        self.counts[1].load(Ordering::Relaxed)
    }

    /// How many there were.
    pub fn asked(&self) -> u64 {
        self.allowed() + self.denied()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "the client fails");
    }
}

/// Reads one answer and says its status.
fn answer(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> u16 {
    let mut chunk = [0; 4096];
    loop {
        if let Some(end) = buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).to_ascii_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let whole = end + 4 + length.map_or(0, |length| length.parse::<usize>().unwrap());
            if buffer.len() >= whole {
                buffer.drain(..whole);
                return head.split(' ').nth(1).unwrap().parse().unwrap();
            }
        }
        let read = stream.read(&mut chunk).unwrap();
        assert!(read > 0, "Envoy has closed the connection");
        buffer.extend_from_slice(&chunk[..read]);
    }
}
