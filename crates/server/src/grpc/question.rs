//! A check that was read: what is asked, and how the answer is to look.

use tollgate_catalog::model::check_id;
use tollgate_catalog::route::Endpoint;
use tollgate_catalog::snapshot::Snapshot;
use tollgate_catalog::{MAX_COST, Request as Check};
use tollgate_core::Timestamp;
use tollgate_counters::Commit;

use crate::answer::Problem;
use crate::check_body::CheckBody;
use crate::wire::{Fields, Value};

pub(super) struct Question<'r> {
    pub(super) check: Check<'r>,
    pub(super) commit: Commit,
    pub(super) with_headers: bool,
}

impl<'r> Question<'r> {
    /// Nothing that was read yet.
    #[inline]
    pub(super) fn blank() -> Self {
        Self {
            check: Check::new(),
            commit: Commit::Charge,
            with_headers: false,
        }
    }

    pub(super) fn read(
        body: &'r CheckBody<'r>,
        with_headers: bool,
        snapshot: &'r Snapshot,
        now: Timestamp,
    ) -> Result<Self, Problem> {
        Ok(Self {
            check: body.request(Some(snapshot), now)?,
            commit: commit(body.dry_run()),
            with_headers,
        })
    }

    /// Fills a blank one with a `tollgate.v1.CheckLimitRequest` as most clients write it: ids, an address, an endpoint, a
    /// cost and flags. In place: a question is large enough for each move of it to show. Whatever else there may be in a
    /// message, and whatever is wrong with it, makes it `None`, and is left to [`CheckBody`]. The message as far as it is
    /// text, with all of its texts in it, was [looked at](text_before_others) before.
    #[inline]
    pub(super) fn fill(&mut self, message: &'r [u8], whole: &'r str) -> Option<()> {
        let mut fields = Fields::of(message);
        let check = &mut self.check;
        while let Some((number, value)) = fields.next().ok()? {
            match (number, value) {
                (1..=6, Value::Bytes(bytes)) => {
                    let end = message.len() - fields.left();
                    let text = whole.get(end - bytes.len()..end)?;
                    match number {
                        1 => check.org = Some(id(text)?),
                        2 => check.app = Some(id(text)?),
                        3 => check.key = Some(id(text)?),
                        4 => check.user = Some(id(text)?),
                        5 => check.ip = Some(Check::address(text).ok()?),
                        _ => check.endpoint = Some(Endpoint::parse(text).ok()?),
                    }
                }
                (8, Value::Number(cost)) if cost <= MAX_COST => check.cost = cost,
                (11, Value::Number(dry_run)) => self.commit = commit(dry_run != 0),
                (13, Value::Number(with_headers)) => self.with_headers = with_headers != 0,
                _ => return None,
            }
        }
        Some(())
    }
}

#[inline]
fn id(text: &str) -> Option<&str> {
    check_id(text).is_ok().then_some(text)
}

fn commit(dry_run: bool) -> Commit {
    if dry_run { Commit::DryRun } else { Commit::Charge }
}

/// A message, or several in a row, as far as they are text: looked at once for all texts in them. A number that takes up
/// several bytes is no text, and mostly comes after them.
pub(super) fn text_before_others(bytes: &[u8]) -> &str {
    let text = std::str::from_utf8(bytes);
    text.or_else(|error| std::str::from_utf8(&bytes[..error.valid_up_to()]))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::{Index, select};
    use tollgate_proto::Message;
    use tollgate_proto::v1::CheckLimitRequest;

    use super::*;
    use crate::check_body::CheckMessage;

    fn text(texts: &'static [&'static str]) -> impl Strategy<Value = Option<String>> {
        proptest::option::of(select(texts).prop_map(str::to_owned))
    }

    fn id() -> impl Strategy<Value = Option<String>> {
        text(&["acme", "a b", "café", "key-00000007", "0"])
    }

    /// A check that there is nothing unusual about.
    fn plain() -> impl Strategy<Value = CheckLimitRequest> {
        let ip = text(&["192.0.2.1", "::1", "::ffff:192.0.2.1"]);
        let endpoint = text(&["GET /v1/a", "/V1//b/../c", "/é"]);
        let flags = any::<(Option<bool>, Option<bool>)>();
        let cost = proptest::option::of(0..=MAX_COST);
        let rest = (ip, endpoint, cost, flags);
        (id(), id(), id(), id(), rest).prop_map(|(org_id, app_id, key_id, user_id, rest)| {
            let (ip, endpoint, cost, (dry_run, with_headers)) = rest;
            CheckLimitRequest {
                org_id,
                app_id,
                key_id,
                user_id,
                ip,
                endpoint,
                cost,
                dry_run,
                with_headers,
                ..CheckLimitRequest::default()
            }
        })
    }

    /// What there may be besides, or instead.
    fn other() -> impl Strategy<Value = CheckLimitRequest> {
        let wrong = text(&["", "a\tb", "a\u{85}b", "192.0.2", "GET x"]);
        (any::<u8>(), wrong).prop_map(|(field, wrong)| {
            let mut other = CheckLimitRequest::default();
            match field % 11 {
                0 => other.org_id = wrong,
                1 => other.user_id = wrong,
                2 => other.ip = wrong,
                3 => other.endpoint = wrong,
                4 => other.scopes.extend(wrong),
                5 => other.api_key = wrong,
                6 => other.idempotency_key = wrong,
                7 => other.app_id = Some("x".repeat(300)),
                8 => other.costs.extend([("unit".to_owned(), 1)]),
                9 => other.cost = Some(MAX_COST + 1 + u64::from(field)),
                _ => other
                    .descriptors
                    .extend([("name".to_owned(), "value".to_owned())]),
            }
            other
        })
    }

    /// Reads a message both ways, and says whether it was plain.
    fn is_read_alike(message: &[u8]) -> Result<bool, TestCaseError> {
        let mut question = Question::blank();
        if question.fill(message, text_before_others(message)).is_none() {
            return Ok(false);
        }
        let read = CheckMessage::read(Fields::of(message))
            .map_err(|error| TestCaseError::fail(error.to_string()))?;
        let check = read.body.request(None, Timestamp::from_nanos(1));
        let check = check.map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(format!("{:?}", question.check), format!("{check:?}"));
        prop_assert_eq!(question.commit, commit(read.body.dry_run()));
        prop_assert_eq!(question.with_headers, read.with_headers);
        prop_assert!(!read.has_key);
        Ok(true)
    }

    proptest! {
        #[test]
        fn what_is_plain_is_filled_in_as_it_is_read(message in plain()) {
            prop_assert!(is_read_alike(&message.encode_to_vec())?);
        }

        #[test]
        fn what_is_not_plain_is_left_to_be_read(
            message in plain(),
            other in other(),
            flip in proptest::option::of(any::<(Index, u8)>()),
            turned in any::<bool>(),
        ) {
            let mut parts = [message.encode_to_vec(), other.encode_to_vec()];
            if turned {
                // Of a field that stands twice the last counts.
                parts.reverse();
            }
            let mut bytes = parts.concat();
            if let Some((at, bits)) = flip.filter(|_| !bytes.is_empty()) {
                let at = at.index(bytes.len());
                bytes[at] ^= bits;
            }
            is_read_alike(&bytes)?;
        }
    }
}
