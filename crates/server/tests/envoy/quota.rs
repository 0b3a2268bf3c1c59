//! Envoy's rate limit quota filter: assignments in place of questions.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::common::{Launch, Server, file_of, hourly, noon_zone};
use crate::load::Client;
use crate::proxy::Envoy;
use crate::service::Service;

pub const FILE: &str = "rate-limit-quota.yaml";
const ACME: &[(&str, &str)] = &[("x-org", "acme")];

/// Looks again and again for as long as several reports take.
pub fn wait_long<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(
            started.elapsed() < Duration::from_mins(1),
            "waited in vain for {what}"
        );
        pass(Duration::from_millis(50));
    }
}

/// Lets time pass that the test is about.
fn pass(time: Duration) {
    let (_silent, pause) = std::sync::mpsc::channel::<()>();
    let _ = pause.recv_timeout(time);
}

/// The messages that have gone between Envoy and Tollgate.
fn messages(tollgate: &Server) -> u64 {
    tollgate.counted("tollgate_quota_stream_reports_total")
        + tollgate.counted("tollgate_quota_stream_replies_total")
}

fn left(tollgate: &Server, policy: &str) -> u64 {
    tollgate.left(policy, &json!({"orgId": "acme"}))
}

#[test]
#[ignore = "needs Envoy, which ./test installs"]
fn a_hot_caller_seldom_leaves_envoy_and_gets_its_window_and_no_more() {
    const LIMIT: usize = 30_000;
    let policies = file_of(&[hourly("org", "org", LIMIT as u64, "")]);
    let (tollgate, service) = (Server::start(&policies, &[]), Service::start());
    let envoy = Envoy::start(FILE, &tollgate, &service, &[]);
    let clients: Vec<Client> = (0..4).map(|_| Client::start(envoy.clients, ACME)).collect();
    wait_long("the limit", || {
        (left(&tollgate, "org") == 0 && service.asked() >= LIMIT).then_some(())
    });
    pass(Duration::from_secs(6));
    let asked: u64 = clients.iter().map(Client::asked).sum();
    drop(clients);
    assert_eq!(service.asked(), LIMIT, "all of it, and no more");
    let messages = messages(&tollgate);
    println!(
        "{messages} messages for {asked} requests: one for {}",
        asked / messages
    );
    assert!(messages * 100 < asked, "{messages} messages for {asked} requests");
    assert_eq!(tollgate.counted("tollgate_quota_stream_over_reported_total"), 0);
}

#[test]
#[ignore = "needs Envoy, which ./test installs"]
fn a_bucket_is_never_over_at_any_instant() {
    const BURST: f64 = 6_000.0;
    const RATE: f64 = 100.0;
    let policies = "policies:\n  - {id: org, scope: org, algorithm: token_bucket, limit: 6000, window: 1m, burst: 6000}\n";
    let (tollgate, service) = (Server::start(policies, &[]), Service::start());
    let envoy = Envoy::start(FILE, &tollgate, &service, &[]);
    // All that there is; then what lies assigned while the bucket refills, and all at once again.
    for (hot, idle) in [(11, 8), (1, 8), (6, 4), (7, 0)] {
        let clients: Vec<Client> = (0..4).map(|_| Client::start(envoy.clients, ACME)).collect();
        pass(Duration::from_secs(hot));
        drop(clients);
        pass(Duration::from_secs(idle));
    }
    let times = service.times();
    // What is let through at one instant reaches the service a little later, and not always equally so.
    let (mut level, mut last, mut highest) = (0.0_f64, times[0], 0.0_f64);
    for time in &times {
        level = (level - RATE * (*time - last).as_secs_f64()).max(0.0) + 1.0;
        (last, highest) = (*time, highest.max(level));
    }
    println!(
        "{} let through, {highest:.0} of {BURST} owed at most",
        times.len()
    );
    assert!(highest <= BURST + RATE * 0.2, "{highest}");
    assert!(highest > BURST / 2.0, "{highest}: it was put to use");
}

#[test]
#[ignore = "needs Envoy, which ./test installs"]
fn two_envoys_share_a_limit() {
    const LIMIT: usize = 12_000;
    let policies = file_of(&[hourly("org", "org", LIMIT as u64, "")]);
    let (tollgate, service) = (Server::start(&policies, &[]), Service::start());
    let envoys = [(); 2].map(|()| Envoy::start(FILE, &tollgate, &service, &[]));
    let clients = envoys.each_ref().map(|envoy| Client::start(envoy.clients, ACME));
    wait_long("the limit", || (left(&tollgate, "org") == 0).then_some(()));
    pass(Duration::from_secs(11));
    let allowed = clients.each_ref().map(Client::allowed);
    drop(clients);
    assert!(allowed.iter().all(|allowed| *allowed > 0), "{allowed:?}");
    let asked = service.asked();
    assert!(asked <= LIMIT, "{asked}");
    assert!(asked > LIMIT * 8 / 10, "{asked}: little of it lies unused");
}

#[test]
#[ignore = "needs Envoy, which ./test installs"]
fn a_nested_limit_stops_a_bucket_that_has_room() {
    const LIMIT: usize = 2_000;
    let policies = file_of(&[
        hourly("org", "org", LIMIT as u64, ""),
        hourly("key", "key", 100_000, ""),
    ]);
    let (tollgate, service) = (Server::start(&policies, &[]), Service::start());
    let envoy = Envoy::start(FILE, &tollgate, &service, &[]);
    let keys = ["a", "b"];
    let clients = keys.map(|key| Client::start(envoy.clients, &[("x-org", "acme"), ("x-key", key)]));
    wait_long("the org's limit", || (left(&tollgate, "org") == 0).then_some(()));
    pass(Duration::from_secs(6));
    drop(clients);
    assert!(service.asked() <= LIMIT, "{}", service.asked());
    let left_of_key = |key: &str| tollgate.left("key", &json!({"orgId": "acme", "keyId": key}));
    let used: u64 = keys.iter().map(|key| 100_000 - left_of_key(key)).sum();
    assert_eq!(
        used, LIMIT as u64,
        "every level was charged what the least of them had"
    );
}

#[test]
#[ignore = "needs Envoy, which ./test installs"]
fn what_an_idle_bucket_held_comes_back_and_it_is_forgotten() {
    let policies = file_of(&[hourly("org", "org", 1_000, "")]);
    let (tollgate, service) = (Server::start(&policies, &[]), Service::start());
    let envoy = Envoy::start(FILE, &tollgate, &service, &[]);
    assert_eq!(envoy.get("/", ACME).status, 429, "nothing is assigned yet");
    wait_long("an assignment", || (left(&tollgate, "org") < 1_000).then_some(()));
    wait_long("it to arrive", || {
        (envoy.get("/", ACME).status == 200).then_some(())
    });
    let assigned = Instant::now();
    assert_eq!(tollgate.counted("tollgate_quota_stream_buckets"), 1);
    let used = service.asked() as u64;
    wait_long("all but what was used", || {
        (left(&tollgate, "org") == 1_000 - used).then_some(())
    });
    assert!(
        assigned.elapsed() > Duration::from_secs(10),
        "it could still be spent before"
    );
    wait_long("the bucket to go", || {
        (tollgate.counted("tollgate_quota_stream_buckets") == 0).then_some(())
    });
    // It begins as it did at first: a report at once, and no waiting for the next one.
    wait_long("Envoy to forget it", || {
        envoy.log().contains("wiped by abandon action").then_some(())
    });
    let started = Instant::now();
    wait_long("another assignment", || {
        (envoy.get("/", ACME).status == 200).then_some(())
    });
    assert!(
        started.elapsed() < Duration::from_secs(4),
        "that is sooner than a report"
    );
}

#[test]
#[ignore = "needs Envoy, which ./test installs"]
fn a_server_that_is_killed_and_started_anew_gives_out_nothing_twice() {
    const LIMIT: usize = 20_000;
    let quota = format!(
        "policies:\n  - {{id: month, scope: org, algorithm: quota, limit: {LIMIT}, window: month, timezone: {}}}\n",
        noon_zone()
    );
    let ports: [String; 3] = [(); 3].map(|()| free_address());
    let mut tollgate = Server::launch(&Launch {
        policies: Some(&quota),
        flags: &[
            "--data-dir",
            "tollgate-data",
            "--http",
            &ports[0],
            "--grpc",
            &ports[1],
            "--admin",
            &ports[2],
        ],
        bare: true,
        ..Launch::default()
    });
    let service = Service::start();
    let envoy = Envoy::start(FILE, &tollgate, &service, &[]);
    let client = Client::start(envoy.clients, ACME);
    for (round, signal) in ["KILL", "TERM", "KILL"].into_iter().enumerate() {
        let before = service.asked();
        wait_long("requests to go through", || {
            (service.asked() > before + 500).then_some(())
        });
        tollgate.restart(signal);
        println!("{} after restart {round}", service.asked());
    }
    wait_long("the quota", || {
        let spent = tollgate
            .check(&json!({"orgId": "acme", "cost": 1, "dryRun": true}))
            .status
            == 429;
        spent.then_some(())
    });
    pass(Duration::from_secs(11));
    drop(client);
    let asked = service.asked();
    println!("{asked} of {LIMIT}");
    assert!(asked <= LIMIT, "{asked}");
    assert!(asked > LIMIT / 4, "{asked}");
}

#[test]
#[ignore = "needs Envoy, which ./test installs"]
fn what_envoy_lets_through_unasked_is_charged_and_told() {
    let policies = file_of(&[hourly("org", "org", 1_000, "")]);
    let (tollgate, service) = (Server::start(&policies, &[]), Service::start());
    let change = (
        "fallback_rate_limit: {blanket_rule: DENY_ALL}",
        "fallback_rate_limit: {blanket_rule: ALLOW_ALL}",
    );
    let envoy = Envoy::start(FILE, &tollgate, &service, &[change]);
    assert_eq!(envoy.get("/", ACME).status, 200, "Envoy's own default");
    wait_long("it to be told", || {
        (tollgate.counted("tollgate_quota_stream_over_reported_total") == 1).then_some(())
    });
}

#[test]
#[ignore = "needs Envoy, which ./test installs"]
fn who_is_not_limited_goes_through_and_who_is_malformed_does_not() {
    let policies = file_of(&[hourly("key", "key", 1_000, "")]);
    let (tollgate, service) = (Server::start(&policies, &[]), Service::start());
    let envoy = Envoy::start(FILE, &tollgate, &service, &[]);
    wait_long("no limit to be known", || {
        (envoy.get("/", ACME).status == 200).then_some(())
    });
    wait_long("nobody, either", || {
        (envoy.get("/", &[]).status == 200).then_some(())
    });
    let too_long = "x".repeat(300);
    let malformed = &[("x-org", &*too_long)];
    assert_eq!(envoy.get("/", malformed).status, 429);
    wait_long("it to be refused", || {
        (tollgate.counted("tollgate_quota_stream_refused_total") > 0).then_some(())
    });
    assert_eq!(envoy.get("/", malformed).status, 429);
    assert_eq!(envoy.get("/", ACME).status, 200, "others do not suffer from it");
    assert_eq!(tollgate.counted("tollgate_quota_streams"), 1);
}

/// An address that nobody listens on at the moment.
pub fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}
