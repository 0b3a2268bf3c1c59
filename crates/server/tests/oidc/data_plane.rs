//! Who asks, by the JWT that a client shows to the protected service.

use serde_json::{Value, json};
use tollgate::clock;

use crate::common::{Answer, Launch, Server, file_of, hourly, wait_for};
use crate::issuer::{Issuer, set};
use crate::signer::Signer;

const ISSUER: &str = "https://login.example";

/// What a client's token says.
fn claims(more: &Value) -> Value {
    let mut claims = json!({
        "iss": ISSUER,
        "aud": "api",
        "exp": clock::now().seconds() + 600,
    });
    for (name, value) in more.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
}

fn policies() -> String {
    file_of(&[
        hourly("org", "org", 10, ""),
        hourly("app", "app", 20, ""),
        hourly("user", "user", 3, ""),
        hourly("write", "org", 5, "requiredScope: write"),
    ])
}

fn launch(signers: &[&Signer], flags: &[&str]) -> Server {
    let believes = [
        "--jwt-issuer",
        ISSUER,
        "--jwt-audience",
        "api",
        "--jwt-jwks",
        "keys.json",
    ];
    Server::launch(&Launch {
        policies: Some(&policies()),
        flags: &[&believes, flags].concat(),
        files: &[("keys.json", &set(signers).to_string())],
        ..Launch::default()
    })
}

fn authorize(server: &Server, token: &str, headers: &[(&str, &str)]) -> Answer {
    let ask = server.ask("GET", "/v1/authorize");
    let ask = ask.header("Authorization", &format!("Bearer {token}"));
    headers
        .iter()
        .fold(ask, |ask, (name, value)| ask.header(name, value))
        .send()
}

#[test]
fn claims_say_who_asks() {
    let signer = Signer::new("key", "ES256");
    let server = launch(&[&signer], &[]);
    let token = signer.sign(&claims(
        &json!({"sub": "u7", "org_id": "acme", "client_id": "web", "scope": "read write"}),
    ));
    for _ in 0..3 {
        assert_eq!(authorize(&server, &token, &[]).status, 200);
    }
    let denied = authorize(&server, &token, &[]);
    assert_eq!(denied.expect(429)["policy"], "user");
    let who = json!({"orgId": "acme", "appId": "web", "userId": "u7", "scopes": ["write"]});
    for (policy, left) in [("org", 7), ("app", 17), ("user", 0), ("write", 2)] {
        assert_eq!(server.left(policy, &who), left, "{policy}");
    }
    // What a gateway says itself may be more, but nothing else.
    let keyed = authorize(
        &server,
        &token,
        &[("X-Tollgate-Key", "k1"), ("X-Tollgate-Org", "acme")],
    );
    assert_eq!(keyed.status, 429);
    let other = authorize(&server, &token, &[("X-Tollgate-Org", "globex")]);
    assert_eq!(other.problem(400), "`x-tollgate-org` contradicts the token.");
    assert_eq!(server.left("org", &json!({"orgId": "globex"})), 10);
}

#[test]
fn a_token_that_is_not_good_is_401_and_charges_nothing() {
    let (signer, stranger) = (Signer::new("key", "EdDSA"), Signer::new("key", "EdDSA"));
    let server = launch(&[&signer], &[]);
    let good = json!({"sub": "u7", "org_id": "acme"});
    let changed = |name: &str, value: Value| {
        let mut claims = claims(&good);
        claims[name] = value;
        claims
    };
    let past = clock::now().seconds() - 3_600;
    for (token, sentence) in [
        (stranger.sign(&claims(&good)), "The token can't be verified."),
        (
            signer.sign(&changed("exp", json!(past))),
            "The token has expired.",
        ),
        (
            signer.sign(&changed("aud", json!("other"))),
            "The token is not meant for this server.",
        ),
        (
            signer.sign(&changed("iss", json!("https://other.example"))),
            "The token is not meant for this server.",
        ),
        (
            signer.sign(&changed("org_id", json!(["acme"]))),
            "The token's claim `org_id` is no id.",
        ),
        ("a.b.c".to_owned(), "The token can't be verified."),
    ] {
        assert_eq!(authorize(&server, &token, &[]).problem(401), sentence, "{token}");
    }
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 10);
    // Other bearer tokens are the service's own business.
    assert_eq!(authorize(&server, "opaque", &[]).status, 200);
}

#[test]
fn a_remembered_token_is_forgotten_with_its_key() {
    let (old, new) = (Signer::new("old", "ES256"), Signer::new("new", "ES256"));
    let server = launch(&[&old], &[]);
    let token = |signer: &Signer| signer.sign(&claims(&json!({"org_id": "acme"})));
    let (before, after) = (token(&old), token(&new));
    assert_eq!(authorize(&server, &before, &[]).status, 200);
    let next = server.dir.path().join("keys.next");
    std::fs::write(&next, set(&[&new]).to_string()).unwrap();
    std::fs::rename(next, server.dir.path().join("keys.json")).unwrap();
    wait_for("the new key", || {
        (authorize(&server, &after, &[]).status == 200).then_some(())
    });
    authorize(&server, &before, &[]).problem(401);
}

#[test]
fn claims_may_have_other_names_and_keys_come_from_the_issuer() {
    let signer = Signer::new("key", "RS256");
    let issuer = Issuer::new(&[&signer]);
    let url = issuer.url();
    let server = Server::launch(&Launch {
        policies: Some(&policies()),
        flags: &[
            "--jwt-issuer",
            &url,
            "--jwt-audience",
            "api",
            "--jwt-org-claim",
            "/tenant/id",
            "--jwt-user-claim",
            "email",
        ],
        ..Launch::default()
    });
    wait_for("keys", || {
        (server.counted("tollgate_jwt_keys ") > 0).then_some(())
    });
    let mut claims =
        claims(&json!({"sub": "ignored", "tenant": {"id": "acme"}, "email": "ada@acme.example"}));
    claims["iss"] = json!(url);
    assert_eq!(authorize(&server, &signer.sign(&claims), &[]).status, 200);
    let who = json!({"orgId": "acme", "userId": "ada@acme.example"});
    assert_eq!(server.left("user", &who), 2);
}

#[test]
fn a_stranger_is_not_believed_whatever_it_shows() {
    let signer = Signer::new("key", "ES256");
    let server = launch(&[&signer], &["--trusted-proxies", "192.0.2.1"]);
    let token = signer.sign(&claims(&json!({"org_id": "acme"})));
    assert_eq!(authorize(&server, &token, &[]).status, 200);
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 10);
}
