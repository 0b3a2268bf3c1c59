//! What ought to count for a request, by the words of docs/policies.md. Every limit has a number of its own, so that a set of
//! numbers says all.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::{Value, json};

/// Limits from here on are of overrides, those below of policies.
pub const FIRST_OF_OVERRIDES: u64 = 1_000;

/// A request of the org acme.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'r> {
    pub app: Option<&'r str>,
    pub key: Option<&'r str>,
    pub user: Option<&'r str>,
    pub ip: bool,
    pub endpoint: Option<&'r str>,
    pub write: bool,
}

#[derive(Debug, Clone)]
pub struct Policy {
    pub id: String,
    pub tier: &'static str,
    pub scope: Vec<&'static str>,
    pub pattern: &'static str,
    pub write: bool,
    pub window: &'static str,
    pub limit: u64,
}

#[derive(Debug, Clone)]
pub struct Change {
    /// `appId`, `keyId` or `userId`, and which.
    pub who: Option<(&'static str, &'static str)>,
    pub policy: Option<String>,
    pub scope: Option<Vec<&'static str>>,
    pub pattern: Option<&'static str>,
    pub write: bool,
    pub window: Option<&'static str>,
    pub limit: u64,
    pub over: bool,
}

#[derive(Debug)]
pub struct World {
    pub tier: &'static str,
    pub users: Vec<(String, String)>,
    pub policies: Vec<Policy>,
    pub overrides: Vec<Change>,
}

/// Which policy an override is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Policy(usize),
    New,
}

impl World {
    pub fn file(&self) -> String {
        let mut file = "tiers: [{tier: Gold}, {tier: Plus}, {tier: Max}]\npolicies:\n".to_owned();
        for policy in &self.policies {
            let write = if policy.write {
                ", requiredScope: write"
            } else {
                ""
            };
            let _ = writeln!(
                file,
                "  - {{id: {}, orgTier: \"{}\", scope: [{}], endpointPattern: \"{}\", algorithm: fixed_window, limit: {}, window: {}{write}}}",
                policy.id,
                policy.tier,
                policy.scope.join(", "),
                policy.pattern,
                policy.limit,
                policy.window,
            );
        }
        file
    }

    pub fn shown(&self) -> String {
        let overrides: Vec<String> = self
            .overrides
            .iter()
            .map(|change| change.json().to_string())
            .collect();
        format!(
            "{}acme is on {}, users {:?}, overrides:\n{}",
            self.file(),
            self.tier,
            self.users,
            overrides.join("\n")
        )
    }

    fn plan_of(&self, user: Option<&str>) -> Option<&str> {
        let (_, tier) = self
            .users
            .iter()
            .find(|(known, _)| Some(known.as_str()) == user)?;
        Some(tier)
    }

    /// Users with a plan of their own have its limits on users in place of those of the org's tier.
    fn is_of_plan(&self, policy: &Policy, user: Option<&str>) -> bool {
        let on_users = policy.scope.contains(&"user");
        let plan = self.plan_of(user).filter(|_| on_users).unwrap_or(self.tier);
        policy.tier == "*" || policy.tier == plan
    }

    /// Which policy an override is for; `None` if it is refused.
    fn target(&self, change: &Change) -> Option<Target> {
        if let Some(id) = &change.policy {
            let place = self.policies.iter().position(|policy| policy.id == *id)?;
            let policy = &self.policies[place];
            let scope = change
                .scope
                .as_ref()
                .is_none_or(|scope| same(scope, &policy.scope));
            return (scope && (!change.write || policy.write)).then_some(Target::Policy(place));
        }
        let user = change.who.filter(|(kind, _)| *kind == "userId").map(|(_, id)| id);
        let fits = |policy: &Policy| {
            self.is_of_plan(policy, user)
                && change
                    .scope
                    .as_ref()
                    .is_none_or(|scope| same(scope, &policy.scope))
                && change.pattern.is_none_or(|pattern| pattern == policy.pattern)
                && change.window.is_none_or(|window| window == policy.window)
                && (!change.write || policy.write)
        };
        let fitting: Vec<usize> = (0..self.policies.len())
            .filter(|place| fits(&self.policies[*place]))
            .collect();
        match fitting.as_slice() {
            [one] => Some(Target::Policy(*one)),
            [] if change.window.is_some() => Some(Target::New),
            _ => None,
        }
    }

    pub fn accepts(&self, change: &Change) -> bool {
        self.target(change).is_some()
    }

    /// True if every override is for some policy, or a limit of its own.
    pub fn fits(&self) -> bool {
        self.overrides.iter().all(|change| self.accepts(change))
    }

    /// The limits that count for a request. Overrides say the same if they are written alike: one that spells out its
    /// pattern or permission has an id and a count of its own.
    pub fn limits_of(&self, asked: &Asked<'_>) -> BTreeSet<u64> {
        let mut limits = BTreeSet::new();
        let in_force: Vec<&Change> = self
            .overrides
            .iter()
            .filter(|change| !change.over && change.includes(asked))
            .collect();
        for (place, policy) in self.policies.iter().enumerate() {
            if !self.is_of_plan(policy, asked.user) {
                continue;
            }
            let of_it = in_force
                .iter()
                .filter(|change| self.target(change) == Some(Target::Policy(place)));
            let (standing_in, beside): (Vec<&Change>, Vec<&Change>) =
                of_it.partition(|change| change.replaces(policy));
            let mut here = Vec::new();
            // Narrower beats wider, then newer older.
            let narrowest = standing_in
                .iter()
                .enumerate()
                .max_by_key(|(age, change)| (change.rank(), *age));
            here.push(narrowest.map_or(policy.limit, |(_, change)| change.limit));
            if meets(&policy.scope, policy.pattern, policy.write, asked) {
                limits.extend(here);
            }
            for (age, change) in beside.iter().enumerate() {
                let newer = beside[age + 1..].iter();
                let mut alike = newer.filter(|newer| {
                    newer.who == change.who && newer.pattern == change.pattern && newer.write == change.write
                });
                if alike.next().is_none()
                    && meets(&policy.scope, change.pattern_of(policy), policy.write, asked)
                {
                    limits.insert(change.limit);
                }
            }
        }
        let new: Vec<&Change> = in_force
            .into_iter()
            .filter(|change| self.target(change) == Some(Target::New))
            .collect();
        for (age, change) in new.iter().enumerate() {
            let alike = |newer: &&&Change| {
                newer.who == change.who
                    && same(&newer.own_scope(), &change.own_scope())
                    && newer.pattern == change.pattern
                    && newer.write == change.write
                    && newer.window == change.window
            };
            let pattern = change.pattern.unwrap_or("*");
            if !new[age + 1..].iter().any(|newer| alike(&newer))
                && meets(&change.own_scope(), pattern, change.write, asked)
            {
                limits.insert(change.limit);
            }
        }
        limits
    }
}

impl Change {
    pub fn json(&self) -> Value {
        let mut json = json!({"orgId": "acme", "algorithm": "fixed_window", "limit": self.limit});
        if let Some((kind, id)) = self.who {
            json[kind] = json!(id);
        }
        if let Some(policy) = &self.policy {
            json["policyId"] = json!(policy);
        }
        if let Some(scope) = &self.scope {
            json["scope"] = json!(scope);
        }
        if let Some(pattern) = self.pattern {
            json["endpointPattern"] = json!(pattern);
        }
        if self.write {
            json["requiredScope"] = json!("write");
        }
        if let Some(window) = self.window {
            json["window"] = json!(window);
        }
        if self.over {
            json["expiresAt"] = json!("2020-01-01T00:00:00Z");
        }
        json
    }

    fn includes(&self, asked: &Asked<'_>) -> bool {
        match self.who {
            None => true,
            Some(("appId", id)) => asked.app == Some(id),
            Some(("keyId", id)) => asked.key == Some(id),
            Some((_, id)) => asked.user == Some(id),
        }
    }

    fn rank(&self) -> u8 {
        match self.who {
            None => 0,
            Some(("appId", _)) => 1,
            Some(("userId", _)) => 2,
            Some(_) => 3,
        }
    }

    fn pattern_of(&self, policy: &Policy) -> &'static str {
        self.pattern.unwrap_or(policy.pattern)
    }

    /// The table of docs/policies.md.
    fn replaces(&self, policy: &Policy) -> bool {
        let has = |dimension| policy.scope.contains(&dimension);
        self.pattern_of(policy) == policy.pattern
            && match self.who {
                None => !has("global") && !has("endpoint"),
                Some(("appId", _)) => has("app") || has("key"),
                Some(("keyId", _)) => has("key"),
                Some(_) => has("user"),
            }
    }

    /// The scope of a limit that is all its own: the given one and whom it is for.
    fn own_scope(&self) -> Vec<&'static str> {
        let who = self.who.map(|(kind, _)| match kind {
            "appId" => "app",
            "keyId" => "key",
            _ => "user",
        });
        let mut scope = self.scope.clone().unwrap_or_else(|| vec![who.unwrap_or("org")]);
        // What is for someone of the org is not global.
        scope.retain(|name| *name != "global" || who.is_none());
        scope.extend(who.filter(|who| !scope.contains(who)));
        scope
    }
}

fn same(one: &[&str], other: &[&str]) -> bool {
    let sorted = |scope: &[&str]| {
        scope
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<BTreeSet<_>>()
    };
    sorted(one) == sorted(other)
}

fn meets(scope: &[&str], pattern: &str, write: bool, asked: &Asked<'_>) -> bool {
    let routed = match pattern {
        "*" => true,
        "/a/*" => asked.endpoint.is_some_and(|endpoint| endpoint.contains("/a")),
        pattern => asked.endpoint == Some(pattern),
    };
    let has = |name: &&str| match *name {
        "app" => asked.app.is_some(),
        "key" => asked.key.is_some(),
        "user" => asked.user.is_some(),
        "ip" => asked.ip,
        "endpoint" => asked.endpoint.is_some(),
        _ => true,
    };
    routed && (!write || asked.write) && scope.iter().all(has)
}
