//! What happened in a run, as far as a judge may know it.

use std::collections::BTreeMap;

use tollgate_core::{Algorithm, Rule};
use tollgate_counters::shared::call::Terms;

/// A limit's numbers at a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers {
    /// Which version of the policies they are of.
    pub revision: u64,
    /// What a window admits.
    pub limit: u64,
    /// What fits at once.
    pub capacity: u64,
}

/// What does not change about a counter.
#[derive(Debug, Clone)]
pub struct Nature {
    /// How it counts.
    pub algorithm: Algorithm,
    /// Its window.
    pub window_ns: u64,
    /// How many parts of ten thousand may lie unused.
    pub accuracy: u16,
    /// Its home.
    pub home: usize,
    /// It never refuses.
    pub soft: bool,
    /// The counters it replaces.
    pub formers: Vec<Replaced>,
}

/// A counter that another one replaces.
#[derive(Debug, Clone, Copy)]
pub struct Replaced {
    /// Which.
    pub counter: usize,
    /// By which numbers at last.
    pub numbers: Numbers,
    /// Whether it lives in another slot, or has only a part of what this one counts.
    pub out_of_reach: bool,
    /// When it was left, in true time.
    pub left: u64,
    /// Until when nodes know of it, in true time.
    pub until: u64,
}

/// A level without room.
#[derive(Debug, Clone, Copy)]
pub struct Lack {
    /// Its counter.
    pub counter: usize,
    /// What it would have cost.
    pub cost: u64,
    /// By which numbers, as far as who decided knew.
    pub by: Numbers,
    /// When, in the time of the counter's home, in nanoseconds.
    pub stamp: u64,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum What {
    /// The store decided for a request and charged it, whether or not anybody hears of it.
    Charged {
        /// What.
        cost: u64,
        /// Whose: the node, the call, the place in it.
        id: (u64, u64, usize),
    },
    /// A fallback let a request through. The store hears of it later, if ever.
    LetThrough {
        /// What it cost.
        cost: u64,
        /// Which one.
        id: u64,
    },
    /// The store was told what was let through while it was away.
    Settled {
        /// How much.
        cost: u64,
        /// Which ones, as far as the node had not forgotten them.
        ids: Vec<u64>,
    },
    /// A call about the counter named those that it replaces. The store knows by then what they were charged of fallbacks.
    Named(Vec<usize>),
    /// The store lent tokens.
    Lent {
        /// How many.
        amount: u64,
        /// For how long.
        hold: u64,
        /// To a request that waits, and takes them at once.
        urgent: bool,
    },
    /// Something was given back to the store.
    Returned,
    /// A request had taken tokens out of a lease when it began to wait for another home, and put them back.
    InHand {
        /// How many.
        cost: u64,
        /// When, in true nanoseconds.
        until: u64,
    },
    /// A request went through and was charged here.
    Admitted {
        /// What it cost.
        cost: u64,
        /// Whether the node decided by itself.
        local: bool,
        /// Whether the store had lent it to this very request.
        lent: bool,
    },
    /// A request found no room at these levels.
    Denied {
        /// Whether the node decided by itself. Then it only has to be right about one of them.
        local: bool,
        /// The levels.
        levels: Vec<Lack>,
    },
    /// The store learnt of a limit's numbers.
    Told(Numbers),
    /// The store's clock was set ahead.
    SetAhead,
    /// It was set back, by little: the store goes on from the latest time that it had noted, and what nodes spent by its
    /// clock meanwhile lies ahead of that.
    SetBack,
    /// It shows less than before for another reason.
    WentBack,
    /// A slot began anew.
    Began,
}

/// Something that happened.
#[derive(Debug, Clone)]
pub struct Entry {
    /// When, in true nanoseconds.
    pub at: u64,
    /// What came first of what happened at once.
    pub order: u64,
    /// When, in the home's own time, in nanoseconds.
    pub stamp: u64,
    /// Where.
    pub home: usize,
    /// On which counter, or all of the home.
    pub counter: Option<usize>,
    /// What.
    pub what: What,
}

/// All that happened.
#[derive(Debug, Default)]
pub struct History {
    /// Everything, to be sorted by time.
    pub entries: Vec<Entry>,
    /// The counters.
    pub natures: BTreeMap<usize, Nature>,
    /// What was wrong at once: when, and what.
    pub broken: Vec<(u64, String)>,
}

impl Nature {
    /// The rule with these numbers.
    pub fn rule(&self, numbers: Numbers) -> Rule {
        Rule::new(
            self.algorithm,
            numbers.limit,
            Some(numbers.capacity),
            self.window_ns,
        )
    }

    /// Whether it is a bucket.
    pub fn is_bucket(&self) -> bool {
        self.algorithm.is_bucket()
    }
}

impl Numbers {
    /// The numbers of terms.
    pub fn in_terms(terms: &Terms) -> Self {
        Self {
            revision: terms.revision,
            limit: terms.limit,
            capacity: terms.capacity,
        }
    }

    /// The numbers of a rule.
    pub fn of(rule: &Rule, revision: u64) -> Self {
        Self {
            revision,
            limit: rule.limit,
            capacity: rule.capacity,
        }
    }
}
