//! The ledger: marks that move within the limit whoever asks, and are there after everything.

use tollgate_catalog::repository::{
    Ask, Corrected, Correcting, Correction, Done, Exchange, Kind, Refund, Replaced, Repository, Told,
    Unsettled, Usage,
};
use tollgate_core::Timestamp;

use crate::cases;
use crate::database::{Database, author};

cases!(
    grants_no_more_than_the_limit_to_many_nodes,
    keeps_what_was_granted,
    takes_back_what_another_node_spent,
    knows_which_exchange_was_done,
    settles_what_a_run_has_left,
    begins_periods,
    opens_rows_with_the_room_of_those_they_replace,
    charges_rows_for_what_is_reported_late_to_those_they_replace,
    counts_nodes_that_have_nothing_to_say,
    lists_the_rows_of_an_org,
    tidies_what_is_long_over,
    grants_nothing_for_rows_that_are_gone,
    is_corrected_by_hand,
    adds_usage_up,
    stops_at_the_largest_sum_of_usage,
    goes_on_without_usage_that_is_refused,
    alerts_once_for_each_period_and_threshold,
    takes_ten_thousand_rows_at_once
);

const DAY: u64 = 86_400 * 1_000_000_000;
const NOW: u64 = 20_000 * DAY + DAY / 2;

fn name(number: u64) -> [u8; 16] {
    let mut name = [7; 16];
    name[..8].copy_from_slice(&number.to_be_bytes());
    name
}

fn ask(number: u64, limit: u64) -> Ask {
    Ask {
        name: name(number),
        org: "acme".to_owned(),
        label: "{}".to_owned(),
        relabel: false,
        limit,
        alert_limit: limit,
        period: (20_000 * DAY, 20_001 * DAY),
        generation: 0,
        until: 20_001 * DAY,
        spent: 0,
        unused: 0,
        owes: 0,
        gives: 0,
        needs: 0,
        wants: 0,
        room: u64::MAX,
        formers: Vec::new(),
    }
}

async fn exchange(repository: &Repository, number: i64, now: u64, asks: &[Ask]) -> Vec<Told> {
    let exchange = Exchange {
        region: "local",
        node: "node",
        lives: true,
        number,
        now: Timestamp::from_nanos(now),
        asks,
        usage: &[],
        refunds: &[],
        unsettled: &[],
        alerts: &[],
    };
    repository.exchange(&exchange).await.unwrap()
}

async fn grants_no_more_than_the_limit_to_many_nodes(database: Database) {
    const NODES: u64 = 4;
    const LIMIT: u64 = 1_000;
    let mut nodes = Vec::new();
    for node in 0..NODES {
        let repository = database.open().await;
        nodes.push(tokio::spawn(async move {
            let mut granted = [0; 3];
            for round in 0..40 {
                // In another order on each node, to meet the others half way.
                let asks: Vec<Ask> = (0..3)
                    .map(|number| Ask {
                        needs: 11 + round % 7,
                        wants: 5,
                        ..ask((number + node) % 3, LIMIT)
                    })
                    .collect();
                let id = format!("node-{node}");
                let exchange = Exchange {
                    region: "local",
                    node: &id,
                    lives: true,
                    number: 1,
                    now: Timestamp::from_nanos(NOW),
                    asks: &asks,
                    usage: &[],
                    refunds: &[],
                    unsettled: &[],
                    alerts: &[],
                };
                let told = repository.exchange(&exchange).await.unwrap();
                for (place, told) in told.iter().enumerate() {
                    granted[usize::try_from((place as u64 + node) % 3).unwrap()] += told.granted;
                    assert!(told.row.mark <= LIMIT);
                }
            }
            granted
        }));
    }
    let mut granted = [0; 3];
    for node in nodes {
        for (sum, part) in granted.iter_mut().zip(node.await.unwrap()) {
            *sum += part;
        }
    }
    assert_eq!(granted, [LIMIT; 3]);
    let repository = database.open().await;
    assert_eq!(
        repository.ledger_nodes(Timestamp::from_nanos(NOW)).await.unwrap(),
        NODES
    );
}

async fn takes_back_what_another_node_spent(database: Database) {
    let repository = database.open().await;
    let first = [1, 2].map(|number| Ask {
        needs: 80,
        ..ask(number, 100)
    });
    exchange(&repository, 1, NOW, &first).await;
    let refund = |number: u64, ends: u64| Refund {
        name: name(number),
        ends,
        amount: 50,
    };
    // Of a counter that is asked about as well, of another, of an earlier period, and of an unknown one.
    let refunds = [
        refund(1, 20_001 * DAY),
        refund(2, 20_001 * DAY),
        refund(2, 20_000 * DAY),
        refund(9, 20_001 * DAY),
    ];
    let again = Ask {
        generation: 1,
        spent: 60,
        needs: 70,
        ..ask(1, 100)
    };
    let exchanged = Exchange {
        region: "local",
        node: "another",
        lives: true,
        number: 1,
        now: Timestamp::from_nanos(NOW),
        asks: &[again],
        usage: &[],
        refunds: &refunds,
        unsettled: &[],
        alerts: &[],
    };
    let told = repository.exchange(&exchanged).await.unwrap()[0];
    assert_eq!((told.granted, told.row.mark), (70, 100));
    let rows = exchange(&repository, 2, NOW, &[1, 2].map(|number| ask(number, 100))).await;
    let rows: Vec<_> = rows.iter().map(|told| (told.row.mark, told.row.used)).collect();
    assert_eq!(rows, [(100, 30), (30, 0)]);
}

async fn keeps_what_was_granted(database: Database) {
    let repository = database.open().await;
    let first = Ask {
        needs: 30,
        ..ask(1, 100)
    };
    let told = exchange(&repository, 1, NOW, &[first]).await[0];
    assert_eq!((told.granted, told.row.mark, told.row.generation), (30, 30, 1));
    repository.close().await;
    let again = database.open().await;
    let told = exchange(&again, 1, NOW, &[ask(1, 100)]).await[0];
    assert_eq!((told.granted, told.row.mark, told.row.used), (0, 30, 0));
    let report = Ask {
        generation: 1,
        spent: 25,
        gives: 5,
        ..ask(1, 100)
    };
    let told = exchange(&again, 2, NOW, &[report]).await[0];
    assert_eq!((told.row.mark, told.row.used), (25, 25));
    // Regions count apart.
    let elsewhere = Exchange {
        region: "elsewhere",
        node: "other",
        lives: true,
        number: 1,
        now: Timestamp::from_nanos(NOW),
        asks: &[ask(1, 100)],
        usage: &[],
        refunds: &[],
        unsettled: &[],
        alerts: &[],
    };
    assert_eq!(again.exchange(&elsewhere).await.unwrap()[0].row.mark, 0);
}

async fn knows_which_exchange_was_done(database: Database) {
    let repository = database.open().await;
    let last = async |node| {
        let now = Timestamp::from_nanos(NOW);
        repository.last_exchange(node, now).await.unwrap()
    };
    assert_eq!(last("node").await, Done::default());
    exchange(&repository, 7, NOW, &[ask(1, 100)]).await;
    let needs = |needs: u64, number: u64| Ask {
        needs,
        ..ask(number, 100)
    };
    exchange(&repository, 8, NOW, &[needs(0, 1), needs(30, 2)]).await;
    let done = last("node").await;
    let granted = done.granted.iter().map(|one| (one.generation, one.amount));
    assert_eq!(
        (done.number, granted.collect::<Vec<_>>()),
        (8, vec![(1, 0), (1, 30)])
    );
    exchange(&repository, 9, NOW, &[]).await;
    let done = last("node").await;
    assert_eq!((done.number, done.granted.len()), (9, 0));
    assert_eq!(last("another").await, Done::default());
    // To have been looked for is not to be there.
    let now = Timestamp::from_nanos(NOW);
    assert_eq!(repository.ledger_nodes(now).await.unwrap(), 1);
}

async fn counts_nodes_that_have_nothing_to_say(database: Database) {
    let repository = database.open().await;
    exchange(&repository, 7, NOW, &[ask(1, 100)]).await;
    let later = Timestamp::from_nanos(NOW + 20_000_000_000);
    assert_eq!(repository.ledger_nodes(later).await.unwrap(), 0);
    for node in ["node", "another"] {
        repository.note_alive(node, later).await.unwrap();
    }
    assert_eq!(repository.ledger_nodes(later).await.unwrap(), 2);
    // What a node has said is not forgotten by that.
    assert_eq!(repository.last_exchange("node", later).await.unwrap().number, 7);
}

async fn settles_what_a_run_has_left(database: Database) {
    let repository = database.open().await;
    let opened = [1, 2, 3].map(|number| Ask {
        needs: 50,
        ..ask(number, 100)
    });
    exchange(&repository, 1, NOW, &opened).await;
    let left = |number: u64, generation: u64, used: i64, mark: i64| Unsettled {
        name: name(number),
        generation,
        used,
        mark,
    };
    // One had some left, one spent more than it had, one is of another period, and one nobody knows.
    let unsettled = [
        left(1, 1, 30, -20),
        left(2, 1, 55, 5),
        left(3, 2, 10, -40),
        left(4, 1, 1, -1),
    ];
    let settling = Exchange {
        region: "local",
        node: "node:left",
        lives: false,
        number: 1,
        now: Timestamp::from_nanos(NOW),
        asks: &[],
        usage: &[],
        refunds: &[],
        unsettled: &unsettled,
        alerts: &[],
    };
    repository.exchange(&settling).await.unwrap();
    let rows = exchange(&repository, 2, NOW, &[1, 2, 3].map(|number| ask(number, 100))).await;
    let rows: Vec<_> = rows.iter().map(|told| (told.row.mark, told.row.used)).collect();
    assert_eq!(rows, [(30, 30), (55, 55), (50, 0)]);
    let now = Timestamp::from_nanos(NOW);
    assert_eq!(
        repository.ledger_nodes(now).await.unwrap(),
        1,
        "the dead do not count"
    );
    // Nor is anything settled once the period is over.
    let late = Exchange {
        number: 2,
        now: Timestamp::from_nanos(NOW + DAY),
        unsettled: &[left(1, 1, 0, -30)],
        ..settling
    };
    repository.exchange(&late).await.unwrap();
    assert_eq!(
        exchange(&repository, 3, NOW, &[ask(1, 100)]).await[0].row.mark,
        30
    );
}

async fn begins_periods(database: Database) {
    let repository = database.open().await;
    let full = Ask {
        needs: 100,
        ..ask(1, 100)
    };
    exchange(&repository, 1, NOW, std::slice::from_ref(&full)).await;
    let next = Ask {
        period: (20_001 * DAY, 20_002 * DAY),
        generation: 1,
        spent: 90,
        ..full
    };
    // Until its end it is the same period, to the last nanosecond.
    let told = exchange(&repository, 2, 20_001 * DAY - 1, std::slice::from_ref(&next)).await[0];
    assert_eq!(
        (told.granted, told.row.used, told.row.ends),
        (0, 90, 20_001 * DAY)
    );
    let told = exchange(&repository, 3, 20_001 * DAY, &[next]).await[0];
    assert_eq!((told.granted, told.row.used, told.row.generation), (100, 0, 2));
}

fn former(number: u64, held: u64) -> Replaced {
    Replaced {
        name: name(number),
        limit: 100,
        held,
    }
}

async fn opens_rows_with_the_room_of_those_they_replace(database: Database) {
    let repository = database.open().await;
    let old = Ask {
        needs: 70,
        ..ask(1, 100)
    };
    exchange(&repository, 1, NOW, &[old]).await;
    let new = Ask {
        needs: 500,
        formers: vec![former(1, 0), former(9, 0)],
        ..ask(2, 1_000)
    };
    let told = exchange(&repository, 2, NOW, std::slice::from_ref(&new)).await[0];
    assert_eq!((told.granted, told.row.mark, told.row.used), (30, 1_000, 970));
    // Of what the node held and will not spend any more it has the use.
    let other = Ask {
        needs: 500,
        formers: vec![former(1, 20)],
        ..ask(4, 1_000)
    };
    assert_eq!(exchange(&repository, 9, NOW, &[other]).await[0].granted, 50);
    // It is open by now.
    let told = exchange(&repository, 3, NOW, &[new]).await[0];
    assert_eq!(told.granted, 0);
    // What is not in the ledger may have left even less.
    let tight = Ask {
        needs: 10,
        room: 4,
        ..ask(3, 50)
    };
    assert_eq!(exchange(&repository, 4, NOW, &[tight]).await[0].granted, 4);
}

async fn charges_rows_for_what_is_reported_late_to_those_they_replace(database: Database) {
    let repository = database.open().await;
    // What was let through while the database was unavailable, by a node that the ledger has not heard of yet.
    let report = |number, spent| Ask {
        spent,
        owes: spent,
        ..ask(number, 100)
    };
    let new = |number, formers: &[u64]| Ask {
        needs: 100,
        formers: formers.iter().map(|number| former(*number, 0)).collect(),
        ..ask(number, 100)
    };
    let granted = async |number, asks: &[Ask]| {
        let told = exchange(&repository, number, NOW, asks).await;
        told.iter().map(|told| told.granted).collect::<Vec<u64>>()
    };
    exchange(&repository, 1, NOW, &[report(1, 10)]).await;
    let few = Ask {
        needs: 20,
        ..new(2, &[1])
    };
    assert_eq!(granted(2, &[few]).await, [20]);
    exchange(&repository, 3, NOW, &[report(1, 40)]).await;
    assert_eq!(granted(4, &[new(2, &[1])]).await, [30]);
    assert_eq!(granted(5, &[new(2, &[1])]).await, [0]);
    // A report in the exchange in which the other row opens is taken from its room, once.
    assert_eq!(granted(6, &[new(3, &[1]), report(1, 15)]).await, [35, 0]);
    assert_eq!(granted(7, &[new(3, &[1])]).await, [0]);
    // One to a row that nobody had opened before counts as well.
    assert_eq!(
        granted(
            8,
            &[Ask {
                needs: 60,
                ..new(5, &[4])
            }]
        )
        .await,
        [60]
    );
    exchange(&repository, 9, NOW, &[report(4, 30)]).await;
    assert_eq!(granted(10, &[new(5, &[4])]).await, [10]);
    // The next period begins with all of its limit.
    let later = Ask {
        period: (20_001 * DAY, 20_002 * DAY),
        ..new(2, &[1])
    };
    assert_eq!(
        exchange(&repository, 11, NOW + DAY, &[later]).await[0].granted,
        100
    );
}

async fn lists_the_rows_of_an_org(database: Database) {
    let repository = database.open().await;
    let asks: Vec<Ask> = (1..=5)
        .map(|number| Ask {
            org: if number == 3 { "other" } else { "acme" }.to_owned(),
            label: format!("{{\"n\":{number}}}"),
            needs: number,
            ..ask(number, 100)
        })
        .collect();
    exchange(&repository, 1, NOW, &asks).await;
    let rows = repository.ledger_of("local", "acme", None, 3).await.unwrap();
    let marks: Vec<u64> = rows.iter().map(|kept| kept.row.mark).collect();
    assert_eq!(marks, [1, 2, 4]);
    assert_eq!((rows[0].label.as_str(), rows[0].limit), ("{\"n\":1}", 100));
    let rest = repository
        .ledger_of("local", "acme", Some(&rows[2].name), 3)
        .await;
    let rest = rest.unwrap();
    assert_eq!((rest.len(), rest[0].name), (1, name(5)));
}

async fn tidies_what_is_long_over(database: Database) {
    let repository = database.open().await;
    exchange(&repository, 1, NOW, &[ask(1, 100)]).await;
    let later = |days: u64| Timestamp::from_nanos(NOW + days * DAY);
    repository.tidy_ledger(later(30)).await.unwrap();
    assert_eq!(
        repository
            .ledger_of("local", "acme", None, 9)
            .await
            .unwrap()
            .len(),
        1
    );
    repository.tidy_ledger(later(50)).await.unwrap();
    assert_eq!(
        repository
            .ledger_of("local", "acme", None, 9)
            .await
            .unwrap()
            .len(),
        0
    );
    assert_eq!(
        repository.last_exchange("node", later(50)).await.unwrap(),
        Done::default()
    );
}

async fn grants_nothing_for_rows_that_are_gone(database: Database) {
    let repository = database.open().await;
    let gone = Ask {
        generation: 3,
        needs: 5,
        ..ask(1, 100)
    };
    assert_eq!(exchange(&repository, 1, NOW, &[gone]).await, [Told::default()]);
}

async fn is_corrected_by_hand(database: Database) {
    let repository = database.open().await;
    let first = Ask {
        needs: 90,
        ..ask(1, 100)
    };
    exchange(&repository, 1, NOW, &[first]).await;
    let report = Ask {
        generation: 1,
        spent: 60,
        ..ask(1, 100)
    };
    exchange(&repository, 2, NOW, &[report]).await;
    let author = tollgate_catalog::repository::Author {
        at_ms: i64::try_from(NOW / 1_000_000).unwrap(),
        ..author()
    };
    let (name, repository) = (name(1), &repository);
    let correct = async |org: &str, correction, dry_run| {
        let correcting = Correcting {
            place: ("local", org, &name),
            correction,
            reserved: &|_| 0,
            author: &author,
            dry_run,
            once: None,
        };
        repository.correct(&correcting).await.unwrap()
    };
    for dry_run in [true, false] {
        let Corrected::Done(rows) = correct("acme", Correction::Grant(50), dry_run).await else {
            panic!("it is there");
        };
        // The node still holds 30.
        let numbers = rows.map(|kept| (kept.row.used, kept.row.mark));
        assert_eq!(numbers, [(60, 90), (10, 40)]);
    }
    let too_much = correct("acme", Correction::Grant(11), false).await;
    assert_eq!(too_much, Corrected::TooMuch(10));
    let absent = correct("other", Correction::Used(0), false).await;
    assert_eq!(absent, Corrected::Absent);
    let Corrected::Done(rows) = correct("acme", Correction::Used(70), false).await else {
        panic!("it is there");
    };
    assert_eq!((rows[1].row.used, rows[1].row.mark), (70, 100));
    let journal = repository.journal(0, 10).await.unwrap();
    assert_eq!(journal.len(), 2);
    assert_eq!(journal[0].place.kind, Kind::Quota);
    assert_eq!(journal[0].after.as_deref(), Some(r#"{"used":10,"quota":{}}"#));
    assert_eq!(repository.verify().await.unwrap().broken, None);
}

async fn adds_usage_up(database: Database) {
    let repository = database.open().await;
    let used = |org: &str, app: &str, test, at_ms| Usage {
        org: org.to_owned(),
        app: app.to_owned(),
        endpoint: "heavy".to_owned(),
        test,
        at_ms,
        allowed: 10,
        denied: 3,
        cost: 50,
    };
    let usage = [
        used("acme", "web", false, 1_000),
        used("acme", "", false, 1_000),
        used("acme", "web", true, 1_000),
        used("acme", "web", false, 2_000),
        used("acme", "web", false, 3_000),
        used("other", "web", false, 1_000),
    ];
    for number in 1..=2 {
        let exchange = Exchange {
            region: "local",
            node: "node",
            lives: true,
            number,
            now: Timestamp::from_nanos(NOW),
            asks: &[],
            usage: &usage,
            refunds: &[],
            unsettled: &[],
            alerts: &[],
        };
        repository.exchange(&exchange).await.unwrap();
    }
    let found = repository
        .usage_of("local", "acme", (1_000, 3_000))
        .await
        .unwrap();
    let lines: Vec<_> = found
        .iter()
        .map(|used| (used.app.as_str(), used.test, used.allowed, used.denied, used.cost))
        .collect();
    assert_eq!(
        lines,
        [
            ("", false, 20, 6, 100),
            ("web", false, 40, 12, 200),
            ("web", true, 20, 6, 100)
        ]
    );
}

/// Tells usage in an exchange that also asks for one unit of a quota, which must be granted whatever becomes of the usage.
async fn tell(repository: &Repository, number: i64, usage: &[Usage]) {
    let asks = [Ask {
        needs: 1,
        ..ask(1, 100)
    }];
    let exchange = Exchange {
        region: "local",
        node: "node",
        lives: true,
        number,
        now: Timestamp::from_nanos(NOW),
        asks: &asks,
        usage,
        refunds: &[],
        unsettled: &[],
        alerts: &[],
    };
    let told = repository.exchange(&exchange).await.unwrap();
    assert_eq!(
        (told[0].granted, told[0].row.mark),
        (1, u64::try_from(number).unwrap())
    );
}

fn used_by(org: &str, at_ms: u64, cost: i64) -> Usage {
    Usage {
        org: org.to_owned(),
        at_ms,
        allowed: 1,
        cost,
        ..Usage::default()
    }
}

async fn stops_at_the_largest_sum_of_usage(database: Database) {
    let repository = database.open().await;
    // The first row grows past the largest number, and then all rows of an org together do, up and down.
    for number in 1..=3 {
        let large = i64::MAX / 2 + 1;
        let usage = [
            used_by("evil", 1_000, large),
            used_by("evil", 2_000, large),
            used_by("owed", 1_000, -large),
            used_by("owed", 2_000, -large),
            used_by("good", 1_000, 7),
        ];
        tell(&repository, number, &usage).await;
    }
    for (org, cost) in [("evil", i64::MAX), ("owed", -i64::MAX), ("good", 21)] {
        let found = repository.usage_of("local", org, (0, 9_000)).await.unwrap();
        let lines = if org == "good" { 3 } else { 6 };
        assert_eq!((found[0].allowed, found[0].cost), (lines, cost), "{org}");
    }
    // What was too much is given back from there.
    tell(
        &repository,
        4,
        &[used_by("evil", 1_000, -10), used_by("evil", 2_000, -i64::MAX)],
    )
    .await;
    let found = repository.usage_of("local", "evil", (0, 9_000)).await.unwrap();
    assert_eq!(found[0].cost, i64::MAX - 10);
}

async fn goes_on_without_usage_that_is_refused(database: Database) {
    let repository = database.open().await;
    database
        .define(match repository.backend() {
            "sqlite" => {
                "CREATE TRIGGER refuse BEFORE INSERT ON tollgate_usage WHEN NEW.org LIKE 'bad%' \
                 BEGIN SELECT RAISE(ABORT, 'not this one'); END"
            }
            _ => "ALTER TABLE tollgate_usage ADD CONSTRAINT refuse CHECK (org NOT LIKE 'bad%')",
        })
        .await;
    let mut usage: Vec<Usage> = (0..500)
        .map(|n| used_by(&format!("org-{n:03}"), 1_000, n))
        .collect();
    usage[17] = used_by("bad-1", 1_000, 17);
    usage[400] = used_by("bad-2", 1_000, 400);
    for number in 1..=2 {
        tell(&repository, number, &usage).await;
        let refused = repository.take_refused_usage();
        let mut orgs: Vec<&str> = refused.iter().map(|refused| refused.used.org.as_str()).collect();
        orgs.sort_unstable();
        assert_eq!(orgs, ["bad-1", "bad-2"]);
        assert!(
            refused
                .iter()
                .all(|refused| refused.error.contains("refuse") || refused.error.contains("not this one"))
        );
    }
    let rows = database
        .number("SELECT CAST(COUNT(*) AS BIGINT) FROM tollgate_usage")
        .await;
    assert_eq!(rows, 498);
    let found = repository.usage_of("local", "org-499", (0, 9_000)).await.unwrap();
    assert_eq!((found[0].allowed, found[0].cost), (2, 998));
}

async fn takes_ten_thousand_rows_at_once(database: Database) {
    let repository = database.open().await;
    let asks: Vec<Ask> = (0..10_000)
        .map(|number| Ask {
            needs: 1,
            ..ask(number, 100)
        })
        .collect();
    let told = exchange(&repository, 1, NOW, &asks).await;
    assert!(told.iter().all(|told| told.granted == 1));
    let reports: Vec<Ask> = asks
        .into_iter()
        .map(|ask| Ask {
            generation: 1,
            spent: 1,
            ..ask
        })
        .collect();
    let started = std::time::Instant::now();
    let told = exchange(&repository, 2, NOW, &reports).await;
    println!("{}: 10,000 rows in {:?}", repository.backend(), started.elapsed());
    assert!(told.iter().all(|told| told.row.used == 1 && told.row.mark == 2));
}

async fn alerts_once_for_each_period_and_threshold(database: Database) {
    let nodes = [database.open().await, database.open().await];
    let tell = async |node: usize, number: i64, now: u64, generation: u64, spent: u64| {
        let ask = Ask {
            generation,
            spent,
            owes: spent,
            period: (now / DAY * DAY, (now / DAY + 1) * DAY),
            until: (now / DAY + 1) * DAY,
            label: r#"{"policyId":"day"}"#.to_owned(),
            ..ask(1, 100)
        };
        let exchange = Exchange {
            region: "local",
            node: ["a", "b"][node],
            lives: true,
            number,
            now: Timestamp::from_nanos(now),
            asks: &[ask],
            usage: &[],
            refunds: &[],
            unsettled: &[],
            alerts: &[50, 80, 100],
        };
        nodes[node].exchange(&exchange).await.unwrap();
    };
    tell(0, 1, NOW, 0, 30).await;
    tell(1, 1, NOW, 0, 30).await;
    tell(0, 2, NOW, 1, 30).await;
    tell(1, 2, NOW + 1_000_000_000, 1, 30).await;
    tell(0, 3, NOW + DAY, 0, 55).await;
    let later = database.open().await;
    let found = later.alerts_of("local", "acme", 0).await.unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|alert| (alert.starts / DAY, alert.threshold))
        .collect();
    assert_eq!(found, [(20_000, 50), (20_000, 80), (20_000, 100), (20_001, 50)]);
    assert_eq!(later.alerts_of("local", "other", 0).await.unwrap(), []);
    assert_eq!(later.alerts_of("other", "acme", 0).await.unwrap(), []);
    let unsent = later.unsent(10).await.unwrap();
    assert_eq!((unsent.len(), &*unsent[0].org), (4, "acme"));
    assert!(
        unsent[0].body.contains(r#""policyId":"day""#),
        "{}",
        unsent[0].body
    );
    later
        .sent(&unsent[0].id, Timestamp::from_nanos(NOW))
        .await
        .unwrap();
    assert_eq!(later.unsent(10).await.unwrap(), unsent[1..]);
}
