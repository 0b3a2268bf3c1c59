//! A node that is killed while it writes leaves nothing half done, and loses nothing that it has answered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use serde_json::Value;
use tollgate_catalog::repository::Repository;

use crate::common::DEADLINE;
use crate::fleet::{found, intact, journal, node, override_ids, override_to, pause, seen, try_override};
use crate::postgres::Postgres;

const ROUNDS: usize = 5;
const WRITERS: usize = 2;

#[test]
fn a_killed_node_loses_nothing_with_postgres() {
    let postgres = Postgres::start();
    kill_and_look(&postgres.create());
}

#[test]
fn a_killed_node_loses_nothing_with_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    kill_and_look(&format!(
        "sqlite:{}",
        directory.path().join("catalogue.sqlite3").display()
    ));
}

fn kill_and_look(database: &str) {
    let mut node = node(database);
    found(&node, 1_000);
    let mut answered = BTreeSet::new();
    for round in 1..=ROUNDS {
        let (sender, made) = channel();
        let writers: Vec<_> = (0..WRITERS as u64)
            .map(|writer| {
                let (address, sender) = (node.admin, sender.clone());
                let first = 10_000 * round as u64 + 1_000 * writer;
                std::thread::spawn(move || write_until_killed(address, first, &sender))
            })
            .collect();
        drop(sender);
        for _ in 0..random(3, 30) {
            answered.insert(made.recv_timeout(DEADLINE).expect("the node writes"));
        }
        pause(Duration::from_micros(random(0, 5_000)));
        node.restart("KILL");
        for writer in writers {
            writer.join().unwrap();
        }
        answered.extend(made);

        let rows = journal(&node);
        intact(&node, rows.len() as u64);
        let (listed, said) = (override_ids(&node), entries(&rows));
        let said_overrides = said.keys().filter(|(kind, _, _)| kind == "override");
        assert_eq!(listed, said_overrides.map(|(_, _, id)| id.clone()).collect());
        assert_eq!(held(database), said.keys().cloned().collect());
        let lost: Vec<_> = answered.difference(&listed).collect();
        assert!(lost.is_empty(), "answered, and lost: {lost:?}");
        // Nobody but a writer that got no answer can have left something else.
        assert!(
            listed.len() <= answered.len() + WRITERS,
            "{listed:?} {answered:?}"
        );
        assert_eq!(seen(&node), rows.last().unwrap()["after"]["limit"].as_u64());
        answered = listed;
        let (id, revision) = override_to(&node, 2_000 + round as u64);
        assert_eq!(revision, rows.len() as u64 + 1);
        assert_eq!(seen(&node), Some(2_000 + round as u64));
        answered.insert(id);
    }
}

fn write_until_killed(address: std::net::SocketAddr, first: u64, made: &Sender<String>) {
    for limit in first.. {
        match try_override(address, limit) {
            Some(id) => made.send(id).unwrap(),
            None => return,
        }
    }
}

/// The kind, org and id of an entry.
type Place = (String, String, String);

/// What there is by the journal: what each entry has become.
fn entries(journal: &[Value]) -> BTreeMap<Place, &Value> {
    let mut entries = BTreeMap::new();
    for row in journal {
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let kind = text("kind");
        // An org is an entry of none, though its audit has it.
        let org = if kind == "org" {
            String::new()
        } else {
            text("orgId")
        };
        let place = (kind, org, text("id"));
        match &row["after"] {
            Value::Null => entries.remove(&place),
            body => entries.insert(place, body),
        };
    }
    entries
}

/// What the database holds.
fn held(database: &str) -> BTreeSet<Place> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let repository = Repository::open(database).await.unwrap();
        let entries = repository.page(None, 1_000_000).await.unwrap();
        let verified = repository.verify().await.unwrap();
        assert_eq!(verified.broken, None);
        repository.close().await;
        let place = |entry: tollgate_catalog::repository::Entry| {
            let place = entry.place;
            (place.kind.name().to_owned(), place.org, place.id)
        };
        entries.into_iter().map(place).collect()
    })
}

/// A number from one up to another.
fn random(from: u64, to: u64) -> u64 {
    from + getrandom::u64().unwrap() % (to - from + 1)
}
