//! Where counters live. A store takes a whole stack of levels and decides it all or none.
//!
//! Each backend is a folder. [`memory`] is exact by itself; [`shared`] are counters that a fleet shares by leases, and
//! [`redis`] is the way to where they are kept. A store knows cells and keys, never policies or requests.

mod log_pace;
pub mod memory;
pub mod redis;
pub mod shared;
mod sync;

pub use log_pace::LogPace;
pub use memory::{Commit, Held, Holds, MemoryStore, OfLedger, StoreFull, Within};
