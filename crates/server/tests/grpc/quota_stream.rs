//! Envoy's quota stream, asked by a client of our own: what Envoy itself would not do.

use std::time::Duration;

use envoy_types::pb::envoy::service::rate_limit_quota::v3::rate_limit_quota_response::BucketAction;
use envoy_types::pb::envoy::service::rate_limit_quota::v3::rate_limit_quota_response::bucket_action::BucketAction as Action;
use envoy_types::pb::envoy::service::rate_limit_quota::v3::rate_limit_quota_service_client::RateLimitQuotaServiceClient;
use envoy_types::pb::envoy::service::rate_limit_quota::v3::rate_limit_quota_usage_reports::BucketQuotaUsage;
use envoy_types::pb::envoy::service::rate_limit_quota::v3::{
    BucketId, RateLimitQuotaResponse, RateLimitQuotaUsageReports,
};
use envoy_types::pb::envoy::r#type::v3::rate_limit_strategy::{BlanketRule, Strategy};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tonic::{Code, Status, Streaming};

use crate::asker::Asker;
use crate::common::{Server, file_of, hourly, wait_for};
use crate::servers;

/// A stream, seen from its other end.
struct Other {
    asker: Asker,
    reports: mpsc::UnboundedSender<RateLimitQuotaUsageReports>,
    answers: Streaming<RateLimitQuotaResponse>,
}

/// What is sent, as a stream.
struct Sent(mpsc::UnboundedReceiver<RateLimitQuotaUsageReports>);

impl Stream for Sent {
    type Item = RateLimitQuotaUsageReports;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}

impl Other {
    fn of(server: &Server) -> Self {
        let asker = Asker::of(server);
        let (reports, sent) = mpsc::unbounded_channel();
        let mut client = RateLimitQuotaServiceClient::new(asker.channel.clone());
        let answers = asker
            .runtime
            .block_on(client.stream_rate_limit_quotas(Sent(sent)));
        Self {
            answers: answers.unwrap().into_inner(),
            asker,
            reports,
        }
    }

    fn report(&self, domain: &str, usages: Vec<BucketQuotaUsage>) {
        let report = RateLimitQuotaUsageReports {
            domain: domain.to_owned(),
            bucket_quota_usages: usages,
        };
        // If the stream has ended, what comes next will tell.
        let _ = self.reports.send(report);
    }

    fn next(&mut self) -> Result<Vec<BucketAction>, Status> {
        let answer = self.asker.runtime.block_on(self.answers.message())?;
        Ok(answer.map_or_else(Vec::new, |answer| answer.bucket_action))
    }
}

fn usage(pairs: &[(&str, &str)], allowed: u64, denied: u64) -> BucketQuotaUsage {
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    BucketQuotaUsage {
        bucket_id: Some(BucketId {
            bucket: pairs.iter().map(own).collect(),
        }),
        num_requests_allowed: allowed,
        num_requests_denied: denied,
        ..BucketQuotaUsage::default()
    }
}

/// An action in a word: how many requests, or what else.
fn said(action: &BucketAction) -> String {
    match action.bucket_action.as_ref().unwrap() {
        Action::AbandonAction(_) => "abandon".to_owned(),
        Action::QuotaAssignmentAction(assigned) => {
            assert!(assigned.assignment_time_to_live.unwrap().seconds >= 1);
            match assigned.rate_limit_strategy.unwrap().strategy.unwrap() {
                Strategy::BlanketRule(rule) if rule == BlanketRule::DenyAll as i32 => "deny".to_owned(),
                Strategy::BlanketRule(_) => "allow".to_owned(),
                Strategy::TokenBucket(bucket) => bucket.max_tokens.to_string(),
                Strategy::RequestsPerTimeUnit(_) => panic!("Envoy has no such thing"),
            }
        }
    }
}

fn all(actions: &[BucketAction]) -> Vec<String> {
    actions.iter().map(said).collect()
}

fn server() -> Server {
    Server::start(&file_of(&[hourly("org", "org", 1_000, "")]), &[])
}

#[test]
fn what_is_assigned_is_charged_before_and_replaces_what_was() {
    let server = server();
    let mut envoy = Other::of(&server);
    let left = || server.left("org", &json!({"orgId": "acme"}));
    envoy.report("edge", vec![usage(&[("org", "acme")], 0, 1)]);
    // One was refused, and a twentieth may lie unused.
    assert_eq!(all(&envoy.next().unwrap()), ["deny", "51"]);
    assert_eq!(left(), 949);
    envoy.report("", vec![usage(&[("org", "acme")], 51, 49)]);
    let next = all(&envoy.next().unwrap());
    assert_eq!(next[0], "deny");
    let assigned: u64 = next[1].parse().unwrap();
    assert!((150..=550).contains(&assigned), "{assigned}");
    assert_eq!(left(), 949 - assigned);
    assert_eq!(server.counted("tollgate_quota_stream_reported_total"), 51);
    assert_eq!(
        server.counted("tollgate_quota_stream_assigned_total"),
        51 + assigned
    );
}

#[test]
fn what_was_not_used_of_a_durable_quota_goes_back_to_it() {
    let quota = "{id: org, scope: org, algorithm: quota, limit: 1000, window: day}";
    let mut server = Server::start(&file_of(&[quota.to_owned()]), &[]);
    let left = |server: &Server| server.left("org", &json!({"orgId": "acme"}));
    let mut envoy = Other::of(&server);
    envoy.report("edge", vec![usage(&[("org", "acme")], 0, 1)]);
    assert_eq!(all(&envoy.next().unwrap()), ["deny", "51"]);
    assert_eq!(left(&server), 949);
    envoy.report("", vec![usage(&[("org", "acme")], 10, 0)]);
    // A lot is over when its time is, and Envoy has reported since.
    let counted =
        |server: &Server, what: &str| server.counted(&format!("tollgate_quota_stream_{what}_total"));
    wait_for("what was not used", || {
        envoy.report("", vec![usage(&[("org", "acme")], 0, 0)]);
        (counted(&server, "given_back") >= 41).then_some(())
    });
    drop(envoy);
    wait_for("the stream to end", || {
        (server.counted("tollgate_quota_streams") == 0).then_some(())
    });
    let rest = left(&server);
    assert_eq!(
        rest,
        1000 - counted(&server, "assigned") + counted(&server, "given_back")
    );
    // What the stream held when it ended stays charged; the rest is in the ledger as it was.
    server.restart("TERM");
    assert_eq!(left(&server), rest);
}

#[test]
fn what_was_held_when_a_stream_broke_stays_charged_and_is_charged_once() {
    let server = server();
    let mut envoy = Other::of(&server);
    envoy.report("edge", vec![usage(&[("org", "acme")], 0, 1)]);
    assert_eq!(all(&envoy.next().unwrap()), ["deny", "51"]);
    drop(envoy);
    wait_for("the stream to end", || {
        (server.counted("tollgate_quota_streams") == 0).then_some(())
    });
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 949);
    let mut again = Other::of(&server);
    again.report("edge", vec![usage(&[("org", "acme")], 51, 0)]);
    assert_eq!(all(&again.next().unwrap())[0], "deny");
    assert_eq!(server.counted("tollgate_quota_stream_over_reported_total"), 0);
    again.report("edge", vec![usage(&[("org", "other")], 5, 0)]);
    again.next().unwrap();
    assert_eq!(server.counted("tollgate_quota_stream_over_reported_total"), 5);
}

#[test]
fn what_was_let_through_beyond_is_charged_as_far_as_there_is_room() {
    let server = server();
    let org = json!({"orgId": "acme"});
    server.check(&json!({"orgId": "acme", "cost": 299})).expect(200);
    let mut envoy = Other::of(&server);
    envoy.report("edge", vec![usage(&[("org", "acme")], 900, 0)]);
    assert_eq!(all(&envoy.next().unwrap()), ["deny"]);
    assert_eq!(server.counted("tollgate_quota_stream_over_reported_total"), 900);
    assert_eq!(server.counted("tollgate_quota_stream_assigned_total"), 0);
    assert_eq!(server.left("org", &org), 0, "of 701 that were left");
}

#[test]
fn a_bucket_that_can_not_be_had_is_refused_and_others_go_on() {
    let server = server();
    let mut envoy = Other::of(&server);
    let (long, no_id) = ("x".repeat(2_000), "x".repeat(300));
    envoy.report(
        "edge",
        vec![
            usage(&[], 0, 1),
            BucketQuotaUsage::default(),
            usage(&[("org", &no_id)], 0, 1),
            usage(&[("path", &long)], 0, 1),
            usage(&[("org", &no_id)], 0, 0),
            usage(&[("org", "acme")], 0, 1),
        ],
    );
    assert_eq!(
        all(&envoy.next().unwrap()),
        ["deny", "deny", "abandon", "deny", "51"]
    );
    assert_eq!(server.counted("tollgate_quota_stream_refused_total"), 4);
    assert_eq!(server.counted("tollgate_quota_stream_buckets"), 1);
}

#[test]
fn a_stream_has_one_domain() {
    let server = server();
    let mut nameless = Other::of(&server);
    nameless.report("", vec![usage(&[("org", "acme")], 0, 1)]);
    assert_eq!(nameless.next().unwrap_err().code(), Code::InvalidArgument);
    let mut changed = Other::of(&server);
    changed.report("edge", vec![usage(&[("org", "acme")], 0, 1)]);
    changed.next().unwrap();
    changed.report("other", vec![usage(&[("org", "acme")], 0, 1)]);
    assert_eq!(changed.next().unwrap_err().code(), Code::InvalidArgument);
}

#[test]
fn a_stream_has_only_so_many_buckets() {
    let server = server();
    let mut envoy = Other::of(&server);
    let mut refused = 0;
    for round in 0..11 {
        let names: Vec<String> = (0..1_000).map(|number| format!("o{round}-{number}")).collect();
        let usages = names.iter().map(|name| usage(&[("org", name)], 0, 1)).collect();
        envoy.report("edge", usages);
        let mut answered = 0;
        while answered < 1_000 {
            let actions = envoy.next().unwrap();
            let assigned = actions.iter().filter(|action| said(action) == "51").count();
            answered += actions.len() - assigned;
            refused += actions.len() - 2 * assigned;
        }
    }
    assert_eq!(refused, 1_000);
    assert_eq!(server.counted("tollgate_quota_stream_buckets"), 10_000);
}

#[test]
fn who_does_not_take_assignments_is_left_alone() {
    let server = server();
    let envoy = Other::of(&server);
    let long = "x".repeat(900);
    wait_for("the stream to be closed", || {
        for _ in 0..20 {
            let usages =
                (0..50).map(|number| usage(&[("org", "acme"), (&format!("a{number}"), &long)], 0, 1));
            envoy.report("edge", usages.collect());
        }
        (server.counted("tollgate_quota_streams") == 0).then_some(())
    });
    assert_eq!(server.counted("tollgate_quota_stream_buckets"), 0);
}

#[test]
fn limits_that_are_too_short_are_not_assigned() {
    let policies = "
policies:
  - {id: log, scope: org, algorithm: sliding_window_log, limit: 1000, window: 1h, match: {kind: log}}
  - {id: second, scope: org, algorithm: fixed_window, limit: 1000, window: 1s, match: {kind: second}}
  - {id: small, scope: org, algorithm: token_bucket, limit: 1000, window: 1s, match: {kind: small}}
";
    let server = Server::start(policies, &[]);
    let mut envoy = Other::of(&server);
    for kind in ["log", "second", "small"] {
        envoy.report("edge", vec![usage(&[("org", "acme"), ("kind", kind)], 0, 1)]);
        let denied = all(&envoy.next().unwrap());
        assert!(denied.iter().all(|said| said == "deny"), "{kind}: {denied:?}");
    }
    envoy.report("edge", vec![usage(&[("org", "acme"), ("kind", "none")], 0, 1)]);
    let mut last = envoy.next().unwrap();
    while all(&last).iter().all(|said| said == "deny") {
        // Those that wait for the next window are looked at again.
        last = envoy.next().unwrap();
    }
    assert_eq!(all(&last).last().unwrap(), "allow", "nothing limits it");
}

#[test]
fn a_server_that_ends_says_so() {
    let server = server();
    let mut envoy = Other::of(&server);
    envoy.report("edge", vec![usage(&[("org", "acme")], 0, 1)]);
    envoy.next().unwrap();
    let started = std::time::Instant::now();
    server.terminate();
    assert_eq!(envoy.next().unwrap_err().code(), Code::Unavailable);
    assert!(server.wait().success());
    assert!(
        started.elapsed() < Duration::from_secs(9),
        "it was not waited for"
    );
}

#[test]
fn in_a_fleet_all_streams_together_are_assigned_no_more_than_there_is() {
    let redis = servers::Server::start();
    let policies = file_of(&[hourly("org", "org", 1_000, "failMode: closed")]);
    let nodes = [(); 2].map(|()| Server::start(&policies, &["--redis", &redis.url()]));
    let mut envoys = nodes.each_ref().map(Other::of);
    let mut assigned = [0; 2];
    let mut last = [0; 2];
    for turn in 0..10 {
        let which = turn % 2;
        let envoy = &mut envoys[which];
        envoy.report("edge", vec![usage(&[("org", "acme")], last[which], 200)]);
        let actions = all(&envoy.next().unwrap());
        last[which] = actions.iter().filter_map(|said| said.parse::<u64>().ok()).sum();
        assigned[which] += last[which];
    }
    assert!(
        (700..=1_000).contains(&(assigned[0] + assigned[1])),
        "{assigned:?}"
    );
}

#[test]
fn a_statement_has_what_an_envoy_reports() {
    let server = server();
    let admin = server.platform_admin();
    admin.set("/v1/orgs/acme", &json!({}));
    let mut envoy = Other::of(&server);
    envoy.report("edge", vec![usage(&[("org", "acme"), ("cost", "2")], 0, 3)]);
    envoy.next().unwrap();
    envoy.report("", vec![usage(&[("org", "acme"), ("cost", "2")], 5, 1)]);
    envoy.next().unwrap();
    let left = server.left("org", &json!({"orgId": "acme"}));
    // Requests are those that were reported, and the look; what is charged for them is what the limits have, too.
    wait_for("usage to be told", || {
        let statement = admin.get("/v1/orgs/acme/statement").expect(200);
        let sums = ["allowed", "denied", "cost"].map(|name| statement[name].as_u64().unwrap());
        (sums == [5 + 1, 4, 1_000 - left]).then_some(())
    });
}

#[test]
fn a_bucket_whose_cost_is_beyond_the_bound_gets_nothing() {
    // Nothing limits it, and all the same it is no request.
    let server = Server::start("policies: []", &[]);
    let mut envoy = Other::of(&server);
    envoy.report(
        "edge",
        vec![usage(&[("org", "acme"), ("cost", "1000000000000000")], 0, 1)],
    );
    assert_eq!(all(&envoy.next().unwrap()), ["deny"]);
}
