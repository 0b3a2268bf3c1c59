//! What one org may take of the way to Redis.

use serde_json::json;

use crate::common::{Launch, Server, wait_for};
use crate::proxy::Proxy;
use crate::servers;

const POLICIES: &str = "policies:
  - {id: p, scope: org, algorithm: fixed_window, limit: 100000, window: 366d, accuracy: exact, failMode: closed}
";

#[test]
fn an_org_has_so_many_places_to_wait_in_and_others_have_theirs() {
    let redis = servers::Server::start();
    let proxy = Proxy::before(redis.port);
    let node = Server::launch(&Launch {
        policies: Some(POLICIES),
        flags: &[
            "--redis",
            &proxy.url(),
            "--threads",
            "1",
            "--max-org-waiting",
            "2",
        ],
        ..Launch::default()
    });
    for org in ["loud", "quiet"] {
        wait_for("Redis to be used", || {
            (node.check(&json!({"orgId": org})).status == 200).then_some(())
        });
    }
    let loud = [(); 12].map(|()| {
        node.ask("POST", "/v1/check")
            .body(json!({"orgId": "loud"}).to_string())
    });
    let crowded = "too many requests of this org wait";
    let refused = wait_for("an org that has no place left", || {
        proxy.hold();
        let answers = std::thread::scope(|scope| {
            let asking = loud.each_ref().map(|ask| scope.spawn(|| ask.clone().send()));
            let quiet = node.check(&json!({"orgId": "quiet"}));
            assert!(!quiet.text().contains(crowded), "{}", quiet.text());
            asking.map(|one| one.join().unwrap())
        });
        proxy.pass();
        wait_for("Redis to be used again", || {
            (node.check(&json!({"orgId": "quiet"})).status == 200).then_some(())
        });
        answers.into_iter().find(|answer| answer.text().contains(crowded))
    });
    let detail = refused.problem(503);
    assert!(detail.contains(crowded), "{detail}");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.json()["error"], "limiter_unavailable");
    assert!(node.counted("tollgate_store_crowded_total{region=\"local\"}") > 0);
}

#[test]
fn an_org_may_ask_so_often_whatever_it_is_told() {
    let node = Server::start("policies: []\n", &["--max-org-rate", "5"]);
    let asked = |org: &str| node.check(&json!({"orgId": org}));
    let refused = wait_for("an org that asks too often", || {
        Some(asked("loud")).filter(|answer| answer.status == 429)
    });
    let detail = refused.problem(429);
    assert!(detail.contains("more than 5 decisions a second"), "{detail}");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.json()["error"], "rate_limit_exceeded");
    assert_eq!(asked("quiet").status, 200);
    // In a batch it is one of the decisions.
    let batch = json!({"requests": vec![json!({"orgId": "batch"}); 50]}).to_string();
    let decisions = node.ask("POST", "/v1/check/batch").body(batch).send().expect(200);
    let refused = decisions["decisions"].as_array().unwrap().iter();
    assert!(
        refused.filter(|one| one["status"] == 429).count() >= 40,
        "{decisions}"
    );
    assert!(node.counted("tollgate_org_rate_limited_total") > 0);
    wait_for("it to be let ask again", || {
        (asked("loud").status == 200).then_some(())
    });
}
