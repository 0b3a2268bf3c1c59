//! Worlds of one org, drawn.

use crate::model::{Asked, Change, FIRST_OF_OVERRIDES, Policy, World};

/// Numbers that look random, the same for the same seed.
pub struct Draw(pub u64);

impl Draw {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        usize::try_from((self.0 >> 33) % bound as u64).unwrap()
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

const SCOPES: [&[&str]; 12] = [
    &["org"],
    &["user"],
    &["user"],
    &["user"],
    &["app"],
    &["key"],
    &["ip"],
    &["global"],
    &["endpoint"],
    &["org", "ip"],
    &["key", "user"],
    &["app", "user"],
];
const PATTERNS: [&str; 4] = ["*", "*", "GET /a", "/a/*"];
const WINDOWS: [&str; 2] = ["1h", "2h"];
const TIERS: [&str; 5] = ["*", "Gold", "Plus", "Max", "default"];

/// Users `ann` and `bob` may have a plan of their own, `cyd` has none.
const USERS: [&str; 2] = ["ann", "bob"];

pub fn draw(draw: &mut Draw) -> World {
    let count = 1 + draw.below(7);
    let policies = (0..count).map(|number| Policy {
        id: format!("p{number}"),
        tier: draw.one(&TIERS),
        scope: draw.one(&SCOPES).to_vec(),
        pattern: draw.one(&PATTERNS),
        write: draw.below(6) == 0,
        window: draw.one(&WINDOWS),
        limit: 1 + number as u64,
    });
    let policies = policies.collect();
    let mut world = World {
        tier: draw.one(&["default", "Gold"]),
        users: Vec::new(),
        policies,
        overrides: Vec::new(),
    };
    draw_users(draw, &mut world);
    world
}

pub fn draw_users(draw: &mut Draw, world: &mut World) {
    world.users.clear();
    for user in USERS {
        if draw.below(3) > 0 {
            world
                .users
                .push((user.to_owned(), draw.one(&TIERS[1..]).to_owned()));
        }
    }
}

pub fn draw_override(draw: &mut Draw, world: &World) -> Change {
    let who = [
        None,
        Some(("appId", "web")),
        Some(("keyId", "k1")),
        Some(("keyId", "k2")),
        Some(("userId", "ann")),
        Some(("userId", "ann")),
        Some(("userId", "bob")),
        Some(("userId", "cyd")),
    ];
    let by_id = draw.below(2) == 0;
    let absent = usize::from(draw.below(9) == 0);
    let number = draw.below(world.policies.len() + absent);
    let mut some = |often: usize| draw.below(often) == 0;
    let (scope, pattern, write, window) = (
        some(if by_id { 6 } else { 2 }),
        some(4),
        some(9),
        some(if by_id { 9 } else { 2 }),
    );
    Change {
        who: draw.one(&who),
        policy: by_id.then(|| format!("p{number}")),
        scope: scope.then(|| draw.one(&SCOPES).to_vec()),
        pattern: pattern.then(|| draw.one(&PATTERNS)),
        write,
        window: window.then(|| draw.one(&WINDOWS)),
        limit: FIRST_OF_OVERRIDES + world.overrides.len() as u64,
        over: draw.below(8) == 0,
    }
}

/// Every request there is.
pub fn requests() -> impl Iterator<Item = Asked<'static>> {
    let apps = [None, Some("web"), Some("other")];
    let keys = [None, Some("k1"), Some("k2"), Some("k3")];
    let users = [None, Some("ann"), Some("bob"), Some("cyd")];
    let endpoints = [None, Some("GET /a"), Some("POST /a/x"), Some("/b")];
    apps.into_iter().flat_map(move |app| {
        keys.into_iter().flat_map(move |key| {
            users.into_iter().flat_map(move |user| {
                endpoints.into_iter().flat_map(move |endpoint| {
                    [(false, false), (true, true), (true, false)]
                        .into_iter()
                        .map(move |(ip, write)| Asked {
                            app,
                            key,
                            user,
                            ip,
                            endpoint,
                            write,
                        })
                })
            })
        })
    })
}
