//! Where a charge lies in a counter, so that what of it was never used can be given back: to the same window or entry, and
//! to no other (docs/reservations.md).

use crate::cell::Cell;
use crate::rule::{Algorithm, Rule};
use crate::time::Timestamp;

/// Where a charge lies. Times are nanoseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whence {
    /// In the debt of a bucket, which knows no windows: so many units to the token.
    Debt {
        /// The bucket's window.
        window_ns: u64,
    },
    /// In the window that ends then.
    Window {
        /// Its end.
        end: u64,
    },
    /// In a window that counts on, fading, in the next.
    Fading {
        /// Its end.
        end: u64,
        /// Its length.
        window_ns: u64,
    },
    /// Among the entries of a log of that instant.
    Entry {
        /// The instant.
        at: u64,
    },
}

impl Rule {
    /// Where a charge lies that led to this cell.
    pub fn whence(&self, charged: Cell) -> Whence {
        let [first, second, _] = charged.0;
        let window_ns = self.window_ns;
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => Whence::Debt { window_ns },
            Algorithm::FixedWindow(_) | Algorithm::Quota(_) => Whence::Window { end: first },
            Algorithm::SlidingCounter => Whence::Fading {
                end: first,
                window_ns,
            },
            Algorithm::SlidingLog => Whence::Entry { at: second },
        }
    }
}

impl Whence {
    /// A window's cell with so much less in it; `None` if that window does not count any more.
    pub fn less(self, cell: Cell, tokens: u64, now: Timestamp) -> Option<Cell> {
        let [first, second, third] = cell.0;
        match self {
            Self::Window { end } if first == end && now.nanos() < end => {
                Some(Cell([first, second.saturating_sub(tokens), third]))
            }
            Self::Fading { end, .. } if first == end => {
                Some(Cell([first, second, third.saturating_sub(tokens)]))
            }
            Self::Fading { end, window_ns } if first == end.saturating_add(window_ns) => {
                Some(Cell([first, second.saturating_sub(tokens), third]))
            }
            _ => None,
        }
    }
}
