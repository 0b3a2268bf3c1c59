//! Two orgs with everything an org can have, one that is not there, and all kinds of callers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::operation::Operation;
use crate::common::{Admin, Ask, Server};
use crate::{POLICIES, unlimited};

/// Who asks. The tenants are those of the org that is their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Caller {
    PlatformAdmin,
    Operator,
    TenantAdmin,
    TenantViewer,
    WithoutToken,
    WithUnknownToken,
    WithRevokedToken,
    WithExpiredToken,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// What belongs to no org.
    Platform,
    Own,
    Foreign,
    Absent,
}

impl Caller {
    pub const ALL: [Self; 8] = [
        Self::PlatformAdmin,
        Self::Operator,
        Self::TenantAdmin,
        Self::TenantViewer,
        Self::WithoutToken,
        Self::WithUnknownToken,
        Self::WithRevokedToken,
        Self::WithExpiredToken,
    ];

    /// The role of a caller that is known.
    pub fn role(self) -> Option<&'static str> {
        match self {
            Self::PlatformAdmin => Some("platform-admin"),
            Self::Operator => Some("operator"),
            Self::TenantAdmin => Some("tenant-admin"),
            Self::TenantViewer => Some("tenant-viewer"),
            _ => None,
        }
    }
}

pub struct World {
    server: Server,
    pub admin: Admin,
    tokens: BTreeMap<Caller, String>,
    /// The ids of an override, of a token and of a quota's counter of each org.
    ids: BTreeMap<&'static str, [String; 3]>,
}

const OWN: &str = "own-corp";
const FOREIGN: &str = "foreign-corp";
const ABSENT: &str = "absent-corp";

impl World {
    pub fn new() -> Self {
        let (server, admin) = unlimited();
        for tier in ["Enterprise", "spare"] {
            admin.set(&format!("/v1/tiers/{tier}"), &json!({}));
        }
        for id in ["enterprise-records", "spare"] {
            admin.set(
                POLICIES,
                &json!({"id": id, "orgTier": "Enterprise", "limit": 9, "window": "1h"}),
            );
        }
        let quota =
            json!({"id": "enterprise-day", "orgTier": "Enterprise", "limit": 1_000_000, "window": "month"});
        admin.set(POLICIES, &quota);
        let ids = [OWN, FOREIGN]
            .map(|org| (org, furnish(&server, &admin, org)))
            .into();
        let mut tokens = BTreeMap::new();
        for caller in Caller::ALL {
            if let Some(role) = caller.role() {
                let org = role.starts_with("tenant").then_some(OWN);
                tokens.insert(caller, admin.with_role(role, org).secret().to_owned());
            }
        }
        let made = admin
            .post("/v1/tokens", &json!({"role": "platform-admin"}))
            .expect(201);
        admin.remove(&format!("/v1/tokens/{}", made["id"].as_str().unwrap()));
        tokens.insert(
            Caller::WithRevokedToken,
            made["secret"].as_str().unwrap().to_owned(),
        );
        let past = json!({"role": "platform-admin", "expiresAt": "2020-01-01T00:00:00Z"});
        let past = admin.post("/v1/tokens", &past).expect(201);
        tokens.insert(
            Caller::WithExpiredToken,
            past["secret"].as_str().unwrap().to_owned(),
        );
        tokens.insert(Caller::WithUnknownToken, "tgt_of-nobody".to_owned());
        Self {
            server,
            admin,
            tokens,
            ids,
        }
    }

    /// Brings about what an operation needs: of rollouts one is open at a time, and only a closed one can go.
    pub fn make_ready_for(&self, operation: &Operation) {
        const ROLLOUTS: &str = "/v1/ratelimit/rollouts";
        let tried = json!([{"id": "tried", "limit": 9, "window": "1h"}]);
        let open = |id: &str| {
            self.admin
                .set(&format!("{ROLLOUTS}/{id}"), &json!({"policies": tried}))
        };
        if !operation.path.starts_with(ROLLOUTS) {
            return;
        }
        for rollout in self.admin.items(ROLLOUTS) {
            let target = format!("{ROLLOUTS}/{}", rollout["id"].as_str().unwrap());
            if rollout["state"] == "open" {
                self.admin
                    .post(&format!("{target}/rollback"), &json!({}))
                    .expect(200);
            }
            self.admin.remove(&target);
        }
        if operation.path != ROLLOUTS {
            open("spring");
            self.admin
                .post(&format!("{ROLLOUTS}/spring/rollback"), &json!({}))
                .expect(200);
            open("summer");
        }
    }

    /// The document as it is served, to anyone.
    pub fn document(&self) -> Value {
        self.server.ask_admin("GET", "/openapi.json").send().expect(200)
    }

    pub fn ask(&self, caller: Caller, method: &str, target: &str) -> Ask {
        match self.tokens.get(&caller) {
            Some(token) => self.server.with_token(token).ask(method, target),
            None => self.server.ask_admin(method, target),
        }
    }

    /// The operation's path with ids of things that are there, but for those of an org that is not.
    pub fn target(&self, operation: &Operation, place: Place) -> String {
        let org = org(place);
        let of_org = self.ids.get(org);
        let mut collection = "";
        let segments = operation.path.split('/').map(|segment| {
            let id = match (segment, collection) {
                ("{orgId}", _) => org,
                ("{appId}", _) => "web",
                ("{keyId}", _) => "k",
                ("{userId}", _) => "u",
                ("{tier}", _) | ("{id}", "policies") => "spare",
                ("{id}", "rollouts") if operation.method == "DELETE" => "spring",
                ("{id}", "rollouts") => "summer",
                ("{id}", "overrides") => of_org.map_or("00000000000000000000", |[id, ..]| id),
                ("{id}", "tokens") => of_org.map_or("0000000000000000", |[_, id, _]| id),
                ("{quotaId}", _) => of_org.map_or("00000000000000000000000000000000", |[.., id]| id),
                (unknown, _) if unknown.starts_with('{') => {
                    panic!(
                        "{}: say here what {unknown} may be, and furnish an org with it",
                        operation.path
                    )
                }
                (text, _) => {
                    collection = text;
                    text
                }
            };
            id.to_owned()
        });
        segments.collect::<Vec<_>>().join("/")
    }

    /// The document's own example of a body, about the org in question.
    pub fn body(operation: &Operation, place: Place) -> Vec<u8> {
        let Some(mut body) = operation.body.clone() else {
            return Vec::new();
        };
        if !operation.path.contains("{orgId}") && body.get("orgId").is_some() {
            body["orgId"] = json!(org(place));
        }
        body.to_string().into_bytes()
    }

    /// What nobody but those who see everything may be told of.
    pub fn foreign(&self) -> [&str; 4] {
        let [override_id, token, quota] = &self.ids[FOREIGN];
        [FOREIGN, override_id, token, quota]
    }
}

fn org(place: Place) -> &'static str {
    match place {
        Place::Own | Place::Platform => OWN,
        Place::Foreign => FOREIGN,
        Place::Absent => ABSENT,
    }
}

/// Makes an org and one of everything it can have. The answers are the ids of its override, its token and its quota.
fn furnish(server: &Server, admin: &Admin, org: &str) -> [String; 3] {
    admin.set(&format!("/v1/orgs/{org}"), &json!({"tier": "Enterprise"}));
    let app = json!({"name": format!("the app of {org}")});
    admin.set(&format!("/v1/orgs/{org}/apps/web"), &app);
    admin.set(&format!("/v1/orgs/{org}/users/u"), &json!({"tier": "Enterprise"}));
    admin
        .post(&format!("/v1/orgs/{org}/apps/web/keys"), &json!({"keyId": "k"}))
        .expect(201);
    let change = json!({"policyId": "enterprise-records", "limit": 5, "reason": format!("for {org}")});
    let made = admin
        .post(&format!("/v1/orgs/{org}/ratelimit/overrides"), &change)
        .expect(201);
    let token = json!({"role": "tenant-viewer", "orgId": org, "name": format!("a token of {org}")});
    let token = admin.post("/v1/tokens", &token).expect(201);
    server.allowed(&json!({"orgId": org}));
    let quotas = admin.items(&format!("/v1/orgs/{org}/quotas"));
    let id = |value: &Value| value.as_str().unwrap().to_owned();
    [id(&made["id"]), id(&token["id"]), id(&quotas[0]["quotaId"])]
}
