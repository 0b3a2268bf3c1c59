//! A network between a client and a server that delays replies, loses them or holds them back. It stands alone, as `servers.rs` does.
#![allow(dead_code, reason = "each test uses what it needs")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Passes on what a server and its clients say to each other.
pub struct Proxy {
    pub port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    mode: Mutex<Mode>,
    changed: Condvar,
    accepted: AtomicUsize,
    lost: AtomicUsize,
    /// How long each reply takes, in microseconds.
    delay: AtomicU64,
}

/// How a connection has lost the reply of a call, if it has.
const LOST: usize = 1;
const SWALLOWED: usize = 2;

#[derive(Default, Clone, Copy, PartialEq)]
enum Mode {
    #[default]
    Pass,
    /// Replies wait.
    Hold,
    /// Whoever sends a script's call gets no more replies, but a closed connection; the server does get the call.
    Lose,
    /// The same without an end: the connection stays open, and nothing comes.
    Swallow,
}

impl Proxy {
    /// A proxy before the server at a port.
    pub fn before(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let state = Arc::new(State::default());
        let shared = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else {
                    continue;
                };
                shared.accepted.fetch_add(1, Ordering::Relaxed);
                pass_on(&client, &server, &shared);
            }
        });
        Self { port, state }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// How many connections there have been.
    pub fn accepted(&self) -> usize {
        self.state.accepted.load(Ordering::Relaxed)
    }

    /// How many connections have lost replies.
    pub fn lost(&self) -> usize {
        self.state.lost.load(Ordering::Relaxed)
    }

    /// Has each reply take so long. Replies that are under way together arrive together.
    pub fn delay(&self, delay: Duration) {
        let micros = u64::try_from(delay.as_micros()).expect("a short time");
        self.state.delay.store(micros, Ordering::Relaxed);
    }

    /// Holds replies back until [`Proxy::pass`].
    pub fn hold(&self) {
        self.set(Mode::Hold);
    }

    /// Loses the replies of calls, and their connections with them.
    pub fn lose(&self) {
        self.set(Mode::Lose);
    }

    /// Loses the replies of calls, and whatever comes after them, on connections that stay open.
    pub fn swallow(&self) {
        self.set(Mode::Swallow);
    }

    /// Passes everything on, what was held back first.
    pub fn pass(&self) {
        self.set(Mode::Pass);
    }

    fn set(&self, mode: Mode) {
        *self.state.mode.lock().expect("no panic") = mode;
        self.state.changed.notify_all();
    }
}

fn pass_on(client: &TcpStream, server: &TcpStream, state: &Arc<State>) {
    for stream in [client, server] {
        stream.set_nodelay(true).expect("a socket's option");
    }
    let copy = |stream: &TcpStream| stream.try_clone().expect("a socket");
    let called = Arc::new(AtomicUsize::new(0));
    let (mut from, mut to, calls, shared) = (copy(client), copy(server), called.clone(), state.clone());
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            let is_call = buffer[..read].windows(7).any(|word| word == b"EVALSHA");
            let mode = *shared.mode.lock().expect("no panic");
            let loses = match mode {
                Mode::Lose => Some(LOST),
                Mode::Swallow => Some(SWALLOWED),
                _ => None,
            };
            if let Some(how) = loses.filter(|_| is_call)
                && calls.compare_exchange(0, how, Ordering::SeqCst, Ordering::SeqCst) == Ok(0)
            {
                shared.lost.fetch_add(1, Ordering::Relaxed);
            }
            if to.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        // A server executes what it has got, as long as it is not told that nobody listens.
        if calls.load(Ordering::SeqCst) == 0 {
            let _ = to.shutdown(Shutdown::Both);
        }
    });
    let (mut from, mut to, state) = (copy(server), copy(client), state.clone());
    let (replies, arriving) = channel::<(Instant, Vec<u8>)>();
    let delayed = state.clone();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            let delay = Duration::from_micros(delayed.delay.load(Ordering::Relaxed));
            // Whoever would take it may be gone: the rest of what the server says is nobody's.
            let _ = replies.send((Instant::now() + delay, buffer[..read].to_vec()));
        }
    });
    std::thread::spawn(move || {
        // Nothing is ever sent: the channel only lets time pass.
        let (_silent, way) = channel::<()>();
        for (due, reply) in arriving {
            let _ = way.recv_timeout(due.saturating_duration_since(Instant::now()));
            let mode = state.mode.lock().expect("no panic");
            let _mode = state
                .changed
                .wait_while(mode, |mode| *mode == Mode::Hold)
                .expect("no panic");
            match called.load(Ordering::SeqCst) {
                SWALLOWED => {}
                LOST => break,
                _ if to.write_all(&reply).is_err() => break,
                _ => {}
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}
