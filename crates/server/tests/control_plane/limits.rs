//! The limits on the control plane itself.

use std::net::SocketAddr;

use serde_json::json;

use crate::common::{Answer, Ask, Launch, Server, run};

/// Three of everything in an hour, so that no test is too slow to use one up.
const THREE: &str = "
policies:
  - {id: logins, scope: ip, match: {caller: unknown}, algorithm: fixed_window, anchor: first, limit: 3, window: 1h}
  - {id: tenants, scope: org, match: {caller: tenant}, algorithm: fixed_window, anchor: first, limit: 3, window: 1h}
  - {id: operators, scope: user, match: {role: operator}, algorithm: fixed_window, anchor: first, limit: 3, window: 1h}
";

fn limited(limits: &str) -> Server {
    Server::launch(&Launch {
        flags: &["--admin-limits", "limits.yaml"],
        files: &[("limits.yaml", limits)],
        ..Launch::default()
    })
}

fn login(server: &Server, authorization: &str) -> Answer {
    let ask = server.ask_admin("GET", "/v1/tiers");
    ask.header("Authorization", authorization).send()
}

#[test]
fn wrong_tokens_are_told_to_wait_in_the_end_and_good_ones_go_on() {
    let server = limited(THREE);
    let admin = server.platform_admin();
    server.ask_admin("GET", "/v1/tiers").send().problem(401);
    login(&server, "Basic YTpi").problem(401);
    login(&server, "Bearer wrong").problem(401);
    let answer = login(&server, "Bearer wrong");
    let said = answer.problem(429);
    assert!(said.contains("logins"), "{said}");
    server.ask_admin("PUT", "/v1/tiers/x").send().problem(429);
    for _ in 0..5 {
        admin.get("/v1/tiers").expect(200);
    }
    login(&server, "Bearer wrong").problem(429);
    assert_eq!(server.counted("tollgate_admin_limited_total "), 3);
}

#[test]
fn a_refusal_says_what_one_of_the_data_plane_would() {
    let server = limited(THREE);
    for _ in 0..3 {
        login(&server, "Bearer wrong").problem(401);
    }
    let answer = login(&server, "Bearer wrong");
    let body = answer.expect(429);
    let kind = "https://iana.org/assignments/http-problem-types#quota-exceeded";
    assert_eq!((&body["type"], &body["status"]), (&json!(kind), &json!(429)));
    assert_eq!(body["error"], "rate_limit_exceeded");
    assert_eq!(
        (&body["policy"], &body["scope"]),
        (&json!("logins"), &json!("ip"))
    );
    assert_eq!(body["violated-policies"], json!(["logins"]));
    assert_eq!(body["limit_type"], "per_hour");
    let wait = answer.number("retry-after").unwrap();
    assert_eq!(body["retry_after_seconds"], wait);
    assert!((1..=3_600).contains(&wait), "{wait}");
    assert_eq!(answer.header("ratelimit-policy"), Some("\"logins\";q=3;w=3600"));
    assert_eq!(answer.number("x-ratelimit-remaining"), Some(0));
    assert_eq!(answer.number("x-ratelimit-ip-limit"), Some(3));
    assert_eq!(answer.header("x-ratelimit-scope"), Some("ip"));
}

#[test]
#[cfg(target_os = "linux")]
fn another_address_has_logins_of_its_own() {
    let server = limited(THREE);
    let from = |source: [u8; 4]| {
        let ask = Ask::new(server.admin, "GET", "/v1/tiers");
        ask.send_on(connect_from(source, server.admin)).status
    };
    for _ in 0..3 {
        assert_eq!(from([127, 0, 0, 1]), 401);
    }
    assert_eq!(from([127, 0, 0, 1]), 429);
    assert_eq!(from([127, 0, 0, 2]), 401);
}

/// A connection from another address of this machine.
fn connect_from(source: [u8; 4], to: SocketAddr) -> std::net::TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let stream = runtime.unwrap().block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((source, 0))).unwrap();
        socket.connect(to).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream
}

#[test]
fn a_tenant_that_asks_too_often_changes_nothing_and_holds_up_nobody_else() {
    let server = limited(THREE);
    let admin = server.platform_admin();
    admin.set("/v1/tiers/gold", &json!({}));
    for org in ["acme", "globex"] {
        admin.set(&format!("/v1/orgs/{org}"), &json!({"tier": "gold"}));
    }
    let one = admin.with_role("tenant-admin", Some("acme"));
    let other = admin.with_role("tenant-viewer", Some("acme"));
    let foreign = admin.with_role("tenant-admin", Some("globex"));
    let before = admin.changes();
    // All tokens of an org count together, whatever they are answered.
    one.get("/v1/orgs/acme").expect(200);
    other.get("/v1/orgs/acme").expect(200);
    one.get("/v1/orgs/globex").problem(404);
    let answer = one.put("/v1/orgs/acme/apps/web", &json!({}));
    let body = answer.expect(429);
    assert_eq!(
        (&body["policy"], &body["scope"]),
        (&json!("tenants"), &json!("org"))
    );
    assert_eq!(answer.number("x-ratelimit-org-remaining"), Some(0));
    assert!(answer.number("retry-after").is_some());
    other.get("/v1/orgs/acme").problem(429);
    assert_eq!(admin.changes(), before);
    admin.get("/v1/orgs/acme/apps/web").problem(404);
    foreign.set("/v1/orgs/globex/apps/web", &json!({}));
}

#[test]
fn each_token_of_the_platform_counts_for_itself() {
    let server = limited(THREE);
    let admin = server.platform_admin();
    let (one, other) = (
        admin.with_role("operator", None),
        admin.with_role("operator", None),
    );
    for _ in 0..3 {
        one.get("/v1/tiers").expect(200);
    }
    let body = one.get("/v1/tiers").expect(429);
    assert_eq!(
        (&body["policy"], &body["scope"]),
        (&json!("operators"), &json!("user"))
    );
    other.get("/v1/tiers").expect(200);
}

#[test]
fn health_and_metrics_are_not_limited() {
    let server = limited(
        "policies: [{id: none, scope: global, limit: 0, window: 1h}, {id: ip, scope: ip, limit: 0, window: 1h}]\n",
    );
    server.platform_admin().get("/v1/tiers").problem(429);
    for target in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(server.ask_admin("GET", target).send().status, 200, "{target}");
    }
    assert_eq!(
        server.check(&json!({})).status,
        200,
        "the data plane has other limits"
    );
}

#[test]
fn without_a_file_there_are_limits_that_those_who_know_a_token_do_not_notice() {
    let server = Server::launch(&Launch::default());
    let admin = server.platform_admin();
    let denied = (0..1_000).map(|_| login(&server, "Bearer wrong").status);
    let first = denied.take_while(|status| *status == 401).count();
    assert!((300..1_000).contains(&first), "refused after {first}");
    admin.get("/v1/tiers").expect(200);
    let body = login(&server, "Bearer wrong").expect(429);
    assert_eq!(body["policy"], "failed-logins");
}

#[test]
fn they_can_be_switched_off() {
    let switched_off = [
        (&["--admin-limits", "off"][..], &[][..]),
        (&[], &[("TOLLGATE_ADMIN_LIMITS", "off")][..]),
        (&[], &[("TOLLGATE_CONFIG", "tollgate.yaml")]),
        // The kill switch is for these, too.
        (&["--admin-limits", "limits.yaml", "--shadow-all"], &[]),
    ];
    for (flags, environment) in switched_off {
        let server = Server::launch(&Launch {
            flags,
            environment,
            files: &[("tollgate.yaml", "admin-limits: off\n"), ("limits.yaml", THREE)],
            ..Launch::default()
        });
        for _ in 0..320 {
            login(&server, "Bearer wrong").problem(401);
        }
    }
}

#[test]
fn a_file_that_is_none_is_refused_in_a_sentence() {
    let dir = tempfile::TempDir::new().unwrap();
    let file = dir.path().join("limits.yaml");
    std::fs::write(&file, "policies: [{id: x, limit: -1, window: 1h}]\n").unwrap();
    for (path, named) in [
        (file.to_str().unwrap(), "limits.yaml:1: policies[0].limit"),
        ("absent.yaml", "absent.yaml: No such file"),
    ] {
        let data = dir.path().join("data");
        let run = run(&[
            "serve",
            "--data-dir",
            data.to_str().unwrap(),
            "--admin-limits",
            path,
        ]);
        let complaint = run.complaint(2);
        assert!(
            complaint.contains("--admin-limits: ") && complaint.contains(named),
            "{complaint}"
        );
    }
}
