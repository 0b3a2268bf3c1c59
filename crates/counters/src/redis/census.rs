//! What the servers of a Cluster say of its slots, and what follows from all they say.
//!
//! Servers may disagree, after a failover for instance, when the old primary has not heard of it. Redis Cluster's own
//! rule decides: the claim with the highest configuration epoch holds.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use redis::Value;

use super::address::Server;
use super::dial::Line;
use super::slots::SLOTS;
use super::trouble::Trouble;

/// What one server says.
#[derive(Debug)]
pub(super) struct Census {
    claims: Vec<Claim>,
    /// Primaries without a slot, which may be about to get some.
    empty: Vec<Server>,
}

#[derive(Debug)]
struct Claim {
    slots: RangeInclusive<u16>,
    server: Server,
    epoch: u64,
}

/// Which primary serves which slot.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) primaries: Vec<Server>,
    /// How many of them serve slots; those are the first.
    pub(super) serving: usize,
    /// For each slot the place of its primary.
    pub(super) slots: Vec<Option<u16>>,
}

impl Census {
    /// Asks a server.
    pub(super) async fn take(line: &Line, by: &Server, secure: bool) -> Result<Self, Trouble> {
        let mut slots = redis::cmd("CLUSTER");
        slots.arg("SLOTS");
        let (slots, nodes) = tokio::join!(
            line.ask("CLUSTER SLOTS", &slots),
            line.ask_text(&["CLUSTER", "NODES"])
        );
        let nodes = nodes?;
        Self::read(&slots?, &nodes, by, secure)
            .ok_or_else(|| Trouble::Strange("CLUSTER SLOTS or CLUSTER NODES can't be read".to_owned()))
    }

    fn read(slots: &Value, nodes: &str, by: &Server, secure: bool) -> Option<Self> {
        let mut census = Self {
            claims: Vec::new(),
            empty: Vec::new(),
        };
        let mut epochs = BTreeMap::new();
        for node in nodes.lines().filter_map(Node::read) {
            epochs.insert(node.id, node.epoch);
            if node.is_empty_primary() {
                census.empty.extend(node.server(by, secure));
            }
        }
        let Value::Array(ranges) = slots else { return None };
        for range in ranges {
            let Value::Array(range) = range else { return None };
            let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = range.as_slice() else {
                return None;
            };
            let [host, Value::Int(port), id, ..] = primary.as_slice() else {
                return None;
            };
            let (first, last) = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
            // Without a preferred name it is where we have asked.
            let host = text(host).unwrap_or_default();
            census.claims.push(Claim {
                slots: first..=last.min(SLOTS - 1),
                server: Server::of(host, u16::try_from(*port).ok()?, by)?,
                epoch: epochs.get(text(id)?).copied()?,
            });
        }
        Some(census)
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

/// A line of `CLUSTER NODES`.
struct Node<'a> {
    id: &'a str,
    address: &'a str,
    flags: &'a str,
    epoch: u64,
    slots: Vec<&'a str>,
}

impl<'a> Node<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (id, address, flags) = (words.next()?, words.next()?, words.next()?);
        let epoch = words.nth(3)?.parse().ok()?;
        // The word between is the state of the link.
        let slots = words.skip(1).collect();
        Some(Self {
            id,
            address,
            flags,
            epoch,
            slots,
        })
    }

    fn has(&self, flag: &str) -> bool {
        self.flags.split(',').any(|word| word == flag)
    }

    fn is_empty_primary(&self) -> bool {
        let gone = ["fail", "noaddr", "handshake"].iter().any(|flag| self.has(flag));
        self.has("master") && self.slots.is_empty() && !gone
    }

    /// `address:port@bus,name`. A certificate is rather for the name.
    fn server(&self, by: &Server, secure: bool) -> Option<Server> {
        let (address, after) = self.address.split_once('@')?;
        let address = Server::told(address, by)?;
        let name = after.split(',').nth(1).filter(|name| secure && !name.is_empty());
        name.map_or(Some(address.clone()), |name| Server::of(name, address.port, by))
    }
}

/// Whether a server says of itself that it is a primary and that a slot is not, or not for long, its own.
pub(super) fn has_handed_over(nodes: &str, slot: u16) -> bool {
    let myself = nodes
        .lines()
        .filter_map(Node::read)
        .find(|node| node.has("myself"));
    let Some(myself) = myself.filter(|node| node.has("master")) else {
        return false;
    };
    let leaving = format!("[{slot}->-");
    let holds = |word: &str| {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        matches!((first.parse(), last.parse()), (Ok(first), Ok(last)) if (first..=last).contains(&slot))
    };
    myself.slots.iter().any(|word| word.starts_with(&leaving)) || !myself.slots.iter().any(|word| holds(word))
}

impl Plan {
    /// What follows from what several servers say.
    pub(super) fn of(all: &[Census]) -> Self {
        let mut best: Vec<Option<&Claim>> = vec![None; usize::from(SLOTS)];
        for claim in all.iter().flat_map(|census| &census.claims) {
            for slot in claim.slots.clone() {
                let best = &mut best[usize::from(slot)];
                if best.is_none_or(|other| claim.epoch > other.epoch) {
                    *best = Some(claim);
                }
            }
        }
        let mut plan = Self::default();
        let mut places: BTreeMap<&Server, u16> = BTreeMap::new();
        for claim in best {
            let place = claim.map(|claim| {
                *places.entry(&claim.server).or_insert_with(|| {
                    plan.primaries.push(claim.server.clone());
                    // There are no more of them than slots.
                    u16::try_from(plan.primaries.len() - 1).unwrap_or(u16::MAX)
                })
            });
            plan.slots.push(place);
        }
        plan.serving = plan.primaries.len();
        for server in all.iter().flat_map(|census| &census.empty) {
            if !plan.primaries.contains(server) {
                plan.primaries.push(server.clone());
            }
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seed() -> Server {
        Server::told(
            "10.0.0.9:7000",
            &Server {
                host: "x".into(),
                port: 1,
            },
        )
        .unwrap()
    }

    fn range(first: i64, last: i64, host: Value, port: i64, id: &str) -> Value {
        let primary = Value::Array(vec![host, Value::Int(port), bulk(id), Value::Array(vec![])]);
        let replica = Value::Array(vec![
            bulk("10.0.0.7"),
            Value::Int(1),
            bulk("r"),
            Value::Array(vec![]),
        ]);
        Value::Array(vec![Value::Int(first), Value::Int(last), primary, replica])
    }

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn census(slots: Vec<Value>, nodes: &str) -> Census {
        Census::read(&Value::Array(slots), nodes, &seed(), false).unwrap()
    }

    #[test]
    fn the_claim_with_the_highest_epoch_holds_whoever_says_it_first() {
        let nodes = "a 10.0.0.1:1@11 master - 0 0 3 connected 0-99\n\
                     b 10.0.0.2:2@12 master - 0 0 4 connected 100-16383\n";
        let old = || {
            census(
                vec![
                    range(0, 99, bulk("10.0.0.1"), 1, "a"),
                    range(100, 16383, bulk("10.0.0.2"), 2, "b"),
                ],
                nodes,
            )
        };
        let nodes = "a 10.0.0.1:1@11 master,fail - 0 0 3 disconnected\n\
                     c 10.0.0.3:3@13 master - 0 0 5 connected 0-99\n\
                     b 10.0.0.2:2@12 master - 0 0 4 connected 100-16383\n";
        let new = || {
            census(
                vec![
                    range(0, 99, bulk("10.0.0.3"), 3, "c"),
                    range(100, 16383, bulk("10.0.0.2"), 2, "b"),
                ],
                nodes,
            )
        };
        let plan = Plan::of(&[old(), new()]);
        assert_eq!(plan, Plan::of(&[new(), old()]));
        assert_eq!(format!("{:?}", plan.primaries), "[10.0.0.3:3, 10.0.0.2:2]");
        assert_eq!((plan.slots[99], plan.slots[100]), (Some(0), Some(1)));
    }

    #[test]
    fn slots_may_be_unserved_and_primaries_empty() {
        let nodes = "a :7000@17000,name.example myself,master - 0 0 3 connected 5\n\
                     b 10.0.0.2:2@12,b.example master - 0 0 4 connected\n\
                     c 10.0.0.3:3@13 master,fail - 0 0 5 connected\n\
                     d 10.0.0.4:4@14 slave a 0 0 5 connected\n";
        let plan = Plan::of(&[census(vec![range(5, 5, Value::Nil, 7000, "a")], nodes)]);
        assert_eq!(format!("{:?}", plan.primaries), "[10.0.0.9:7000, 10.0.0.2:2]");
        assert_eq!(plan.slots.iter().flatten().count(), 1);
        let secure = Census::read(&Value::Array(vec![]), nodes, &seed(), true).unwrap();
        assert_eq!(format!("{:?}", secure.empty), "[b.example:2]");
    }

    #[test]
    fn a_server_says_itself_what_it_has_handed_over() {
        let nodes = |flags: &str, slots: &str| {
            format!("a :1@2 myself,{flags} - 0 0 3 connected {slots}\nb h:1@2 master - 0 0 4 connected 7\n")
        };
        for (flags, slots, handed) in [
            ("master", "0-99", false),
            ("master", "7", false),
            ("master", "0-6 8-99", true),
            ("master", "", true),
            ("master", "0-99 [7->-b]", true),
            ("master", "0-99 [77->-b]", false),
            ("master", "0-6 [7-<-b]", true),
            ("slave", "", false),
        ] {
            assert_eq!(
                has_handed_over(&nodes(flags, slots), 7),
                handed,
                "{flags} {slots}"
            );
        }
        assert!(!has_handed_over("", 7));
    }
}
