//! Paths that services read in several ways, and all of these.

use super::*;

/// All readings of a path whose marks are written as `⁄` (slash), `⧵`, `⁏`, `․`, `♯` and `‰`.
fn readings(path: &str) -> Vec<String> {
    let marks = [
        ('⁄', SLASH),
        ('⧵', BACKSLASH),
        ('⁏', SEMICOLON),
        ('․', DOT),
        ('♯', FRAGMENT),
        ('‰', ESCAPED),
    ];
    let marked = path.chars().map(|character| {
        let mark = marks.iter().find(|(shown, _)| *shown == character);
        mark.map_or(character, |(_, byte)| char::from(*byte))
    });
    let marked: String = marked.collect();
    let found = Readings::of(marked.as_bytes()).unwrap();
    let all = [found.normal]
        .into_iter()
        .chain(found.others.into_iter().map(Into::into));
    let shown = |path: Vec<u8>| {
        let shown =
            |text: String, (mark, byte): &(char, u8)| text.replace(char::from(*byte), &mark.to_string());
        marks.iter().fold(String::from_utf8(path).unwrap(), shown)
    };
    all.map(shown).collect()
}

#[test]
fn an_ordinary_path_has_one_reading() {
    for (path, normal) in [
        ("", ""),
        ("v1/exports/", "v1/exports"),
        ("a.b/.c/..d/e", "a.b/.c/..d/e"),
    ] {
        assert_eq!(readings(path), [normal], "{path}");
    }
}

#[test]
fn what_is_odd_is_read_in_each_way() {
    for (path, all) in [
        ("v1⁄x", &["v1/x", "v1⁄x"][..]),
        ("v1\\x", &["v1/x", "v1\\x"]),
        ("v1⧵x", &["v1/x", "v1\\x"]),
        ("v1/;x", &["v1", "v1/;x"]),
        ("v1/⁏x", &["v1/;x", "v1"]),
        ("v1/♯x", &["v1", "v1/#x"]),
        ("v1/‰two", &["v1/two", "v1/‰two"]),
        ("v1/a․b", &["v1/a.b", "v1/a․b"]),
        ("v1//x", &["v1/x", "v1//x"]),
        ("/x/v1/two", &["x/v1/two", "/x/v1/two", "v1/two"]),
        ("v1/./x", &["v1/x", "v1/./x"]),
        ("v1/x/../y", &["v1/y", "v1/x/../y"]),
        ("v1/two//..", &["v1", "v1/two/..", "v1/two//..", "v1/two"]),
        ("v1/x/․․/../y", &["y", "v1/x/../../y", "v1/x/y", "v1/x/․․/../y"]),
        ("v1/..;/h", &["h", "v1/../h", "v1/..;/h"]),
    ] {
        let (mut found, mut all) = (readings(path), all.to_vec());
        assert_eq!(found[0], all[0], "{path}");
        found.sort();
        all.sort_unstable();
        assert_eq!(found, all, "{path}");
    }
}

#[test]
fn what_one_step_takes_back_another_need_not() {
    // A URL parser takes `q⁄r` back as one segment, and a framework separates what is left.
    assert!(readings("a/q⁄r/x⁄y/../b").contains(&"a/q/r/b".to_owned()));
}

#[test]
fn what_can_be_read_in_too_many_ways_is_refused() {
    let all_marks = b"/h/a;b\\c\x1fd\x1ee\x1d/../\x1c\x1c//..\x1bf";
    assert_eq!(Readings::of(all_marks), Err(TooMany));
    // However few differ, finding that out has a bound.
    let long = [&b"../;\\\x1f\x1e\x1d\x1c/\x1b"[..], &b"a".repeat(8000)].concat();
    assert_eq!(Readings::of(&long), Err(TooMany));
}
