//! `tollgate completions`, and what every command line program does.

use crate::common::run;

#[test]
fn every_shell_gets_a_script_that_knows_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = run(&["completions", shell]);
        let script = run.expect(0);
        for word in ["tollgate", "simulate", "validate", "explain", "policies"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let unknown = run(&["completions", "csh"]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.stderr.contains("csh"), "{unknown:?}");
}

#[test]
fn bash_accepts_its_script() {
    let run = run(&["completions", "bash"]);
    let script = run.expect(0);
    let mut command = std::process::Command::new("bash");
    command.args(["-n"]);
    crate::common::process::finish(command, script).expect(0);
}

#[test]
fn help_and_version_are_not_errors() {
    assert!(run(&["--help"]).expect(0).contains("Usage: tollgate"));
    assert!(run(&["--version"]).expect(0).starts_with("tollgate 0."));
    for command in [
        "serve",
        "check",
        "explain",
        "validate",
        "simulate",
        "plan",
        "completions",
    ] {
        assert!(
            run(&[command, "--help"]).expect(0).contains("Usage: tollgate"),
            "{command}"
        );
    }
    run(&[]).expect(2);
    run(&["frobnicate"]).expect(2);
}
