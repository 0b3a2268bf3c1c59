//! Envoy's negative hits on quotas: what was used goes back within its period, and no more than was used.

use serde_json::json;

use crate::common::{Server, wait_for};
use crate::postgres::Postgres;
use crate::world::{quota, serve};

/// Envoy's question, and what was answered.
fn hits(server: &Server, hits: u64, negative: bool) -> u16 {
    let body = json!({
        "domain": "edge",
        "descriptors": [{
            "entries": [{"key": "org", "value": "acme"}],
            "hitsAddend": hits.to_string(),
            "isNegativeHits": negative,
        }],
    });
    server.ask("POST", "/json").body(body.to_string()).send().status
}

fn left(server: &Server) -> u64 {
    let body = json!({"orgId": "acme", "descriptors": {"domain": "edge"}});
    server.left("plan", &body)
}

/// What the ledger says is used, once it says so.
fn is_used(server: &Server, used: u64) {
    let admin = server.platform_admin();
    wait_for("the ledger", || {
        let quotas = admin.get("/v1/orgs/acme/quotas").expect(200);
        (quotas["items"][0]["used"] == used).then_some(())
    });
}

#[test]
fn what_was_used_of_a_quota_goes_back_and_no_more() {
    for rest in ["", "accuracy: exact"] {
        let mut server = serve(None, &[quota("plan", 100, rest)]);
        server.platform_admin().set("/v1/orgs/acme", &json!({}));
        assert_eq!(hits(&server, 50, false), 200);
        is_used(&server, 50);
        assert_eq!(hits(&server, 30, true), 200);
        assert_eq!(left(&server), 80);
        is_used(&server, 20);
        assert_eq!(hits(&server, 80, false), 200);
        assert_eq!(hits(&server, 1, false), 429);
        // Before the ledger has heard of it, too, and never more than there was.
        assert_eq!(hits(&server, 1_000, true), 200);
        assert_eq!(left(&server), 100);
        assert_eq!(hits(&server, 100, false), 200);
        assert_eq!(hits(&server, 1, false), 429);
        assert_eq!(hits(&server, 7, true), 200);
        server.restart("KILL");
        assert_eq!(left(&server), 7, "{rest}");
        server.restart("TERM");
        assert_eq!(left(&server), 7, "{rest}");
    }
}

/// A node does not know which of a quota it has let through itself: of what others did, nothing may go back.
#[test]
fn where_nodes_share_a_quota_nothing_goes_back() {
    let postgres = Postgres::start();
    let server = serve(Some(&postgres.create()), &[quota("plan", 100, "")]);
    server.platform_admin().set("/v1/orgs/acme", &json!({}));
    assert_eq!(hits(&server, 50, false), 200);
    assert_eq!(hits(&server, 30, true), 200);
    assert_eq!(left(&server), 50);
    is_used(&server, 50);
}
