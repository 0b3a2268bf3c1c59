//! Who may do what: every operation of the served document, by every kind of caller, on their own org, on another's
//! and on one that is not there. What is expected follows from the document's `x-tollgate-roles`.

mod operation;
mod world;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::common::Answer;
use operation::Operation;
use world::{Caller, Place, World};

/// What a cell must come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// Carried out.
    Done,
    /// Not refused for who asks; whether there is such a thing is another matter.
    NotRefused,
    /// 401.
    Unknown,
    /// 403.
    Forbidden,
    /// 403, or 404 where there is nothing.
    ForbiddenOrAbsent,
    /// To the byte what a thing that is not there answers, and that is 403 or 404.
    AsAbsent,
}

#[test]
fn every_operation_answers_every_caller_as_the_document_says() {
    let world = World::new();
    let operations = Operation::all(&world.document());
    let mut cells = BTreeSet::new();
    for operation in &operations {
        world.make_ready_for(operation);
        let before = world.admin.changes();
        for caller in Caller::ALL {
            for place in operation.places() {
                let expected = expect(operation, caller, *place);
                let answer = ask(&world, operation, caller, *place, expected);
                let cell = format!(
                    "{} {} by {caller:?} on {place:?}",
                    operation.method, operation.path
                );
                judge(&world, operation, caller, expected, &answer, &cell);
                assert!(cells.insert(cell.clone()), "{cell} was asked twice");
            }
        }
        // What was allowed was on trial, and what was not was refused.
        assert_eq!(world.admin.changes(), before);
    }
    let wanted: usize = operations
        .iter()
        .map(|operation| operation.places().len() * Caller::ALL.len())
        .sum();
    println!("{} cells of {} operations", cells.len(), operations.len());
    assert_eq!(cells.len(), wanted);
}

fn expect(operation: &Operation, caller: Caller, place: Place) -> Expected {
    if operation.open {
        return Expected::Done;
    }
    let Some(role) = caller.role() else {
        return Expected::Unknown;
    };
    let tenant = role.starts_with("tenant");
    match (operation.roles.get(role).map(String::as_str), place) {
        (Some("everywhere"), Place::Absent) => Expected::NotRefused,
        (Some("everywhere"), _) | (Some("own-org"), Place::Own | Place::Platform) => Expected::Done,
        (Some("own-org"), Place::Foreign | Place::Absent) => Expected::AsAbsent,
        (None, Place::Foreign | Place::Absent) if tenant => Expected::AsAbsent,
        (None, Place::Absent) => Expected::ForbiddenOrAbsent,
        (None, _) => Expected::Forbidden,
        (Some(other), _) => panic!("`{other}` says nothing about where a role may do something"),
    }
}

/// Asks on trial what is allowed, and in earnest what must be refused.
fn ask(world: &World, operation: &Operation, caller: Caller, place: Place, expected: Expected) -> Answer {
    let trial = matches!(expected, Expected::Done | Expected::NotRefused);
    let mut target = world.target(operation, place);
    if trial && operation.writes {
        target.push_str("?dryRun=true");
    }
    let ask = world.ask(caller, &operation.method, &target);
    ask.body(World::body(operation, place)).send()
}

fn judge(
    world: &World,
    operation: &Operation,
    caller: Caller,
    expected: Expected,
    answer: &Answer,
    cell: &str,
) {
    let status = answer.status;
    let said = format!("{cell}: {expected:?}, but {status} {}", answer.text());
    match expected {
        Expected::Done => assert!((200..300).contains(&status), "{said}"),
        Expected::NotRefused => assert!(!matches!(status, 401 | 403 | 405 | 500..), "{said}"),
        Expected::Unknown => assert_eq!(status, 401, "{said}"),
        Expected::Forbidden => assert_eq!(status, 403, "{said}"),
        Expected::ForbiddenOrAbsent => assert!(matches!(status, 403 | 404), "{said}"),
        Expected::AsAbsent => {
            assert!(matches!(status, 403 | 404), "{said}");
            let absent = ask(world, operation, caller, Place::Absent, expected);
            assert_eq!((status, &answer.body), (absent.status, &absent.body), "{said}");
        }
    }
    assert!(operation.answers.contains(&status), "not in the document: {said}");
    if status >= 400 {
        answer.problem(status);
    }
    if caller.role().is_none_or(|role| role.starts_with("tenant")) && !operation.open {
        for foreign in world.foreign() {
            assert!(!answer.text().contains(foreign), "tells of {foreign}: {said}");
        }
    }
}

#[test]
fn what_the_document_does_not_name_is_refused_with_what_it_does() {
    let world = World::new();
    let document = world.document();
    for (path, item) in document["paths"].as_object().unwrap() {
        let known: BTreeSet<String> = item
            .as_object()
            .unwrap()
            .keys()
            .map(|method| method.to_uppercase())
            .collect();
        for method in ["GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS"] {
            if known.contains(method) {
                continue;
            }
            let target = path.replace(['{', '}'], "");
            let answer = world.ask(Caller::PlatformAdmin, method, &target).send();
            answer.problem(405);
            let allowed: BTreeSet<String> = answer
                .header("allow")
                .unwrap()
                .split(',')
                .map(|name| name.trim().to_owned())
                .collect();
            let without_head: BTreeSet<String> = allowed.into_iter().filter(|name| name != "HEAD").collect();
            assert_eq!(without_head, known, "{method} {path}");
        }
    }
}

#[test]
fn parameters_that_are_not_known_or_are_given_twice_are_refused() {
    let world = World::new();
    for operation in Operation::all(&world.document()) {
        if operation.open {
            continue;
        }
        let target = world.target(&operation, Place::Own);
        let body = World::body(&operation, Place::Own);
        for query in [
            "dryrun=true",
            "limt=5",
            "dryRun=true&dryRun=true",
            "limit=5&limit=6",
        ] {
            let asked = world.ask(
                Caller::PlatformAdmin,
                &operation.method,
                &format!("{target}?{query}"),
            );
            asked.body(body.clone()).send().problem(400);
        }
    }
}

#[test]
fn a_body_that_has_to_be_there_is_missed() {
    let world = World::new();
    let before = world.admin.changes();
    for operation in Operation::all(&world.document()) {
        if operation.body_required {
            let target = world.target(&operation, Place::Own);
            let asked = world.ask(Caller::PlatformAdmin, &operation.method, &target);
            asked.send().problem(400);
        }
    }
    assert_eq!(world.admin.changes(), before);
}

#[test]
fn each_field_of_a_body_is_one_that_the_server_reads_and_there_are_no_others() {
    let world = World::new();
    let document = world.document();
    for operation in Operation::all(&document) {
        let Some(fields) = operation.fields(&document) else {
            continue;
        };
        let target = world.target(&operation, Place::Own);
        let send = |name: &str| {
            let mut body: Value = serde_json::from_slice(&World::body(&operation, Place::Own)).unwrap();
            // No field of any body is a list of lists.
            body[name] = serde_json::json!([[[]]]);
            let ask = world
                .ask(Caller::PlatformAdmin, &operation.method, &target)
                .body(body.to_string());
            let answer = ask.send();
            assert!(
                matches!(answer.status, 400 | 422),
                "{target} {name}: {}",
                answer.text()
            );
            answer.problem(answer.status)
        };
        let unknown = |said: &str| said.contains("not a known field") || said.contains("unknown field");
        for name in fields {
            let said = send(&name);
            assert!(!unknown(&said), "{} {target}: {said}", operation.method);
        }
        let said = send("zzz");
        assert!(
            unknown(&said) && said.contains("zzz"),
            "{} {target}: {said}",
            operation.method
        );
    }
}
