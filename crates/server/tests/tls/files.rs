//! Files that are no good are named at the start, with the flag that names them.

use tempfile::TempDir;

use crate::authority::Authority;
use crate::common::{Finished, process};

struct Files(TempDir);

impl Files {
    fn new() -> Self {
        let (files, authority) = (Self(TempDir::new().unwrap()), Authority::new("ours"));
        let (one, other) = (authority.server(), authority.server());
        for (name, text) in [
            ("server.crt", one.certificate.as_str()),
            ("server.key", &one.key),
            ("other.key", &other.key),
            ("ca.pem", &authority.pem()),
            ("empty", ""),
            ("words", "no PEM at all\n"),
            (
                "broken",
                "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n",
            ),
            (
                "hollow",
                "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            ),
            (
                "hollow.key",
                "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
            ),
        ] {
            std::fs::write(files.0.path().join(name), text).unwrap();
        }
        files
    }

    /// Tries to start a server that must not start.
    fn refused(&self, flags: &[&str]) -> Finished {
        let mut command = process::program(&["serve"]);
        for address in ["--http", "--grpc", "--admin"] {
            command.args([address, "127.0.0.1:0"]);
        }
        command.args(flags).current_dir(&self.0);
        process::finish(command, "")
    }
}

#[test]
fn each_bad_file_is_named_with_its_flag() {
    let files = Files::new();
    let bad = |place: usize, file: &str, problem: &str| {
        let mut flags = [
            "--tls-cert",
            "server.crt",
            "--tls-key",
            "server.key",
            "--tls-client-ca",
            "ca.pem",
        ];
        flags[2 * place + 1] = file;
        let run = files.refused(&flags);
        let complaint = run.complaint(2);
        let named = format!("{}: {file}: {problem}", flags[2 * place]);
        assert!(complaint.contains(&named), "{complaint}");
        assert_eq!(run.stdout, "", "it never says that it listens");
    };
    for (file, problem) in [
        ("absent", "No such file"),
        ("empty", "the file holds no certificate"),
        ("words", "the file holds no certificate"),
        ("server.key", "the file holds no certificate"),
        ("broken", "the file is not well-formed PEM"),
        ("hollow", "the first certificate can't be used"),
        (".", "Is a directory"),
    ] {
        bad(0, file, problem);
    }
    for (file, problem) in [
        ("absent", "No such file"),
        ("empty", "the file holds no private key"),
        ("server.crt", "the file holds no private key"),
        ("hollow.key", "the private key is of a kind that can't be used"),
        (
            "other.key",
            "the key does not belong to the certificate in server.crt",
        ),
    ] {
        bad(1, file, problem);
    }
    for (file, problem) in [
        ("absent", "No such file"),
        ("empty", "the file holds no certificate"),
        ("broken", "the file is not well-formed PEM"),
        ("hollow", "a certificate can't be used"),
    ] {
        bad(2, file, problem);
    }
}

#[test]
fn a_file_that_lacks_its_fellows_is_said_so() {
    let files = Files::new();
    for (flags, flag, missing) in [
        (&["--tls-cert", "server.crt"][..], "--tls-cert: ", "--tls-key"),
        (&["--tls-key", "server.key"], "--tls-key: ", "--tls-cert"),
        (&["--tls-client-ca", "ca.pem"], "--tls-client-ca: ", "--tls-cert"),
        (
            &["--tls-client-ca", "ca.pem", "--tls-cert", "server.crt"],
            "--tls-cert: ",
            "--tls-key",
        ),
    ] {
        let run = files.refused(flags);
        let complaint = run.complaint(2);
        assert!(
            complaint.contains(flag) && complaint.contains(missing),
            "{complaint}"
        );
    }
}
