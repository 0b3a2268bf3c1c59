//! The settings that name the issuer, and what is wrong with some.

use crate::authority::Authority;
use crate::common::{Launch, Server, run};
use crate::issuer::Issuer;
use crate::signer::Signer;
use crate::{AUDIENCE, has_keys, operator, tiers};

#[test]
fn they_can_come_from_the_environment_or_the_configuration_file() {
    let signer = Signer::new("k", "ES256");
    let issuer = Issuer::new(&[&signer]);
    let (url, keys) = (issuer.url(), issuer.keys_url());
    let config = format!(
        "oidc-issuer: {url}\noidc-audience: {AUDIENCE}\noidc-jwks: {keys}\noidc-role-claim: role\noidc-org-claim: org\n"
    );
    let mut who = crate::claims(&url, "", Some("acme"));
    who["role"] = "tenant-viewer".into();
    who["org"] = "acme".into();
    let token = signer.sign(&who);
    for environment in [
        &[
            ("TOLLGATE_OIDC_ISSUER", url.as_str()),
            ("TOLLGATE_OIDC_AUDIENCE", AUDIENCE),
            ("TOLLGATE_OIDC_JWKS", &keys),
            ("TOLLGATE_OIDC_ROLE_CLAIM", "role"),
            ("TOLLGATE_OIDC_ORG_CLAIM", "org"),
        ][..],
        &[("TOLLGATE_CONFIG", "tollgate.yaml")],
    ] {
        let server = Server::launch(&Launch {
            environment,
            files: &[("tollgate.yaml", &config)],
            ..Launch::default()
        });
        has_keys(&server);
        // Known, and a tenant's.
        tiers(&server, &token).problem(403);
        tiers(&server, &operator(&issuer, &signer)).problem(403);
        server.with_token(&token).get("/v1/tokens").expect(200);
    }
}

#[test]
fn without_an_issuer_a_jwt_is_a_token_that_nobody_knows() {
    let signer = Signer::new("k", "ES256");
    let issuer = Issuer::new(&[&signer]);
    let server = Server::launch(&Launch::default());
    tiers(&server, &operator(&issuer, &signer)).problem(401);
    assert!(!server.metrics().contains("oidc"));
}

#[test]
fn what_is_wrong_with_them_is_said_in_a_sentence_that_names_the_flag() {
    let issuer = "--oidc-issuer=https://issuer.example";
    let audience = "--oidc-audience=tollgate";
    for (flags, named) in [
        (&[issuer][..], "--oidc-issuer: needs --oidc-audience"),
        (
            &[audience],
            "--oidc-audience: means nothing without --oidc-issuer",
        ),
        (
            &["--oidc-jwks=keys.json"],
            "--oidc-jwks: means nothing without --oidc-issuer",
        ),
        (
            &["--oidc-ca=ca.pem"],
            "--oidc-ca: means nothing without --oidc-issuer",
        ),
        (&["--oidc-issuer=", audience], "--oidc-issuer: must not be empty"),
        (
            &[issuer, "--oidc-audience="],
            "--oidc-audience: must not be empty",
        ),
        (
            &["--oidc-issuer=http://issuer.example", audience],
            "must be https",
        ),
        (
            &["--oidc-issuer=issuer.example", audience],
            "--oidc-issuer: `issuer.example` is not a URL",
        ),
        (
            &["--oidc-issuer=https://issuer.example/?a=b", audience],
            "has more than a path",
        ),
        (
            &[issuer, audience, "--oidc-jwks=http://issuer.example/keys"],
            "--oidc-jwks: `http://issuer.example/keys` must be https",
        ),
        (
            &[issuer, audience, "--oidc-jwks=absent.json"],
            "--oidc-jwks: absent.json: No such file",
        ),
        (
            &[issuer, audience, "--oidc-jwks=/dev/null"],
            "--oidc-jwks: /dev/null: it is not a JWK set",
        ),
        (
            &[issuer, audience, "--oidc-ca=absent.pem"],
            "--oidc-ca: absent.pem",
        ),
        (
            &[issuer, audience, "--oidc-org-claim=tollgate_role"],
            "--oidc-org-claim: must be another claim",
        ),
        (
            &[issuer, audience, "--oidc-role-claim=/realm~access/roles"],
            "--oidc-role-claim: `/realm~access/roles` is no path",
        ),
    ] {
        let dir = tempfile::TempDir::new().unwrap();
        let data = dir.path().join("data").display().to_string();
        let args = [&["serve", "--data-dir", &data], flags].concat();
        let run = run(&args);
        let complaint = run.complaint(2);
        assert!(complaint.contains(named), "{flags:?}: {complaint}");
    }
}

#[test]
fn an_issuer_behind_tls_is_believed_by_its_authority_only() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let signer = Signer::new("k", "ES256");
    let issuer = Issuer::secure(&[&signer], &ours.server());
    let url = issuer.url();
    let believing = |ca: &str| {
        let flags = [
            "--oidc-issuer",
            &url,
            "--oidc-audience",
            AUDIENCE,
            "--oidc-ca",
            "ca.pem",
        ];
        Server::launch(&Launch {
            flags: &flags,
            files: &[("ca.pem", ca)],
            ..Launch::default()
        })
    };
    let server = believing(&ours.pem());
    has_keys(&server);
    tiers(&server, &operator(&issuer, &signer)).expect(200);
    let server = believing(&theirs.pem());
    server.logs("no TLS with");
    tiers(&server, &operator(&issuer, &signer)).problem(401);
}
