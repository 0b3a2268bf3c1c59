//! A node that is restarted while its database is away goes on from what it kept on disk.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::fleet::{ORG, found, node, override_to, put_policy, seen, sees, until, write};
use crate::postgres::Postgres;

#[test]
fn a_node_starts_without_its_database() {
    let mut postgres = Postgres::start();
    let database = postgres.create();
    let (mut a, b) = (node(&database), node(&database));
    found(&a, 1_000);
    override_to(&a, 700);
    write(&a, "PUT", &format!("/v1/orgs/{ORG}/apps/web"), &json!({}));
    let keys = format!("/v1/orgs/{ORG}/apps/web/keys");
    let made = crate::fleet::admin(&a, "POST", &keys)
        .body("{}")
        .send()
        .expect(201);
    // What another node wrote is kept here, too.
    let (_, last) = override_to(&b, 800);
    sees(&a, 800);
    let file = a.data("catalogue.snapshot");
    let complete = format!("[{last}]");
    until("the file to be up to date", || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        text.lines().last() == Some(&complete)
    });
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);

    postgres.kill();
    a.restart("KILL");
    assert_eq!(seen(&a), Some(800));
    let by_key = a.check(&json!({"apiKey": made["secret"], "cost": 0}));
    assert_eq!(by_key.status, 200, "{}", by_key.text());
    assert_eq!(a.counted("tollgate_catalogue_from_disk"), 1);
    let ready = a.ask_admin("GET", "/readyz").send().expect(200);
    assert_eq!(ready["catalogueFrom"], "disk");
    assert_eq!(ready["catalogueRevision"], last);

    postgres.start_again();
    until("the database to confirm it", || {
        a.counted("tollgate_catalogue_from_disk") == 0
    });
    let ready = a.ask_admin("GET", "/readyz").send().expect(200);
    assert_eq!(ready["catalogueFrom"], "database");
    put_policy(&b, 2_000);
    override_to(&b, 900);
    sees(&a, 900);
    override_to(&a, 950);
    sees(&b, 950);
}

#[test]
fn half_a_line_at_the_end_of_the_file_does_no_harm() {
    let mut postgres = Postgres::start();
    let mut a = node(&postgres.create());
    found(&a, 1_000);
    let (_, last) = override_to(&a, 700);
    let file = a.data("catalogue.snapshot");
    until("the file to be up to date", || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        text.ends_with(&format!("[{last}]\n"))
    });
    postgres.kill();
    let mut text = std::fs::read_to_string(&file).unwrap();
    text.push_str("[9,\"override\",\"ac");
    std::fs::write(&file, text).unwrap();
    a.restart("KILL");
    assert_eq!(seen(&a), Some(700));
    postgres.start_again();
    until("the database to confirm it", || {
        a.counted("tollgate_catalogue_from_disk") == 0
    });
    let (_, last) = override_to(&a, 750);
    until("the file to be whole again", || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        text.ends_with(&format!("\n[{last}]\n"))
    });
    postgres.kill();
    a.restart("KILL");
    assert_eq!(seen(&a), Some(750));
}
