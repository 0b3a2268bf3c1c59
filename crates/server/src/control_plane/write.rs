//! The way all writes go: conditions, a turn, what would change.

use axum::http::header::{IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderValue, StatusCode};
use serde_json::{Value, json};
use tollgate_catalog::repository::{Change, Entry, Once, Place};

use super::answer::{Answer, Answered, document, etag, presentable};
use super::ask::Ask;
use super::belongings::Belongings;
use super::idempotency::kept;
use crate::answer::Problem;
use crate::catalogue::{Outcome, Turn, WriteError};

/// How often a write is tried again after another node was faster.
const TURNS: usize = 20;
/// How many changes a trial shows at most. An org may have tens of thousands of things that would go with it.
const MAX_SHOWN: usize = 1_000;

impl Ask {
    /// Replaces an entry whole, or makes it: 200 or 201.
    pub(super) async fn put(&self, place: &Place, body: Value) -> Answered {
        self.put_below(&[], place, body).await
    }

    /// The same below other entries: 404 if one of those is not there.
    pub(super) async fn put_below(&self, above: &[Place], place: &Place, body: Value) -> Answered {
        self.put_if(above, place, body, |_| Ok(()), |answer| answer).await
    }

    /// The same where what is there allows it, looked at when nobody else can change it, and `told` in other words.
    pub(super) async fn put_if(
        &self,
        above: &[Place],
        place: &Place,
        body: Value,
        allow: impl Fn(Option<&Entry>) -> Result<(), Problem> + Send + Sync,
        told: impl Fn(Answer) -> Answer + Send + Sync,
    ) -> Answered {
        self.put_anew(above, place, body, Belongings::None, allow, told)
            .await
    }

    /// The same, and if it was not there, without what is left of one of that name.
    pub(super) async fn put_anew(
        &self,
        above: &[Place],
        place: &Place,
        body: Value,
        left_behind: Belongings<'_>,
        allow: impl Fn(Option<&Entry>) -> Result<(), Problem> + Send + Sync,
        told: impl Fn(Answer) -> Answer + Send + Sync,
    ) -> Answered {
        let dry_run = self.dry_run()?;
        let repository = self.plane.catalogue.repository();
        for _ in 0..TURNS {
            let turn = self.plane.catalogue.turn().await?;
            for above in above {
                let there = repository.get(above).await.map_err(WriteError::from)?.is_some();
                if !there && !self.plane.catalogue.file().owns(above) {
                    return Err(Problem::not_found());
                }
            }
            let before = repository.get(place).await.map_err(WriteError::from)?;
            self.check_conditions(before.as_ref())?;
            allow(before.as_ref())?;
            let mut left = Vec::new();
            if before.is_none() {
                self.check_room(&turn, place, &body).await?;
                left = left_behind.gone(repository, turn.tokens()).await?;
            }
            let gone = left.iter().map(|entry| Change {
                place: entry.place.clone(),
                body: None,
            });
            let mut changes: Vec<Change> = gone.collect();
            changes.push(Change {
                place: place.clone(),
                body: Some(body.to_string()),
            });
            let status = match before {
                None => StatusCode::CREATED,
                Some(_) => StatusCode::OK,
            };
            let answer = |revision| {
                told(Answer {
                    status,
                    revision: Some(revision),
                    body: body.clone(),
                })
            };
            match self
                .commit(turn, reason(&body), &changes, dry_run, answer)
                .await?
            {
                Outcome::Behind => {}
                Outcome::WouldBeWritten => {
                    let gone = left
                        .iter()
                        .map(|entry| change_shown(&entry.place, Some(entry), None));
                    let mut shown: Vec<Value> = gone.take(MAX_SHOWN - 1).collect();
                    shown.push(change_shown(place, before.as_ref(), Some(&body)));
                    return Ok(would_change(&shown, changes.len()));
                }
                Outcome::Written(revision) => return Ok(answer(revision)),
            }
        }
        Err(busy())
    }

    /// Deletes an entry, and with it what can't be without it: 204.
    pub(super) async fn delete(&self, place: &Place, with: Belongings<'_>) -> Answered {
        let dry_run = self.dry_run()?;
        let repository = self.plane.catalogue.repository();
        for _ in 0..TURNS {
            let turn = self.plane.catalogue.turn().await?;
            let before = repository.get(place).await.map_err(WriteError::from)?;
            if before.is_none() && !self.plane.catalogue.file().owns(place) {
                return Err(Problem::not_found());
            }
            self.check_conditions(before.as_ref())?;
            let mut gone = with.gone(repository, turn.tokens()).await?;
            gone.extend(before);
            let places = gone.iter().map(|entry| entry.place.clone());
            let mut changes: Vec<Change> = places.map(|place| Change { place, body: None }).collect();
            if changes.last().is_none_or(|last| last.place != *place) {
                // The policy file's own: refused when it is tried.
                changes.push(Change {
                    place: place.clone(),
                    body: None,
                });
            }
            let answer = |_| Answer {
                status: StatusCode::NO_CONTENT,
                ..Answer::ok(Value::Null)
            };
            match self.commit(turn, "", &changes, dry_run, answer).await? {
                Outcome::Behind => {}
                Outcome::WouldBeWritten => {
                    let shown = gone
                        .iter()
                        .map(|entry| change_shown(&entry.place, Some(entry), None));
                    return Ok(would_change(
                        &shown.take(MAX_SHOWN).collect::<Vec<_>>(),
                        gone.len(),
                    ));
                }
                Outcome::Written(revision) => return Ok(answer(revision)),
            }
        }
        Err(busy())
    }

    /// Changes an entry that is there, and others with it, all or none: 200. What is to be changed follows from the
    /// entry, looked at when nobody else can change it; the last change is its own.
    pub(super) async fn change(
        &self,
        place: &Place,
        why: &str,
        changes: impl Fn(&Entry) -> Result<Vec<Change>, Problem> + Send + Sync,
    ) -> Answered {
        let dry_run = self.dry_run()?;
        let repository = self.plane.catalogue.repository();
        for _ in 0..TURNS {
            let turn = self.plane.catalogue.turn().await?;
            let before = repository.get(place).await.map_err(WriteError::from)?;
            let before = before.ok_or_else(Problem::not_found)?;
            self.check_conditions(Some(&before))?;
            let changes = changes(&before)?;
            let bodies = changes.iter().map(|change| change.body.as_deref().map(read));
            let bodies: Vec<Option<Value>> = bodies.collect();
            let answer = |revision| Answer {
                revision: Some(revision),
                ..Answer::ok(bodies.last().cloned().flatten().unwrap_or(Value::Null))
            };
            match self.commit(turn, why, &changes, dry_run, answer).await? {
                Outcome::Behind => {}
                Outcome::WouldBeWritten => {
                    let mut shown = Vec::new();
                    for (change, body) in changes.iter().zip(&bodies) {
                        let before = repository.get(&change.place).await.map_err(WriteError::from)?;
                        shown.push(change_shown(&change.place, before.as_ref(), body.as_ref()));
                    }
                    return Ok(would_change(&shown, shown.len()));
                }
                Outcome::Written(revision) => return Ok(answer(revision)),
            }
        }
        Err(busy())
    }

    /// Ends a turn: with changes and what is answered to them, or on trial with nothing done.
    async fn commit(
        &self,
        turn: Turn<'_>,
        why: &str,
        changes: &[Change],
        dry_run: bool,
        answer: impl Fn(i64) -> Answer + Send + Sync,
    ) -> Result<Outcome, Problem> {
        let answer = |revision| kept(&answer(revision));
        let once = self.claimed.get().map(|claimed| Once {
            claimed,
            answer: &answer,
        });
        if self.caller.token().is_some_and(|id| !turn.tokens().has(id)) {
            return Err(Problem::unauthorized("The token was revoked meanwhile."));
        }
        let author = self.author(why);
        Ok(turn.commit(&author, changes, dry_run, once.as_ref()).await?)
    }

    /// `If-Match` and `If-None-Match` against lost updates.
    fn check_conditions(&self, before: Option<&Entry>) -> Result<(), Problem> {
        let tags = |name| {
            // What can't be read fits nothing: dropped, it would be as if no condition were given.
            let given = self.headers.get(name);
            let given = given.map(|value: &HeaderValue| value.to_str().unwrap_or_default());
            given.map(|given| given.split(',').map(str::trim).collect::<Vec<_>>())
        };
        let fits = |tags: &[&str]| {
            before.is_some_and(|entry| {
                let present = etag(entry.revision);
                tags.iter().any(|tag| *tag == "*" || *tag == present)
            })
        };
        if tags(IF_MATCH).is_some_and(|tags| !fits(&tags)) {
            return Err(Problem::precondition(
                "It was changed since, or is not there: `If-Match` does not fit.",
            ));
        }
        if tags(IF_NONE_MATCH).is_some_and(|tags| fits(&tags)) {
            return Err(Problem::precondition(
                "It is there already: `If-None-Match` does not fit.",
            ));
        }
        Ok(())
    }
}

fn read(body: &str) -> Value {
    serde_json::from_str(body).unwrap_or(Value::Null)
}

fn reason(body: &Value) -> &str {
    body["reason"].as_str().unwrap_or_default()
}

fn would_change(changes: &[Value], of: usize) -> Answer {
    Answer::ok(json!({"dryRun": true, "changes": changes, "total": of}))
}

pub(super) fn change_shown(place: &Place, before: Option<&Entry>, after: Option<&Value>) -> Value {
    json!({
        "kind": place.kind.name(),
        "orgId": if place.org.is_empty() { Value::Null } else { json!(place.org) },
        "id": place.id,
        "before": before.map(|entry| presentable(document(entry))),
        "after": after.cloned().map(presentable),
    })
}

fn busy() -> Problem {
    Problem::conflict("The catalogue is being changed by others all the time. Try again.")
}
