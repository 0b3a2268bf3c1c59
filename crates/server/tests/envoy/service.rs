//! The service that is protected: it says hello, and how often it was asked.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A service on a free port, for as long as the test runs.
pub struct Service {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<Instant>>>,
}

impl Service {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::<Mutex<Vec<Instant>>>::default();
        let counted = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let counted = counted.clone();
                std::thread::spawn(move || answer(stream, &counted));
            }
        });
        Self { address, asked }
    }

    /// How many requests have come through.
    pub fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// When they have.
    pub fn times(&self) -> Vec<Instant> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(stream: TcpStream, asked: &Mutex<Vec<Instant>>) {
    let mut writer = stream.try_clone().unwrap();
    let mut lines = BufReader::new(stream).lines();
    while let Some(Ok(line)) = lines.next() {
        if line.is_empty() {
            asked.lock().unwrap().push(Instant::now());
            if writer
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")
                .is_err()
            {
                return;
            }
        }
    }
}
