//! The program run to its end.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;

use super::DEADLINE;

/// How a run ended and what it said.
#[derive(Debug)]
pub struct Finished {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    /// The standard output of a run that must have ended with this code.
    pub fn expect(&self, code: i32) -> &str {
        assert_eq!(self.code, Some(code), "{self:?}");
        &self.stdout
    }

    /// The standard output, as JSON, of a run that must have ended with this code.
    pub fn json(&self, code: i32) -> Value {
        let text = self.expect(code);
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// The complaint of a run that must have failed with this code: exactly one line.
    pub fn complaint(&self, code: i32) -> &str {
        self.expect(code);
        let line = self.stderr.trim_end();
        assert_eq!(line.lines().count(), 1, "one sentence, not {line:?}");
        line
    }
}

/// The program, with none of the settings that happen to be in this environment.
pub fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command
        .args(args)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

/// The same, from a shell that does something first.
pub fn program_after(shell: &str, args: &[&str]) -> Command {
    let plain = program(args);
    let mut command = Command::new("sh");
    let script = format!("{shell}; exec \"$0\" \"$@\"");
    command.args(["-c", &script]).arg(plain.get_program());
    command
        .args(plain.get_args())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

/// Runs the program without input.
pub fn run(args: &[&str]) -> Finished {
    finish(program(args), "")
}

/// Runs the program with this on its standard input.
pub fn run_with(args: &[&str], input: &str) -> Finished {
    finish(program(args), input)
}

/// Runs a command to its end, and kills it if the end does not come.
pub fn finish(mut command: Command, input: &str) -> Finished {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = collect(child.stdout.take().unwrap());
    let stderr = collect(child.stderr.take().unwrap());
    // A program that fails early does not read all of it, which is no fault of the test's.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let text = |pipe: &Receiver<String>, child: &mut Child| match pipe.recv_timeout(3 * DEADLINE) {
        Ok(text) => text,
        Err(_) => {
            let _ = child.kill();
            panic!("{command:?} does not come to an end");
        }
    };
    let (stdout, stderr) = (text(&stdout, &mut child), text(&stderr, &mut child));
    Finished {
        code: child.wait().unwrap().code(),
        stdout,
        stderr,
    }
}

fn collect(mut pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = pipe.read_to_end(&mut text);
        let _ = sender.send(String::from_utf8_lossy(&text).into_owned());
    });
    receiver
}
