//! External authorization, asked by a client of our own: what Envoy sends only if it is set to.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::core::v3::{Address, HeaderMap, HeaderValue, SocketAddress, address};
use envoy_types::pb::envoy::service::auth::v3::attribute_context::{HttpRequest, Peer, Request};
use envoy_types::pb::envoy::service::auth::v3::authorization_client::AuthorizationClient;
use envoy_types::pb::envoy::service::auth::v3::check_response::HttpResponse;
use envoy_types::pb::envoy::service::auth::v3::{AttributeContext, CheckRequest};
use serde_json::json;

use crate::asker::Asker;
use crate::common::{Server, file_of, hourly};

/// Asks, and says which status the client would get: 200 if it may go on.
pub fn status(asker: &Asker, http: HttpRequest) -> i32 {
    let source = Address {
        address: Some(address::Address::SocketAddress(SocketAddress {
            address: "127.0.0.1".to_owned(),
            ..SocketAddress::default()
        })),
    };
    let check = CheckRequest {
        attributes: Some(AttributeContext {
            source: Some(Peer {
                address: Some(source),
                ..Peer::default()
            }),
            request: Some(Request {
                http: Some(http),
                ..Request::default()
            }),
            ..AttributeContext::default()
        }),
    };
    let mut client = AuthorizationClient::new(asker.channel.clone());
    let answer = asker.runtime.block_on(client.check(check)).unwrap().into_inner();
    match answer.http_response {
        Some(HttpResponse::DeniedResponse(denied)) => denied.status.unwrap().code,
        _ => 200,
    }
}

/// Headers as Envoy sends them with `encode_raw_headers`.
pub fn raw(headers: &[(&str, &[u8])]) -> HttpRequest {
    let headers = headers.iter().map(|(name, value)| HeaderValue {
        key: (*name).to_owned(),
        raw_value: value.to_vec(),
        ..HeaderValue::default()
    });
    HttpRequest {
        method: "GET".to_owned(),
        path: "/things".to_owned(),
        header_map: Some(HeaderMap {
            headers: headers.collect(),
        }),
        ..HttpRequest::default()
    }
}

fn server() -> Server {
    let policies = file_of(&[hourly("org", "org", 5, ""), hourly("ip", "ip", 50, "")]);
    Server::start(&policies, &["--trusted-proxies", "127.0.0.1"])
}

#[test]
fn raw_headers_say_who_asks_as_others_do() {
    let server = server();
    let asker = Asker::of(&server);
    let said = raw(&[
        (":path", b"/things"),
        ("x-tollgate-org", b"acme"),
        ("x-forwarded-for", b"203.0.113.7"),
        ("x-forwarded-for", b"203.0.113.9"),
        ("x-other", b"\xff"),
    ]);
    assert_eq!(status(&asker, said), 200);
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 4);
    assert_eq!(server.left("ip", &json!({"ip": "203.0.113.9"})), 49);
    let plain = HttpRequest {
        headers: HashMap::from([("x-tollgate-org".to_owned(), "acme".to_owned())]),
        header_map: None,
        ..raw(&[])
    };
    assert_eq!(status(&asker, plain), 200);
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 3);
}

#[test]
fn raw_headers_that_say_two_things_or_none_are_refused() {
    let server = server();
    let asker = Asker::of(&server);
    for headers in [
        &[("x-tollgate-org", &b"ac\xffme"[..])][..],
        &[("x-tollgate-org", b"acme"), ("x-tollgate-org", b"other")],
        &[("x-api-key", b"tgk_a"), ("x-api-key", b"tgk_a")],
        &[("authorization", b"Bearer tgk_a, Bearer tgk_b")],
    ] {
        assert_eq!(status(&asker, raw(headers)), 400, "{headers:?}");
    }
    let twice: [(&str, &[u8]); 2] = [("x-tollgate-org", b"acme"), ("x-tollgate-org", b"acme")];
    assert_eq!(status(&asker, raw(&twice)), 200, "the same twice is once");
    let scopes: [(&str, &[u8]); 2] = [("x-tollgate-scopes", b"a b"), ("x-tollgate-scopes", b"c")];
    assert_eq!(
        status(&asker, raw(&scopes)),
        200,
        "permissions may come in several lines"
    );
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 4);
}
