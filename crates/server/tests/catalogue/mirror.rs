//! A node with an empty disk starts while the database is away, from what another node of its fleet has put in Redis.

use serde_json::{Value, json};

use crate::common::{Launch, Server, run};
use crate::fleet::{ORG, TOKEN, admin, found, limit_of, override_of, override_to, seen, sees, until, write};
use crate::postgres::Postgres;
use crate::servers;

/// Starts a node of a fleet with an empty disk.
fn node(database: &str, redis: &str) -> Server {
    let flags = ["--database", database, "--redis", redis, "--admin-token", TOKEN];
    Server::launch(&Launch {
        flags: &[&flags[..], &["--threads", "1"]].concat(),
        ..Launch::default()
    })
}

/// What a node knows of the mirror.
fn mirror(node: &Server) -> Value {
    admin(node, "GET", "/v1/fleet").send().expect(200)["mirror"].clone()
}

/// Waits until a revision is mirrored.
fn mirrors(node: &Server, revision: u64) {
    until("the mirror to be up to date", || {
        mirror(node)["revision"] == revision
    });
}

fn origin(node: &Server) -> Value {
    node.ask_admin("GET", "/readyz").send().expect(200)["catalogueFrom"].clone()
}

#[test]
fn a_fresh_node_starts_without_its_database() {
    let (mut postgres, redis) = (Postgres::start(), servers::Server::start());
    let database = postgres.create();
    let a = node(&database, &redis.url());
    found(&a, 1_000);
    write(&a, "PUT", &format!("/v1/orgs/{ORG}/apps/web"), &json!({}));
    let keys = format!("/v1/orgs/{ORG}/apps/web/keys");
    let made = admin(&a, "POST", &keys).body("{}").send().expect(201);
    let (_, last) = override_to(&a, 700);
    mirrors(&a, last);
    // What is in Redis of a secret is its hash, as on disk.
    let secret = made["secret"].as_str().unwrap();
    for key in redis.run(&["KEYS", "*:mirror"]).lines() {
        let text = redis.run(&["GET", key]);
        assert!(!text.contains(secret) && !text.contains(TOKEN), "{key}: {text}");
    }

    postgres.kill();
    let b = node(&database, &redis.url());
    assert_eq!(seen(&b), Some(700));
    let by_key = b.check(&json!({"apiKey": secret, "cost": 0}));
    assert_eq!(by_key.status, 200, "{}", by_key.text());
    assert_eq!(origin(&b), "redis");
    assert_eq!(b.counted("tollgate_catalogue_from_redis"), 1);
    assert_eq!(b.counted("tollgate_catalogue_from_disk"), 0);
    b.logs("what was kept in Redis is in force");
    // Both count together.
    for node in [&a, &b] {
        node.allowed(&json!({"orgId": ORG, "cost": 10}));
    }
    let left = [&a, &b].map(|node| node.left("org-rate", &json!({"orgId": ORG})));
    assert!(left.contains(&680), "{left:?}");

    postgres.start_again();
    until("the database to confirm it", || origin(&b) == "database");
    override_to(&a, 900);
    sees(&b, 900);
    override_to(&b, 950);
    sees(&a, 950);
}

#[test]
fn one_node_writes_chunks_wherever_a_cluster_wants_them() {
    let (mut postgres, cluster) = (Postgres::start(), servers::Cluster::start());
    let database = postgres.create();
    let nodes = [(); 2].map(|()| node(&database, &cluster.url()));
    found(&nodes[0], 1_000);
    // More than one chunk.
    let long = "x".repeat(1_000);
    let mut last = 0;
    for number in 0..100 {
        write(&nodes[0], "PUT", &format!("/v1/orgs/org-{number}"), &json!({}));
        let body = json!({"policyId": "org-rate", "limit": number + 1, "reason": long});
        let target = format!("/v1/orgs/org-{number}/ratelimit/overrides");
        last = write(&nodes[0], "POST", &target, &body);
    }
    for node in &nodes {
        mirrors(node, last);
    }
    let writers = nodes.iter().filter(|node| mirror(node)["writtenHere"] == true);
    assert_eq!(writers.count(), 1);
    assert!(mirror(&nodes[0])["bytes"].as_u64().unwrap() > 1 << 16);

    // A later version takes the place of this one, and all that is there will go some day.
    override_of(&nodes[1], "org-7", 77);
    mirrors(&nodes[0], last + 1);
    let (mut lasting, mut leaving) = (0, 0);
    for server in &cluster.servers[..3] {
        for key in server
            .run(&["KEYS", "*:mirror"])
            .lines()
            .filter(|key| !key.is_empty())
        {
            match server.run(&["TTL", key]).parse::<i64>().unwrap() {
                3_601.. => lasting += 1,
                1..=3_600 => leaving += 1,
                other => panic!("{key} lives for {other} s"),
            }
        }
    }
    // The index, and what does not change of the chunks; the last one is another.
    assert!(lasting >= 3 && leaving >= 1, "{lasting} {leaving}");

    postgres.kill();
    let fresh = node(&database, &cluster.url());
    assert_eq!(origin(&fresh), "redis");
    let limits = ["org-7", "org-99", "nobody"].map(|org| limit_of(&fresh, org));
    assert_eq!(limits, [Some(77), Some(100), Some(1_000)]);
}

#[test]
fn a_mirror_that_is_lost_is_written_again() {
    let (mut postgres, redis) = (Postgres::start(), servers::Server::start());
    let database = postgres.create();
    let a = node(&database, &redis.url());
    found(&a, 1_000);
    let (_, last) = override_to(&a, 700);
    mirrors(&a, last);
    // Even if the database is away by then.
    postgres.kill();
    redis.ok(&["FLUSHALL"]);
    until("the mirror to be there again", || {
        redis
            .run(&["GET", "tg:local:{fleet}:mirror"])
            .starts_with(&format!("{last} "))
    });
    let b = node(&database, &redis.url());
    assert_eq!(
        b.ask_admin("GET", "/readyz").send().expect(200)["catalogueRevision"],
        last
    );
}

#[test]
fn without_any_copy_a_node_says_what_is_wrong() {
    let (mut postgres, redis) = (Postgres::start(), servers::Server::start());
    let database = postgres.create();
    postgres.kill();
    let directory = tempfile::TempDir::new().unwrap();
    let told = run(&[
        "serve",
        "--admin-token",
        TOKEN,
        "--database",
        &database,
        "--redis",
        &redis.url(),
        "--http",
        "127.0.0.1:0",
        "--grpc",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--data-dir",
        directory.path().to_str().unwrap(),
    ]);
    let told = told.complaint(2);
    assert!(told.contains("--database: "), "{told}");
}

#[test]
fn a_node_that_lacks_the_database_of_the_others_says_so() {
    let (postgres, redis) = (Postgres::start(), servers::Server::start());
    let a = node(&postgres.create(), &redis.url());
    found(&a, 1_000);
    until("the mirror", || mirror(&a)["revision"] == 2);
    let alone = Server::launch(&Launch {
        flags: &["--redis", &redis.url(), "--threads", "1"],
        ..Launch::default()
    });
    alone.logs("is --database missing?");
    assert_eq!(origin(&alone), "database");
}

#[test]
fn nodes_that_share_only_a_redis_are_told_what_they_do_not_share() {
    let redis = servers::Server::start();
    let alone = || {
        Server::launch(&Launch {
            policies: Some("policies: [{id: org-rate, scope: org, limit: 100, window: 1h}]\n"),
            flags: &["--redis", &redis.url(), "--admin-token", TOKEN, "--threads", "1"],
            ..Launch::default()
        })
    };
    for node in [alone(), alone()] {
        let log = node.logs("without a shared --database");
        let warning = log
            .lines()
            .find(|line| line.contains("without a shared --database"));
        assert!(warning.is_some_and(|line| line.contains("WARN")), "{log}");
        let ready = node.ask_admin("GET", "/readyz").send().expect(200);
        let warnings = ready["warnings"].to_string();
        for word in ["--database", "keys", "overrides", "quotas"] {
            assert!(warnings.contains(word), "{word}: {warnings}");
        }
    }
    let postgres = Postgres::start();
    let shared = node(&postgres.create(), &redis.url());
    assert!(!shared.stderr().contains("without a shared --database"));
    let ready = shared.ask_admin("GET", "/readyz").send().expect(200);
    assert!(!ready["warnings"].to_string().contains("--database"), "{ready}");
}

/// What is damaged is as good as nothing, and nothing is worse than what others know.
#[test]
fn a_node_whose_copy_is_damaged_starts_from_the_mirror() {
    let (mut postgres, redis) = (Postgres::start(), servers::Server::start());
    let database = postgres.create();
    let mut a = node(&database, &redis.url());
    found(&a, 1_000);
    let (_, last) = override_to(&a, 700);
    mirrors(&a, last);
    a.end("TERM");
    postgres.kill();
    let file = a.data("catalogue.snapshot");
    let whole = std::fs::read(&file).unwrap();
    for bytes in [&[][..], &whole[..whole.len() * 2 / 3], b"[0]\n"] {
        std::fs::write(&file, bytes).unwrap();
        a.start_again();
        assert_eq!(seen(&a), Some(700));
        assert_eq!(origin(&a), "redis");
        a.end("KILL");
    }
}
