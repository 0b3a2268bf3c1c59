//! Where one request ends and the next begins: what is unclear is refused, never guessed.

use std::io::{BufRead, BufReader, Write};

use serde_json::json;

use crate::common::http::connect;
use crate::common::{Answer, Server, file_of, hourly};

fn server() -> Server {
    Server::start(&file_of(&[hourly("org", "org", 100, "")]), &[])
}

/// A last request, after whose answer the server closes the connection. Its answer is unlike any other's.
const LAST: &[u8] =
    b"POST /v1/check/batch HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 15\r\n\r\n{\"requests\":[]}";

/// Everything that comes back for these bytes until the server closes the connection.
fn exchange(server: &Server, bytes: &[u8]) -> Vec<Answer> {
    let mut stream = connect(server.http);
    // The server may have seen enough before it has seen all.
    let _ = stream.write_all(bytes);
    let mut reader = BufReader::new(stream);
    let mut answers = Vec::new();
    while reader.fill_buf().is_ok_and(|rest| !rest.is_empty()) {
        answers.push(Answer::read(&mut reader, "POST"));
    }
    answers
}

/// Everything that comes back for these bytes, but for the answer to the last request.
fn answers(server: &Server, bytes: &[u8]) -> Vec<Answer> {
    let mut answers = exchange(server, &[bytes, LAST].concat());
    answers.pop_if(|answer| answer.body == b"{\"decisions\":[]}");
    answers
}

fn statuses(server: &Server, bytes: &[u8]) -> Vec<u16> {
    answers(server, bytes)
        .iter()
        .map(|answer| answer.status)
        .collect()
}

fn post(headers: &str, body: &str) -> String {
    format!("POST /v1/check HTTP/1.1\r\nHost: x\r\n{headers}\r\n{body}")
}

/// A whole request, to see whether it is answered.
fn next() -> String {
    post("Content-Length: 16\r\n", r#"{"orgId":"acme"}"#)
}

#[test]
fn a_request_may_come_in_single_bytes() {
    let server = server();
    let mut stream = connect(server.http);
    stream.set_nodelay(true).unwrap();
    for byte in next().as_bytes() {
        stream.write_all(&[*byte]).unwrap();
    }
    let answer = Answer::read(&mut BufReader::new(stream), "POST");
    assert_eq!(answer.expect(200)["remaining"], 99);
}

#[test]
fn chunks_make_one_body_however_they_are_cut() {
    let server = server();
    for body in [
        "10\r\n{\"orgId\":\"acme\"}\r\n0\r\n\r\n",
        "1\r\n{\r\nf\r\n\"orgId\":\"acme\"}\r\n0\r\n\r\n",
        "8;name=value\r\n{\"orgId\"\r\n8\r\n:\"acme\"}\r\n0\r\nTrailer: x\r\n\r\n",
        "0010\r\n{\"orgId\":\"acme\"}\r\n000\r\n\r\n",
    ] {
        let request = post("Transfer-Encoding: chunked\r\n", body) + &next();
        assert_eq!(statuses(&server, request.as_bytes()), [200, 200], "{body:?}");
    }
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 92);
}

#[test]
fn a_body_whose_end_is_unclear_is_refused_and_nothing_after_it_is_read() {
    let server = server();
    let sixteen = r#"{"orgId":"acme"}"#;
    for headers in [
        "Content-Length: 16\r\nContent-Length: 17\r\n",
        "Content-Length: 16, 17\r\n",
        "Content-Length: -16\r\n",
        "Content-Length: +16\r\n",
        "Content-Length: 0x10\r\n",
        "Content-Length: 16a\r\n",
        "Content-Length:\r\n",
        "Content-Length: 99999999999999999999999\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: chunked, gzip\r\n",
        "Transfer-Encoding: xchunked\r\n",
    ] {
        let request = post(headers, sixteen) + &next();
        let answered = statuses(&server, request.as_bytes());
        assert!(
            answered.len() < 2 && answered.iter().all(|status| *status >= 400),
            "{headers:?}: {answered:?}"
        );
    }
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 100);
}

#[test]
fn a_length_beside_chunks_never_hides_a_second_request() {
    let server = server();
    // By its chunks the body is empty and a second request follows; by its length that request is the body.
    let hidden = "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n";
    let body = format!("0\r\n\r\n{hidden}");
    let headers = format!("Content-Length: {}\r\nTransfer-Encoding: chunked\r\n", body.len());
    let answered = answers(&server, post(&headers, &body).as_bytes());
    assert!(answered.len() < 2, "{answered:?}");
}

#[test]
fn broken_chunks_are_refused_and_nothing_after_them_is_read() {
    let server = server();
    for body in [
        "g\r\n{}\r\n0\r\n\r\n",
        "-2\r\n{}\r\n0\r\n\r\n",
        "2\r\n{}0\r\n\r\n",
        "ffffffffffffffffff\r\n{}\r\n0\r\n\r\n",
        "\r\n{}\r\n0\r\n\r\n",
    ] {
        let request = post("Transfer-Encoding: chunked\r\n", body) + &next();
        let answered = statuses(&server, request.as_bytes());
        assert!(
            answered.len() < 2 && answered.iter().all(|status| *status >= 400),
            "{body:?}: {answered:?}"
        );
    }
}

#[test]
fn a_body_that_is_not_wanted_is_not_taken_for_a_request() {
    let server = server();
    let inner = next();
    for target in ["/v1/authorize", "/nowhere"] {
        let outer = format!(
            "POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{inner}",
            inner.len()
        );
        let answered = answers(&server, outer.as_bytes());
        assert_eq!(answered.len(), 1, "{target}: {answered:?}");
        let followed = outer + &next();
        let answered = answers(&server, followed.as_bytes());
        assert!((1..=2).contains(&answered.len()), "{target}: {answered:?}");
        if let Some(second) = answered.get(1) {
            assert_eq!(second.status, 200);
        }
    }
    let get = format!(
        "GET /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{inner}",
        inner.len()
    );
    assert_eq!(statuses(&server, get.as_bytes()), [405]);
}

#[test]
fn a_head_that_is_unclear_is_refused() {
    let server = server();
    for head in [
        "POST /v1/check HTTP/1.1\r\nHost : x\r\nContent-Length: 2\r\n\r\n{}",
        "POST /v1/check HTTP/1.1\r\n Host: x\r\nContent-Length: 2\r\n\r\n{}",
        "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length\r\n\r\n{}",
        "POST /v1/check HTTP/1.1\r\nHost: x\r\nX-Tollgate-Org: a\0b\r\nContent-Length: 2\r\n\r\n{}",
        "POST /v1/check HTTP/3.0\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
        "POST /v1/check\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
        "POST  /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
        "PO ST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
        "POST v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
    ] {
        let answered = statuses(&server, head.as_bytes());
        assert!(
            answered.len() < 2 && answered.iter().all(|status| *status >= 400),
            "{head:?}: {answered:?}"
        );
    }
    let many = "X-Another: x\r\n".repeat(200);
    let answered = statuses(&server, post(&(many + "Content-Length: 2\r\n"), "{}").as_bytes());
    assert!(answered.iter().all(|status| *status >= 400), "{answered:?}");
}

/// What some reader takes for something else than Tollgate could.
#[test]
fn a_lax_spelling_is_refused_and_nothing_after_it_is_read() {
    let server = server();
    let body = r#"{"orgId":"acme"}"#;
    let plain = "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n".to_owned() + body;
    let chunked = |chunks: &str| post("Transfer-Encoding: chunked\r\n", chunks);
    for request in [
        // A line feed alone: after the request line, a header, the head, and before it.
        plain.replacen("\r\n", "\n", 1),
        plain.replace("x\r\n", "x\n"),
        plain.replace("\r\n\r\n", "\r\n\n"),
        plain.replace("\r\n", "\n"),
        plain.replace("Host: x\r\n", "Host: x\r\nX: a\nTransfer-Encoding: chunked\r\n"),
        format!("\n{plain}"),
        "\n".repeat(1_000) + &plain,
        "\r\n".repeat(1_000) + &plain,
        // Lengths with zeros before them.
        plain.replace("16", "0016"),
        plain.replace("16", "016"),
        // What stands by a chunk's size.
        chunked(&format!("10\r\r\n{body}\r\n0\r\n\r\n")),
        chunked(&format!("10\x0c\r\n{body}\r\n0\r\n\r\n")),
        chunked(&format!("10 \r\n{body}\r\n0\r\n\r\n")),
        chunked(&format!("0x10\r\n{body}\r\n0\r\n\r\n")),
        chunked(&format!("10;a\rb\r\n{body}\r\n0\r\n\r\n")),
        chunked(&format!("10;a\0b\r\n{body}\r\n0\r\n\r\n")),
        chunked(&format!("10\n{body}\r\n0\r\n\r\n")),
        // Trailers that are none.
        chunked(&format!("10\r\n{body}\r\n0\r\njunk\r\n\r\n")),
        chunked(&format!("10\r\n{body}\r\n0\r\n: x\r\n\r\n")),
        chunked(&format!("10\r\n{body}\r\n0\r\nA: x\r\n folded\r\n\r\n")),
        chunked(&format!("10\r\n{body}\r\n0\r\nA : x\r\n\r\n")),
        chunked(&format!("10\r\n{body}\r\n0\r\nA: x\n\r\n")),
        // Targets of nobody.
        plain.replace("/v1/check", "://x/v1/check"),
        plain.replace("/v1/check", "ftp://x/v1/check"),
        plain.replace("/v1/check", "http:///v1/check"),
        plain.replace("/v1/check", "http://user@x/v1/check"),
        plain.replace("/v1/check", "/v1/check#there"),
        plain.replace("/v1/check", "*"),
        plain.replace("/v1/check", "x:80"),
    ] {
        let answered = statuses(&server, (request.clone() + &next()).as_bytes());
        assert_eq!(answered, [400], "{request:?}");
    }
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 100);
    // One empty line before a request is what some clients send after the last one's body.
    assert_eq!(
        statuses(&server, (plain + "\r\n" + &next()).as_bytes()),
        [200, 200]
    );
}

#[test]
fn names_of_headers_are_read_in_any_case_and_values_trimmed() {
    let server = server();
    let request = post("CONTENT-length:\t 16 \r\n", r#"{"orgId":"acme"}"#);
    assert_eq!(statuses(&server, request.as_bytes()), [200]);
    let request = post(
        "transfer-ENCODING:  Chunked\r\n",
        "10\r\n{\"orgId\":\"acme\"}\r\n0\r\n\r\n",
    );
    assert_eq!(statuses(&server, request.as_bytes()), [200]);
    let same_twice = post(
        "Content-Length: 16\r\ncontent-length: 16\r\n",
        r#"{"orgId":"acme"}"#,
    );
    assert!(statuses(&server, same_twice.as_bytes()).len() == 1);
}

#[test]
fn the_connection_is_kept_or_closed_as_the_client_asks() {
    let server = server();
    for closing in [
        "POST /v1/check HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}",
        &post("Connection: close\r\nContent-Length: 2\r\n", "{}"),
    ] {
        let answers = exchange(&server, closing.as_bytes());
        assert_eq!(answers.len(), 1, "{closing}");
        assert_eq!(answers[0].status, 200);
    }
    let kept = post("Connection: keep-alive\r\nContent-Length: 2\r\n", "{}");
    assert_eq!(statuses(&server, format!("{kept}{kept}").as_bytes()), [200, 200]);
}

#[test]
fn a_target_may_be_absolute_and_carry_a_query() {
    let server = server();
    for target in [
        "http://anywhere/v1/check",
        "/v1/check?status=200",
        "http://anywhere:8080/v1/check?status=200",
        "/v1/check?",
    ] {
        let request = format!("POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}");
        assert_eq!(statuses(&server, request.as_bytes()), [200], "{target}");
    }
}

#[test]
fn an_answer_to_head_has_no_body() {
    let server = server();
    let mut stream = connect(server.http);
    let head = "HEAD /v1/nothing HTTP/1.1\r\nHost: x\r\n\r\n";
    stream.write_all(format!("{head}{}", next()).as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    assert_eq!(Answer::read(&mut reader, "HEAD").status, 404);
    assert_eq!(
        Answer::read(&mut reader, "POST").status,
        200,
        "the next answer follows at once"
    );
}
