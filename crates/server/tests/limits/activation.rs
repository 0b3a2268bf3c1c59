//! Sockets that outlast the process: a restart refuses nobody.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::common::http::connect;
use crate::common::process::program_after;
use crate::common::{Answer, DEADLINE, Launch, Server, file_of, hourly};

const PASSED: &str = "exec 3<&0 </dev/null; export LISTEN_FDS=1 LISTEN_PID=$$";
const REQUEST: &[u8] =
    b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n{\"orgId\":\"acme\"}";

fn socket() -> (TcpListener, SocketAddr) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// What became of requests.
#[derive(Default)]
struct Seen {
    answered: AtomicUsize,
    refused: AtomicUsize,
    lost: AtomicUsize,
}

/// Asks on a connection until it ends, as a client with a pool of connections does: a request that found the connection
/// closed is sent again on another.
fn ask_on(stream: &TcpStream, seen: &Seen, end: &AtomicBool) {
    let mut reader = BufReader::new(stream);
    for number in 0.. {
        if (&*stream).write_all(REQUEST).is_err() {
            return;
        }
        match reader.fill_buf() {
            Ok([_, ..]) => {}
            // It was idle, and closed before the request was read.
            _ if number > 0 => return,
            _ => {
                seen.lost.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
        let answer = Answer::read(&mut reader, "POST");
        assert_eq!(answer.status, 200);
        seen.answered.fetch_add(1, Ordering::Relaxed);
        if answer.header("connection") == Some("close") || end.load(Ordering::Relaxed) {
            return;
        }
    }
}

#[test]
fn a_restart_refuses_and_loses_nothing_on_a_socket_that_outlasts_it() {
    let (socket, address) = socket();
    let listening = address.to_string();
    let mut server = Server::launch(&Launch {
        policies: Some(&file_of(&[hourly("org", "org", 100_000_000, "")])),
        flags: &[
            "--http",
            &listening,
            "--grpc",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
        ],
        environment: &[("TOLLGATE_DATA_DIR", "tollgate-data")],
        bare: true,
        shell: Some(PASSED),
        socket: Some(socket),
        ..Launch::default()
    });
    assert_eq!(server.http, address);
    let (seen, end) = (Seen::default(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                while !end.load(Ordering::Relaxed) {
                    match TcpStream::connect_timeout(&address, DEADLINE) {
                        Ok(stream) => {
                            stream.set_read_timeout(Some(DEADLINE)).unwrap();
                            ask_on(&stream, &seen, &end);
                        }
                        Err(_) => drop(seen.refused.fetch_add(1, Ordering::Relaxed)),
                    }
                }
            });
        }
        for _ in 0..3 {
            let before = seen.answered.load(Ordering::Relaxed);
            crate::common::wait_for("some answers", || {
                (seen.answered.load(Ordering::Relaxed) > before + 500).then_some(())
            });
            server.restart("TERM");
        }
        end.store(true, Ordering::Relaxed);
    });
    assert_eq!(seen.refused.into_inner(), 0, "refused connections");
    assert_eq!(
        seen.lost.into_inner(),
        0,
        "requests without an answer on fresh connections"
    );
}

#[test]
fn a_connection_that_waits_while_nobody_serves_is_served_by_the_next() {
    let (socket, address) = socket();
    let listening = address.to_string();
    let mut server = Server::launch(&Launch {
        policies: Some("policies: []\n"),
        flags: &[
            "--http",
            "127.0.0.1:0",
            "--grpc",
            &listening,
            "--admin",
            "127.0.0.1:0",
        ],
        environment: &[("TOLLGATE_DATA_DIR", "tollgate-data")],
        bare: true,
        shell: Some(PASSED),
        socket: Some(socket),
        ..Launch::default()
    });
    server.end("TERM");
    let mut early = connect(address);
    early
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .unwrap();
    server.start_again();
    let mut reader = BufReader::new(early);
    assert!(!reader.fill_buf().unwrap().is_empty(), "it speaks HTTP/2");
}

#[test]
fn what_can_not_be_taken_over_is_an_error() {
    let (socket, address) = socket();
    let directory = tempfile::TempDir::new().unwrap();
    let serve = |input: Stdio| {
        let flags = [
            "serve",
            "--http",
            "127.0.0.1:0",
            "--grpc",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
        ];
        let mut command = program_after(PASSED, &flags);
        let ended = command.current_dir(&directory).stdin(input).output().unwrap();
        assert_eq!(ended.status.code(), Some(2));
        String::from_utf8(ended.stderr).unwrap()
    };
    let complaint = serve(OwnedFd::from(socket).into());
    assert!(
        complaint.contains(&format!("LISTEN_FDS: {address}")),
        "{complaint}"
    );
    let complaint = serve(Stdio::null());
    assert!(complaint.contains("LISTEN_FDS: descriptor 3"), "{complaint}");
}

#[test]
fn sockets_for_another_process_are_left_alone() {
    let server = Server::launch(&Launch {
        policies: Some("policies: []\n"),
        shell: Some("export LISTEN_FDS=3 LISTEN_PID=1"),
        ..Launch::default()
    });
    assert_eq!(server.check_raw("{}").status, 200);
}
