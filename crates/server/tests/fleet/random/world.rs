//! A fleet, its Redis, and what happens to them.

use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_counters::redis::slot_of_tag;

use super::book::{Book, Told};
use super::policy::{Count, Policy};
use crate::common::http::Ask;
use crate::common::{Launch, Server, file_of, wait_for};
use crate::draw::Draw;
use crate::servers;

/// Orgs that ask, each with a book of its own.
const ORGS: u64 = 3;
/// The time after which a lowered limit binds what nodes have borrowed.
const LONGEST_HOLD: Duration = Duration::from_millis(1_100);
/// Policies that are in force one after the other, each with new orgs: with a past of its own.
const LIVES: u64 = 3;

/// The token that all nodes take.
const TOKEN: &str = "the token of every node of this fleet";

enum Store {
    One(servers::Server),
    Cluster(servers::Cluster),
}

/// Where policies are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// In a database that all nodes share.
    Database,
    /// In a file of each node. What a policy was before is known only to a process that saw it change, so that no node is
    /// started again once a count has begun, and no name comes back.
    File,
}

/// A fleet.
pub struct World {
    /// What happens.
    draw: Draw,
    /// Which node is asked first: of as many numbers as there are requests, which is up to the answers.
    order: Draw,
    seed: u64,
    store: Store,
    nodes: Vec<Server>,
    source: Source,
    policy: Policy,
    books: Vec<Book>,
    /// The count is not the first of this life.
    has_changed: bool,
    /// Which org comes first in this life.
    first: u64,
    /// The limits that span orgs stand beside the policy.
    spanning: bool,
    decisions: u64,
    /// What has happened, for whoever has to find out why.
    history: Vec<String>,
}

impl World {
    /// A fleet that has not been asked for anything.
    pub fn start(mut draw: Draw, seed: u64, cluster: bool, database: &str) -> Self {
        let store = if cluster {
            Store::Cluster(servers::Cluster::start())
        } else {
            Store::One(servers::Server::start())
        };
        let url = match &store {
            Store::One(redis) => redis.url(),
            Store::Cluster(cluster) => cluster.url(),
        };
        let policy = Policy::draw(1, &mut draw);
        let source =
            [Source::Database, Source::Database, Source::File][usize::try_from(draw.below(3)).unwrap()];
        let spanning = draw.below(3) == 0;
        let flags = ["--redis", &url, "--threads", "1", "--admin-token", TOKEN];
        let flags = match source {
            Source::Database => [&flags[..], &["--database", database]].concat(),
            Source::File => flags.to_vec(),
        };
        let node = || {
            Server::launch(&Launch {
                policies: Some("policies: []"),
                flags: &flags,
                ..Launch::default()
            })
        };
        let nodes = std::thread::scope(|scope| {
            let all: Vec<_> = (0..2 + draw.below(3)).map(|_| scope.spawn(node)).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        Self {
            draw,
            order: Draw(seed),
            seed,
            store,
            nodes,
            source,
            books: Vec::new(),
            policy,
            has_changed: false,
            first: 0,
            spanning,
            decisions: 0,
            history: Vec::new(),
        }
    }

    /// Lets things happen, and says how many decisions there were.
    pub fn play(mut self) -> u64 {
        for node in &self.nodes {
            wait_for("all nodes to be known", || {
                let known = node.counted("tollgate_fleet_nodes{region=\"local\"}");
                (known == self.nodes.len() as u64).then_some(())
            });
        }
        for life in 0..LIVES {
            self.begin_life(life);
            let capacity = self.policy.capacity();
            let count = capacity / 2 + self.draw_below(capacity);
            self.traffic(count);
            let events = 2 + self.draw_below(3);
            // What forgets counters has all that come after count as used up: it is the last that happens.
            let loss = (life + 1 == LIVES && self.draw_below(2) == 0).then(|| self.draw_below(events));
            for event in 0..events {
                if loss == Some(event) {
                    self.lose();
                }
                match self.draw_below(10) {
                    0..=2 => self.change(),
                    3..=4 => {
                        self.change();
                        self.blip(false);
                    }
                    5 => self.blip(true),
                    6 => self.blip(false),
                    7..=8 => self.restart(),
                    _ => {}
                }
                let count = self.draw_below(30);
                self.traffic(count);
            }
            self.exhaust();
        }
        self.decisions
    }

    /// Puts another policy in force for orgs that nobody has asked for.
    fn begin_life(&mut self, life: u64) {
        let next = Policy::draw(100 * (life + 1), &mut self.draw);
        let before = std::mem::replace(&mut self.policy, next);
        self.first += ORGS;
        self.has_changed = false;
        self.put(&before);
        self.books = (0..ORGS).map(|_| Book::open(&self.policy)).collect();
        let source = if self.source == Source::File {
            "a file"
        } else {
            "a database"
        };
        let nodes = self.nodes.len();
        self.note(format!(
            "life {life}: {} of {source}, {nodes} nodes",
            self.policy.document()
        ));
    }

    /// Puts the policy in force on all nodes, in place of another.
    fn put(&self, before: &Policy) {
        let mut policies = vec![self.policy.document()];
        if self.spanning {
            policies.push(json!({
                "id": "everybody", "scope": "global", "algorithm": "fixed_window", "limit": 1_000_000, "window": "366d",
                "failMode": "open",
            }));
        }
        match self.source {
            Source::File => {
                let lines: Vec<String> = policies.iter().map(Value::to_string).collect();
                let revisions: Vec<u64> = self.nodes.iter().map(revision).collect();
                for node in &self.nodes {
                    node.write_policies(&file_of(&lines));
                }
                for (node, before) in self.nodes.iter().zip(revisions) {
                    wait_for("the new policies", || (revision(node) > before).then_some(()));
                }
            }
            Source::Database => {
                let admin = self.nodes[0].with_token(TOKEN);
                for policy in &policies {
                    admin.set("/v1/ratelimit/policies", policy);
                }
                if before.id() != self.policy.id() {
                    // It is not there before the first.
                    admin.delete(&format!("/v1/ratelimit/policies/{}", before.id()));
                }
                let written = catalogue_revision(&self.nodes[0]);
                for node in &self.nodes {
                    wait_for("the new policies", || {
                        (catalogue_revision(node) >= written).then_some(())
                    });
                }
            }
        }
    }

    /// Changes the policy.
    fn change(&mut self) {
        let is_charged = self.books.iter().all(|book| book.is_charged);
        let (mut next, count, name) = self.policy.changed(&mut self.draw, is_charged);
        if next.document() == self.policy.document() {
            return;
        }
        if count == Count::Begins {
            self.has_changed = true;
            if self.source == Source::File {
                next.rename_count();
            }
        }
        let before = std::mem::replace(&mut self.policy, next);
        self.put(&before);
        for book in &mut self.books {
            book.change(&before, &self.policy, count);
        }
        if self.policy.capacity() < before.capacity() {
            // What nodes hold by the greater limit is theirs to spend until it ends.
            pause(LONGEST_HOLD);
        }
        let goes_on = if count == Count::GoesOn {
            "goes on"
        } else {
            "begins"
        };
        let document = self.policy.document();
        self.note(format!("change of {name}, a count that {goes_on}: {document}"));
    }

    /// Has Redis say nothing for a while. Some requests come meanwhile, perhaps by another policy.
    fn blip(&mut self, changes: bool) {
        let pause = 30
            + if self.draw.below(3) == 0 {
                self.draw.below(1_470)
            } else {
                self.draw.below(120)
            };
        self.note(format!("Redis is stopped, for {pause} ms at least"));
        self.signal(true);
        if changes {
            self.change();
        }
        let count = self.draw_below(4);
        self.traffic(count);
        self::pause(Duration::from_millis(pause));
        self.signal(false);
        self.note("Redis goes on".to_owned());
        self.wait_until_used();
    }

    fn signal(&self, stops: bool) {
        let servers = match &self.store {
            Store::One(redis) => std::slice::from_ref(redis),
            // None is taken for dead as long as no other could say so.
            Store::Cluster(cluster) => &cluster.servers,
        };
        for server in servers {
            if stops {
                server.pause();
            } else {
                server.resume();
            }
        }
    }

    /// Ends a node and starts it again.
    fn restart(&mut self) {
        if self.source == Source::File && self.has_changed {
            return;
        }
        let node = usize::try_from(self.draw.below(self.nodes.len() as u64)).unwrap();
        let signal = ["TERM", "KILL"][usize::from(self.draw.below(2) == 0)];
        self.nodes[node].restart(signal);
        self.note(format!("node {node} restarted by SIG{signal}"));
        self.wait_until_used();
    }

    /// Has Redis forget everything, or what one server of a Cluster has.
    fn lose(&mut self) {
        let how = self.draw.below(4);
        let (org, history) = (self.org(0), &mut self.history);
        match &mut self.store {
            Store::One(redis) => match how {
                0 => {
                    redis.ok(&["FLUSHALL"]);
                    history.push("FLUSHALL".to_owned());
                }
                1 => {
                    redis.ok(&["SCRIPT", "FLUSH"]);
                    history.push("SCRIPT FLUSH".to_owned());
                }
                _ => {
                    redis.kill();
                    redis.start_empty();
                    history.push("Redis killed, and started empty".to_owned());
                }
            },
            Store::Cluster(cluster) => {
                let primary = cluster.primary_of(slot_of_tag(org.as_bytes()));
                let replica = cluster.replica_of(primary);
                cluster.servers[replica].ok(&["CLUSTER", "FAILOVER"]);
                history.push(format!("CLUSTER FAILOVER from {primary} to {replica}"));
            }
        }
        self.wait_until_used();
    }

    /// Waits until nodes use Redis again.
    fn wait_until_used(&self) {
        for node in &self.nodes {
            wait_for("Redis to be used again", || {
                (node.counted("tollgate_fallback_active{region=\"local\"}") == 0).then_some(())
            });
        }
    }

    /// Each org asks so many times, at nodes by turns, and what it is told is entered.
    fn traffic(&mut self, count: u64) -> Told {
        let addresses: Vec<SocketAddr> = self.nodes.iter().map(|node| node.http).collect();
        let mut all = Told::default();
        let told: Vec<Told> = std::thread::scope(|scope| {
            let orgs: Vec<_> = (0..ORGS)
                .map(|org| {
                    let (body, offset) = (self.body(org), self.order.below(8));
                    let addresses = &addresses;
                    scope.spawn(move || {
                        let mut told = Told::default();
                        for turn in 0..count {
                            let node = usize::try_from(turn + offset).unwrap() % addresses.len();
                            told.add(&ask(addresses[node], &body));
                        }
                        told
                    })
                })
                .collect();
            orgs.into_iter().map(|org| org.join().unwrap()).collect()
        });
        for (org, told) in told.iter().enumerate() {
            all.add(told);
            self.note(format!("{}: {told:?}", self.org(org as u64)));
            let over = self.books[org].enter(&self.policy, told);
            if let Some(over) = over {
                panic!(
                    "{over} more than there was room for, TOLLGATE_FLEET_SEED={}:\n{}",
                    self.seed,
                    self.history.join("\n")
                );
            }
        }
        self.decisions += all.all();
        all
    }

    /// Asks until nothing more is let through.
    fn exhaust(&mut self) {
        let mut asked = 0;
        loop {
            let told = self.traffic(20);
            asked += 1;
            let is_over = told.admitted + told.fallback == 0 && told.denied > 0;
            if is_over || !self.policy.is_enforced() || asked == 20 {
                return;
            }
        }
    }

    fn org(&self, org: u64) -> String {
        format!("org-{}", self.first + org)
    }

    /// What an org asks: always the same.
    fn body(&self, org: u64) -> Value {
        let number = self.first + org;
        json!({
            "orgId": self.org(org), "appId": "web", "keyId": "k", "userId": "u", "ip": format!("192.0.2.{number}"),
            "descriptors": {"model": format!("m{number}")},
        })
    }

    fn draw_below(&mut self, bound: u64) -> u64 {
        self.draw.below(bound.max(1))
    }

    fn note(&mut self, what: String) {
        self.history.push(what);
    }
}

/// Lets time pass.
fn pause(time: Duration) {
    // Nothing is ever sent.
    let (_silent, pause) = channel::<()>();
    let _ = pause.recv_timeout(time);
}

fn revision(node: &Server) -> u64 {
    node.counted("tollgate_policy_revision")
}

fn catalogue_revision(node: &Server) -> u64 {
    let ready = node.ask_admin("GET", "/readyz").send().expect(200);
    ready["catalogueRevision"].as_u64().unwrap()
}

fn ask(address: SocketAddr, body: &Value) -> Told {
    let answer = Ask::new(address, "POST", "/v1/check")
        .body(body.to_string())
        .send();
    let mut told = Told::default();
    match answer.status {
        200 if answer.json()["degraded"] == true => told.fallback = 1,
        200 => told.admitted = 1,
        429 => told.denied = 1,
        503 => told.unavailable = 1,
        other => panic!("{other}: {}", answer.text()),
    }
    told
}
