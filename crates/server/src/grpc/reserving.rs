//! `tollgate.v1.RateLimiter`: reserve, settle, and requests that carry a key.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_catalog::pinned;
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
    Claimant, Opened, Sender, Settled, actual, both, good_key, good_ttl, kept_until, no_room, not_open,
    refused,
};
use crate::engine::Checked;
use crate::reservations::{
    Asked, Bill, Claimed, FleetClaim, Found, OrgMark, Recording, Said, Undo, fingerprint, lasts,
};

/// A request that may carry a key.
struct Once<'a> {
    key: Option<&'a str>,
    /// What it says.
    text: &'a [u8],
    now: Timestamp,
    whose: Whose<'a>,
}

/// Whose a request is.
#[derive(Clone, Copy)]
enum Whose<'a> {
    /// An org's that asks for a decision, which is made by these policies: a fleet remembers its key.
    Asks(Option<&'a str>, &'a Snapshot),
    /// One's that settles what a fleet has on record itself.
    Settles(OrgMark),
}

/// What was carried out.
struct Kept<M> {
    answer: M,
    /// When it is answered to nobody any more, if that is soon.
    until: Option<Timestamp>,
    at: Timestamp,
    /// A fallback decided, so that the shared store is not waited for.
    degraded: bool,
    /// What can be taken back of it.
    undo: Undo,
    /// What makes the fleet have it on record, before it is told.
    recording: Option<Recording>,
}

impl<M> Kept<M> {
    /// An answer to what was decided, of which nothing is to be recorded.
    fn of(checked: &Checked<'_>, answer: M, undo: Undo) -> Self {
        Self {
            answer,
            until: kept_until(checked),
            at: checked.now,
            degraded: checked.degraded,
            undo,
            recording: None,
        }
    }
}

impl RateLimiter {
    /// A check that counts once for its key.
    pub(super) async fn answer_once(
        &self,
        request: &CheckLimitRequest,
        question: &Question<'_>,
        snapshot: &Snapshot,
        now: Timestamp,
    ) -> Result<CheckLimitResponse, Problem> {
        let org = question.check.org;
        let decide = async {
            let checked = self.decided(question, snapshot, now).await?;
            let answer = decision(&checked, self.headers(question.with_headers));
            let mut kept = Kept::of(&checked, answer, Undo::Free);
            if question.commit == Commit::Charge && checked.decision.allowed {
                let bill = Arc::new(Bill::of(&checked, &question.check, snapshot));
                let key = request.idempotency_key.as_deref().unwrap_or_default();
                kept.recording = self.plane.record_of_key(&checked, org, key, &bill);
                kept.undo = Undo::Charge(bill);
            }
            Ok(kept)
        };
        let once = Once {
            key: request.idempotency_key.as_deref(),
            text: &canonical(b"check", request),
            now,
            whose: Whose::Asks(org, snapshot),
        };
        self.once(once, decide).await
    }

    /// Decides a request by whoever may ask: what it is charged may be given back.
    async fn decided<'s>(
        &self,
        question: &Question<'_>,
        snapshot: &'s Snapshot,
        now: Timestamp,
    ) -> Result<Checked<'s>, Problem> {
        let (plane, check) = (&self.plane, &question.check);
        Ok(match question.commit {
            Commit::Charge => plane.decide_held_in_time(snapshot, check, now).await?,
            Commit::DryRun => {
                let decided = plane.engine.check_in_time(snapshot, check, Commit::DryRun, now);
                decided.await?
            }
        })
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
        self.plane.require_identity(&question.check, Sender::Service)?;
        let decide = async {
            self.plane.has_room(question.check.org)?;
            let checked = self.decided(&question, &snapshot, now).await?;
            let mut open = match question.commit {
                Commit::Charge => self.plane.open(&checked, &question.check, &snapshot, ttl_ms),
                Commit::DryRun => None,
            };
            let recording = open.as_mut().and_then(|open| open.recording.take());
            let decision = decision(&checked, self.headers(question.with_headers));
            Ok(Kept {
                recording,
                ..Kept::of(&checked, opened(decision, open), Undo::Nothing)
            })
        };
        let once = Once {
            key: check.idempotency_key.as_deref(),
            text: &canonical(format!("reserve {ttl_ms}").as_bytes(), &check),
            now,
            whose: Whose::Asks(question.check.org, &snapshot),
        };
        self.once(once, decide).await
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
            Ok(Kept {
                answer,
                until: None,
                at: now,
                degraded: false,
                undo: Undo::Nothing,
                recording: None,
            })
        };
        let once = Once {
            key: request.idempotency_key.as_deref(),
            text: text.as_bytes(),
            now,
            whose: Whose::Settles(org),
        };
        self.once(once, settle).await
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
        once: Once<'_>,
        carry_out: impl Future<Output = Result<Kept<M>, Problem>>,
    ) -> Result<M, Problem> {
        let Some(key) = once.key else {
            self.ask_leave(&once)?;
            let kept = carry_out.await?;
            if let Some(recording) = kept.recording {
                recording.await;
            }
            return Ok(kept.answer);
        };
        let key = good_key(Some(key))?;
        let seed = self.plane.engine.seed();
        let org = match once.whose {
            Whose::Asks(org, _) => OrgMark::of(seed, org),
            Whose::Settles(org) => org,
        };
        let fingerprint = fingerprint(seed, &[b"grpc", once.text]);
        let keys = &self.plane.keys;
        let (mut claim, mut said) = (None, None);
        match keys.claim(org, key, fingerprint, once.now) {
            Claimed::New(new) => claim = Some(new),
            Claimed::Done(said) => return repeated(&said),
            Claimed::OnRecord(known) => said = Some(known),
            claimed => return Err(refused(&claimed)),
        }
        self.ask_leave(&once)?;
        let in_fleet = match (self.ask_fleet(&once, key).await, said) {
            (None, None) => None,
            (Some(Asked::Ours(in_fleet)), Some(_)) if in_fleet.was_freed() => {
                match keys.claim_anew(org, key, fingerprint, once.now) {
                    Claimed::New(new) => claim = Some(new),
                    claimed => return Err(refused(&claimed)),
                }
                Some(in_fleet)
            }
            (Some(Asked::Answered(answered)), Some(said)) if !answered.anew => {
                return said_here(said.as_deref());
            }
            (None | Some(Asked::Ours(_)), Some(said)) => return said_here(said.as_deref()),
            (Some(Asked::Ours(in_fleet)), None) => Some(in_fleet),
            (Some(Asked::Answered(answered)), _) => {
                let answer = repeated(&answered.said)?;
                let until = once.now.saturating_add(answered.lasts.as_nanos());
                if let Some(claim) = claim {
                    claim.keep(answered.said, Some(until), answered.undo);
                }
                return Ok(answer);
            }
            (Some(Asked::Other), _) => return Err(refused(&Claimed::Other)),
            (Some(Asked::InFlight), _) => return Err(refused(&Claimed::InFlight)),
        };
        let mut kept = carry_out.await?;
        let said = Said {
            status: 200,
            head: Box::default(),
            body: kept.answer.encode_to_vec().into(),
        };
        let keeping = in_fleet.and_then(|in_fleet| kept.keep(in_fleet, &said));
        if let Some(telling) = both(kept.recording.take(), keeping) {
            telling.await;
        }
        if let Some(claim) = claim {
            claim.keep(said, kept.until, kept.undo);
        }
        Ok(kept.answer)
    }

    /// Whether whoever asks for a decision may.
    fn ask_leave(&self, once: &Once<'_>) -> Result<(), Problem> {
        match once.whose {
            Whose::Asks(org, _) => Ok(self.plane.ask_leave(org, once.now)?),
            Whose::Settles(_) => Ok(()),
        }
    }

    /// Asks the fleet for a key, if it remembers those of such requests.
    async fn ask_fleet(&self, once: &Once<'_>, key: &str) -> Option<Asked> {
        let Whose::Asks(org, snapshot) = once.whose else {
            return None;
        };
        let parts = [b"grpc", once.text];
        let asking = self.plane.ask_fleet(snapshot, org, key, &parts, once.now)?;
        Some(asking.await)
    }
}

impl<M> Kept<M> {
    /// What makes the fleet keep it.
    fn keep(&self, claim: FleetClaim, said: &Said) -> Option<Recording> {
        let lasts = self.until.map(|until| lasts(until, self.at));
        claim.keep(said, lasts, &self.undo, !self.degraded)
    }
}

/// An answer that was given before.
fn repeated<M: Message + Default>(said: &Said) -> Result<M, Problem> {
    M::decode(&*said.body).map_err(|_| refused(&Claimed::Other))
}

/// The same, by this node; there is none if it was given to another request.
fn said_here<M: Message + Default>(said: Option<&Said>) -> Result<M, Problem> {
    said.map_or_else(|| Err(refused(&Claimed::Other)), repeated)
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

/// What is asked, as bytes that are the same for the same request: maps have no order.
fn canonical(what: &[u8], request: &CheckLimitRequest) -> Vec<u8> {
    let mut rest = request.clone();
    let costs: BTreeMap<_, _> = std::mem::take(&mut rest.costs).into_iter().collect();
    let descriptors: BTreeMap<_, _> = std::mem::take(&mut rest.descriptors).into_iter().collect();
    let mut maps = String::new();
    pinned::numbers(costs.iter().map(|(unit, cost)| (unit.as_str(), *cost)), &mut maps);
    maps.push(' ');
    let descriptors = descriptors.iter();
    pinned::texts(
        descriptors.map(|(name, value)| (name.as_str(), value.as_str())),
        &mut maps,
    );
    [what, maps.as_bytes(), &rest.encode_to_vec()].join(&0)
}
