//! Flags, the environment and the configuration file, in that order of strength.

use serde_json::json;
use tempfile::TempDir;

use crate::common::process::{finish, program};
use crate::common::{Launch, Server, file_of, hourly, run};

/// The names of the header styles that a server writes.
fn style(server: &Server) -> &'static str {
    let answer = server.check(&json!({"orgId": "acme"}));
    let names = answer.limit_headers();
    let has = |name: &str| names.contains(&name);
    match (has("ratelimit"), has("x-ratelimit-limit"), has("ratelimit-limit")) {
        (true, false, false) => "ietf",
        (false, true, false) => "x",
        (false, false, true) => "legacy",
        _ => panic!("{names:?}"),
    }
}

#[test]
fn a_flag_beats_the_environment_which_beats_the_file() {
    let policies = file_of(&[hourly("org", "org", 100, "")]);
    let launch = |flags: &[&str], environment: &[(&str, &str)]| {
        let flags = [&["--config", "tollgate.yaml"], flags].concat();
        let server = Server::launch(&Launch {
            policies: Some(&policies),
            flags: &flags,
            environment,
            files: &[("tollgate.yaml", "headers: legacy\n")],
            ..Launch::default()
        });
        style(&server)
    };
    assert_eq!(launch(&[], &[]), "legacy");
    assert_eq!(launch(&[], &[("TOLLGATE_HEADERS", "x")]), "x");
    assert_eq!(
        launch(&["--headers", "ietf"], &[("TOLLGATE_HEADERS", "x")]),
        "ietf"
    );
    assert_eq!(launch(&["--headers", "ietf"], &[]), "ietf");
}

#[test]
fn every_setting_can_come_from_the_file() {
    let config = "
http: 127.0.0.1:0
grpc: 127.0.0.1:0
admin: 127.0.0.1:0
data-dir: elsewhere
admin-token: a-token-from-the-file
policies: limits.yaml
headers: [x]
region: eu-west
trusted-proxies: [10.0.0.0/8, 192.0.2.1]
max-counters: 1000
max-connections: 50
quota-journal: off
redis-deadline: 5
fleet-nodes: 3
threads: 1
insecure-bind: false
shadow-all: true
";
    let policies = file_of(&[hourly("org", "org", 1, "")]);
    let server = Server::launch(&Launch {
        environment: &[("TOLLGATE_CONFIG", "tollgate.yaml")],
        files: &[("tollgate.yaml", config), ("limits.yaml", &policies)],
        bare: true,
        ..Launch::default()
    });
    for _ in 0..3 {
        server.allowed(&json!({"orgId": "acme"}));
    }
    assert!(server.dir.path().join("elsewhere").is_dir());
    server.logs("eu-west");
    let explain = server
        .ask_admin("POST", "/v1/ratelimit/explain")
        .header("Authorization", "Bearer a-token-from-the-file")
        .body("{}");
    explain.send().expect(200);
}

#[test]
fn every_setting_can_come_from_the_environment() {
    let policies = file_of(&[hourly("org", "org", 1, "")]);
    let server = Server::launch(&Launch {
        environment: &[
            ("TOLLGATE_HTTP", "127.0.0.1:0"),
            ("TOLLGATE_GRPC", "127.0.0.1:0"),
            ("TOLLGATE_ADMIN", "127.0.0.1:0"),
            ("TOLLGATE_DATA_DIR", "elsewhere"),
            ("TOLLGATE_ADMIN_TOKEN", "a-token-from-outside"),
            ("TOLLGATE_POLICIES", "limits.yaml"),
            ("TOLLGATE_HEADERS", "x"),
            ("TOLLGATE_REGION", "eu-west"),
            ("TOLLGATE_TRUSTED_PROXIES", "10.0.0.0/8"),
            ("TOLLGATE_SHADOW_ALL", "1"),
        ],
        files: &[("limits.yaml", &policies)],
        bare: true,
        ..Launch::default()
    });
    for _ in 0..3 {
        server.allowed(&json!({"orgId": "acme"}));
    }
    assert!(server.dir.path().join("elsewhere").is_dir());
    server.logs("eu-west");
}

#[test]
fn the_environment_can_leave_the_kill_switch_off() {
    let policies = file_of(&[hourly("org", "org", 1, "")]);
    for off in ["0", "false", "no", "off", ""] {
        let server = Server::launch(&Launch {
            policies: Some(&policies),
            environment: &[("TOLLGATE_SHADOW_ALL", off)],
            ..Launch::default()
        });
        let body = json!({"orgId": "acme"});
        server.allowed(&body);
        server.denied(&body);
    }
}

#[test]
fn a_switch_that_is_neither_on_nor_off_is_an_error() {
    for name in [
        "TOLLGATE_SHADOW_ALL",
        "TOLLGATE_INSECURE_BIND",
        "TOLLGATE_REDIS_ALLOW_EVICTION",
        "TOLLGATE_RLS_HEADERS",
    ] {
        let mut serve = program(&["serve"]);
        serve.env(name, "never");
        let finished = finish(serve, "");
        assert_eq!(finished.code, Some(2), "{finished:?}");
        assert!(finished.stderr.contains("must be true or false"), "{finished:?}");
    }
}

#[test]
fn the_environment_beats_the_files_kill_switch() {
    let policies = file_of(&[hourly("org", "org", 1, "")]);
    let server = Server::launch(&Launch {
        policies: Some(&policies),
        flags: &["--config", "tollgate.yaml"],
        environment: &[("TOLLGATE_SHADOW_ALL", "false")],
        files: &[("tollgate.yaml", "shadow-all: true\n")],
        ..Launch::default()
    });
    let body = json!({"orgId": "acme"});
    server.allowed(&body);
    server.denied(&body);
}

#[test]
fn a_bad_configuration_file_is_named_with_line_and_key() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("tollgate.yaml");
    let file = path.to_str().unwrap();
    let serve = |config: &str| {
        std::fs::write(&path, config).unwrap();
        run(&["serve", "--config", file])
    };
    for (config, place) in [
        (
            "region: here\nhtpt: 127.0.0.1:0\n",
            ":2: htpt: is not a known field; did you mean `http`?",
        ),
        ("threads: many\n", ":1: threads: must be a whole number"),
        (
            "region: here\n\nshadow-all: perhaps\n",
            ":3: shadow-all: `perhaps` is not one of true, false",
        ),
        ("http: {port: 80}\n", ":1: http: must be text"),
        ("- http\n", ":1: "),
        ("http: [\n", ":"),
        ("region: a\nregion: b\n", ":2: region: is given twice"),
    ] {
        let run = serve(config);
        let complaint = run.complaint(2);
        assert!(complaint.contains(&format!("{file}{place}")), "{complaint}");
    }
    let bad_value = serve("http: nowhere\n");
    assert!(
        bad_value.complaint(2).contains("http: `nowhere`"),
        "{bad_value:?}"
    );
    std::fs::remove_file(&path).unwrap();
    let absent = run(&["serve", "--config", file]);
    assert!(absent.complaint(2).contains(file), "{absent:?}");
}
