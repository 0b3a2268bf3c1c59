//! Quotas and orgs of a journey, drawn at random.

use crate::book::{Book, Quota, SCOPES, Scope};
use crate::calendar::{Calendar, WINDOWS, Window};
use crate::draw::Draw;
use crate::org::Org;
use crate::zones::{ALL, Zone};

/// Where numbers begin: somewhere else each time, or as `TOLLGATE_TRAVEL_SEED` says.
pub fn seed() -> u64 {
    let given = std::env::var("TOLLGATE_TRAVEL_SEED").ok();
    let seed = given.map_or_else(|| getrandom::u64().unwrap(), |seed| seed.parse().unwrap());
    println!("TOLLGATE_TRAVEL_SEED={seed}");
    seed
}

/// One of several.
pub fn one<T: Copy>(draw: &mut Draw, of: &[T]) -> T {
    of[usize::try_from(draw.below(of.len() as u64)).unwrap()]
}

/// A number from one to another.
pub fn between(draw: &mut Draw, least: u64, most: u64) -> u64 {
    least + draw.below(most - least + 1)
}

/// A calendar in this zone; its billing months rather begin on a day that some months lack.
pub fn calendar(draw: &mut Draw, zone: Zone) -> Calendar {
    Calendar {
        zone,
        day: one(draw, &[31, 31, 30, 29, 1, 15]),
        time: one(draw, &[0, 0, 0, 9_000, 84_600]),
    }
}

/// Any zone.
pub fn zone(draw: &mut Draw) -> Zone {
    one(draw, &ALL)
}

/// An org with one tight quota, the first, and others on the same and on all other windows.
pub fn org(draw: &mut Draw, id: &str, calendar: Calendar, tight: Window, redis: bool) -> Org {
    let exact = redis || draw.below(2) == 0;
    let limit = between(draw, 12, 60);
    let scope = one(draw, &SCOPES);
    let quota = |window: Window, scope: Scope, limit, mode| Quota {
        id: format!("{id}-{mode}-{}-{}", window.word(), scope.word()),
        window,
        scope,
        limit,
        mode,
        exact,
    };
    let mut quotas = vec![quota(tight, scope, limit, "enforce")];
    let other = SCOPES[(SCOPES.iter().position(|one| *one == scope).unwrap() + 1) % SCOPES.len()];
    let mode = one(draw, &["soft", "shadow"]);
    quotas.push(quota(tight, other, limit / 2, mode));
    for window in WINDOWS.into_iter().filter(|window| *window != tight) {
        let mode = one(draw, &["enforce", "enforce", "soft", "shadow"]);
        quotas.push(quota(window, one(draw, &SCOPES), limit * 20, mode));
    }
    Org::new(id, Book::new(calendar, quotas))
}
