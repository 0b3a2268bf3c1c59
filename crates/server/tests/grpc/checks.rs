//! `CheckLimit` and `CheckLimits`: section 2 of the contract in protobuf.

use serde_json::json;
use tollgate_proto::v1::CheckLimitRequest;
use tonic::Code;

use crate::asker::Asker;
use crate::common::{Server, file_of, hourly, wait_for};

fn server() -> Server {
    Server::start(
        &file_of(&[hourly("org", "org", 5, ""), hourly("app", "app", 3, "")]),
        &[],
    )
}

fn of(org: &str, app: &str) -> CheckLimitRequest {
    CheckLimitRequest {
        org_id: Some(org.to_owned()),
        app_id: Some(app.to_owned()),
        ..CheckLimitRequest::default()
    }
}

#[test]
fn a_check_is_decided_as_over_http() {
    let server = server();
    let asker = Asker::of(&server);
    let decision = asker
        .check(CheckLimitRequest {
            cost: Some(2),
            with_headers: Some(true),
            ..of("acme", "web")
        })
        .unwrap();
    assert!(decision.allowed);
    assert_eq!((decision.remaining, decision.retry_after_ms), (Some(1), Some(0)));
    assert_eq!((&decision.scope, &decision.policy_id), (&None, &None));
    let limits: Vec<_> = decision
        .limits
        .iter()
        .map(|limit| (&*limit.policy_id, limit.remaining))
        .collect();
    assert_eq!(limits, [("org", 3), ("app", 1)]);
    assert_eq!(decision.limits[0].mode, "enforce");
    assert!(decision.limits[0].reset_at.ends_with('Z') && decision.limits[0].reset_ms > 0);
    let header = |name: &str| decision.headers.iter().find(|header| header.name == name);
    assert_eq!(header("x-ratelimit-app-remaining").unwrap().value, "1");

    let denied = asker
        .check(CheckLimitRequest {
            cost: Some(2),
            ..of("acme", "web")
        })
        .unwrap();
    assert!(!denied.allowed);
    assert_eq!(
        (denied.scope.as_deref(), denied.policy_id.as_deref()),
        (Some("app"), Some("app"))
    );
    assert!(denied.retry_after_ms > Some(0));
    let denial = denied.denial.unwrap();
    assert_eq!(denial.error, "rate_limit_exceeded");
    assert_eq!(denial.limit_type, "per_hour");
    assert_eq!(denial.violated_policies, ["app"]);
    assert!(denial.message.contains("policy app") && denial.retry_after_seconds > Some(0));
    assert!(denied.headers.is_empty(), "nobody asked for them");
    let seen = server.allowed(&json!({"orgId": "acme", "appId": "web", "cost": 0}));
    assert_eq!(
        crate::common::server::remaining(&seen, "org"),
        3,
        "both count in one place"
    );
}

#[test]
fn what_never_fits_has_no_time_to_wait() {
    let server = server();
    let denied = Asker::of(&server)
        .check(CheckLimitRequest {
            cost: Some(9),
            ..of("acme", "web")
        })
        .unwrap();
    assert_eq!(denied.retry_after_ms, None);
    let denial = denied.denial.unwrap();
    assert_eq!(
        (&*denial.error, denial.retry_after_seconds),
        ("cost_exceeds_limit", None)
    );
}

#[test]
fn a_dry_run_and_a_cost_of_nothing_charge_nothing() {
    let server = server();
    let asker = Asker::of(&server);
    for _ in 0..9 {
        let dry = CheckLimitRequest {
            dry_run: Some(true),
            ..of("acme", "web")
        };
        assert_eq!(asker.check(dry).unwrap().remaining, Some(2));
        let look = CheckLimitRequest {
            cost: Some(0),
            ..of("acme", "web")
        };
        assert_eq!(asker.check(look).unwrap().remaining, Some(3));
    }
}

#[test]
fn what_is_wrong_is_told_by_a_status() {
    let server = server();
    let asker = Asker::of(&server);
    let status = asker.check(of("", "web")).unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::InvalidArgument, "`orgId` must not be empty.")
    );
    let status = asker.check(CheckLimitRequest {
        ip: Some("here".to_owned()),
        ..of("a", "b")
    });
    assert_eq!(status.unwrap_err().code(), Code::InvalidArgument);
    let status = asker.check(CheckLimitRequest {
        api_key: Some("tgk_unknown".to_owned()),
        ..CheckLimitRequest::default()
    });
    assert_eq!(status.unwrap_err().code(), Code::Unauthenticated);
}

#[test]
fn a_batch_is_decided_in_order_and_each_on_its_own() {
    let server = server();
    let asker = Asker::of(&server);
    let take = |app: &str, cost: u64| CheckLimitRequest {
        cost: Some(cost),
        ..of("acme", app)
    };
    let answer = asker
        .check_all(vec![
            take("a", 2),
            take("a", 2),
            take("b", 3),
            take("c", 1),
            of("globex", "a"),
        ])
        .unwrap();
    let allowed: Vec<bool> = answer.decisions.iter().map(|decision| decision.allowed).collect();
    assert_eq!(allowed, [true, false, true, false, true]);
    assert_eq!(answer.decisions[1].policy_id.as_deref(), Some("app"));
    assert_eq!(answer.decisions[3].policy_id.as_deref(), Some("org"));
    assert!(asker.check_all(Vec::new()).unwrap().decisions.is_empty());
}

#[test]
fn checks_that_there_is_more_to_keep_their_places_in_a_batch() {
    let server = server();
    let asker = Asker::of(&server);
    let more = |app: &str| CheckLimitRequest {
        scopes: vec!["read".to_owned()],
        ..of("acme", app)
    };
    let answer = asker
        .check_all(vec![more("a"), of("acme", "a"), of("acme", "b"), more("b")])
        .unwrap();
    let left = |place: usize, limit: usize| answer.decisions[place].limits[limit].remaining;
    let lefts: Vec<_> = (0..4).map(|place| (left(place, 0), left(place, 1))).collect();
    assert_eq!(lefts, [(4, 2), (3, 1), (2, 2), (1, 1)]);
    for (invalid, expected) in [
        (more(""), "requests[2]: `appId`"),
        (of("acme", "\n"), "requests[2]: `appId`"),
    ] {
        let status = asker.check_all(vec![more("a"), of("acme", "a"), invalid, of("", "a")]);
        let status = status.unwrap_err();
        assert!(status.message().starts_with(expected), "{status:?}");
    }
}

#[test]
fn what_a_batch_used_is_noted_for_the_app_that_used_it() {
    let policies = file_of(&[hourly("org", "org", 5, ""), hourly("app", "app", 3, "")]);
    let server = Server::start(&format!("orgs: [{{orgId: noted}}]\n{policies}"), &[]);
    let asker = Asker::of(&server);
    let looked = CheckLimitRequest {
        dry_run: Some(true),
        ..of("noted", "b")
    };
    let checks = vec![
        of("noted", "a"),
        looked,
        of("noted", "b"),
        of("noted", "b"),
        of("noted", "a"),
    ];
    asker.check_all(checks).unwrap();
    let admin = server.platform_admin();
    let told = wait_for("usage to be told", || {
        let statement = admin.get("/v1/orgs/noted/quotas/statement").expect(200);
        (statement["allowed"] == 4).then_some(statement)
    });
    let items = told["items"].as_array().unwrap().iter();
    let by_app: Vec<_> = items.map(|item| (&item["appId"], &item["allowed"])).collect();
    assert_eq!(by_app, [(&json!("a"), &json!(2)), (&json!("b"), &json!(2))]);
}

#[test]
fn a_batch_with_an_invalid_item_charges_nothing() {
    let server = server();
    let asker = Asker::of(&server);
    let status = asker
        .check_all(vec![of("acme", "web"), of("acme", "")])
        .unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().starts_with("requests[1]: `appId`"), "{status:?}");
    let keyed = CheckLimitRequest {
        idempotency_key: Some("once".to_owned()),
        ..of("acme", "web")
    };
    let status = asker.check_all(vec![of("acme", "web"), keyed]).unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(
        status.message().starts_with("requests[1]: `idempotency_key`"),
        "{status:?}"
    );
    let status = asker.check_all(vec![of("acme", "web"); 1001]).unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(server.left("org", &json!({"orgId": "acme", "appId": "web"})), 5);
}

#[test]
fn a_cost_beyond_the_bound_is_no_check() {
    let server = Server::start(&file_of(&[hourly("org", "org", 5, "")]), &[]);
    let asker = Asker::of(&server);
    let beyond = 1_000_000_000_000_000;
    let of = |cost: Option<u64>, costs: &[(&str, u64)]| CheckLimitRequest {
        org_id: Some("acme".to_owned()),
        cost,
        costs: costs
            .iter()
            .map(|(unit, cost)| ((*unit).to_owned(), *cost))
            .collect(),
        ..CheckLimitRequest::default()
    };
    for check in [
        of(Some(beyond), &[]),
        of(Some(u64::MAX), &[]),
        of(None, &[("tokens", beyond)]),
    ] {
        for status in [
            asker.check(check.clone()).unwrap_err(),
            asker.check_all(vec![of(None, &[]), check.clone()]).unwrap_err(),
        ] {
            assert_eq!(status.code(), Code::InvalidArgument);
            assert!(
                status.message().contains("must be at most 999999999999999"),
                "{status:?}"
            );
        }
    }
    // Nothing of that was charged.
    assert_eq!(server.left("org", &serde_json::json!({"orgId": "acme"})), 5);
}
