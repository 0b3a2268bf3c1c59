//! The keys: of every kind, replaced, away and back, and from nowhere but where they may come from.

use serde_json::json;

use crate::common::wait_for;
use crate::issuer::{Issuer, set};
use crate::signer::Signer;
use crate::{AUDIENCE, believing, claims, has_keys, launch, operator, tiers};

#[test]
fn keys_of_every_kind_verify() {
    let algorithms = [
        "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA",
    ];
    let signers = algorithms.map(|algorithm| Signer::new(algorithm, algorithm));
    let issuer = Issuer::new(&signers.each_ref());
    let server = believing(&issuer);
    assert_eq!(server.counted("tollgate_oidc_keys "), 9);
    for signer in &signers {
        tiers(&server, &operator(&issuer, signer)).expect(200);
    }
}

#[test]
fn keys_that_are_for_something_else_are_left_out() {
    let good = Signer::new("good", "ES256");
    let issuer = Issuer::new(&[]);
    let other = Signer::new("other", "ES256");
    let mut keys = vec![
        good.jwk(),
        json!(7),
        json!({"kty": "EC", "kid": "half", "crv": "P-256"}),
    ];
    for (name, value) in [
        ("use", json!("enc")),
        ("key_ops", json!(["sign"])),
        ("alg", json!("ECDH-ES")),
        ("alg", json!("ES384")),
        ("kid", json!("")),
        ("crv", json!("P-521")),
        ("x", json!("AAAA")),
        ("kty", json!("RSA")),
    ] {
        let mut jwk = other.jwk();
        jwk[name] = value;
        keys.push(jwk);
    }
    let short =
        json!({"kty": "RSA", "kid": "short", "n": crate::signer::base64url([0xff; 128]), "e": "AQAB"});
    keys.push(short);
    issuer.publish(&json!({"keys": keys}));
    let server = believing(&issuer);
    assert_eq!(server.counted("tollgate_oidc_keys "), 1);
    tiers(&server, &operator(&issuer, &good)).expect(200);
    tiers(&server, &operator(&issuer, &other)).problem(401);
}

#[test]
fn an_unknown_key_is_asked_for_and_found_and_the_old_one_ends() {
    let (old, new) = (Signer::new("old", "ES256"), Signer::new("new", "EdDSA"));
    let issuer = Issuer::new(&[&old]);
    let server = believing(&issuer);
    tiers(&server, &operator(&issuer, &old)).expect(200);
    let before = issuer.fetches();
    // What is not meant for this server is no reason to ask.
    tiers(
        &server,
        &new.sign(&claims("https://other.example", "operator", None)),
    )
    .problem(401);
    issuer.publish(&set(&[&new]));
    assert_eq!(issuer.fetches(), before);
    let token = operator(&issuer, &new);
    tiers(&server, &token).problem(401);
    wait_for("the new key", || {
        (tiers(&server, &token).status == 200).then_some(())
    });
    tiers(&server, &operator(&issuer, &old)).problem(401);
    // However many unknown keys come, the issuer is asked once in ten seconds.
    let started = std::time::Instant::now();
    for _ in 0..20 {
        let made_up = Signer::new("made-up", "ES256");
        tiers(&server, &operator(&issuer, &made_up)).problem(401);
    }
    let turns = usize::try_from(started.elapsed().as_secs() / 10).unwrap();
    let fetches = issuer.fetches() - before;
    assert!(
        (1..=turns + 2).contains(&fetches),
        "{fetches} fetches in {turns} turns"
    );
}

#[test]
fn while_the_issuer_is_away_the_last_known_keys_stay_in_force() {
    let (old, new) = (Signer::new("old", "ES256"), Signer::new("new", "ES256"));
    let issuer = Issuer::new(&[&old]);
    let server = believing(&issuer);
    issuer.away(true);
    issuer.publish(&set(&[&old, &new]));
    let token = operator(&issuer, &new);
    tiers(&server, &token).problem(401);
    wait_for("the issuer to be missed", || {
        (server.counted("tollgate_oidc_away ") == 1).then_some(())
    });
    tiers(&server, &operator(&issuer, &old)).expect(200);
    tiers(&server, &token).problem(401);
    wait_for("an age", || {
        (server.counted("tollgate_oidc_keys_age_seconds ") > 0).then_some(())
    });
    issuer.away(false);
    wait_for("the new key", || {
        (tiers(&server, &token).status == 200).then_some(())
    });
    assert_eq!(server.counted("tollgate_oidc_away "), 0);
    let log = server.logs("keys are back");
    assert_eq!(log.matches("no keys of the OIDC issuer").count(), 1, "{log}");
    assert_eq!(log.matches("keys are back").count(), 1, "{log}");
}

#[test]
fn a_server_starts_without_its_issuer_and_has_its_keys_later() {
    let signer = Signer::new("k", "ES256");
    let issuer = Issuer::new(&[&signer]);
    issuer.away(true);
    let server = launch(&issuer, &[]);
    let token = operator(&issuer, &signer);
    tiers(&server, &token).problem(401);
    server.platform_admin().get("/v1/tiers").expect(200);
    issuer.away(false);
    wait_for("the keys", || {
        (tiers(&server, &token).status == 200).then_some(())
    });
}

#[test]
fn what_is_no_set_of_keys_changes_nothing() {
    let (old, new) = (Signer::new("old", "ES256"), Signer::new("new", "ES256"));
    let redirection = format!("Location: http://{AUDIENCE}.example/keys\r\n");
    let good = set(&[&new]).to_string();
    let huge = format!("{}{good}", " ".repeat(256 * 1024));
    for (status, headers, body) in [
        (200, "", "[]".to_owned()),
        (200, "", "{\"keys\":[]}".to_owned()),
        (200, "", "not json".to_owned()),
        (200, "", huge),
        (302, redirection.as_str(), good.clone()),
        (500, "", good),
    ] {
        let issuer = Issuer::new(&[&old]);
        let server = believing(&issuer);
        let before = issuer.fetches();
        issuer.answer_with(status, headers, body);
        tiers(&server, &operator(&issuer, &new)).problem(401);
        issuer.asked_again(before);
        wait_for("the failure", || {
            (server.counted("tollgate_oidc_away ") == 1).then_some(())
        });
        tiers(&server, &operator(&issuer, &old)).expect(200);
        tiers(&server, &operator(&issuer, &new)).problem(401);
    }
}

#[test]
fn a_page_that_describes_another_issuer_is_not_believed() {
    let signer = Signer::new("k", "ES256");
    let issuer = Issuer::new(&[&signer]);
    issuer.describe(json!({"issuer": "https://other.example", "jwks_uri": issuer.keys_url()}));
    let server = launch(&issuer, &[]);
    server.logs("describes another issuer");
    issuer.describe(json!({"issuer": issuer.url(), "jwks_uri": "http://keys.example/"}));
    wait_for("another look", || (issuer.descriptions() > 1).then_some(()));
    assert_eq!(issuer.fetches(), 0);
    issuer.describe(json!({"issuer": issuer.url(), "jwks_uri": issuer.keys_url()}));
    has_keys(&server);
    tiers(&server, &operator(&issuer, &signer)).expect(200);
}

#[test]
fn the_place_of_the_keys_can_be_given_instead() {
    let signer = Signer::new("k", "ES256");
    let issuer = Issuer::new(&[&signer]);
    let server = launch(&issuer, &["--oidc-jwks", &issuer.keys_url()]);
    has_keys(&server);
    tiers(&server, &operator(&issuer, &signer)).expect(200);
    assert_eq!(issuer.descriptions(), 0);
}
