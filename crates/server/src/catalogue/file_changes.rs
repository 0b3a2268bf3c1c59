//! What the policy file changes goes to the audit, too: a row for each tier, org, policy, override and list of classes that
//! says something else than when a node last looked.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::{oneshot, watch};
use tollgate_catalog::model::Override;
use tollgate_catalog::repository::{Author, FileObject, Kind, Place};

use super::{Catalogue, FileSet};
use crate::clock;
use crate::serve::stopped;

/// How often it is looked whether another state of the file is in force.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How many characters of a file's name the audit keeps.
const MAX_NAME: usize = 200;

impl Catalogue {
    /// Notes what the file of this path changes, until told to stop. Says so once it has tried for the first time.
    pub async fn note_file_changes(
        self: Arc<Self>,
        path: &Path,
        tried: oneshot::Sender<()>,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut tried = Some(tried);
        let name = path.file_name().unwrap_or(path.as_os_str());
        let name: String = name.to_string_lossy().chars().take(MAX_NAME).collect();
        let mut noted: Option<Arc<FileSet>> = None;
        let mut failed = false;
        loop {
            let file = self.file();
            let known = noted.as_ref().is_some_and(|noted| Arc::ptr_eq(noted, &file));
            if !known && !self.metrics.is_catalogue_away() {
                let author = Author {
                    route: "policy file".to_owned(),
                    at_ms: i64::try_from(clock::now().millis()).unwrap_or(i64::MAX),
                    ..Author::default()
                };
                match self.repository.note_file(&name, file.objects(), &author).await {
                    Ok(_) => (noted, failed) = (Some(file), false),
                    Err(error) if !failed => {
                        failed = true;
                        tracing::warn!(
                            "the policy file's changes are not in the audit yet, and are tried again: {error}"
                        );
                    }
                    Err(_) => {}
                }
            }
            if let Some(tried) = tried.take() {
                let _ = tried.send(());
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = stopped(&mut stop) => return,
            }
        }
    }
}

impl FileSet {
    /// All that the file says, each as the API would show it.
    fn objects(&self) -> Vec<FileObject> {
        let set = &self.set;
        let of = |kind, org: &str, id: &str, body: &Value| FileObject {
            place: Place {
                kind,
                org: org.to_owned(),
                id: id.to_owned(),
            },
            body: body.to_string(),
        };
        let mut all: Vec<FileObject> = Vec::new();
        all.extend(
            set.tiers
                .iter()
                .map(|tier| of(Kind::Tier, "", tier, &json!({"tier": tier}))),
        );
        let orgs = set.orgs.iter();
        all.extend(orgs.map(|org| of(Kind::Org, "", &org.id, &Value::Object(org.written()))));
        let policies = set.policies.iter();
        all.extend(policies.map(|policy| of(Kind::Policy, "", &policy.id, &Value::Object(policy.written()))));
        if !set.endpoint_classes.is_empty() {
            let classes = set.endpoint_classes.iter();
            let classes = classes.map(|one| json!({"pattern": one.pattern.to_string(), "class": one.class}));
            all.push(of(Kind::EndpointClasses, "", "all", &classes.collect()));
        }
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for change in &set.overrides {
            let name = name_of(change);
            let same = seen.entry(name.clone()).or_default();
            *same += 1;
            let id = digest(&format!("{name} {same}"));
            all.push(of(
                Kind::Override,
                &change.org,
                &id,
                &Value::Object(change.written()),
            ));
        }
        all
    }
}

/// What an override is for, by which it is known again wherever it stands in the file.
fn name_of(change: &Override) -> String {
    let mut named = change.written();
    let ids = [
        "orgId",
        "appId",
        "userId",
        "keyId",
        "policyId",
        "scope",
        "endpointPattern",
        "requiredScope",
    ];
    let by_window = !named.contains_key("policyId");
    named.retain(|name, _| ids.contains(&name.as_str()) || (by_window && name == "window"));
    Value::Object(named).to_string()
}

/// Twenty digits, as ids of overrides have.
fn digest(text: &str) -> String {
    let hash = Sha256::digest(text);
    hash.iter().take(10).map(|byte| format!("{byte:02x}")).collect()
}
