//! A server on envoyproxy/ratelimit's own files.

use crate::asker::{Asker, codes, descriptor, edge, left};
use crate::common::{Launch, Server, wait_for};

const EDGE: &str = "
domain: edge
descriptors:
  - key: path
    value: /login
    rate_limit: {name: login, unit: year, requests_per_unit: 2}
    descriptors:
      - key: remote_address
        rate_limit: {unit: year, requests_per_unit: 1}
      - key: remote_address
        value: 198.51.100.7
  - key: path
    value: /static/*
    rate_limit: {unlimited: true}
  - key: path
    value: /v1/*
    rate_limit: {unit: year, requests_per_unit: 3}
  - key: path
    value: /v2/*/export*
    share_threshold: true
    rate_limit: {unit: year, requests_per_unit: 2}
  - key: path
    rate_limit: {unit: year, requests_per_unit: 4}
  - key: tried
    shadow_mode: true
    rate_limit: {unit: year, requests_per_unit: 1}
  - key: vip
    rate_limit: {unit: year, requests_per_unit: 5, replaces: [{name: login}]}
  - key: path
    value: twice
    descriptors:
      - key: path
        rate_limit: {unit: year, requests_per_unit: 1}
";

fn serve(files: &[(&str, &str)]) -> Server {
    Server::launch(&Launch {
        files,
        flags: &["--policies", "."],
        ..Launch::default()
    })
}

fn server() -> Server {
    serve(&[("edge.yaml", EDGE)])
}

/// What the status of a descriptor shows: the limit, what is left, and whether it may go on.
fn shown(asker: &Asker, entries: &[(&str, &str)]) -> Option<(u32, u32, bool)> {
    let answer = asker.descriptors(vec![descriptor(entries)]);
    let status = &answer.statuses[0];
    let limit = status.current_limit.as_ref()?;
    Some((limit.requests_per_unit, status.limit_remaining, codes(&answer).0))
}

#[test]
fn an_exact_value_comes_before_a_wildcard_before_a_bare_key() {
    let server = server();
    let asker = Asker::of(&server);
    let path = |path: &str| shown(&asker, &[("path", path)]);
    assert_eq!(path("/login"), Some((2, 1, true)));
    assert_eq!(path("/v1/a"), Some((3, 2, true)));
    assert_eq!(path("/v1/a"), Some((3, 1, true)));
    assert_eq!(path("/v1/b"), Some((3, 2, true)), "each value by itself");
    assert_eq!(path("/other"), Some((4, 3, true)));
    assert_eq!(path("/v2/x/export.csv"), Some((2, 1, true)));
    assert_eq!(
        path("/v2/y/exports"),
        Some((2, 0, true)),
        "all values of it together"
    );
    assert_eq!(path("/v2/z/export"), Some((2, 0, false)));
}

#[test]
fn only_the_whole_way_down_counts() {
    let server = server();
    let asker = Asker::of(&server);
    let login = ("path", "/login");
    assert_eq!(
        shown(&asker, &[login, ("remote_address", "203.0.113.9")]),
        Some((1, 0, true))
    );
    assert_eq!(
        shown(&asker, &[login, ("remote_address", "203.0.113.9")]),
        Some((1, 0, false))
    );
    assert_eq!(
        shown(&asker, &[login]),
        Some((2, 1, true)),
        "the outer one was not charged"
    );
    assert_eq!(
        shown(&asker, &[login, ("remote_address", "203.0.113.9"), ("more", "x")]),
        None
    );
    assert_eq!(shown(&asker, &[("remote_address", "203.0.113.9")]), None);
    assert_eq!(shown(&asker, &[("path", "/v1/a"), ("remote_address", "x")]), None);
    assert_eq!(
        shown(&asker, &[("path", "twice"), ("path", "a")]),
        Some((1, 0, true)),
        "a key may come twice"
    );
    assert_eq!(
        shown(&asker, &[("path", "twice"), ("path", "a")]),
        Some((1, 0, false))
    );
    assert_eq!(
        shown(&asker, &[("path", "twice"), ("path", "b")]),
        Some((1, 0, true))
    );
}

#[test]
fn who_is_named_without_a_limit_has_none_and_unlimited_is_no_end() {
    let server = server();
    let asker = Asker::of(&server);
    let without = asker.descriptors(vec![descriptor(&[
        ("path", "/login"),
        ("remote_address", "198.51.100.7"),
    ])]);
    assert_eq!(
        (
            without.statuses[0].current_limit.clone(),
            without.statuses[0].limit_remaining
        ),
        (None, 0)
    );
    let unlimited = asker.descriptors(vec![descriptor(&[("path", "/static/logo.svg")])]);
    assert_eq!(codes(&unlimited), (true, vec![true]));
    assert_eq!(
        (
            unlimited.statuses[0].current_limit.clone(),
            unlimited.statuses[0].limit_remaining
        ),
        (None, u32::MAX)
    );
    let mut elsewhere = edge(vec![descriptor(&[("path", "/login")])]);
    elsewhere.domain = "elsewhere".to_owned();
    assert_eq!(asker.envoy(elsewhere).unwrap().statuses[0].current_limit, None);
}

#[test]
fn shadow_mode_refuses_nothing() {
    let server = server();
    let asker = Asker::of(&server);
    let tried = || shown(&asker, &[("tried", "x")]);
    assert_eq!(
        (tried(), tried(), tried()),
        (Some((1, 0, true)), Some((1, 0, true)), Some((1, 0, true)))
    );
    let series = "tollgate_decisions_total{outcome=\"would_deny\",scope=\"descriptor\",tier=\"default\",class=\"none\"}";
    assert_eq!(server.counted(series), 2, "{}", server.metrics());
}

#[test]
fn a_limit_replaces_another_of_the_same_request() {
    let server = server();
    let asker = Asker::of(&server);
    let login = || descriptor(&[("path", "/login")]);
    for rest in (0..5).rev() {
        let answer = asker.descriptors(vec![login(), descriptor(&[("vip", "yes")])]);
        assert_eq!(codes(&answer), (true, vec![true, true]));
        assert_eq!(answer.statuses[0].current_limit, None, "it is replaced");
        assert_eq!(left(&answer.statuses[1]), rest);
    }
    assert_eq!(
        left(&asker.descriptors(vec![login()]).statuses[0]),
        1,
        "and was never charged"
    );
}

#[test]
fn values_may_be_long_and_empty() {
    let server = server();
    let asker = Asker::of(&server);
    let long = format!("/{}", "x".repeat(4000));
    assert_eq!(shown(&asker, &[("path", &long)]), Some((4, 3, true)));
    assert_eq!(shown(&asker, &[("path", &long)]), Some((4, 2, true)));
    assert_eq!(shown(&asker, &[("path", "")]), Some((4, 3, true)));
}

#[test]
fn changed_files_come_into_force_and_bad_ones_do_not() {
    let server = serve(&[("edge.yaml", EDGE)]);
    let asker = Asker::of(&server);
    let write = |name: &str, text: &str| {
        let next = server.dir.path().join("next");
        std::fs::write(&next, text).unwrap();
        std::fs::rename(next, server.dir.path().join(name)).unwrap();
    };
    assert_eq!(shown(&asker, &[("path", "/other")]), Some((4, 3, true)));
    write(
        "edge.yaml",
        &EDGE.replace("requests_per_unit: 4", "requests_per_unit: 9"),
    );
    wait_for("the new limit", || {
        let seen = server.ask("POST", "/json").body(r#"{"domain":"edge","descriptors":[{"entries":[{"key":"path","value":"/other"}],"hitsAddend":0}]}"#);
        let seen = seen.send().expect(200);
        (seen["statuses"][0]["currentLimit"]["requestsPerUnit"] == 9).then_some(())
    });
    assert_eq!(
        shown(&asker, &[("path", "/other")]),
        Some((9, 7, true)),
        "the count goes on"
    );

    write(
        "second.yaml",
        "domain: second\ndescriptors: [{key: a, rate_limitt: {unit: day, requests_per_unit: 1}}]",
    );
    let log = server.logs("not reloaded");
    assert!(
        log.contains("second.yaml:2: descriptors[0].rate_limitt: is not a known field"),
        "{log}"
    );
    assert_eq!(
        shown(&asker, &[("path", "/other")]),
        Some((9, 6, true)),
        "the old ones stay"
    );

    write(
        "second.yaml",
        "domain: second\ndescriptors: [{key: a, rate_limit: {unit: year, requests_per_unit: 7}}]",
    );
    wait_for("a second file", || {
        let mut question = edge(vec![descriptor(&[("a", "x")])]);
        question.domain = "second".to_owned();
        asker.envoy(question).unwrap().statuses[0].current_limit.clone()
    });
    std::fs::remove_file(server.dir.path().join("edge.yaml")).unwrap();
    wait_for("a file to be gone", || {
        shown(&asker, &[("path", "/v1/z")]).is_none().then_some(())
    });
}

#[test]
fn counts_stay_with_their_descriptors_when_others_come_and_go() {
    let of = |value: &str, rest: &str| {
        format!(
            "  - {{key: path, value: '{value}', rate_limit: {{unit: year, requests_per_unit: 3{rest}}}}}\n"
        )
    };
    let file = |lines: &[String]| format!("domain: edge\ndescriptors:\n{}", lines.concat());
    let (slash, star) = (of("/a/", ""), of("/a/*", ""));
    let (free, trial) = (of("free", ", name: plan"), of("trial", ", name: plan"));
    let server = serve(&[("edge.yaml", &file(&[slash.clone(), free.clone()]))]);
    let asker = Asker::of(&server);
    let left_of = |value: &str| shown(&asker, &[("path", value)]).unwrap().1;
    assert_eq!((left_of("/a/"), left_of("free")), (2, 2));
    // Others of the same words and the same name come before them, change places with them, and go.
    for (number, lines, rest) in [
        (1, vec![&star, &slash, &trial, &free], 1),
        (2, vec![&free, &trial, &slash, &star], 0),
        (3, vec![&slash, &free], 0),
    ] {
        let lines: Vec<String> = lines
            .into_iter()
            .cloned()
            .chain([of("sign", &format!(", name: n{number}"))])
            .collect();
        std::fs::write(server.dir.path().join("next"), file(&lines)).unwrap();
        std::fs::rename(
            server.dir.path().join("next"),
            server.dir.path().join("edge.yaml"),
        )
        .unwrap();
        wait_for("the new file", || {
            let status = &asker.descriptors(vec![descriptor(&[("path", "sign")])]).statuses[0];
            let name = status.current_limit.as_ref().map(|limit| limit.name.clone());
            (name? == format!("n{number}")).then_some(())
        });
        assert_eq!((left_of("/a/"), left_of("free")), (rest, rest), "round {number}");
        if number == 1 {
            assert_eq!((left_of("/a/b"), left_of("trial")), (2, 2), "these are new");
        }
    }
}
