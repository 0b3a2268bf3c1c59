//! The one policy of a fleet, and how it changes.

use serde_json::{Value, json};

use crate::draw::Draw;

const ALGORITHMS: [&str; 5] = [
    "token_bucket",
    "leaky_bucket",
    "fixed_window",
    "sliding_window_log",
    "sliding_window_counter",
];
/// Much longer than a fleet lives, in minutes: no window ends, and little flows back.
const WINDOWS: [u64; 5] = [10, 20, 45, 60, 120];
/// An org and one of its users.
const COMBINATION: &str = "org and user";
/// Every request has a value of its own in each of these, alone or in an org of its own.
const SCOPES: [&str; 7] = ["org", "app", "key", "user", COMBINATION, "ip", "descriptor:model"];

/// What a change does with the count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// It goes on.
    GoesOn,
    /// Another one begins, with no more room than this one had left.
    Begins,
}

/// A policy.
#[derive(Debug, Clone)]
pub struct Policy {
    id: u64,
    algorithm: usize,
    pub limit: u64,
    burst: u64,
    window: u64,
    scope: usize,
    counter: u64,
    mode: &'static str,
    fail_mode: &'static str,
    accuracy: &'static str,
}

impl Policy {
    pub fn draw(id: u64, draw: &mut Draw) -> Self {
        Self {
            id,
            algorithm: below(draw, ALGORITHMS.len()),
            limit: 10 + draw.below(150),
            burst: 10 + draw.below(150),
            window: WINDOWS[below(draw, WINDOWS.len())],
            scope: below(draw, SCOPES.len()),
            counter: id * 1_000,
            mode: "enforce",
            fail_mode: ["closed", "open", "local", "local"][below(draw, 4)],
            accuracy: ["exact", "10%", "50%"][below(draw, 3)],
        }
    }

    /// The same policy after a change, what that does with the count, and what it is called. A policy is renamed only if its
    /// count is there: one that nothing was charged to begins with what is known of the policy's past, which another lacks.
    pub fn changed(&self, draw: &mut Draw, is_charged: bool) -> (Self, Count, &'static str) {
        let mut next = self.clone();
        let (count, name) = match draw.below(9) {
            0 => {
                next.limit = 10 + draw.below(150);
                (Count::GoesOn, "limit")
            }
            1 => {
                next.burst = 10 + draw.below(150);
                (Count::GoesOn, "burst")
            }
            2 => {
                next.mode = ["enforce", "shadow", "soft", "off"][below(draw, 4)];
                (Count::GoesOn, "mode")
            }
            // The count has a name of its own, so that it stays the same.
            3 if is_charged => {
                next.id += 1;
                (Count::GoesOn, "rename")
            }
            4 | 5 => {
                next.window = WINDOWS[below(draw, WINDOWS.len())];
                (self.unless_same(&next), "window")
            }
            6 => {
                next.algorithm = below(draw, ALGORITHMS.len());
                (self.unless_same(&next), "algorithm")
            }
            7 => {
                next.scope = below(draw, SCOPES.len());
                (self.unless_same(&next), "scope")
            }
            _ => {
                next.counter += 1;
                (Count::Begins, "counter")
            }
        };
        // What was not enforced is, sooner or later.
        if next.mode != "enforce" && name != "mode" {
            next.mode = "enforce";
        }
        (next, count, name)
    }

    fn unless_same(&self, next: &Self) -> Count {
        let name = |policy: &Self| (policy.algorithm, policy.window, policy.scope);
        if name(self) == name(next) {
            Count::GoesOn
        } else {
            Count::Begins
        }
    }

    pub fn is_enforced(&self) -> bool {
        self.mode == "enforce"
    }

    pub fn is_bucket(&self) -> bool {
        self.algorithm < 2
    }

    /// What may be used at once.
    pub fn capacity(&self) -> u64 {
        if self.is_bucket() { self.burst } else { self.limit }
    }

    /// What flows back in a second, at most: a window that slides lets go of what was used little by little, too.
    pub fn rate(&self) -> f64 {
        let flows = self.is_bucket() || ALGORITHMS[self.algorithm] == "sliding_window_counter";
        if flows {
            self.limit as f64 / (self.window * 60) as f64
        } else {
            0.0
        }
    }

    /// Its id.
    pub fn id(&self) -> String {
        format!("p{}", self.id)
    }

    /// As the control plane and a policy file take it.
    pub fn document(&self) -> Value {
        let mut document = json!({
            "id": self.id(), "scope": SCOPES[self.scope], "algorithm": ALGORITHMS[self.algorithm], "limit": self.limit,
            "window": format!("{}m", self.window), "counter": format!("c{}", self.counter), "mode": self.mode,
            "failMode": self.fail_mode, "accuracy": self.accuracy,
        });
        if SCOPES[self.scope] == COMBINATION {
            document["scope"] = json!(["org", "user"]);
        }
        match ALGORITHMS[self.algorithm] {
            "fixed_window" => document["anchor"] = json!("first"),
            _ if self.is_bucket() => document["burst"] = json!(self.burst),
            _ => {}
        }
        document
    }

    /// Gives its count a name that was never used.
    pub fn rename_count(&mut self) {
        self.counter += 100;
    }
}

fn below(draw: &mut Draw, bound: usize) -> usize {
    usize::try_from(draw.below(bound as u64)).unwrap()
}
