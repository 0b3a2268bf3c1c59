//! The OpenAPI document and the page that shows it.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::common::{Answer, run};
use crate::empty;

#[test]
fn the_document_in_the_repository_is_the_one_that_is_served() {
    let again = "docs/openapi.json is not what the code says; \
                 write it anew: cargo run -p tollgate -- openapi > docs/openapi.json";
    let kept = include_str!("../../../../docs/openapi.json");
    assert!(run(&["openapi"]).expect(0) == kept, "{again}");
    let (server, _admin) = empty();
    let answer = server.ask_admin("GET", "/openapi.json").send();
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let kept: Value = serde_json::from_str(kept).unwrap();
    assert!(answer.expect(200) == kept, "{again}");
    assert_eq!(kept["openapi"], "3.1.0");
}

#[test]
fn every_reference_leads_somewhere_and_every_operation_has_a_name_of_its_own() {
    let (server, _admin) = empty();
    let document = server.ask_admin("GET", "/openapi.json").send().expect(200);
    let (mut references, mut names) = (Vec::new(), BTreeSet::new());
    walk(&document, &mut references);
    assert!(references.len() > 100);
    for reference in &references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
    for (name, parts) in document["components"].as_object().unwrap() {
        for part in parts
            .as_object()
            .unwrap()
            .keys()
            .filter(|_| name != "securitySchemes")
        {
            let wanted = format!("#/components/{name}/{part}");
            assert!(references.contains(&wanted), "nothing refers to {wanted}");
        }
    }
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap();
            assert!(names.insert(name), "{method} {path}: {name} is another's name");
            assert!(
                !operation["summary"].as_str().unwrap().is_empty(),
                "{method} {path}"
            );
        }
    }
}

fn walk(value: &Value, references: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get("$ref") {
                references.push(reference.clone());
            }
            members.values().for_each(|member| walk(member, references));
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, references)),
        _ => {}
    }
}

#[test]
fn the_page_and_all_that_it_refers_to_come_from_the_binary() {
    let (server, _admin) = empty();
    let fetch = |target: &str| server.ask_admin("GET", target).send();
    let (mut wanted, mut seen) = (vec!["/docs".to_owned()], BTreeSet::new());
    while let Some(target) = wanted.pop() {
        if !seen.insert(target.clone()) {
            continue;
        }
        let file = fetch(&target);
        assert_eq!(file.status, 200, "{target}");
        let kind = match target.rsplit_once('.').map(|(_, ending)| ending) {
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("json") => "application/json",
            _ => "text/html; charset=utf-8",
        };
        assert_eq!(file.header("content-type"), Some(kind), "{target}");
        if kind != "application/json" {
            assert_guarded(&file, &target);
            wanted.extend(referred_to(file.text()));
        }
    }
    for file in [
        "/docs/docs.js",
        "/docs/operation.js",
        "/docs/schema.js",
        "/docs/docs.css",
        "/openapi.json",
    ] {
        assert!(seen.contains(file), "the page does not refer to {file}");
    }
    assert_eq!(seen.len(), 6, "{seen:?}");
}

/// It runs nothing but its own files, is sniffed for nothing and keeps nothing.
fn assert_guarded(file: &Answer, target: &str) {
    let policy = file.header("content-security-policy").unwrap();
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
    ] {
        assert!(policy.contains(part), "{target}: {policy}");
    }
    assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
    assert_eq!(file.header("x-content-type-options"), Some("nosniff"));
    let text = file.text();
    for never in [
        "localStorage",
        "sessionStorage",
        "document.cookie",
        "innerHTML",
        "eval(",
        "http://",
        "https://",
        " style=",
        " onclick=",
    ] {
        assert!(!text.contains(never), "{target} has {never}");
    }
    assert!(
        !text.contains("<script>") && !text.contains("<style"),
        "{target} has a script or a style in it"
    );
}

/// What a page, a script or a style refers to: every text in quotes that is a path.
fn referred_to(text: &str) -> Vec<String> {
    let quoted = text.split('"').skip(1).step_by(2);
    quoted
        .filter(|quoted| quoted.starts_with('/') && quoted.len() > 1)
        .map(str::to_owned)
        .collect()
}
