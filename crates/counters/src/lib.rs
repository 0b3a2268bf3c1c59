//! Where counters live. A store takes a whole stack of levels and decides it all or none.
//!
//! Each backend is a folder. [`memory`] is exact by itself; [`redis`] is the way to a store that nodes share. A store knows cells and keys, never policies or requests.

pub mod memory;
pub mod redis;
pub mod shared;
mod sync;

pub use memory::{Commit, MemoryStore, StoreFull};
