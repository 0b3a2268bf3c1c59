//! What an org used, for whoever writes its bill: told every second, and at the end of a server.

use serde_json::{Value, json};

use crate::common::{Launch, Server, wait_for};
use crate::postgres::Postgres;

const STATEMENT: &str = "/v1/orgs/acme/quotas/statement";
const POLICIES: &str = "
orgs: [{orgId: acme, timezone: Asia/Kolkata}, {orgId: other}]
endpointClasses: [{pattern: \"POST /v1/exports\", class: heavy}]
policies: [{id: few, scope: app, algorithm: fixed_window, anchor: first, limit: 5, window: 1h}]
";

#[test]
fn a_statement_has_every_decision_with_sqlite() {
    count_and_look(None);
}

#[test]
fn a_statement_has_every_decision_with_postgres() {
    let postgres = Postgres::start();
    count_and_look(Some(&postgres.create()));
}

fn count_and_look(database: Option<&str>) {
    let flags: Vec<&str> = database.iter().flat_map(|url| ["--database", url]).collect();
    let mut server = Server::launch(&Launch {
        policies: Some(POLICIES),
        flags: &flags,
        ..Launch::default()
    });
    let export = json!({"orgId": "acme", "appId": "web", "endpoint": "POST /v1/exports", "cost": 2});
    server.allowed(&export);
    server.allowed(&export);
    server.denied(&export);
    server.allowed(&json!({"orgId": "acme", "cost": 7}));
    server.allowed(&json!({"orgId": "acme", "cost": 7, "dryRun": true}));
    server.allowed(&json!({"orgId": "other"}));
    let sums =
        |statement: &Value| ["allowed", "denied", "cost"].map(|name| statement[name].as_u64().unwrap());
    let admin = server.platform_admin();
    wait_for("usage to be told", || {
        (sums(&admin.get(STATEMENT).expect(200)) == [3, 1, 11]).then_some(())
    });
    // The last ones are told when the server ends.
    server.allowed(&json!({"orgId": "acme", "cost": 5}));
    server.restart("TERM");
    let admin = server.platform_admin();
    let statement = admin.get(STATEMENT).expect(200);
    assert_eq!(sums(&statement), [4, 1, 16]);
    let items = statement["items"].as_array().unwrap();
    assert_eq!(items.len(), 2);
    assert_eq!((&items[0]["appId"], sums(&items[0])), (&Value::Null, [2, 0, 12]));
    assert_eq!(
        (&items[1]["appId"], &items[1]["endpoint"]),
        (&json!("web"), &json!("heavy"))
    );
    assert_eq!(sums(&items[1]), [2, 1, 4]);
    // The month begins at midnight in India, half past six in the evening by UTC.
    assert!(
        statement["from"].as_str().unwrap().ends_with("T18:30:00Z"),
        "{statement}"
    );
    let csv = admin.get(&format!("{STATEMENT}?format=csv"));
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8"));
    let lines: Vec<&str> = csv.text().lines().collect();
    assert_eq!(
        lines[0],
        "orgId,from,to,appId,endpoint,environment,allowed,denied,cost"
    );
    assert!(
        lines[2].ends_with(",\"web\",\"heavy\",live,2,1,4"),
        "{}",
        lines[2]
    );
    let past = admin.get(&format!("{STATEMENT}?month=2020-02")).expect(200);
    assert_eq!(
        (sums(&past), &past["from"]),
        ([0, 0, 0], &json!("2020-01-31T18:30:00Z"))
    );
    admin.get(&format!("{STATEMENT}?month=2020-2")).problem(400);
}

#[test]
fn a_statement_has_what_envoy_asks() {
    let mut server = Server::launch(&Launch {
        policies: Some(POLICIES),
        ..Launch::default()
    });
    let ask = |server: &Server, descriptors: Value| {
        let question = json!({"domain": "edge", "descriptors": descriptors}).to_string();
        server.ask("POST", "/json").body(question).send().status
    };
    let entries = |pairs: &[(&str, &str)]| {
        let entry = |(key, value): &(&str, &str)| json!({"key": key, "value": value});
        json!({"entries": pairs.iter().map(entry).collect::<Vec<_>>()})
    };
    let export = [
        ("org", "acme"),
        ("app", "web"),
        ("endpoint", "POST /v1/exports"),
        ("cost", "2"),
    ];
    // One request, whatever it is described by, which costs as much as the descriptor that costs most; another org's is
    // its own.
    let both = json!([
        entries(&[("org", "acme"), ("cost", "1")]),
        entries(&export),
        entries(&[("org", "other")])
    ]);
    assert_eq!(ask(&server, both), 200);
    assert_eq!(ask(&server, json!([entries(&export)])), 200);
    assert_eq!(ask(&server, json!([entries(&export)])), 429);
    // What gives back is no request, and neither is what names no org.
    let mut back = entries(&export);
    back["isNegativeHits"] = json!(true);
    assert_eq!(ask(&server, json!([back])), 200);
    assert_eq!(ask(&server, json!([entries(&[("path", "/a")])])), 200);
    server.restart("TERM");
    let admin = server.platform_admin();
    let statement = admin.get(STATEMENT).expect(200);
    let items = statement["items"].as_array().unwrap();
    assert_eq!(items.len(), 1, "{statement}");
    let item = &items[0];
    assert_eq!(
        (&item["appId"], &item["endpoint"]),
        (&json!("web"), &json!("heavy"))
    );
    assert_eq!(
        ["allowed", "denied", "cost"].map(|name| item[name].as_u64().unwrap()),
        [2, 1, 4]
    );
    let other = admin.get("/v1/orgs/other/statement").expect(200);
    assert_eq!(
        ["allowed", "denied", "cost"].map(|name| other[name].as_u64().unwrap()),
        [1, 0, 1]
    );
}
