//! Where counters live. A store takes a whole stack of levels and decides it all or none.
//!
//! Each backend is a folder. [`memory`] is exact by itself; a shared store will stand beside it and pass
//! the same suite. A store knows cells and keys, never policies or requests.

pub mod memory;
pub mod shared;
mod sync;

pub use memory::{Commit, MemoryStore, StoreFull};
