//! `Reserve` and `Settle`, and keys by which a request counts once.

use serde_json::json;
use tollgate_proto::v1::{CheckLimitRequest, ReserveRequest, SettleRequest};
use tonic::Code;

use crate::asker::Asker;
use crate::common::{Server, file_of, hourly, wait_for};
use crate::servers;

fn check(cost: u64, key: Option<&str>) -> CheckLimitRequest {
    CheckLimitRequest {
        org_id: Some("acme".to_owned()),
        cost: Some(cost),
        costs: [("tokens", 100), ("bytes", 50), ("rows", 1)]
            .map(|(unit, cost)| (unit.to_owned(), cost))
            .into(),
        idempotency_key: key.map(str::to_owned),
        ..CheckLimitRequest::default()
    }
}

fn server() -> Server {
    let tokens = hourly("tokens", "org", 1_000, "unit: tokens");
    Server::start(&file_of(&[hourly("org", "org", 50, ""), tokens]), &[])
}

#[test]
fn what_is_reserved_is_settled_as_over_http() {
    let server = server();
    let asker = Asker::of(&server);
    let reserve = |cost: u64, ttl_ms: Option<u64>| {
        let check = Some(check(cost, None));
        asker.reserve(ReserveRequest { check, ttl_ms })
    };
    let reserved = reserve(20, None).unwrap();
    assert!(reserved.decision.unwrap().allowed && reserved.expires_at.unwrap().ends_with('Z'));
    let name = reserved.reservation_id.unwrap();
    let settle = |cost: u64| {
        asker.settle(SettleRequest {
            reservation_id: name.clone(),
            actual_cost: Some(cost),
            actual_costs: [("tokens".to_owned(), 30)].into(),
            idempotency_key: None,
        })
    };
    assert_eq!(settle(51).unwrap_err().code(), Code::Aborted);
    let settled = settle(5).unwrap();
    let costs = (
        settled.reserved_cost,
        settled.actual_cost,
        settled.returned_cost,
        settled.extra_cost,
    );
    assert_eq!(costs, (20, 5, 15, 0));
    assert_eq!(settle(5).unwrap_err().code(), Code::FailedPrecondition);
    let look = json!({"orgId": "acme"});
    assert_eq!(
        (server.left("org", &look), server.left("tokens", &look)),
        (45, 970)
    );
    let denied = reserve(46, None).unwrap();
    assert!(!denied.decision.unwrap().allowed && denied.reservation_id.is_none());
    assert_eq!(
        reserve(1, Some(3_600_001)).unwrap_err().code(),
        Code::InvalidArgument
    );
    let unknown = asker.settle(SettleRequest {
        reservation_id: "rsv_unknown".to_owned(),
        actual_cost: Some(1),
        ..SettleRequest::default()
    });
    assert_eq!(unknown.unwrap_err().code(), Code::NotFound);
    // What is reserved here may be settled there.
    let name = reserve(10, None).unwrap().reservation_id.unwrap();
    let body = json!({"reservationId": name, "actualCost": 1}).to_string();
    server.ask("POST", "/v1/settle").body(body).send().expect(200);
    assert_eq!(server.left("org", &look), 44);
}

#[test]
fn a_key_counts_once() {
    let server = server();
    let asker = Asker::of(&server);
    let look = json!({"orgId": "acme"});
    // The costs are a map, whose order is another each time.
    for _ in 0..8 {
        assert_eq!(asker.check(check(7, Some("k-1"))).unwrap().remaining, Some(43));
    }
    assert_eq!(
        asker.check(check(8, Some("k-1"))).unwrap_err().code(),
        Code::AlreadyExists
    );
    assert_eq!(
        asker.check(check(8, Some("a b"))).unwrap_err().code(),
        Code::InvalidArgument
    );
    assert!(asker.check_all(vec![check(8, Some("k-2"))]).is_err());
    assert_eq!(server.left("org", &look), 43);
    let reserve = || {
        let check = Some(check(3, Some("k-3")));
        asker.reserve(ReserveRequest { check, ttl_ms: None }).unwrap()
    };
    let name = reserve().reservation_id.unwrap();
    assert_eq!(reserve().reservation_id.as_ref(), Some(&name));
    for _ in 0..2 {
        let settled = asker.settle(SettleRequest {
            reservation_id: name.clone(),
            actual_cost: Some(1),
            idempotency_key: Some("s-1".to_owned()),
            ..SettleRequest::default()
        });
        assert_eq!(settled.unwrap().returned_cost, 2);
    }
    assert_eq!(server.left("org", &look), 42);
    // A check over gRPC is refunded over HTTP.
    let refund = json!({"orgId": "acme", "idempotencyKey": "k-1"}).to_string();
    server.ask("POST", "/v1/refund").body(refund).send().expect(200);
    assert_eq!(server.left("org", &look), 49);
}

fn fleet(redis: &servers::Server) -> [Server; 2] {
    let rest = "accuracy: exact, failMode: closed";
    let tokens = hourly("tokens", "org", 1_000, &format!("unit: tokens, {rest}"));
    let policies = file_of(&[hourly("org", "org", 50, rest), tokens]);
    [(); 2].map(|()| Server::start(&policies, &["--threads", "1", "--redis", &redis.url()]))
}

/// What is left of a limit comes to this: a node shows what it heard for a moment.
fn comes_to(server: &Server, policy: &str, left: u64) {
    wait_for("what is left", || {
        (server.left(policy, &json!({"orgId": "acme"})) == left).then_some(())
    });
}

#[test]
fn over_grpc_another_node_settles_it() {
    let redis = servers::Server::start();
    let nodes = fleet(&redis);
    let [a, b] = nodes.each_ref().map(Asker::of);
    let check = Some(check(20, None));
    let reserved = a.reserve(ReserveRequest { check, ttl_ms: None }).unwrap();
    let name = reserved.reservation_id.unwrap();
    comes_to(&nodes[1], "org", 30);
    let settle = |asker: &Asker, cost: u64, key: Option<&str>| {
        asker.settle(SettleRequest {
            reservation_id: name.clone(),
            actual_cost: Some(cost),
            actual_costs: [("tokens".to_owned(), 40)].into(),
            idempotency_key: key.map(str::to_owned),
        })
    };
    // There is no room for so much, and it stays.
    assert_eq!(settle(&b, 51, None).unwrap_err().code(), Code::Aborted);
    let settled = settle(&b, 5, Some("s")).unwrap();
    assert_eq!(
        (settled.reserved_cost, settled.actual_cost, settled.returned_cost),
        (20, 5, 15)
    );
    assert_eq!(settle(&a, 5, Some("s")).unwrap(), settled);
    for asker in [&a, &b] {
        assert_eq!(
            settle(asker, 5, None).unwrap_err().code(),
            Code::FailedPrecondition
        );
    }
    comes_to(&nodes[0], "org", 45);
    comes_to(&nodes[0], "tokens", 960);
}

#[test]
fn over_grpc_another_node_gives_the_same_answer() {
    let redis = servers::Server::start();
    let nodes = fleet(&redis);
    let [a, b] = nodes.each_ref().map(Asker::of);
    let first = a.check(check(7, Some("k"))).unwrap();
    assert!(first.allowed);
    for asker in [&b, &a, &b] {
        assert_eq!(asker.check(check(7, Some("k"))).unwrap(), first);
        assert_eq!(
            asker.check(check(8, Some("k"))).unwrap_err().code(),
            Code::AlreadyExists
        );
    }
    comes_to(&nodes[1], "org", 43);
    let reserve = |asker: &Asker| {
        let check = Some(check(3, Some("r")));
        asker.reserve(ReserveRequest { check, ttl_ms: None }).unwrap()
    };
    let reserved = reserve(&a);
    assert_eq!(reserve(&b), reserved);
    let settled = b.settle(SettleRequest {
        reservation_id: reserved.reservation_id.clone().unwrap(),
        actual_cost: Some(1),
        ..SettleRequest::default()
    });
    assert_eq!(settled.unwrap().returned_cost, 2);
    assert_eq!(reserve(&b), reserved);
    comes_to(&nodes[0], "org", 42);
    // A check is refunded over HTTP, at any node, once.
    let refund = json!({"orgId": "acme", "idempotencyKey": "k"}).to_string();
    for (node, status) in [(&nodes[1], 200), (&nodes[0], 410)] {
        let answer = node.ask("POST", "/v1/refund").body(refund.as_str()).send();
        assert_eq!(answer.status, status);
    }
    comes_to(&nodes[0], "org", 49);
}

#[test]
fn over_grpc_a_refund_frees_the_key() {
    let redis = servers::Server::start();
    let nodes = fleet(&redis);
    let [a, b] = nodes.each_ref().map(Asker::of);
    let first = a.check(check(7, Some("k"))).unwrap();
    assert_eq!(b.check(check(7, Some("k"))).unwrap(), first);
    let refund = json!({"orgId": "acme", "idempotencyKey": "k"}).to_string();
    let refunded = nodes[1].ask("POST", "/v1/refund").body(refund.as_str()).send();
    assert_eq!(refunded.status, 200);
    comes_to(&nodes[0], "org", 50);
    let again = a.check(check(8, Some("k"))).unwrap();
    for asker in [&a, &b] {
        assert_eq!(asker.check(check(8, Some("k"))).unwrap(), again);
    }
    comes_to(&nodes[1], "org", 42);
}
