//! The served document held against the server, by a program that neither of them knows: schemathesis makes requests
//! of what the document allows and of what it forbids, and judges the answers.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::{POLICIES, unlimited};

#[test]
#[ignore = "needs schemathesis, which ./test installs"]
fn every_answer_is_one_that_the_document_promises() {
    let program = std::env::var_os("SCHEMATHESIS");
    let program = program.expect("SCHEMATHESIS must name the program; ./test installs it and runs this");
    let (server, admin) = unlimited();
    // What the document's examples name is there, so that they reach further than a 404.
    admin.set("/v1/tiers/Enterprise", &json!({}));
    let policy = json!({"id": "enterprise-records", "orgTier": "Enterprise", "limit": 600, "window": "1m"});
    admin.set(POLICIES, &policy);
    admin.set("/v1/orgs/acme", &json!({"tier": "Enterprise"}));
    admin.set("/v1/orgs/acme/apps/web", &json!({}));
    admin
        .post("/v1/orgs/acme/apps/web/keys", &json!({"keyId": "mobile"}))
        .expect(201);
    admin.set("/v1/orgs/acme/users/u7", &json!({"tier": "Enterprise"}));
    let settings = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/control_plane/schemathesis");
    let run = Command::new(program)
        .arg("--config-file")
        .arg(settings.join("schemathesis.toml"))
        .args(["run", "--no-color"])
        .arg(format!("http://{}/openapi.json", server.admin))
        .current_dir(&server.dir)
        .env("TOLLGATE_ADMIN_TOKEN", admin.secret())
        .env("SCHEMATHESIS_HOOKS", "hooks")
        .env("PYTHONPATH", &settings)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("schemathesis runs");
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(
        run.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&run.stderr)
    );
    // A run that tried nothing would have found nothing. It tries all but the document's own route, from which it has
    // the document.
    let document = server.ask_admin("GET", "/openapi.json").send().expect(200);
    let items = document["paths"].as_object().unwrap().values();
    let operations: usize = items.map(|item| item.as_object().unwrap().len()).sum();
    let tested = format!("Tested: {}\n", operations - 1);
    assert!(said.contains(&tested), "{said}");
    assert!(admin.changes() > 200, "hardly anything was written: {said}");
    println!("{said}");
}
