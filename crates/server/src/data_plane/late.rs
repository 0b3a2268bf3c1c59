//! Checks of a batch that could not be decided at once: gone on with together, and each of those that meet a counter of
//! one that waits after it.

use tollgate_catalog::Request;
use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::Timestamp;
use tollgate_counters::Commit;

use super::{DataPlane, Order, all};
use crate::engine::{Checked, Undecided, Wait};

/// A check that is not decided yet: its place in the batch, and what it waits for if it was begun.
pub(crate) type Late = (usize, Option<Wait>);

/// Decides what has to wait. `check` says which check stands at a place, by what text, and how it is charged; `write`
/// has the decision's item of the answer. Hands back the items with their places, in order.
pub(crate) async fn decide_late<'s, 'b: 'c, 'c>(
    plane: &DataPlane,
    mut late: Vec<Late>,
    (snapshot, now): (&'s Snapshot, Timestamp),
    check: impl Fn(usize) -> (&'c Request<'b>, &'b [u8], Commit),
    write: impl Fn(usize, Result<Checked<'s>, Undecided>) -> Vec<u8>,
) -> Vec<(usize, Vec<u8>)> {
    let mut decided = Vec::with_capacity(late.len());
    while !late.is_empty() {
        let mut order = Order::new(snapshot, now);
        let (mut waiting, mut later) = (Vec::new(), Vec::new());
        for (place, wait) in late {
            let (request, text, commit) = check(place);
            let begun = match wait {
                Some(wait) => Err(Undecided::Waits(wait)),
                None if order.admits(request, text) => plane.decide_now(snapshot, request, commit, now),
                None => {
                    later.push((place, None));
                    continue;
                }
            };
            match begun {
                Err(Undecided::Waits(wait)) => {
                    order.waits(request, text);
                    waiting.push((place, wait));
                }
                checked => decided.push((place, write(place, checked))),
            }
        }
        let (check, write) = (&check, &write);
        let waiting = waiting.into_iter().map(|(place, wait)| async move {
            let (request, _, commit) = check(place);
            let checked = plane.decide_after(wait, snapshot, request, commit, now).await;
            (place, write(place, checked))
        });
        decided.extend(all(waiting).await);
        late = later;
    }
    decided.sort_by_key(|(place, _)| *place);
    decided
}

/// Puts late items of an answer in the gaps that were left for them: so far into what is written already.
pub(crate) fn fill_gaps(written: &[u8], gaps: &[usize], late: Vec<(usize, Vec<u8>)>) -> Vec<u8> {
    let more: usize = late.iter().map(|(_, item)| item.len()).sum();
    let mut whole = Vec::with_capacity(written.len() + more);
    let mut copied = 0;
    for (gap, (_, item)) in gaps.iter().zip(late) {
        whole.extend_from_slice(&written[copied..*gap]);
        whole.extend(item);
        copied = *gap;
    }
    whole.extend_from_slice(&written[copied..]);
    whole
}
