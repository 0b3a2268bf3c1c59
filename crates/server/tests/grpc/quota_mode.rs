//! Limits in quota mode refuse only all together.

use crate::asker::{Asker, codes, descriptor, hits, left};
use crate::common::{Server, file_of};

fn counted(id: &str, name: &str, limit: u64, rest: &str) -> String {
    format!(
        "{{id: {id}, scope: 'descriptor:{name}', algorithm: fixed_window, anchor: first, limit: {limit}, window: 1h{rest}}}"
    )
}

fn server() -> Server {
    Server::start(
        &file_of(&[
            counted("a", "a", 1, ", quotaMode: true"),
            counted("b", "b", 2, ", quotaMode: true"),
            counted("c", "c", 9, ""),
        ]),
        &[],
    )
}

#[test]
fn one_that_has_room_lets_all_go_on() {
    let server = server();
    let asker = Asker::of(&server);
    let ask = || {
        asker.descriptors(vec![
            descriptor(&[("a", "1")]),
            descriptor(&[("b", "1")]),
            descriptor(&[("c", "1")]),
        ])
    };
    assert_eq!(codes(&ask()), (true, vec![true, true, true]));
    let second = ask();
    assert_eq!(
        codes(&second),
        (true, vec![false, true, true]),
        "the first is over, and says so"
    );
    assert_eq!(left(&second.statuses[2]), 7);
    let third = ask();
    assert_eq!(codes(&third), (false, vec![false, false, true]));
    assert_eq!(left(&third.statuses[2]), 7, "nothing was charged");
    assert!(!third.raw_body.is_empty());
}

#[test]
fn one_without_it_refuses_by_itself() {
    let server = server();
    let asker = Asker::of(&server);
    let ask = |cost| {
        asker.descriptors(vec![
            descriptor(&[("a", "1")]),
            hits(descriptor(&[("c", "1")]), cost),
        ])
    };
    assert_eq!(codes(&ask(10)), (false, vec![true, false]));
    let allowed = ask(9);
    assert_eq!(
        codes(&allowed),
        (true, vec![true, true]),
        "what has quota mode was not charged before"
    );
}

#[test]
fn alone_it_refuses_as_any_other() {
    let server = server();
    let asker = Asker::of(&server);
    assert_eq!(asker.codes(vec![descriptor(&[("a", "1")])]), (true, vec![true]));
    assert_eq!(asker.codes(vec![descriptor(&[("a", "1")])]), (false, vec![false]));
}

#[test]
fn one_that_is_replaced_has_no_say() {
    let server = Server::start(
        &file_of(&[
            counted("a", "a", 1, ", quotaMode: true"),
            counted("b", "b", 2, ", quotaMode: true"),
            counted("p", "p", 9, ", replaces: [a]"),
        ]),
        &[],
    );
    let asker = Asker::of(&server);
    for (value, order) in [
        ("1", ["a", "b", "p"]),
        ("2", ["b", "a", "p"]),
        ("3", ["p", "b", "a"]),
    ] {
        let ask = || asker.codes(order.map(|name| descriptor(&[(name, value)])).to_vec());
        assert_eq!(ask(), (true, vec![true; 3]), "{order:?}");
        assert_eq!(ask(), (true, vec![true; 3]), "{order:?}");
        let each = order.map(|name| name != "b").to_vec();
        assert_eq!(
            ask(),
            (false, each),
            "{order:?}: nobody is left who could let it go on"
        );
    }
}

#[test]
fn one_that_only_watches_has_no_say() {
    let server = Server::start(
        &file_of(&[
            counted("a", "a", 9, ", quotaMode: true, mode: shadow"),
            counted("b", "b", 1, ", quotaMode: true"),
        ]),
        &[],
    );
    let asker = Asker::of(&server);
    let ask = || asker.codes(vec![descriptor(&[("a", "1")]), descriptor(&[("b", "1")])]);
    assert_eq!(ask(), (true, vec![true, true]));
    assert_eq!(ask(), (false, vec![true, false]), "what is watched has room");
}
