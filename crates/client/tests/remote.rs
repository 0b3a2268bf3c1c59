//! The client against a real server: many checks in one call, each answered for itself.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]

mod common;

use std::net::TcpListener;
use std::time::Duration;

use common::{Server, channel, hourly, of_org, patient};
use tollgate_client::{Check, CheckError, Client, Decision, Limiter, Settings};

/// Asks for all at once.
async fn ask_all(client: &Client, checks: Vec<Check>) -> Vec<Result<Decision, CheckError>> {
    let asked = checks.into_iter().map(|check| {
        let client = client.clone();
        tokio::spawn(async move { client.check(check).await })
    });
    let asked: Vec<_> = asked.collect();
    let mut answers = Vec::new();
    for answer in asked {
        answers.push(answer.await.unwrap());
    }
    answers
}

#[tokio::test]
async fn checks_that_come_together_go_in_few_calls_and_none_is_lost() {
    let server = Server::start(&hourly(500), None);
    let client = server.client(patient());
    let answers = ask_all(&client, vec![of_org("acme"); 1_000]).await;
    let allowed = answers.iter().filter(|answer| answer.as_ref().unwrap().allowed);
    assert_eq!(allowed.count(), 500);
    let calls = server.calls();
    assert!((16..=100).contains(&calls), "{calls} calls for 1,000 checks");
}

#[tokio::test]
async fn one_that_is_wrong_does_not_spoil_the_others() {
    let server = Server::start(&hourly(500), None);
    let client = server.client(patient());
    let key = Check {
        api_key: Some("tg_live_0123456789".to_owned()),
        ..Check::default()
    };
    let mut checks = vec![of_org("acme"); 20];
    checks[3] = of_org("");
    checks[7] = key;
    let answers = ask_all(&client, checks).await;
    for (place, answer) in answers.iter().enumerate() {
        match (place, answer) {
            (3, Err(CheckError::Invalid(why))) => assert!(why.contains("orgId"), "{why}"),
            (7, Err(CheckError::UnknownKey)) => {}
            (_, Ok(decision)) => assert!(decision.allowed && place != 3 && place != 7),
            (_, other) => panic!("{place}: {other:?}"),
        }
    }
    let left = client.check(of_org("acme")).await.unwrap();
    assert_eq!(left.remaining, Some(500 - 19), "each was charged once");
}

#[tokio::test]
async fn a_token_is_shown_where_one_is_needed() {
    let server = Server::start(&hourly(5), Some("a-token-for-this-test"));
    let shown = Settings {
        token: Some("a-token-for-this-test".parse().unwrap()),
        ..patient()
    };
    assert!(server.client(shown).check(of_org("acme")).await.unwrap().allowed);
    let refused = server.client(patient()).check(of_org("acme")).await;
    assert!(matches!(refused, Err(CheckError::Unavailable(_))), "{refused:?}");
}

#[tokio::test]
async fn a_full_queue_and_a_deadline_are_told() {
    // Somebody who takes connections and never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let settings = Settings {
        deadline: Duration::from_millis(300),
        batch: 1,
        calls: 1,
        queue: 2,
        token: None,
    };
    let client = Client::new(channel(silent.local_addr().unwrap()), settings);
    let answers = ask_all(&client, vec![of_org("acme"); 10]).await;
    let count = |wanted: &CheckError| {
        let same = answers.iter().filter(|answer| answer.as_ref() == Err(wanted));
        same.count()
    };
    let (full, late) = (count(&CheckError::QueueFull), count(&CheckError::Late));
    assert_eq!(full + late, 10, "{answers:?}");
    assert!(full >= 6 && late >= 2, "{full} found no place, {late} waited");
}

#[tokio::test]
async fn nobody_at_the_address_is_told() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client = Client::new(channel(gone), patient());
    let answer = client.check(of_org("acme")).await;
    assert!(matches!(answer, Err(CheckError::Unavailable(_))), "{answer:?}");
}
