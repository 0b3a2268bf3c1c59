//! `CL.THROTTLE key max_burst count period [quantity]`, answered as redis-cell does.

use tollgate_catalog::MAX_COST;
use tollgate_core::{NoThrottle, Throttled};

use super::reply::Reply;
use crate::engine::{Throttling, Unthrottled};

const USAGE: &str =
    "Cell error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]";
const SECOND_NS: u64 = 1_000_000_000;
const MILLI_NS: u64 = 1_000_000;

/// Reads what is asked; the error is the answer.
pub(super) fn read<'w>(words: &[&'w [u8]]) -> Result<Throttling<'w>, String> {
    let (key, numbers) = match words {
        [_, key, numbers @ ..] if matches!(numbers.len(), 3 | 4) => (*key, numbers),
        _ => return Err(USAGE.to_owned()),
    };
    let mut read = [0, 0, 0, 1];
    for (number, word) in read.iter_mut().zip(numbers) {
        *number = whole(word)?;
    }
    let [burst, count, period_s, tokens] = read;
    if tokens > MAX_COST {
        return Err(format!("Cell error: The quantity must be at most {MAX_COST}"));
    }
    Ok(Throttling {
        key,
        burst,
        count,
        period_s,
        tokens,
    })
}

/// A whole number. redis-cell takes those below 0 too, and gives back what was never taken.
fn whole(word: &[u8]) -> Result<u64, String> {
    let text = std::str::from_utf8(word).ok();
    match text.and_then(|text| text.parse::<i64>().ok()).map(u64::try_from) {
        Some(Ok(number)) => Ok(number),
        Some(Err(_)) => Err("Cell error: Negative numbers are not supported".to_owned()),
        None => {
            let word = String::from_utf8_lossy(word);
            Err(format!("Cell error: Couldn't parse as integer: {word}"))
        }
    }
}

/// Writes what was said.
pub(super) fn write(asked: &Throttling<'_>, says: Result<Throttled, Unthrottled>, reply: &mut Reply) {
    let says = match says {
        Ok(says) => says,
        Err(Unthrottled::Numbers(NoThrottle::ZeroRate)) => {
            return reply.error("Cell error: Zero rates are not supported");
        }
        Err(Unthrottled::Numbers(NoThrottle::TooLong)) => {
            return reply.error("Cell error: The numbers are too large");
        }
        Err(Unthrottled::Undecided(why)) => {
            return reply.error(&format!("ERR limiter unavailable: {why}"));
        }
    };
    let short = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    reply.array(5);
    reply.integer(i64::from(says.limited));
    reply.integer(short(asked.burst.saturating_add(1)));
    reply.integer(short(says.remaining));
    reply.integer(says.retry_ns.map_or(-1, |retry| short(seconds(retry))));
    reply.integer(short(seconds(says.reset_ns)));
}

/// Whole seconds as redis-cell rounds them: up, but for less than a millisecond.
fn seconds(nanos: u64) -> u64 {
    nanos / SECOND_NS + u64::from(nanos % SECOND_NS >= MILLI_NS)
}
