//! JWTs of another issuer, on the admin address and where clients ask: an issuer of the test's own, and a real server
//! that believes it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

#[path = "../common/mod.rs"]
mod common;

#[path = "../tls/authority.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod authority;

mod issuer;
mod signer;

mod claims;
mod data_plane;
mod file;
mod forgeries;
mod keys;
mod roles;
mod settings;

use common::{Launch, Server};
use issuer::Issuer;
use serde_json::{Value, json};
use signer::Signer;
use tollgate::clock;

/// Whom the tokens are for.
const AUDIENCE: &str = "tollgate";

/// A server that believes an issuer and has its keys, with the orgs `acme` and `globex`.
fn believing(issuer: &Issuer) -> Server {
    let server = launch(issuer, &[]);
    has_keys(&server);
    let admin = server.platform_admin();
    admin.set("/v1/tiers/gold", &json!({}));
    for org in ["acme", "globex"] {
        admin.set(&format!("/v1/orgs/{org}"), &json!({"tier": "gold"}));
    }
    server
}

/// A server that believes an issuer, with more flags.
fn launch(issuer: &Issuer, flags: &[&str]) -> Server {
    let url = issuer.url();
    let flags = [&["--oidc-issuer", &url, "--oidc-audience", AUDIENCE], flags].concat();
    Server::launch(&Launch {
        flags: &flags,
        environment: &[("TOLLGATE_LOG", "trace")],
        ..Launch::default()
    })
}

/// Waits until the server has keys.
fn has_keys(server: &Server) {
    common::wait_for("keys", || {
        (server.counted("tollgate_oidc_keys ") > 0).then_some(())
    });
}

/// What a good token says: the role, and the org if there is one.
fn claims(issuer: &str, role: &str, org: Option<&str>) -> Value {
    let mut claims = json!({
        "iss": issuer,
        "aud": AUDIENCE,
        "sub": "ada",
        "exp": clock::now().seconds() + 600,
        "tollgate_role": role,
    });
    if let Some(org) = org {
        claims["tollgate_org"] = json!(org);
    }
    claims
}

/// Asks for something that every platform role may see.
fn tiers(server: &Server, token: &str) -> common::Answer {
    server.with_token(token).get("/v1/tiers")
}

/// A good token of an operator.
fn operator(issuer: &Issuer, signer: &Signer) -> String {
    signer.sign(&claims(&issuer.url(), "operator", None))
}
