//! Replies of Redis that are lost after it has run what was asked: what is settled is settled once, and whoever asks again
//! hears so.

use serde_json::json;

use crate::common::{Server, file_of, hourly, wait_for};
use crate::proxy::Proxy;
use crate::servers;

#[test]
fn a_settle_whose_reply_is_cut_off_is_done_once() {
    settle_in_trouble(Proxy::lose);
}

#[test]
fn a_settle_whose_reply_never_comes_is_done_once() {
    settle_in_trouble(Proxy::swallow);
}

fn settle_in_trouble(trouble: fn(&Proxy)) {
    let redis = servers::Server::start();
    let proxy = Proxy::before(redis.port);
    let policies = file_of(&[hourly("org", "org", 1_000, "accuracy: exact, failMode: closed")]);
    let node = |url: &str| Server::start(&policies, &["--threads", "1", "--redis", url]);
    let (a, b) = (node(&redis.url()), node(&proxy.url()));
    let acme = json!({"orgId": "acme"});
    for round in 0..3 {
        let name = a.reserve(&json!({"orgId": "acme", "cost": 100}));
        let (key, body) = (
            format!("k-{round}"),
            json!({"reservationId": name, "actualCost": 10}),
        );
        let lost = proxy.lost();
        trouble(&proxy);
        let first = b.post_keyed("/v1/settle", &key, &body);
        assert!([200, 503].contains(&first.status), "{}", first.status);
        assert!(proxy.lost() > lost);
        proxy.pass();
        // Whoever asks again, wherever, hears the first answer.
        for node in [&b, &a] {
            let settled = wait_for("an answer", || {
                let again = node.post_keyed("/v1/settle", &key, &body);
                assert!([200, 409, 503].contains(&again.status), "{}", again.status);
                (again.status == 200).then(|| again.expect(200))
            });
            assert_eq!(settled["returnedCost"], 90);
        }
        let other = json!({"reservationId": name, "actualCost": 11});
        a.post_keyed("/v1/settle", &key, &other).problem(422);
        a.settle(&name, 10).problem(410);
        let left = 1_000 - 10 * (round + 1);
        wait_for("what is left", || (a.left("org", &acme) == left).then_some(()));
    }
}
