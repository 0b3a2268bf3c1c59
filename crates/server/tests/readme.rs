//! The README's commands, run as they stand against a server as it starts.
//!
//! A block marked `console` or `sh` holds commands, each on a line that begins with `$ `, and below each what
//! it prints. Of those the `curl` ones are run here, in order, against one fresh server with the demonstration
//! set. A line `…` or `...` stands for anything; every other line must be part of what is printed, with each run
//! of digits on both sides read as `N`.

mod common;

use std::path::Path;
use std::process::Command;

use common::process::finish;
use common::{Launch, Server};

/// A command and what it is said to print.
#[derive(Debug, PartialEq, Eq)]
struct Example {
    /// The line it stands on.
    line: usize,
    command: String,
    expected: Vec<String>,
}

/// Every command of the blocks for a terminal.
fn examples(markdown: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    let (mut inside, mut shown) = (false, false);
    let mut lines = (1..).zip(markdown.lines());
    while let Some((line, text)) = lines.next() {
        if let Some(language) = text.trim_start().strip_prefix("```") {
            inside = !inside && matches!(language.trim(), "console" | "sh");
            shown = false;
        } else if let (true, Some(first)) = (inside, text.strip_prefix("$ ")) {
            let mut command = first.to_owned();
            while command.ends_with('\\') {
                command.push('\n');
                command.push_str(lines.next().map_or("", |(_, rest)| rest));
            }
            shown = true;
            found.push(Example {
                line,
                command,
                expected: Vec::new(),
            });
        } else if let (true, true, Some(example)) = (inside, shown, found.last_mut()) {
            example.expected.push(text.to_owned());
        }
    }
    found
}

/// Text in which each run of digits is one `N`.
fn without_digits(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        if !character.is_ascii_digit() {
            plain.push(character);
        } else if !plain.ends_with('N') {
            plain.push('N');
        }
    }
    plain
}

fn is_ellipsis(line: &str) -> bool {
    matches!(line.trim(), "" | "…" | "...")
}

#[test]
fn the_commands_of_the_readme_print_what_it_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let Ok(readme) = std::fs::read_to_string(&path) else {
        eprintln!("{} is not written yet", path.display());
        return;
    };
    let server = Server::launch(&Launch::default());
    let mut run = 0;
    for example in examples(&readme) {
        if !example.command.starts_with("curl ") {
            continue;
        }
        let here = |text: &str| {
            ["127.0.0.1", "localhost"]
                .iter()
                .fold(text.to_owned(), |text, host| {
                    text.replace(&format!("{host}:8080"), &server.http.to_string())
                        .replace(&format!("{host}:8090"), &server.admin.to_string())
                })
        };
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &here(&example.command)])
            .current_dir(&server.dir);
        let finished = finish(shell, "");
        let printed = without_digits(&format!("{}{}", finished.stdout, finished.stderr).replace('\r', ""));
        for expected in example.expected.iter().filter(|line| !is_ellipsis(line)) {
            assert!(
                printed.contains(without_digits(&here(expected)).trim_end()),
                "README.md:{}: {}\nprints\n{}{}and not\n{expected}",
                example.line,
                example.command,
                finished.stdout,
                finished.stderr
            );
        }
        assert_eq!(finished.code, Some(0), "README.md:{}: {finished:?}", example.line);
        run += 1;
    }
    assert!(run > 0, "the README shows no curl command");
}

#[test]
fn commands_are_found_with_what_they_print() {
    let markdown = "# Title\n```sh\n$ curl -s a \\\n    -d b\n{\"x\":1}\n…\n$ tollgate check\n```\ntext\n$ curl not-in-a-block\n\
                    ```json\n$ curl not-for-a-terminal\n```\n```console\nnoise\n$ curl c\n```\n";
    let example = |line, command: &str, expected: &[&str]| Example {
        line,
        command: command.to_owned(),
        expected: expected.iter().map(|line| (*line).to_owned()).collect(),
    };
    assert_eq!(
        examples(markdown),
        [
            example(3, "curl -s a \\\n    -d b", &["{\"x\":1}", "…"]),
            example(7, "tollgate check", &[]),
            example(16, "curl c", &[]),
        ]
    );
    assert_eq!(without_digits("2024-07-15 at 9"), "N-N-N at N");
}
