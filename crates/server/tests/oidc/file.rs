//! Keys in a file.

use crate::common::{Launch, Server, wait_for};
use crate::issuer::set;
use crate::signer::Signer;
use crate::{AUDIENCE, claims, tiers};

const ISSUER: &str = "https://issuer.example";

fn reading(keys: &str) -> Server {
    Server::launch(&Launch {
        flags: &[
            "--oidc-issuer",
            ISSUER,
            "--oidc-audience",
            AUDIENCE,
            "--oidc-jwks",
            "keys.json",
        ],
        files: &[("keys.json", keys)],
        ..Launch::default()
    })
}

fn write(server: &Server, keys: &str) {
    let next = server.dir.path().join("keys.next");
    std::fs::write(&next, keys).unwrap();
    std::fs::rename(next, server.dir.path().join("keys.json")).unwrap();
}

#[test]
fn keys_of_a_file_are_in_force_at_once_and_read_again_when_it_changes() {
    let (old, new) = (Signer::new("old", "ES256"), Signer::new("new", "EdDSA"));
    let server = reading(&set(&[&old]).to_string());
    let token = |signer: &Signer| signer.sign(&claims(ISSUER, "operator", None));
    tiers(&server, &token(&old)).expect(200);
    tiers(&server, &token(&new)).problem(401);
    write(&server, &set(&[&new]).to_string());
    wait_for("the new key", || {
        (tiers(&server, &token(&new)).status == 200).then_some(())
    });
    tiers(&server, &token(&old)).problem(401);
    write(&server, "{}");
    server.logs("no keys of the OIDC issuer");
    tiers(&server, &token(&new)).expect(200);
    std::fs::remove_file(server.dir.path().join("keys.json")).unwrap();
    write(&server, &set(&[&old]).to_string());
    server.logs("keys are back");
    tiers(&server, &token(&old)).expect(200);
}
