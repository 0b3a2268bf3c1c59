//! `Reserve` and `Settle`, and keys by which a request counts once.

use serde_json::json;
use tollgate_proto::v1::{CheckLimitRequest, ReserveRequest, SettleRequest};
use tonic::Code;

use crate::asker::Asker;
use crate::common::{Server, file_of, hourly};

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
