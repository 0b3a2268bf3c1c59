//! Whom a token is from and for, and when it is good.

use serde_json::{Value, json};
use tollgate::clock;

use crate::issuer::Issuer;
use crate::signer::Signer;
use crate::{believing, claims, operator, tiers};

#[test]
fn a_token_of_another_issuer_or_for_another_audience_is_not_taken() {
    let signer = Signer::new("k", "ES256");
    let issuer = Issuer::new(&[&signer]);
    let server = believing(&issuer);
    let with = |name: &str, value: Value| {
        let mut who = claims(&issuer.url(), "operator", None);
        who[name] = value;
        tiers(&server, &signer.sign(&who))
    };
    for iss in [
        json!(null),
        json!("https://other.example"),
        json!(issuer.url() + "/"),
        json!([issuer.url()]),
    ] {
        with("iss", iss).problem(401);
    }
    for aud in [
        json!(null),
        json!("other"),
        json!("tollgate2"),
        json!([]),
        json!(["other", 1]),
        json!("Tollgate"),
    ] {
        with("aud", aud).problem(401);
    }
    with("aud", json!("tollgate")).expect(200);
    with("aud", json!(["other", "tollgate"])).expect(200);
}

#[test]
fn a_token_is_good_only_in_its_time_give_or_take_a_minute() {
    let signer = Signer::new("k", "ES256");
    let issuer = Issuer::new(&[&signer]);
    let server = believing(&issuer);
    let now = clock::now().seconds();
    let with = |exp: Value, nbf: Option<u64>| {
        let mut who = claims(&issuer.url(), "operator", None);
        who["exp"] = exp;
        if let Some(nbf) = nbf {
            who["nbf"] = json!(nbf);
        }
        tiers(&server, &signer.sign(&who))
    };
    assert!(with(json!(now - 3_600), None).problem(401).contains("expired"));
    assert!(with(json!(null), None).problem(401).contains("expired"));
    // Half of the leeway is left for the test to take its time in.
    with(json!(now - 30), None).expect(200);
    with(json!(now + 600), Some(now + 30)).expect(200);
    assert!(
        with(json!(now + 7_200), Some(now + 3_600))
            .problem(401)
            .contains("not valid yet")
    );
}

#[test]
fn a_token_that_lacks_what_it_must_say_is_not_taken() {
    let signer = Signer::new("k", "ES256");
    let issuer = Issuer::new(&[&signer]);
    let server = believing(&issuer);
    let all = claims(&issuer.url(), "operator", None);
    tiers(&server, &signer.sign(&all)).expect(200);
    for name in ["iss", "aud", "exp", "sub"] {
        let mut lacking = all.clone();
        lacking.as_object_mut().unwrap().remove(name);
        tiers(&server, &signer.sign(&lacking)).problem(401);
    }
}

#[test]
fn nothing_of_a_token_is_logged() {
    let signer = Signer::new("k", "ES256");
    let issuer = Issuer::new(&[&signer]);
    let server = believing(&issuer);
    let good = operator(&issuer, &signer);
    let mut late = claims(&issuer.url(), "operator", None);
    late["exp"] = json!(1);
    let late = signer.sign(&late);
    tiers(&server, &good).expect(200);
    tiers(&server, &late).problem(401);
    tiers(&server, &good[..good.len() - 4]).problem(401);
    server.terminate();
    server.logs("draining");
    let log = server.stderr();
    for token in [&good, &late] {
        for part in token.split('.') {
            assert!(!log.contains(&part[..20]), "{log}");
        }
    }
}
