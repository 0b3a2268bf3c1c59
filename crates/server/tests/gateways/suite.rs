//! What every gateway has to do.

use serde_json::json;

use crate::common::{Server, file_of, hourly, wait_for};
use crate::gateway::{Gateway, Kind};
use crate::service::Service;

fn policies(limit: u64) -> String {
    file_of(&[
        hourly("org", "org", limit, ""),
        hourly("exports", "ip", 2, "endpointPattern: 'GET /exports/*'"),
    ])
}

/// A server, the secret of a key of acme's, and the service.
fn world(limit: u64, flags: &[&str]) -> (Server, String, Service) {
    let tollgate = Server::start(&policies(limit), flags);
    let admin = tollgate.platform_admin();
    admin.set("/v1/orgs/acme", &json!({}));
    admin.set("/v1/orgs/acme/apps/web", &json!({}));
    let (_, secret) = admin.key("acme", "web", "live");
    (tollgate, secret, Service::start())
}

/// The 429 with its headers and body reaches the client, and the headers of what is allowed, too.
pub fn passes_on_what_tollgate_says(kind: Kind) {
    let (tollgate, secret, service) = world(2, &[]);
    let gateway = Gateway::start(kind, &tollgate, &service, &[]);
    let ask = || gateway.get("/v1/things?q=1", &[("x-api-key", &secret)]);
    let allowed = ask();
    assert_eq!((allowed.status, allowed.text()), (200, "hello"));
    assert!(
        allowed.header("ratelimit").unwrap().contains("\"org\";r=1"),
        "{allowed:?}"
    );
    assert!(
        allowed
            .header("ratelimit-policy")
            .unwrap()
            .contains("\"org\";q=2;w=3600")
    );
    assert_eq!(allowed.number("x-ratelimit-remaining"), Some(1));
    assert_eq!(ask().status, 200);
    let before = service.asked();
    let denied = ask();
    assert_eq!(service.asked(), before, "the service did not notice");
    let body = denied.expect(429);
    assert_eq!(denied.header("content-type"), Some("application/problem+json"));
    assert_eq!((&body["policy"], &body["scope"]), (&"org".into(), &"org".into()));
    assert_eq!(denied.number("retry-after"), body["retry_after"].as_u64());
    assert_eq!(denied.header("x-ratelimit-scope"), Some("org"));
    assert_eq!(denied.number("x-ratelimit-remaining"), Some(0));
    assert!(denied.header("ratelimit").unwrap().contains("\"org\";r=0"));
}

/// What is allowed has the headers that Tollgate was told to send, and no others.
pub fn passes_on_headers_of_either_style(kind: Kind) {
    for (styles, ietf, x) in [("ietf", true, false), ("x", false, true), ("ietf,x", true, true)] {
        let (tollgate, secret, service) = world(2, &["--headers", styles]);
        let gateway = Gateway::start(kind, &tollgate, &service, &[]);
        let allowed = gateway.get("/", &[("x-api-key", &secret)]);
        assert_eq!((allowed.status, allowed.text()), (200, "hello"), "{styles}");
        for name in ["ratelimit", "ratelimit-policy"] {
            assert_eq!(allowed.header(name).is_some(), ietf, "{styles}: {allowed:?}");
        }
        let left = allowed.number("x-ratelimit-remaining");
        assert_eq!(left, x.then_some(1), "{styles}: {allowed:?}");
        assert_eq!(
            allowed.header("x-ratelimit-limit").is_some(),
            x,
            "{styles}: {allowed:?}"
        );
        let unlimited = gateway.get("/", &[]);
        assert_eq!((unlimited.status, unlimited.header("ratelimit")), (200, None));
        assert_eq!(unlimited.header("x-ratelimit-limit"), None, "{unlimited:?}");
    }
}

/// A refusal whose headers speak of many policies reaches the client, and is not taken for Tollgate's absence.
pub fn a_long_denial_is_a_denial(kind: Kind, open: (&str, &str)) {
    for changes in [&[][..], &[open]] {
        let many = (0..20).map(|number| hourly(&format!("{number:0>100}"), "ip", 1, ""));
        let tollgate = Server::start(&file_of(&many.collect::<Vec<_>>()), &[]);
        let service = Service::start();
        let gateway = Gateway::start(kind, &tollgate, &service, changes);
        assert_eq!(gateway.get("/", &[]).status, 200);
        let before = service.asked();
        let denied = gateway.get("/", &[]);
        assert_eq!(denied.status, 429, "{denied:?}");
        assert_eq!(denied.header("ratelimit").unwrap().matches("r=0").count(), 20);
        assert_eq!(service.asked(), before, "the service did not notice");
    }
}

/// Endpoint and address are those of the request; a client can't name its org, and an unknown key is 401.
pub fn tells_tollgate_the_truth(kind: Kind) {
    let (tollgate, _, service) = world(2, &[]);
    let gateway = Gateway::start(kind, &tollgate, &service, &[]);
    let said = [
        ("x-tollgate-org", "acme"),
        ("x-tollgate-cost", "2"),
        ("x-forwarded-for", "198.51.100.7"),
        ("x-forwarded-uri", "/other"),
        ("x-original-uri", "/other"),
    ];
    let export = || gateway.get("/Exports//7?x", &said).status;
    assert_eq!([export(), export(), export()], [200, 200, 429]);
    assert_eq!(tollgate.left("org", &json!({"orgId": "acme"})), 2);
    let unknown = gateway.get("/", &[("x-api-key", "tgk_0000000000000000000000000000")]);
    assert_eq!(unknown.header("content-type"), Some("application/problem+json"));
    assert_eq!(unknown.expect(401)["status"], 401);
    assert_eq!(gateway.get("/", &[]).status, 200, "who is under no limit passes");
}

/// While Tollgate is away nobody passes, or with a change everybody.
pub fn does_as_it_is_set_while_tollgate_is_away(kind: Kind, open: (&str, &str), closed: u16) {
    for (changes, status) in [(&[][..], closed), (&[open][..], 200)] {
        let (tollgate, secret, service) = world(1, &[]);
        let gateway = Gateway::start(kind, &tollgate, &service, changes);
        let ask = || gateway.get("/", &[("x-api-key", &secret)]).status;
        assert_eq!([ask(), ask()], [200, 429]);
        tollgate.terminate();
        assert!(tollgate.wait().success());
        wait_for("the gateway to notice", || (ask() == status).then_some(()));
    }
}

/// What a client does wrong is not taken for Tollgate's absence, in which everybody would pass.
pub fn a_mistake_does_not_pass(kind: Kind, open: (&str, &str)) {
    let (tollgate, secret, service) = world(100, &["--max-org-rate", "1"]);
    let gateway = Gateway::start(kind, &tollgate, &service, &[open]);
    assert_eq!(gateway.get("/", &[]).status, 200);
    let before = service.asked();
    let two_keys = [("x-api-key", "tgk_a"), ("authorization", "Bearer tgk_b")];
    let refused = gateway.get("/", &two_keys);
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(refused.text().contains("two different keys"), "{refused:?}");
    assert_eq!(service.asked(), before);
    // An org that asks for more decisions than it may is refused too.
    let often = (0..20).map(|_| gateway.get("/", &[("x-api-key", &secret)]).status);
    let often: Vec<u16> = often.collect();
    assert!(
        often.iter().filter(|status| **status == 429).count() > 10,
        "{often:?}"
    );
}

/// A changed limit counts at once.
pub fn follows_a_change(kind: Kind) {
    let (tollgate, secret, service) = world(1, &[]);
    let gateway = Gateway::start(kind, &tollgate, &service, &[]);
    let ask = || gateway.get("/", &[("x-api-key", &secret)]).status;
    assert_eq!([ask(), ask()], [200, 429]);
    tollgate.reload(&policies(2));
    assert_eq!([ask(), ask()], [200, 429]);
}

/// A pattern with a limit of its own in each world, and a spelling that some service takes for it.
const SPELLINGS: [(&str, &str, &str); 17] = [
    ("/search/{term}", "GET", "/search/%3Bx"),
    ("/search/{term}", "GET", "/search/;x"),
    ("/files/*", "GET", "/files/..%3B/..%3B/h"),
    ("/files/*", "GET", "/files/..;/..;/h"),
    ("/files/*", "GET", "/files/../../h"),
    ("/two", "GET", "/two//.."),
    ("/search/{term}", "GET", "/search/..\\..\\h"),
    ("/search/{term}", "GET", "/search/..%5C..%5Ch"),
    ("/search/{term}", "GET", "/search/%23x"),
    ("/search/{term}", "GET", "/search/x%2Fy%2F..%2F..%2Fz"),
    ("/two", "GET", "/%74wo/x/%2e%2E"),
    ("/two", "GET", "/;x/../two"),
    ("/two", "GET", "/two;x"),
    ("/two", "GET", "/two%3Bx"),
    ("/two/x", "GET", "/two%2Fx"),
    ("GET /one", "HEAD", "/one"),
    ("GET /one", "GET", "/one"),
];

/// However a path is written, no more requests reach the service than the limit on its route allows.
pub fn no_spelling_gets_by(kind: Kind) {
    let pattern = |number: usize, pattern: &str| match pattern.split_once(' ') {
        Some((method, path)) => format!("{method} /v{number}{path}"),
        None => format!("/v{number}{pattern}"),
    };
    let limits = SPELLINGS.iter().enumerate().map(|(number, (path, ..))| {
        let rest = format!("endpointPattern: '{}'", pattern(number, path));
        hourly(&format!("limit-{number}"), "ip", 2, &rest)
    });
    let classes = "endpointClasses:\n  - {pattern: 'GET /c/{resource}', class: cheap}\n  - {pattern: '/c/exports/*', class: heavy}\n";
    let heavy = hourly("heavy", "ip", 2, "endpointPattern: 'class:heavy'");
    let policies = file_of(&limits.chain([heavy]).collect::<Vec<_>>());
    let tollgate = Server::start(&format!("{classes}{policies}"), &[]);
    let service = Service::start();
    let gateway = Gateway::start(kind, &tollgate, &service, &[]);
    let mut seen = Vec::new();
    let mut passed = |method: &str, target: &str| {
        let before = service.asked();
        let statuses: Vec<u16> = (0..5).map(|_| gateway.ask(method, target, &[]).status).collect();
        let passed = service.asked() - before;
        seen.push(format!("{method} {target}: {passed} {statuses:?}"));
        passed
    };
    let mut most = 0;
    for (number, (_, method, path)) in SPELLINGS.iter().enumerate() {
        // Behind a first segment that no service takes for a host.
        most = passed(method, &format!("/v{number}{path}")).max(most);
    }
    // Two slashes at the beginning: a URL parser takes what follows for a host.
    most = passed("GET", "//v/v5/two").max(most);
    most = passed("GET", "/c/exports%2Fa").max(most);
    let plain = passed("GET", "/free");
    assert!(most == 2 && plain == 5, "{kind:?}: {seen:#?}");
}

/// A client that shows two keys is refused, and nobody is charged for it: the service could take it for the other one.
pub fn a_key_that_comes_twice_is_refused(kind: Kind) {
    let (tollgate, acme, service) = world(9, &[]);
    let admin = tollgate.platform_admin();
    admin.set("/v1/orgs/globex", &json!({}));
    admin.set("/v1/orgs/globex/apps/web", &json!({}));
    let (_, globex) = admin.key("globex", "web", "live");
    let gateway = Gateway::start(kind, &tollgate, &service, &[]);
    let bearer = |key: &str| format!("Bearer {key}");
    let bearers = [bearer(&acme), bearer(&globex)];
    for (name, one, other) in [
        ("x-api-key", &acme, &globex),
        ("X-API-Key", &globex, &acme),
        ("x-api-key", &acme, &acme),
        ("authorization", &bearers[0], &bearers[1]),
        ("Authorization", &bearers[1], &bearers[0]),
    ] {
        let refused = gateway.get("/", &[(name, one), (name, other)]);
        assert_eq!(refused.status, 400, "{name}: {refused:?}");
    }
    assert_eq!(service.asked(), 0, "the service did not notice");
    for (name, key) in [("x-api-key", &acme), ("authorization", &bearers[1])] {
        assert_eq!(gateway.get("/", &[(name, key)]).status, 200);
    }
    assert_eq!(tollgate.left("org", &json!({"orgId": "acme"})), 8);
    assert_eq!(tollgate.left("org", &json!({"orgId": "globex"})), 8);
}

/// What has no path is not let by without the limits on paths.
pub fn what_has_no_path_is_refused(kind: Kind) {
    let (tollgate, secret, service) = world(9, &[]);
    let gateway = Gateway::start(kind, &tollgate, &service, &[]);
    for method in ["GET", "OPTIONS"] {
        let answer = gateway.ask(method, "*", &[("x-api-key", &secret)]);
        assert_eq!(service.asked(), 0, "{method}: {answer:?}");
    }
}
