//! `tollgate check` and `tollgate explain` over https.

use crate::authority::Authority;
use crate::common::process::{finish, program};
use crate::common::{Finished, Server};
use crate::serve;

/// Runs the program in the server's directory.
fn run(server: &Server, args: &[&str], environment: &[(&str, &str)]) -> Finished {
    let mut command = program(args);
    command.current_dir(&server.dir).envs(environment.iter().copied());
    finish(command, "")
}

/// A server with everything, and the files of a client beside it.
fn protected() -> Server {
    let (ours, clients) = (Authority::new("ours"), Authority::new("clients"));
    let (client, stranger) = (clients.client(), ours.client());
    serve(
        &ours,
        &[
            "--tls-client-ca",
            "clients.pem",
            "--data-token",
            "a-token-for-this-test",
        ],
        &[
            ("ca.pem", &ours.pem()),
            ("clients.pem", &clients.pem()),
            ("client.crt", &client.certificate),
            ("client.key", &client.key),
            ("stranger.crt", &stranger.certificate),
            ("stranger.key", &stranger.key),
        ],
    )
}

#[test]
fn check_trusts_the_authority_it_is_given_and_no_other() {
    let authority = Authority::new("ours");
    let another = Authority::new("another").pem();
    let server = serve(
        &authority,
        &[],
        &[("ca.pem", &authority.pem()), ("another.pem", &another)],
    );
    let by_address = format!("https://{}", server.http);
    let by_name = format!("https://localhost:{}", server.http.port());
    for (url, left) in [(&by_address, "99"), (&by_name, "98")] {
        let check = run(
            &server,
            &["check", "--server", url, "--ca", "ca.pem", "--org", "acme"],
            &[],
        );
        assert!(
            check.expect(0).starts_with(&format!("allowed, {left} left")),
            "{check:?}"
        );
    }
    let by_environment = [("TOLLGATE_SERVER", by_name.as_str()), ("TOLLGATE_CA", "ca.pem")];
    run(&server, &["check", "--org", "acme"], &by_environment).expect(0);
    let check = run(
        &server,
        &["check", "--server", &by_name, "--ca", "another.pem"],
        &[],
    );
    assert!(check.complaint(2).contains("UnknownIssuer"), "{check:?}");
    let check = run(&server, &["check", "--server", &by_name], &[]);
    let complaint = check.complaint(2);
    // Some systems have no authorities at all.
    assert!(
        complaint.contains("UnknownIssuer") || complaint.contains("--ca"),
        "{complaint}"
    );
    // Spoken to without TLS it does not answer.
    let plain = format!("http://{}", server.http);
    let check = run(&server, &["check", "--server", &plain], &[]);
    assert!(check.complaint(2).contains(&server.http.to_string()), "{check:?}");
}

#[test]
fn check_shows_a_certificate_and_a_token() {
    let server = protected();
    let url = format!("https://localhost:{}", server.http.port());
    let base = ["check", "--server", &url, "--ca", "ca.pem", "--org", "acme"];
    let certificate = ["--client-cert", "client.crt", "--client-key", "client.key"];
    let token = ["--data-token", "a-token-for-this-test"];
    run(&server, &[&base[..], &certificate, &token].concat(), &[]).expect(0);
    let by_environment = [
        ("TOLLGATE_CLIENT_CERT", "client.crt"),
        ("TOLLGATE_CLIENT_KEY", "client.key"),
        (
            "TOLLGATE_DATA_TOKEN",
            "a-token-for-this-test,and-the-next-one-then",
        ),
    ];
    run(&server, &base, &by_environment).expect(0);
    let without_token = run(&server, &[&base[..], &certificate].concat(), &[]);
    assert!(without_token.complaint(2).contains("401"), "{without_token:?}");
    let stranger = ["--client-cert", "stranger.crt", "--client-key", "stranger.key"];
    for wrong in [&token[..], &[&token[..], &stranger].concat()] {
        let refused = run(&server, &[&base[..], wrong].concat(), &[]);
        assert!(refused.complaint(2).contains("localhost"), "{refused:?}");
    }
}

#[test]
fn files_that_are_no_good_are_named() {
    let server = protected();
    for (flags, named) in [
        (&["--ca", "absent"][..], "--ca: absent: "),
        (
            &["--ca", "client.key"],
            "--ca: client.key: the file holds no certificate",
        ),
        (
            &["--ca", "ca.pem", "--client-cert", "client.crt"],
            "--client-cert: ",
        ),
        (
            &["--ca", "ca.pem", "--client-key", "client.key"],
            "--client-key: ",
        ),
        (
            &[
                "--ca",
                "ca.pem",
                "--client-cert",
                "client.crt",
                "--client-key",
                "stranger.key",
            ],
            "--client-key: stranger.key: ",
        ),
    ] {
        let check = run(
            &server,
            &[&["check", "--server", "https://localhost"], flags].concat(),
            &[],
        );
        assert!(check.complaint(2).contains(named), "{check:?}");
    }
}

#[test]
fn explain_asks_the_admin_address_over_https() {
    let server = protected();
    let url = format!("https://localhost:{}", server.admin.port());
    let base = ["explain", "--admin", &url, "--org", "acme", "--json"];
    let explained = run(&server, &[&base[..], &["--ca", "ca.pem"]].concat(), &[]);
    assert_eq!(explained.json(0)["applied"][0]["policyId"], "org");
    run(&server, &base, &[]).complaint(2);
}
