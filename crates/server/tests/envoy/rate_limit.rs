//! Envoy's rate limit filter.

use crate::common::{Answer, Launch, Server, file_of, hourly, wait_for};
use crate::proxy::Envoy;
use crate::service::Service;

const FILE: &str = "rate-limit.yaml";

fn policies(limit: u64) -> String {
    file_of(&[
        hourly("org", "org", limit, ""),
        hourly(
            "address",
            "'descriptor:remote_address'",
            50,
            "match: {domain: edge}",
        ),
    ])
}

/// Asks once the filter has found the service: until then Envoy lets everybody through.
fn settled(envoy: &Envoy, tollgate: &Server) {
    wait_for("Envoy to ask", || {
        envoy.get("/", &[]);
        (tollgate.counted("tollgate_request_seconds_count{protocol=\"grpc\"}") > 0).then_some(())
    });
}

fn as_acme(envoy: &Envoy) -> Answer {
    envoy.get("/v1/things?q=1", &[("x-org", "acme")])
}

#[test]
#[ignore = "needs Envoy, which ./test installs"]
fn what_is_allowed_goes_through_and_what_is_denied_does_not() {
    let (tollgate, service) = (Server::start(&policies(3), &[]), Service::start());
    let envoy = Envoy::start(FILE, &tollgate, &service, &[]);
    settled(&envoy, &tollgate);
    let before = service.asked();
    for _ in 0..3 {
        let allowed = as_acme(&envoy);
        assert_eq!((allowed.status, allowed.text()), (200, "hello"));
        assert_eq!(allowed.header("ratelimit"), None, "nobody asked for headers");
    }
    let denied = as_acme(&envoy);
    assert_eq!(service.asked(), before + 3, "the service did not notice");
    let body = denied.expect(429);
    assert_eq!(denied.header("content-type"), Some("application/problem+json"));
    assert_eq!((&body["policy"], &body["scope"]), (&"org".into(), &"org".into()));
    assert_eq!(body["error"], "rate_limit_exceeded");
    assert_eq!(denied.number("retry-after"), body["retry_after"].as_u64());
    assert_eq!(denied.header("x-ratelimit-scope"), Some("org"));
    assert_eq!(
        envoy.get("/", &[("x-org", "globex")]).status,
        200,
        "others are not concerned"
    );
}

#[test]
#[ignore = "needs Envoy, which ./test installs"]
fn with_rls_headers_clients_are_told_on_every_answer() {
    let (tollgate, service) = (Server::start(&policies(3), &["--rls-headers"]), Service::start());
    let envoy = Envoy::start(FILE, &tollgate, &service, &[]);
    settled(&envoy, &tollgate);
    let allowed = as_acme(&envoy);
    assert_eq!(allowed.status, 200);
    assert_eq!(allowed.number("x-ratelimit-org-remaining"), Some(2));
    assert!(allowed.header("ratelimit").unwrap().contains("\"org\";r=2"));
    as_acme(&envoy);
    as_acme(&envoy);
    let denied = as_acme(&envoy);
    assert_eq!(denied.status, 429);
    assert_eq!(denied.number("x-ratelimit-org-remaining"), Some(0));
    assert!(
        denied
            .header("ratelimit-policy")
            .unwrap()
            .contains("\"org\";q=3;w=3600")
    );
}

#[test]
#[ignore = "needs Envoy, which ./test installs"]
fn while_tollgate_is_away_envoy_does_as_it_is_set() {
    for (deny, status) in [("false", 200), ("true", 500)] {
        let (tollgate, service) = (Server::start(&policies(1), &[]), Service::start());
        let change = format!("failure_mode_deny: {deny}");
        let envoy = Envoy::start(
            FILE,
            &tollgate,
            &service,
            &[("failure_mode_deny: false", &change)],
        );
        settled(&envoy, &tollgate);
        assert_eq!(as_acme(&envoy).status, 200);
        assert_eq!(as_acme(&envoy).status, 429);
        tollgate.terminate();
        assert!(
            tollgate.wait().success(),
            "an open connection of Envoy's does not hold it"
        );
        wait_for("Envoy to notice", || {
            (as_acme(&envoy).status == status).then_some(())
        });
    }
}

#[test]
#[ignore = "needs Envoy, which ./test installs"]
fn a_changed_limit_counts_at_once() {
    let (tollgate, service) = (Server::start(&policies(2), &[]), Service::start());
    let envoy = Envoy::start(FILE, &tollgate, &service, &[]);
    settled(&envoy, &tollgate);
    assert_eq!(
        [
            as_acme(&envoy).status,
            as_acme(&envoy).status,
            as_acme(&envoy).status
        ],
        [200, 200, 429]
    );
    tollgate.reload(&policies(4));
    assert_eq!(
        [
            as_acme(&envoy).status,
            as_acme(&envoy).status,
            as_acme(&envoy).status
        ],
        [200, 200, 429]
    );
}

#[test]
#[ignore = "needs Envoy, which ./test installs"]
fn the_files_of_envoyproxy_ratelimit_go_on_working() {
    let file = "
domain: edge
descriptors:
  - key: remote_address
    rate_limit: {name: address, unit: year, requests_per_unit: 5}
";
    let tollgate = Server::launch(&Launch {
        files: &[("edge.yaml", file)],
        flags: &["--policies", "."],
        ..Launch::default()
    });
    let service = Service::start();
    let change = (
        "enable_x_ratelimit_headers: \"OFF\"",
        "enable_x_ratelimit_headers: DRAFT_VERSION_03",
    );
    let envoy = Envoy::start(FILE, &tollgate, &service, &[change]);
    settled(&envoy, &tollgate);
    let statuses: Vec<u16> = (0..5).map(|_| envoy.get("/", &[]).status).collect();
    assert_eq!(statuses.last(), Some(&429), "{statuses:?}");
    let denied = envoy.get("/", &[]);
    assert_eq!(denied.header("x-ratelimit-remaining"), Some("0"));
    assert!(
        denied.header("x-ratelimit-limit").unwrap().starts_with("5, 5;w="),
        "{denied:?}"
    );
}

#[test]
#[ignore = "needs Envoy, which ./test installs"]
fn a_token_is_shown_by_metadata() {
    let token = "a-token-for-this-test";
    let tollgate = Server::start(&policies(1), &["--data-token", token]);
    let service = Service::start();
    let line = "# initial_metadata: [{key: x-tollgate-token, value: TOKEN}]";
    let shown = format!("initial_metadata: [{{key: x-tollgate-token, value: {token}}}]");
    let envoy = Envoy::start(FILE, &tollgate, &service, &[(line, &shown)]);
    settled(&envoy, &tollgate);
    assert_eq!([as_acme(&envoy).status, as_acme(&envoy).status], [200, 429]);
    let stranger = Envoy::start(
        FILE,
        &tollgate,
        &service,
        &[("failure_mode_deny: false", "failure_mode_deny: true")],
    );
    assert_eq!(as_acme(&stranger).status, 500);
}
