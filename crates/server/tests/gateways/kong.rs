//! Kong's plugin, run by LuaJIT against a real Tollgate. Kong itself is no package of Debian's: what the plugin uses of it is
//! stood in for by `kong.lua`.

use std::process::Command;

use serde_json::{Value, json};

use crate::common::{Server, file_of, hourly};

/// What became of a request: the status, the headers as lines, the body.
struct Became {
    status: u16,
    headers: String,
    body: String,
}

fn ask(url: &str, away: &str, request: &[&str]) -> Became {
    let tests = env!("CARGO_MANIFEST_DIR");
    let output = Command::new("luajit")
        .arg(format!("{tests}/tests/gateways/kong.lua"))
        .arg(format!("{tests}/../../deploy/kong"))
        .args([url, away])
        .args(request)
        .output()
        .expect("LuaJIT runs");
    let text = String::from_utf8(output.stdout).unwrap();
    let (head, body) = text
        .split_once("\n\n")
        .unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let (status, headers) = head.split_once('\n').unwrap_or((head, ""));
    Became {
        status: status.strip_prefix("status ").unwrap().parse().unwrap(),
        headers: format!("{headers}\n"),
        body: body.to_owned(),
    }
}

fn start(limit: u64) -> (Server, String) {
    let server = Server::start(
        &file_of(&[
            hourly("org", "org", limit, ""),
            hourly("exports", "ip", 2, "endpointPattern: 'GET /exports/*'"),
        ]),
        &[],
    );
    let url = format!("http://{}", server.http);
    (server, url)
}

#[test]
#[ignore = "needs LuaJIT and LuaSocket, which ./test installs"]
fn it_passes_on_what_tollgate_says() {
    let (_server, url) = start(1);
    let ask = || ask(&url, "closed", &["GET", "/v1/things?q=1", "--consumer", "acme"]);
    let allowed = ask();
    assert_eq!((allowed.status, allowed.body.as_str()), (200, "served\n"));
    assert!(
        allowed.headers.contains("ratelimit: \"org\";r=0"),
        "{}",
        allowed.headers
    );
    assert!(allowed.headers.contains("x-ratelimit-remaining: 0\n"));
    let denied = ask();
    assert_eq!(denied.status, 429);
    assert!(
        denied
            .headers
            .contains("content-type: application/problem+json\n")
    );
    assert!(denied.headers.contains("x-ratelimit-scope: org\n"));
    let body: Value = serde_json::from_str(&denied.body).unwrap();
    assert_eq!(body["policy"], "org");
    let wait = format!("retry-after: {}\n", body["retry_after"]);
    assert!(denied.headers.contains(&wait), "{}", denied.headers);
}

#[test]
#[ignore = "needs LuaJIT and LuaSocket, which ./test installs"]
fn it_tells_tollgate_the_truth() {
    let (server, url) = start(2);
    let said = [
        "x-tollgate-org:acme",
        "x-forwarded-for:198.51.100.7",
        "x-forwarded-uri:/other",
    ];
    let export = || ask(&url, "closed", &[&["GET", "/Exports//7?x"], &said[..]].concat()).status;
    assert_eq!([export(), export(), export()], [200, 200, 429]);
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 2);
    let unknown = ask(
        &url,
        "closed",
        &["GET", "/", "x-api-key:tgk_0000000000000000000000000000"],
    );
    assert_eq!(unknown.status, 401);
}

#[test]
#[ignore = "needs LuaJIT and LuaSocket, which ./test installs"]
fn a_key_that_comes_twice_is_refused() {
    let (server, url) = start(9);
    let admin = server.platform_admin();
    for org in ["acme", "globex"] {
        admin.set(&format!("/v1/orgs/{org}"), &json!({}));
        admin.set(&format!("/v1/orgs/{org}/apps/web"), &json!({}));
    }
    let (_, acme) = admin.key("acme", "web", "live");
    let (_, globex) = admin.key("globex", "web", "live");
    for name in ["x-api-key:", "authorization:Bearer "] {
        for [one, other] in [[&acme, &globex], [&globex, &acme], [&acme, &acme]] {
            let keys = [format!("{name}{one}"), format!("{name}{other}")];
            let refused = ask(&url, "open", &["GET", "/", &keys[0], &keys[1]]);
            assert_eq!(refused.status, 400, "{keys:?}: {}", refused.body);
        }
        let once = format!("{name}{acme}");
        assert_eq!(ask(&url, "open", &["GET", "/", &once]).status, 200);
    }
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 7);
    assert_eq!(server.left("org", &json!({"orgId": "globex"})), 9);
}

#[test]
#[ignore = "needs LuaJIT and LuaSocket, which ./test installs"]
fn it_follows_a_change_and_does_as_it_is_set_while_tollgate_is_away() {
    let (server, url) = start(1);
    let ask = |away| ask(&url, away, &["GET", "/", "--consumer", "acme"]);
    assert_eq!([ask("closed").status, ask("closed").status], [200, 429]);
    server.reload(&file_of(&[hourly("org", "org", 2, "")]));
    assert_eq!([ask("closed").status, ask("closed").status], [200, 429]);
    server.terminate();
    assert!(server.wait().success());
    assert_eq!(ask("open").status, 200);
    let closed = ask("closed");
    assert_eq!(
        (closed.status, closed.headers.as_str()),
        (503, "retry-after: 1\n")
    );
}
