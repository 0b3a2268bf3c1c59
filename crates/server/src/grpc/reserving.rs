//! `tollgate.v1.RateLimiter`: reserve, settle, and requests that carry a key.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::Timestamp;
use tollgate_counters::Commit;
use tollgate_proto::Message;
use tollgate_proto::v1::{
    CheckLimitRequest, CheckLimitResponse, ReserveRequest, ReserveResponse, SettleRequest, SettleResponse,
};
use tonic::Status;

use super::decision::decision;
use super::question::Question;
use super::rate_limiter::RateLimiter;
use super::status::status;
use crate::answer::{Problem, rfc3339};
use crate::check_body::CheckBody;
use crate::clock;
use crate::data_plane::{
    Claimant, Opened, Settled, actual, good_key, good_ttl, kept_until, no_room, not_open, refused,
};
use crate::reservations::{Bill, Claimed, Found, OrgMark, Said, Undo, fingerprint};

/// An answer, until when it is kept at the latest, and what can be taken back of it.
type Kept<M> = (M, Option<Timestamp>, Undo);

impl RateLimiter {
    /// A check that counts once for its key.
    pub(super) async fn answer_once(
        &self,
        request: &CheckLimitRequest,
        question: &Question<'_>,
        snapshot: &Snapshot,
        now: Timestamp,
    ) -> Result<CheckLimitResponse, Problem> {
        let org = OrgMark::of(self.plane.engine.seed(), question.check.org);
        let text = format!("check {}", canonical(request));
        let decide = async {
            if question.commit == Commit::DryRun {
                let decided = self
                    .plane
                    .decide_in_time(snapshot, &question.check, question.commit, now);
                let checked = decided.await?;
                return Ok((
                    decision(&checked, self.headers(question.with_headers)),
                    None,
                    Undo::Free,
                ));
            }
            let decided = self.plane.decide_held_in_time(snapshot, &question.check, now);
            let checked = decided.await?;
            let (answer, until) = (
                decision(&checked, self.headers(question.with_headers)),
                kept_until(&checked),
            );
            if !checked.decision.allowed {
                return Ok((answer, until, Undo::Free));
            }
            let bill = Arc::new(Bill::of(&checked, &question.check, snapshot));
            let key = request.idempotency_key.as_deref().unwrap_or_default();
            let recording = self.plane.record_of_key(&checked, question.check.org, key, &bill);
            drop(checked);
            if let Some(recording) = recording {
                recording.await;
            }
            Ok((answer, until, Undo::Charge(bill)))
        };
        self.once(request.idempotency_key.as_deref(), org, &text, now, decide)
            .await
    }

    /// Decides a request whose cost is known only afterwards.
    pub(super) async fn reserve(&self, request: ReserveRequest) -> Result<ReserveResponse, Status> {
        self.reserve_once(request).await.map_err(status)
    }

    /// Says what a reserved request really cost.
    pub(super) async fn settle(&self, request: SettleRequest) -> Result<SettleResponse, Status> {
        self.settle_once(request).await.map_err(status)
    }

    async fn reserve_once(&self, request: ReserveRequest) -> Result<ReserveResponse, Problem> {
        let (snapshot, now) = (self.plane.engine.snapshot_full(), clock::now());
        let check = request.check.unwrap_or_default();
        let ttl_ms = good_ttl(request.ttl_ms)?;
        let body = CheckBody::from(&check);
        let question = Question::read(&body, check.with_headers(), &snapshot, now)?;
        let org = OrgMark::of(self.plane.engine.seed(), question.check.org);
        let text = format!("reserve {ttl_ms} {}", canonical(&check));
        let decide = async {
            self.plane.has_room(question.check.org)?;
            if question.commit == Commit::DryRun {
                let decided = self
                    .plane
                    .decide_in_time(&snapshot, &question.check, question.commit, now);
                let checked = decided.await?;
                let decision = decision(&checked, self.headers(question.with_headers));
                return Ok((opened(decision, None), None, Undo::Nothing));
            }
            let decided = self.plane.decide_held_in_time(&snapshot, &question.check, now);
            let checked = decided.await?;
            let mut open = self.plane.open(&checked, &question.check, &snapshot, ttl_ms);
            let decision = decision(&checked, self.headers(question.with_headers));
            let until = kept_until(&checked);
            drop(checked);
            if let Some(recording) = open.as_mut().and_then(|open| open.recording.take()) {
                recording.await;
            }
            Ok((opened(decision, open), until, Undo::Nothing))
        };
        self.once(check.idempotency_key.as_deref(), org, &text, now, decide)
            .await
    }

    async fn settle_once(&self, request: SettleRequest) -> Result<SettleResponse, Problem> {
        let (snapshot, now) = (self.plane.engine.snapshot_full(), clock::now());
        let name = request.reservation_id;
        let org = self.plane.reservations.org_of(&name);
        let org = org.ok_or_else(|| not_open(&Found::Unknown))?;
        let costs: BTreeMap<String, u64> = request.actual_costs.into_iter().collect();
        let text = format!("settle {name} {:?} {costs:?}", request.actual_cost);
        let settle = async {
            let actual_costs = costs.iter().map(|(unit, cost)| (unit.as_str().into(), *cost));
            let claimant = Claimant {
                cost: request.actual_cost,
                costs: actual_costs.collect(),
                key: request.idempotency_key.clone(),
            };
            let settled = self.settled(&snapshot, &name, claimant, now).await?;
            let answer = SettleResponse {
                reservation_id: name.clone(),
                reserved_cost: settled.reserved,
                actual_cost: settled.actual,
                returned_cost: settled.returned,
                extra_cost: settled.extra,
            };
            Ok((answer, None, Undo::Nothing))
        };
        self.once(request.idempotency_key.as_deref(), org, &text, now, settle)
            .await
    }

    async fn settled(
        &self,
        snapshot: &Arc<Snapshot>,
        name: &str,
        claimant: Claimant,
        now: Timestamp,
    ) -> Result<Settled, Problem> {
        let settling = match self.plane.reservations.find(name, now) {
            Found::Open(settling) => settling,
            Found::Recorded(id) => {
                let desk = self.plane.desk().ok_or_else(|| not_open(&Found::Unknown))?;
                return desk.settle(snapshot.clone(), id, claimant).await;
            }
            found => return Err(not_open(&found)),
        };
        let actual = actual(&settling.bill, claimant.cost, claimant.costs)?;
        let bill = settling.bill.clone();
        if let Some(extra) = bill.extra(&actual) {
            let engine = &self.plane.engine;
            let checked = engine.check_in_time(snapshot, &extra, Commit::Charge, now);
            no_room(&checked.await?)?;
        }
        Ok(self.plane.settle(settling, &actual, now))
    }

    /// Carries a request out once for each of its keys.
    async fn once<M: Message + Default>(
        &self,
        key: Option<&str>,
        org: OrgMark,
        text: &str,
        now: Timestamp,
        carry_out: impl Future<Output = Result<Kept<M>, Problem>>,
    ) -> Result<M, Problem> {
        let Some(key) = key else {
            return carry_out.await.map(|(answer, ..)| answer);
        };
        let fingerprint = fingerprint(self.plane.engine.seed(), &[b"grpc", text.as_bytes()]);
        match self.plane.keys.claim(org, good_key(Some(key))?, fingerprint, now) {
            Claimed::New(claim) => {
                let (answer, until, undo) = carry_out.await?;
                let said = Said {
                    status: 200,
                    head: Box::default(),
                    body: answer.encode_to_vec().into(),
                };
                claim.keep(said, until, undo);
                Ok(answer)
            }
            Claimed::Done(said) => M::decode(&*said.body).map_err(|_| refused(&Claimed::Other)),
            claimed => Err(refused(&claimed)),
        }
    }
}

fn opened(decision: CheckLimitResponse, open: Option<Opened>) -> ReserveResponse {
    let (name, until) = open.map(|open| (open.name, open.until)).unzip();
    ReserveResponse {
        decision: Some(decision),
        reservation_id: name,
        expires_at: until.map(|until| {
            let mut text = Vec::with_capacity(24);
            rfc3339(until, 0, &mut text);
            String::from_utf8_lossy(&text).into_owned()
        }),
    }
}

/// A request as a text that is the same for the same request: maps have no order.
fn canonical(request: &CheckLimitRequest) -> String {
    let mut rest = request.clone();
    let costs: BTreeMap<_, _> = std::mem::take(&mut rest.costs).into_iter().collect();
    let descriptors: BTreeMap<_, _> = std::mem::take(&mut rest.descriptors).into_iter().collect();
    format!("{rest:?} {costs:?} {descriptors:?}")
}
