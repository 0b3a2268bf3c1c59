//! Which addresses may be bound with what protection.

use tempfile::TempDir;

use crate::authority::Authority;
use crate::common::{Launch, Server, process};

const ADDRESSES: [&str; 4] = ["--http", "--grpc", "--admin", "--resp"];

/// The addresses, of which one is reachable from outside.
fn addresses(outside: &str) -> Vec<&str> {
    let address = |flag| {
        if flag == outside {
            "0.0.0.0:0"
        } else {
            "127.0.0.1:0"
        }
    };
    ADDRESSES
        .into_iter()
        .flat_map(|flag| [flag, address(flag)])
        .collect()
}

#[test]
fn an_address_beyond_loopback_needs_tls_and_the_data_plane_callers_that_are_known() {
    let authority = Authority::new("ours");
    let identity = authority.server();
    let authority = authority.pem();
    let files = [
        ("server.crt", identity.certificate.as_str()),
        ("server.key", &identity.key),
        ("ca.pem", &authority),
    ];
    let dir = TempDir::new().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let tls = &crate::TLS[..];
    let (ca, token) = (
        &["--tls-client-ca", "ca.pem"][..],
        &["--data-token", "a-token-for-this-test"][..],
    );
    // What is missing, in the words that name it: for the data plane, and for the admin address.
    let both = Some(
        "needs TLS (--tls-cert and --tls-key) and callers that show who they are (--tls-client-ca or --data-token);",
    );
    let encryption = Some("needs TLS (--tls-cert and --tls-key);");
    let callers = Some("needs callers that show who they are (--tls-client-ca or --data-token);");
    for (flags, data_plane, admin) in [
        (vec![], both, encryption),
        (vec![token], encryption, encryption),
        (vec![tls], callers, None),
        (vec![tls, token], None, None),
        (vec![tls, ca], None, None),
        (vec![tls, ca, token], None, None),
        (vec![&["--insecure-bind"]], None, None),
        (vec![tls, &["--insecure-bind"]], None, None),
    ] {
        let flags = flags.concat();
        for (outside, missing) in ADDRESSES
            .into_iter()
            .zip([data_plane, data_plane, admin, data_plane])
        {
            let all = [&addresses(outside), &flags[..]].concat();
            let Some(missing) = missing else {
                Server::launch(&Launch {
                    flags: &all,
                    files: &files,
                    bare: true,
                    ..Launch::default()
                });
                continue;
            };
            let mut command = process::program(&["serve"]);
            command.args(&all).current_dir(&dir);
            let run = process::finish(command, "");
            let complaint = run.complaint(2);
            let named = complaint.contains(&format!("{outside}: 0.0.0.0:0")) && complaint.contains(missing);
            assert!(
                named && complaint.contains("--insecure-bind"),
                "{flags:?}: {complaint}"
            );
        }
    }
}
