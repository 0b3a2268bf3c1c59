//! `--require-identity` over gRPC.

use tollgate_proto::v1::{CheckLimitRequest, ReserveRequest};
use tonic::Code;

use crate::asker::{Asker, descriptor};
use crate::authorization::{raw, status};
use crate::common::{Server, file_of, hourly};

fn server(required: &str) -> Server {
    let policies = file_of(&[hourly("org", "org", 5, ""), hourly("address", "ip", 50, "")]);
    let flags = ["--require-identity", required, "--trusted-proxies", "127.0.0.1"];
    Server::start(&policies, &flags)
}

fn check(org: Option<&str>, key: Option<&str>) -> CheckLimitRequest {
    CheckLimitRequest {
        org_id: org.map(str::to_owned),
        key_id: key.map(str::to_owned),
        ip: Some("203.0.113.9".to_owned()),
        ..CheckLimitRequest::default()
    }
}

#[test]
fn a_check_without_the_identity_is_unauthenticated() {
    for (required, lacking) in [
        ("org", check(None, Some("k1"))),
        ("key", check(Some("acme"), None)),
    ] {
        let server = server(required);
        let asker = Asker::of(&server);
        let once = CheckLimitRequest {
            idempotency_key: Some("once".to_owned()),
            ..lacking.clone()
        };
        let unusual = CheckLimitRequest {
            scopes: vec!["write".to_owned()],
            ..lacking.clone()
        };
        for request in [lacking.clone(), once, unusual] {
            let refused = asker.check(request).unwrap_err();
            assert_eq!(refused.code(), Code::Unauthenticated, "{required}");
            assert!(refused.message().contains("`apiKey`"), "{}", refused.message());
        }
        let reserve = ReserveRequest {
            check: Some(lacking.clone()),
            ttl_ms: None,
        };
        assert_eq!(asker.reserve(reserve).unwrap_err().code(), Code::Unauthenticated);
        let named = check(Some("acme"), Some("k1"));
        let refused = asker.check_all(vec![named.clone(), lacking]).unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
        assert!(
            refused.message().starts_with("requests[1]: "),
            "{}",
            refused.message()
        );
        let left = asker.check(named).unwrap().remaining;
        assert_eq!(left, Some(4), "{required}: nothing was charged before");
    }
}

#[test]
fn a_client_of_envoys_without_one_gets_401() {
    let server = server("key");
    let asker = Asker::of(&server);
    assert_eq!(status(&asker, raw(&[("x-tollgate-org", b"acme")])), 401);
    let named: [(&str, &[u8]); 2] = [("x-tollgate-org", b"acme"), ("x-tollgate-key", b"k1")];
    assert_eq!(status(&asker, raw(&named)), 200);
}

#[test]
fn descriptors_are_identities_of_their_own() {
    let server = server("key");
    let asker = Asker::of(&server);
    let answer = asker.descriptors(vec![descriptor(&[("remote_address", "203.0.113.9")])]);
    assert_eq!(answer.statuses.len(), 1);
    assert!(asker.codes(vec![descriptor(&[("org", "acme")])]).0);
}
