//! The commands of docs/tls.md, run as they stand but for the ports.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::common::process::finish;
use crate::common::{Finished, Launch, Server};

const TOKEN: &str = "a-token-for-this-test";

/// The blocks for a shell, in order.
fn blocks() -> [String; 5] {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tls.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```sh\n").skip(1);
    let blocks: Vec<String> = blocks
        .map(|rest| rest.split("```").next().unwrap().to_owned())
        .collect();
    blocks.try_into().expect("five blocks")
}

/// Runs commands in a directory, with the program at hand.
fn shell(commands: &str, directory: &Path) -> Finished {
    let program = Path::new(env!("CARGO_BIN_EXE_tollgate")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", commands])
        .current_dir(directory);
    bash.env("PATH", path).env("no_proxy", "*");
    bash.env("TOLLGATE_DATA_TOKEN", TOKEN);
    finish(bash, "")
}

/// Serves as the block's last command does, on ports of its own, and asks as another block does.
fn served_and_asked(serve: &str, ask: &str, files: &[(&str, &str)], environment: &[(&str, &str)]) {
    let command = serve.trim_end().lines().last().unwrap();
    let flags = command.strip_prefix("tollgate serve ").unwrap();
    let flags: Vec<&str> = flags.split(' ').collect();
    let server = Server::launch(&Launch {
        flags: &flags,
        environment,
        files,
        ..Launch::default()
    });
    let ask = ask
        .replace("localhost:8080", &format!("localhost:{}", server.http.port()))
        .replace("localhost:8090", &format!("localhost:{}", server.admin.port()));
    let asked = shell(&ask, server.dir.path());
    let said = asked.expect(0);
    assert!(
        said.contains(r#""allowed":true"#) && said.contains("999,998 left"),
        "{said}"
    );
}

#[test]
fn the_commands_of_the_page_run() {
    let [make, serve, ask, serve_with_token, ask_with_token] = blocks();
    let directory = TempDir::new().unwrap();
    shell(&make, directory.path()).expect(0);
    let names = ["ca.pem", "server.crt", "server.key", "client.crt", "client.key"];
    let texts = names.map(|name| std::fs::read_to_string(directory.path().join(name)).unwrap());
    let files: Vec<(&str, &str)> = names.into_iter().zip(texts.iter().map(String::as_str)).collect();
    served_and_asked(&serve, &ask, &files, &[]);
    served_and_asked(
        &serve_with_token,
        &ask_with_token,
        &files,
        &[("TOLLGATE_DATA_TOKEN", TOKEN)],
    );
}
