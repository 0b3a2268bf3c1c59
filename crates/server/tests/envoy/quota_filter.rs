//! What Envoy's rate limit quota filter does with what it is told, which is what ADR 11 rests on. A server of the test's
//! own tells it.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use envoy_types::pb::envoy::service::rate_limit_quota::v3::rate_limit_quota_response::BucketAction;
use envoy_types::pb::envoy::service::rate_limit_quota::v3::rate_limit_quota_response::bucket_action::{
    BucketAction as Action, QuotaAssignmentAction,
};
use envoy_types::pb::envoy::service::rate_limit_quota::v3::rate_limit_quota_service_server::{
    RateLimitQuotaService, RateLimitQuotaServiceServer,
};
use envoy_types::pb::envoy::service::rate_limit_quota::v3::{
    BucketId, RateLimitQuotaResponse, RateLimitQuotaUsageReports,
};
use envoy_types::pb::envoy::r#type::v3::rate_limit_strategy::{BlanketRule, Strategy};
use envoy_types::pb::envoy::r#type::v3::{RateLimitStrategy, TokenBucket};
use envoy_types::pb::google::protobuf::{Duration as Time, UInt32Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

use crate::proxy::Envoy;
use crate::quota::{FILE, free_address, wait_long};
use crate::service::Service;

/// What is told and heard on the last stream.
#[derive(Default)]
struct Line {
    tell: Option<UnboundedSender<RateLimitQuotaResponse>>,
    heard: Vec<(Instant, RateLimitQuotaUsageReports)>,
}

#[derive(Clone, Default)]
struct Script(Arc<Mutex<Line>>);

struct Told(UnboundedReceiver<RateLimitQuotaResponse>);

impl Stream for Told {
    type Item = Result<RateLimitQuotaResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|told| told.map(Ok))
    }
}

#[tonic::async_trait]
impl RateLimitQuotaService for Script {
    type StreamRateLimitQuotasStream = Told;

    async fn stream_rate_limit_quotas(
        &self,
        request: Request<Streaming<RateLimitQuotaUsageReports>>,
    ) -> Result<Response<Told>, Status> {
        let (tell, told) = unbounded_channel();
        self.0.lock().unwrap().tell = Some(tell);
        let (line, mut reports) = (self.0.clone(), request.into_inner());
        tokio::spawn(async move {
            while let Ok(Some(report)) = reports.message().await {
                line.lock().unwrap().heard.push((Instant::now(), report));
            }
        });
        Ok(Response::new(Told(told)))
    }
}

/// An Envoy that is told what to do.
struct Scripted {
    script: Script,
    envoy: Envoy,
    told: usize,
    _runtime: tokio::runtime::Runtime,
}

fn assign(strategy: Strategy, seconds: i64, nanos: i32) -> Action {
    Action::QuotaAssignmentAction(QuotaAssignmentAction {
        assignment_time_to_live: Some(Time { seconds, nanos }),
        rate_limit_strategy: Some(RateLimitStrategy {
            strategy: Some(strategy),
        }),
    })
}

fn tokens(max_tokens: u32) -> Strategy {
    Strategy::TokenBucket(TokenBucket {
        max_tokens,
        tokens_per_fill: Some(UInt32Value { value: 1 }),
        fill_interval: Some(Time {
            seconds: 365 * 86_400,
            nanos: 0,
        }),
    })
}

fn none() -> Strategy {
    Strategy::BlanketRule(BlanketRule::DenyAll.into())
}

impl Scripted {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (script, address) = (Script::default(), free_address());
        let address: std::net::SocketAddr = address.parse().unwrap();
        let service = RateLimitQuotaServiceServer::new(script.clone());
        runtime.spawn(
            tonic::transport::Server::builder()
                .add_service(service)
                .serve(address),
        );
        wait_long("the server", || std::net::TcpStream::connect(address).ok());
        let often = ("&interval 5s", "&interval 1s");
        let envoy = Envoy::before(FILE, address.port(), &Service::start(), &[often]);
        let this = Self {
            script,
            envoy,
            told: 0,
            _runtime: runtime,
        };
        assert_eq!(this.admitted(1), 0, "DENY_ALL until there is an assignment");
        wait_long("the first report", || (this.reports() == 1).then_some(()));
        this
    }

    /// Tells Envoy something, and waits until it has heard.
    fn tell(&mut self, actions: &[Action]) {
        let bucket_id = Some(BucketId {
            bucket: [("org".to_owned(), "acme".to_owned())].into(),
        });
        let bucket_action = actions.iter().map(|action| BucketAction {
            bucket_id: bucket_id.clone(),
            bucket_action: Some(*action),
        });
        let message = RateLimitQuotaResponse {
            bucket_action: bucket_action.collect(),
        };
        let line = self.script.0.lock().unwrap();
        line.tell.as_ref().unwrap().send(message).unwrap();
        drop(line);
        self.told += 1;
        wait_long("Envoy to hear", || {
            let heard = self.envoy.log().matches("received from RLQS server").count();
            (heard == self.told).then_some(())
        });
    }

    /// How many of so many requests go through.
    fn admitted(&self, requests: usize) -> usize {
        let statuses = (0..requests).map(|_| self.envoy.get("/", &[("x-org", "acme")]).status);
        statuses.filter(|status| *status == 200).count()
    }

    fn reports(&self) -> usize {
        self.script.0.lock().unwrap().heard.len()
    }

    fn expiries(&self) -> usize {
        self.envoy
            .log()
            .matches("cached action for a bucket has expired")
            .count()
    }
}

#[test]
#[ignore = "needs Envoy, which ./test installs"]
fn a_token_bucket_after_a_blanket_rule_is_full_and_others_carry_over() {
    let mut filter = Scripted::start();
    filter.tell(&[assign(tokens(10), 60, 0)]);
    assert_eq!(filter.admitted(4), 4);
    filter.tell(&[assign(tokens(10), 60, 0)]);
    assert_eq!(filter.admitted(20), 6, "the same again keeps what is left");
    // This is how Tollgate assigns.
    filter.tell(&[assign(none(), 60, 0), assign(tokens(10), 60, 0)]);
    assert_eq!(filter.admitted(5), 5);
    filter.tell(&[assign(none(), 60, 0), assign(tokens(10), 60, 0)]);
    assert_eq!(filter.admitted(20), 10, "as many as it says, whatever was left");
    filter.tell(&[assign(tokens(20), 60, 0)]);
    assert_eq!(filter.admitted(20), 0, "none of none is left");
    filter.tell(&[assign(none(), 60, 0), assign(tokens(10), 60, 0)]);
    assert_eq!(filter.admitted(5), 5);
    filter.tell(&[assign(tokens(20), 60, 0)]);
    assert_eq!(filter.admitted(20), 10, "a half of another is a half of this");
}

#[test]
#[ignore = "needs Envoy, which ./test installs"]
fn an_assignment_lives_for_whole_seconds_and_the_same_after_it_is_full() {
    let mut filter = Scripted::start();
    let started = Instant::now();
    filter.tell(&[assign(tokens(10), 1, 900_000_000)]);
    assert_eq!(filter.admitted(4), 4);
    wait_long("its end", || (filter.expiries() == 1).then_some(()));
    assert!(started.elapsed() >= Duration::from_secs(1));
    assert_eq!(filter.admitted(4), 0);
    filter.tell(&[assign(tokens(10), 60, 0)]);
    assert_eq!(
        filter.admitted(20),
        10,
        "what was used before the end is forgotten"
    );
}

#[test]
#[ignore = "needs Envoy, which ./test installs"]
fn it_reports_every_five_seconds_and_once_for_each_use() {
    let mut filter = Scripted::start();
    filter.tell(&[assign(tokens(10), 60, 0)]);
    assert_eq!(filter.admitted(4), 4);
    filter.tell(&[assign(none(), 60, 0), assign(tokens(10), 60, 0)]);
    assert_eq!(filter.admitted(4), 4);
    wait_long("more reports", || (filter.reports() == 4).then_some(()));
    let heard = &filter.script.0.lock().unwrap().heard;
    let gap = heard[3].0 - heard[2].0;
    assert!(
        gap > Duration::from_secs(4),
        "{gap:?}, though it is told to report each second"
    );
    let usages = heard.iter().flat_map(|(_, report)| &report.bucket_quota_usages);
    assert_eq!(usages.map(|usage| usage.num_requests_allowed).sum::<u64>(), 8);
}
