//! Protobuf by hand, for messages that are read and written often enough for it to show: [`read`] borrows texts from
//! the message, [`write`] appends fields to a buffer, [`kept`] some that were written before. It knows no message; all
//! others go through prost.

mod kept;
pub(crate) mod read;
pub(crate) mod write;

pub(crate) use kept::Kept;
pub(crate) use read::{Fields, Malformed, Value};
