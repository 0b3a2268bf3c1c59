//! Tokens that nobody with the right key has signed.

use ring::hmac;
use serde_json::json;

use crate::common::Server;
use crate::issuer::Issuer;
use crate::signer::{Signer, base64url, unsigned};
use crate::{believing, claims, operator, tiers};

/// A server whose issuer signs with RSA, and what a token of its platform's admin would say.
fn with_rsa() -> (Server, Issuer, Signer, serde_json::Value) {
    let signer = Signer::new("k", "RS256");
    let issuer = Issuer::new(&[&signer]);
    let server = believing(&issuer);
    let all = claims(&issuer.url(), "platform-admin", None);
    (server, issuer, signer, all)
}

#[test]
fn a_token_without_a_signature_is_not_taken() {
    let (server, _issuer, signer, all) = with_rsa();
    tiers(&server, &signer.sign(&all)).expect(200);
    for alg in ["none", "None", "NONE", "", "RS256"] {
        let message = unsigned(&json!({"alg": alg, "kid": "k"}), &all);
        tiers(&server, &format!("{message}.")).problem(401);
        tiers(&server, &format!("{message}.AA")).problem(401);
    }
}

#[test]
fn the_public_key_is_no_secret_to_sign_with() {
    let (server, _issuer, signer, all) = with_rsa();
    let jwk = signer.jwk();
    let texts = [
        jwk["n"].as_str().unwrap().to_owned(),
        jwk.to_string(),
        String::new(),
    ];
    for (alg, algorithm) in [
        ("HS256", hmac::HMAC_SHA256),
        ("HS384", hmac::HMAC_SHA384),
        ("HS512", hmac::HMAC_SHA512),
    ] {
        for secret in &texts {
            // Once under its own name, and once as if it were what the key is for.
            for alg in [alg, "RS256"] {
                let message = unsigned(&json!({"alg": alg, "kid": "k"}), &all);
                let tag = hmac::sign(&hmac::Key::new(algorithm, secret.as_bytes()), message.as_bytes());
                tiers(&server, &format!("{message}.{}", base64url(tag))).problem(401);
            }
        }
    }
}

#[test]
fn a_symmetric_key_among_those_of_the_issuer_is_left_out() {
    let signer = Signer::new("k", "ES256");
    let secret = base64url("a secret that everybody knows!!!");
    let issuer = Issuer::new(&[&signer]);
    issuer.publish(&json!({"keys": [{"kty": "oct", "kid": "s", "alg": "HS256", "k": secret}, signer.jwk()]}));
    let server = believing(&issuer);
    assert_eq!(server.counted("tollgate_oidc_keys "), 1);
    let message = unsigned(
        &json!({"alg": "HS256", "kid": "s"}),
        &claims(&issuer.url(), "operator", None),
    );
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"a secret that everybody knows!!!");
    let tag = hmac::sign(&key, message.as_bytes());
    tiers(&server, &format!("{message}.{}", base64url(tag))).problem(401);
}

#[test]
fn a_key_is_used_by_its_own_algorithm_only() {
    let rsa = Signer::new("rsa", "RS256");
    let pss = Signer::new("rsa", "PS256");
    let ec = Signer::new("ec", "ES256");
    let ed = Signer::new("ed", "EdDSA");
    let mut pinned = rsa.jwk();
    pinned["alg"] = json!("RS256");
    let issuer = Issuer::new(&[]);
    issuer.publish(&json!({"keys": [pinned, ec.jwk(), ed.jwk()]}));
    let server = believing(&issuer);
    let all = claims(&issuer.url(), "operator", None);
    for signer in [&rsa, &ec, &ed] {
        tiers(&server, &signer.sign(&all)).expect(200);
    }
    // The same key and a good signature, but not by the algorithm that the key says.
    tiers(&server, &pss.sign(&all)).problem(401);
    for (signer, kid, alg) in [
        (&ec, "ec", "ES384"),
        (&ec, "ec", "RS256"),
        (&ec, "rsa", "ES256"),
        (&ed, "ed", "ES256"),
        (&ed, "ec", "EdDSA"),
        (&rsa, "rsa", "RS512"),
        (&rsa, "ec", "RS256"),
    ] {
        let header = json!({"alg": alg, "kid": kid});
        tiers(&server, &signer.sign_under(&header, &all)).problem(401);
    }
}

#[test]
fn what_was_changed_after_it_was_signed_is_not_taken() {
    let signer = Signer::new("k", "ES256");
    let issuer = Issuer::new(&[&signer]);
    let server = believing(&issuer);
    let token = operator(&issuer, &signer);
    let parts: Vec<&str> = token.split('.').collect();
    let [header, _, signature] = parts[..] else {
        panic!("{token}")
    };
    let more = base64url(claims(&issuer.url(), "platform-admin", None).to_string());
    tiers(&server, &format!("{header}.{more}.{signature}")).problem(401);
    let stranger = Signer::new("k", "ES256");
    tiers(&server, &operator(&issuer, &stranger)).problem(401);
    // The key that a token brings along is not the issuer's.
    let mut header = stranger.header();
    header["jwk"] = stranger.jwk();
    header["jku"] = json!(issuer.keys_url());
    let brought = stranger.sign_under(&header, &claims(&issuer.url(), "operator", None));
    tiers(&server, &brought).problem(401);
    tiers(&server, &token).expect(200);
}

#[test]
fn what_is_no_jwt_or_too_long_a_one_is_not_taken() {
    let signer = Signer::new("k", "ES256");
    let issuer = Issuer::new(&[&signer]);
    let server = believing(&issuer);
    let all = claims(&issuer.url(), "operator", None);
    for text in ["..", "a.b.c", "e30.e30.", "e30.e30.e30", ". .", "a.b", "a.b.c.d"] {
        tiers(&server, text).problem(401);
    }
    for header in [
        json!({"alg": "ES256"}),
        json!({"kid": "k"}),
        json!({"alg": "ES256", "kid": 1}),
        json!({"alg": ["ES256"], "kid": "k"}),
        json!({"alg": "ES256", "kid": "k", "crit": ["exp"]}),
        json!({"alg": "ES256", "kid": "k", "typ": "logout+jwt"}),
        json!([]),
    ] {
        tiers(&server, &signer.sign_under(&header, &all)).problem(401);
    }
    for claims in [json!([]), json!("operator"), json!(null)] {
        tiers(&server, &signer.sign(&claims)).problem(401);
    }
    let mut long = all.clone();
    long["filler"] = json!("x".repeat(3 * 1024));
    tiers(&server, &signer.sign(&long)).expect(200);
    long["filler"] = json!("x".repeat(8 * 1024));
    tiers(&server, &signer.sign(&long)).problem(401);
    long["filler"] = json!("x".repeat(40 * 1024));
    assert_eq!(tiers(&server, &signer.sign(&long)).status, 431);
    // Padding and stray characters have no place in a token.
    let token = signer.sign(&all);
    for other in [
        format!("{token}="),
        token.replacen('.', "=.", 1),
        token.replacen('.', "*.", 1),
    ] {
        tiers(&server, &other).problem(401);
    }
}
