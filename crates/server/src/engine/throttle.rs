//! Throttles: buckets whose numbers the caller brings along.
//!
//! They are counted where limits are, under names that no policy's counter has. In this process a key has one count,
//! whatever numbers it is asked by. A store that a fleet shares counts a key apart for each rate.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use tollgate_core::calendar::Calendar;
use tollgate_core::{
    Algorithm, CounterKey, Decision, KeySeed, Level, MAX_LIMIT, MAX_WINDOW_NS, Mode, NoThrottle, Rule,
    Throttle, Throttled, Timestamp,
};
use tollgate_counters::shared::call::Name;
use tollgate_counters::shared::node::{Answer, Asked, Claim, Details, Fail, Fallback};
use tollgate_counters::shared::{SharedStore, Taken};
use tollgate_counters::{Commit, StoreFull};

use super::{Engine, MOST_WAITS, Undecided};

/// No policy's counter is called so: names of those have no zeros.
const WORLD: &[u8] = b"\0cl.throttle";
const SECOND_NS: u64 = 1_000_000_000;
/// How much of a bucket may lie unused in leases, in parts of ten thousand: as much as of a limit that says nothing.
const ACCURACY: u16 = 500;

/// What the keys of all throttles have in common.
pub(super) fn world(seed: KeySeed) -> CounterKey {
    CounterKey::new(seed.id(WORLD))
}

/// What a caller asks of a throttle.
#[derive(Debug, Clone, Copy)]
pub struct Throttling<'a> {
    /// Whose bucket it is.
    pub key: &'a [u8],
    /// What it holds, less one.
    pub burst: u64,
    /// What comes back in a period.
    pub count: u64,
    /// The period.
    pub period_s: u64,
    /// What is taken.
    pub tokens: u64,
}

/// Why a throttle says nothing.
#[derive(Debug)]
pub enum Unthrottled {
    /// Its numbers make no sense.
    Numbers(NoThrottle),
    /// It could not be counted.
    Undecided(Undecided),
}

impl From<StoreFull> for Unthrottled {
    fn from(full: StoreFull) -> Self {
        Self::Undecided(full.into())
    }
}

impl Engine {
    /// Whether throttles are counted in a store that has to be waited for.
    pub fn shares_throttles(&self) -> bool {
        self.shared.get().is_some()
    }

    /// Asks a throttle in this process.
    pub fn throttle(&self, asked: &Throttling<'_>, now: Timestamp) -> Result<Throttled, Unthrottled> {
        let throttle = asked.numbers()?;
        let key = self.throttle_key(asked.key);
        let mut says = None;
        let noted = self.store.amend(key, key.home(), now, |cell| {
            let (said, after) = throttle.take(cell, asked.tokens, now);
            says = Some(said);
            after
        });
        match (noted, says) {
            (Ok(()), Some(says)) => Ok(self.excuse(says)),
            // The kill switch refuses nothing, not even what there is no room to count.
            (Err(_), Some(says)) if self.shadow_all => Ok(self.excuse(says)),
            _ => Err(StoreFull.into()),
        }
    }

    /// Asks a throttle in the store that a fleet shares, and waits for it if that must be.
    pub async fn throttle_shared(
        &self,
        asked: &Throttling<'_>,
        now: Timestamp,
    ) -> Result<Throttled, Unthrottled> {
        let Some(shared) = self.shared.get() else {
            return self.throttle(asked, now);
        };
        asked.numbers()?;
        let rule = asked.rule()?;
        let key = self
            .throttle_key(asked.key)
            .and(self.seed.id(&asked.count.to_be_bytes()))
            .and(self.seed.id(&asked.period_s.to_be_bytes()));
        let level = Level {
            rule: &rule,
            calendar: Calendar::utc(),
            mode: Mode::Enforce,
            cost: asked.tokens,
            key,
            home: key.home(),
        };
        let says = self.share_throttle(shared, &level, asked).await;
        says.map(|says| self.excuse(says)).map_err(Unthrottled::Undecided)
    }

    async fn share_throttle(
        &self,
        shared: &Arc<SharedStore>,
        level: &Level<'_>,
        details: &Throttling<'_>,
    ) -> Result<Throttled, Undecided> {
        let levels = std::slice::from_ref(level);
        let asked = Asked {
            levels,
            formers: &[],
            revision: 0,
            commit: Commit::Charge,
            refused: false,
            charges: None,
            details,
        };
        let (mut claim, mut deadline) = (Claim::default(), None);
        for waits in 1..=MOST_WAITS {
            let mut decision = Decision::pending();
            let wait = match shared.decide(&asked, claim, &mut decision)? {
                Taken::Decided(at) => return Ok(said(level, &decision, at)),
                Taken::Waits(wait) => wait,
                Taken::Crowded => return Err(Undecided::Crowded),
                Taken::Away => break,
            };
            let deadline = *deadline.get_or_insert_with(|| wait.deadline());
            match wait.answer(waits < MOST_WAITS, deadline).await {
                Answer::Decided(settled) => {
                    let mut decision = Decision::pending();
                    settled.fill(levels, &mut decision);
                    return Ok(said(level, &decision, settled.at));
                }
                Answer::Again(again) => claim = again,
                Answer::Away => break,
            }
        }
        let mut decision = Decision::pending();
        match shared.decide_away(&asked, &|_| Fail::Local, &self.store, &mut decision)? {
            Fallback::Decided { at, .. } => Ok(said(level, &decision, at)),
            Fallback::Closed => Err(Undecided::StoreAway),
        }
    }

    fn throttle_key(&self, key: &[u8]) -> CounterKey {
        self.throttles.and(self.seed.id(key))
    }

    /// The kill switch lets everything through.
    fn excuse(&self, says: Throttled) -> Throttled {
        if !self.shadow_all {
            return says;
        }
        Throttled {
            limited: false,
            retry_ns: None,
            ..says
        }
    }
}

impl Throttling<'_> {
    fn numbers(&self) -> Result<Throttle, Unthrottled> {
        let period_ns = self.period_s.checked_mul(SECOND_NS);
        let throttle = match period_ns {
            Some(period_ns) => Throttle::new(self.burst, self.count, period_ns),
            None => Err(NoThrottle::TooLong),
        };
        throttle.map_err(Unthrottled::Numbers)
    }

    /// The same bucket as a policy would have it.
    fn rule(&self) -> Result<Rule, Unthrottled> {
        let capacity = self.burst.saturating_add(1);
        let window_ns = self.period_s.saturating_mul(SECOND_NS);
        if self.count > MAX_LIMIT || capacity > MAX_LIMIT || window_ns > MAX_WINDOW_NS {
            return Err(Unthrottled::Numbers(NoThrottle::TooLong));
        }
        let bucket = Algorithm::TokenBucket;
        Ok(Rule::new(bucket, self.count, Some(capacity), window_ns))
    }
}

impl Details for Throttling<'_> {
    fn name(&self, _: usize) -> Name {
        let mut hash = Sha256::new();
        hash.update(WORLD);
        hash.update(self.count.to_be_bytes());
        hash.update(self.period_s.to_be_bytes());
        hash.update(self.key);
        let mut name = [0; 16];
        name.copy_from_slice(&hash.finalize()[..16]);
        Name(name)
    }

    fn tag(&self, place: usize) -> Arc<str> {
        URL_SAFE_NO_PAD.encode(self.name(place).0).into()
    }

    fn accuracy(&self, _: usize) -> u16 {
        ACCURACY
    }

    fn former(&self, place: usize) -> Name {
        self.name(place)
    }
}

fn said(level: &Level<'_>, decision: &Decision, at: Timestamp) -> Throttled {
    let short = |nanos: u128| u64::try_from(nanos).unwrap_or(u64::MAX);
    let Some(outcome) = decision.outcomes.first() else {
        return Throttled {
            limited: false,
            remaining: 0,
            retry_ns: None,
            reset_ns: 0,
        };
    };
    let limited = !decision.allowed;
    Throttled {
        limited,
        remaining: outcome.remaining,
        retry_ns: outcome.wait(level, at).filter(|_| limited).map(short),
        reset_ns: short(outcome.reset(level, at)),
    }
}
