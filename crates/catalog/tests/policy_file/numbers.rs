//! Limits, windows and ids: the fields that no policy does without.

use super::fields::{assert_problem, bare};
use crate::common::problem;

#[test]
fn limit_and_window_say_what_is_wrong_with_them() {
    for (fields, said) in [
        ("window: 1m", "limit: is missing"),
        ("limit: 5", "window: is missing"),
        ("limit: ~, window: 1m", "limit: is missing"),
        (
            "limit: -1, window: 1m",
            "limit: must be a whole number from 0 to 999999999999999",
        ),
        ("limit: 010, window: 1m", "limit: must be a whole number"),
        ("limit: 1e3, window: 1m", "limit: must be a whole number"),
        ("limit: 1_000, window: 1m", "limit: must be a whole number"),
        ("limit: many, window: 1m", "limit: must be a whole number"),
        ("limit: [5], window: 1m", "limit: must be a whole number"),
        (
            "limit: 1000000000000000, window: 1m",
            "limit: must be a whole number",
        ),
        (
            "limit: 99999999999999999999, window: 1m",
            "limit: must be a whole number",
        ),
        (
            "limit: 5, window: 60",
            "window: `60` is not a length of time: write a whole number and ms, s, m, h or d",
        ),
        ("limit: 5, window: 0s", "window: `0s` is not a length of time"),
        ("limit: 5, window: 01m", "window: `01m` is not a length of time"),
        ("limit: 5, window: 1.5h", "window: `1.5h` is not a length of time"),
        ("limit: 5, window: 1w", "window: `1w` is not a length of time"),
        ("limit: 5, window: -1s", "window: `-1s` is not a length of time"),
        ("limit: 5, window: 367d", "window: `367d` is longer than 366d"),
        (
            "limit: 5, window: 99999999999999999999d",
            "window: `99999999999999999999d` is longer than 366d",
        ),
        (
            "limit: 5, window: {length: 5}",
            "window: must be text, not a mapping",
        ),
        (
            "limit: 5, window: 1m, algorithm: quota",
            "window: a quota's window is day, week, month or billing_month",
        ),
        (
            "limit: 5, window: day, algorithm: token_bucket",
            "window: only a quota has a calendar window; token_bucket takes one such as 1m",
        ),
        (
            "limit: 100001, window: 1m, algorithm: sliding_window_log",
            "limit: a sliding_window_log remembers each request: its limit is at most 100000",
        ),
        ("id: \"a b\", limit: 5, window: 1m", "id: `a b` is not an id"),
        ("id: \"\", limit: 5, window: 1m", "id: must not be empty"),
        ("id: [p], limit: 5, window: 1m", "id: must be text, not a list"),
    ] {
        assert_problem(&bare(fields), &format!("line 2: policies[0].{said}"));
    }
    let said = problem(&bare("limit: 5, window: mnth"));
    assert!(said.ends_with("; did you mean `month`?"), "{said}");
    let long = "x".repeat(129);
    assert_problem(
        &bare(&format!("id: {long}, limit: 5, window: 1m")),
        "line 2: policies[0].id: `x",
    );
}
