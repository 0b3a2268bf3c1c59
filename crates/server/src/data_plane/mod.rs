//! The data plane over HTTP: checks, batches, and the question gateways ask before they forward.
//!
//! A decision takes a few hundred nanoseconds, so here HTTP itself is the work. This plane therefore speaks
//! HTTP/1.1 on its own buffers (docs/adr/0004-http-on-the-data-plane.md): on the threads of [`crate::workers`],
//! [`connection`] reads requests and writes answers, [`head`] and [`body`] take them apart, [`route`] says by the head
//! alone who may ask what, and every route is a plain function from an [`Asked`] to a [`Reply`], in its [`Turn`]; but
//! for [`batch`], which lets others come first now and then.

mod authorize;
mod batch;
mod body;
mod buffers;
mod check;
mod connection;
mod desk;
mod forwarded;
mod head;
mod jwt;
mod keyed;
mod late;
mod order;
mod refund;
mod reply;
mod reserve;
mod rls;
mod route;
mod series;
mod settle;
mod token;
mod turn;

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::answer::{HeaderStyles, Problem};
use crate::engine::{Engine, Undecided, Wait};
use crate::metrics::{Metrics, Protocol};
use crate::org_cap::OrgCap;
use crate::reservations::{Keys, Reservations};
use crate::tls::Address;
use crate::workers::{self, Line};

pub(crate) use authorize::{SCOPES, add_scopes, read_caller};
pub(crate) use batch::MAX_REQUESTS;
pub(crate) use desk::{Claimant, Desk};
pub(crate) use forwarded::{client_address, text, the_same};
pub(crate) use jwt::Identity;
pub use jwt::{Jwt, JwtFlags, JwtSettings};
pub(crate) use keyed::{both, good_key, kept_until, refused};
pub(crate) use late::{Late, decide_late, fill_gaps};
pub(crate) use order::Order;
pub(crate) use reserve::{Opened, good_ttl};
pub(crate) use series::Series;
pub use settle::Settled;
pub(crate) use settle::{actual, no_room, not_open};
pub use token::DataTokens;

use connection::Connection;
use head::Head;
use reply::Reply;
use route::Single;
use turn::{Turn, Waits, all};

/// What the data plane needs to answer.
pub struct DataPlane {
    /// What decides.
    pub engine: Arc<Engine>,
    /// What counts.
    pub metrics: Arc<Metrics>,
    /// The header styles in use.
    pub styles: HeaderStyles,
    /// From whom forwarding headers are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// What callers must show, if anything.
    pub tokens: Option<DataTokens>,
    /// Whose JWTs say who asks, if anybody's.
    pub jwt: Option<Jwt>,
    /// How often an org may ask, if that is limited.
    pub org_cap: Option<Arc<OrgCap>>,
    /// What is reserved.
    pub reservations: Arc<Reservations>,
    /// What was answered to requests that carried a key.
    pub keys: Arc<Keys>,
    /// Whether answers to Envoy have the headers of clients that are not refused, too.
    pub rls_headers: bool,
}

/// HTTP/1.1, spoken with callers and gateways.
#[derive(Clone)]
pub struct Http(pub Arc<DataPlane>);

impl workers::Protocol for Http {
    const ADDRESS: Address = Address::Http;

    async fn serve(self, line: Line, stream: impl AsyncRead + AsyncWrite + Unpin + 'static) {
        let plane = self.0;
        Connection { plane, line }.serve(stream).await;
    }
}

/// A request that has arrived whole.
struct Asked<'a, 'b> {
    peer: IpAddr,
    head: &'a Head<'b>,
    body: &'a [u8],
}

impl Asked<'_, '_> {
    /// What follows the path.
    fn query(&self) -> &[u8] {
        self.head.query.unwrap_or_default().as_bytes()
    }
}

/// Why a route has not answered.
enum Unanswered {
    Problem(Problem),
    /// For the shared store or the ledger.
    Waits(Wait),
}

impl From<Undecided> for Unanswered {
    fn from(undecided: Undecided) -> Self {
        match undecided {
            Undecided::Waits(wait) => Self::Waits(wait),
            undecided => Self::Problem(undecided.into()),
        }
    }
}

impl From<Problem> for Unanswered {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl DataPlane {
    /// One that takes everybody, and believes no forwarding header.
    pub fn new(engine: Arc<Engine>, metrics: Arc<Metrics>) -> Self {
        let (seed, store) = (engine.seed(), engine.store.clone());
        Self {
            engine,
            metrics,
            styles: HeaderStyles::default(),
            trusted_proxies: Vec::new(),
            tokens: None,
            jwt: None,
            org_cap: None,
            reservations: Arc::new(Reservations::new(seed, store.clone())),
            keys: Arc::new(Keys::new(seed, store)),
            rls_headers: false,
        }
    }

    /// What gives back what the fleet has on record, if there is a fleet.
    pub(crate) fn desk(&self) -> Option<Desk> {
        self.engine.records.get().map(|records| Desk {
            engine: self.engine.clone(),
            reservations: self.reservations.clone(),
            keys: self.keys.clone(),
            records: records.clone(),
        })
    }

    /// Answers one request, or says what it waits for.
    fn answer(
        &self,
        route: Single,
        asked: &Asked<'_, '_>,
        turn: Option<Turn>,
        reply: &mut Reply,
    ) -> Option<Waits> {
        let turn = turn.unwrap_or_else(|| Turn::begin(&self.engine));
        let started = turn.started;
        let answered = match route {
            Single::Check => check::answer(self, asked, &turn, reply),
            Single::Reserve => reserve::answer(self, asked, &turn, reply),
            Single::Settle => settle::answer(self, asked, &turn, reply),
            Single::Refund => refund::answer(self, asked, &turn, reply),
            Single::Authorize => authorize::answer(self, asked, &turn, reply),
            Single::Descriptors => rls::answer(self, asked, &turn, reply),
        };
        match answered {
            Ok(()) => {}
            Err(Unanswered::Waits(wait)) => return Some(turn.wait(wait)),
            Err(Unanswered::Problem(problem)) => match (route, problem.status) {
                (Single::Check | Single::Reserve, 429) => check::refuse_too_many(asked, &problem, reply),
                _ => reply.problem(&problem),
            },
        }
        self.metrics.observe_request(Protocol::Http, started.elapsed());
        None
    }

    pub(crate) fn trusts(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.trusted_proxies.iter().any(|net| net.contains(&peer))
    }
}

/// The value of a query parameter, as it is written.
fn query_value<'q>(query: Option<&'q str>, name: &str) -> Option<&'q str> {
    let mut pairs = query?
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}
