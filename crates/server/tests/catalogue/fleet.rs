//! Nodes of one catalogue, and what is done to all of them.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::server::limit;
use crate::common::{Answer, Ask, DEADLINE, Launch, Server};

/// The token that all nodes take.
pub const TOKEN: &str = "the token of every node in these tests";
/// The org, and the policy by which changes are seen.
pub const ORG: &str = "acme";
pub const POLICY: &str = "org-rate";

/// Starts a node.
pub fn node(database: &str) -> Server {
    Server::launch(&Launch {
        flags: &["--database", database, "--admin-token", TOKEN, "--threads", "1"],
        ..Launch::default()
    })
}

/// Starts a node on SQLite in its own data directory.
pub fn node_alone() -> Server {
    Server::launch(&Launch {
        flags: &["--admin-token", TOKEN, "--threads", "1"],
        ..Launch::default()
    })
}

/// Starts two nodes at the same moment.
pub fn two_nodes(database: &str) -> [Server; 2] {
    std::thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| node(database)));
        both.map(|one| one.join().unwrap())
    })
}

/// A request to the control plane.
pub fn admin(node: &Server, method: &str, target: &str) -> Ask {
    node.ask_admin(method, target)
        .header("authorization", &format!("Bearer {TOKEN}"))
}

/// A write that must succeed; the revision it has.
pub fn write(node: &Server, method: &str, target: &str, body: &Value) -> u64 {
    let answer = admin(node, method, target).body(body.to_string()).send();
    assert!(matches!(answer.status, 200 | 201), "{target}: {}", answer.text());
    revision(&answer)
}

/// The revision that an answer is about.
pub fn revision(answer: &Answer) -> u64 {
    let tag = answer.header("etag").expect("an ETag");
    tag.trim_matches('"').parse().unwrap()
}

/// Deletes something.
pub fn delete(node: &Server, target: &str) {
    let answer = admin(node, "DELETE", target).send();
    assert_eq!(answer.status, 204, "{target}: {}", answer.text());
}

/// A count of requests by the org, in an hour.
pub fn policy(limit: u64) -> Value {
    policy_named(POLICY, limit)
}

pub fn policy_named(id: &str, limit: u64) -> Value {
    json!({
        "id": id, "scope": "org", "algorithm": "fixed_window", "anchor": "first", "limit": limit, "window": "1h",
    })
}

/// A request that sets the limit of all orgs.
pub fn ask_policy(node: &Server, limit: u64) -> Ask {
    admin(node, "PUT", "/v1/ratelimit/policies").body(policy(limit).to_string())
}

/// Sets the limit of all orgs.
pub fn put_policy(node: &Server, limit: u64) -> u64 {
    write(node, "PUT", "/v1/ratelimit/policies", &policy(limit))
}

/// A request that sets the limit of the org.
pub fn ask_override(node: &Server, limit: u64) -> Ask {
    let body = json!({"policyId": POLICY, "limit": limit}).to_string();
    admin(node, "POST", &overrides()).body(body)
}

/// Sets the limit of the org; the override's id and its revision.
pub fn override_to(node: &Server, limit: u64) -> (String, u64) {
    let answer = ask_override(node, limit).send();
    let id = answer.expect(201)["id"].as_str().unwrap().to_owned();
    (id, revision(&answer))
}

/// Where the org's overrides are.
pub fn overrides() -> String {
    format!("/v1/orgs/{ORG}/ratelimit/overrides")
}

/// The org with a limit of its own.
pub fn found(node: &Server, limit: u64) {
    put_policy(node, limit);
    write(node, "PUT", &format!("/v1/orgs/{ORG}"), &json!({}));
}

/// Sets the limit of another org.
pub fn override_of(node: &Server, org: &str, limit: u64) {
    let target = format!("/v1/orgs/{org}/ratelimit/overrides");
    write(
        node,
        "POST",
        &target,
        &json!({"policyId": POLICY, "limit": limit}),
    );
}

/// The limit that a decision of this node goes by.
pub fn seen(node: &Server) -> Option<u64> {
    limit_of(node, ORG)
}

/// The same for another org.
pub fn limit_of(node: &Server, org: &str) -> Option<u64> {
    let decision = node.check(&json!({"orgId": org, "cost": 0})).expect(200);
    let limits = decision["limits"].as_array().unwrap();
    // At first the demonstration set may be in force, which has no such policy.
    let known = limits.iter().any(|limit| limit["policyId"] == POLICY);
    known.then(|| limit(&decision, POLICY)["limit"].as_u64().unwrap())
}

/// Waits until a node's decisions go by a limit.
pub fn sees(node: &Server, wanted: u64) {
    until(&format!("the limit {wanted}"), || seen(node) == Some(wanted));
}

/// Looks every millisecond until something is so, and says how long that took.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < DEADLINE, "waited in vain for {what}");
        pause(Duration::from_millis(1));
    }
    started.elapsed()
}

/// Lets time pass between two looks.
pub fn pause(time: Duration) {
    // Nothing is ever sent.
    let (_silent, pause) = std::sync::mpsc::channel::<()>();
    let _ = pause.recv_timeout(time);
}

/// The journal holds, and has this many rows without a gap.
pub fn intact(node: &Server, rows: u64) {
    let verified = admin(node, "GET", "/v1/audit/verify").send().expect(200);
    assert_eq!(
        (
            &verified["intact"],
            &verified["rows"],
            &verified["firstBroken"],
            &verified["differing"]
        ),
        (&json!(true), &json!(rows), &json!(null), &json!([])),
        "{verified}"
    );
}

/// The journal, oldest row first, without gaps.
pub fn journal(node: &Server) -> Vec<Value> {
    let export = admin(node, "GET", "/v1/audit?format=jsonl").send();
    assert_eq!(export.status, 200, "{}", export.text());
    let rows: Vec<Value> = export
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (row, number) in rows.iter().zip(1_u64..) {
        assert_eq!(row["revision"], number);
    }
    rows
}

/// The ids of the org's overrides, as a node lists them.
pub fn override_ids(node: &Server) -> BTreeSet<String> {
    let (mut ids, mut cursor) = (BTreeSet::new(), String::new());
    loop {
        let target = format!("{}?limit=1000&cursor={cursor}", overrides());
        let page = admin(node, "GET", &target).send().expect(200);
        for item in page["items"].as_array().unwrap() {
            assert!(
                ids.insert(item["id"].as_str().unwrap().to_owned()),
                "{item} is there twice"
            );
        }
        match page["nextCursor"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => return ids,
        }
    }
}

/// Makes an override on a node that may be gone before it answers: the id if it has.
pub fn try_override(address: SocketAddr, limit: u64) -> Option<String> {
    let body = json!({"policyId": POLICY, "limit": limit}).to_string();
    let request = format!(
        "POST {} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        overrides(),
        body.len(),
    );
    let mut stream = TcpStream::connect_timeout(&address, DEADLINE).ok()?;
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    // Half an answer is none.
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let made: Value = serde_json::from_str(body).ok()?;
    assert!(head.starts_with("HTTP/1.1 201 "), "{answer}");
    Some(made["id"].as_str().unwrap().to_owned())
}
