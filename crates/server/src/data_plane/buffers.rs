//! What is on its way in and out of a connection.

use super::body::Chunks;
use super::reply::Reply;
use super::route::Route;
use crate::workers::{Holding, Line};

const FIRST_BUFFER: usize = 4 * 1024;
/// A buffer that a large body made larger than this is made small again.
const LARGE_BUFFER: usize = 64 * 1024;
/// A request that has not arrived whole takes up so much before it counts towards the bounds for all of them.
const UNCOUNTED_BYTES: usize = 16 * 1024;

/// A connection's buffers, and what is known of the request at the front.
pub(super) struct Buffers {
    pub(super) incoming: Vec<u8>,
    pub(super) outgoing: Vec<u8>,
    pub(super) chunks: Chunks,
    pub(super) reply: Reply,
    /// The client was told to go on with its body.
    pub(super) told: bool,
    /// The route of the request at the front, once its head has arrived.
    pub(super) route: Option<Route>,
    /// What that request takes up until it has arrived whole.
    pub(super) holding: Holding,
}

impl Buffers {
    pub(super) fn new(line: &Line) -> Self {
        Self {
            incoming: Vec::with_capacity(FIRST_BUFFER),
            outgoing: Vec::with_capacity(FIRST_BUFFER),
            chunks: Chunks::default(),
            reply: Reply::default(),
            told: false,
            route: None,
            holding: line.part(),
        }
    }

    /// Gets ready for the next request.
    pub(super) fn forget_request(&mut self) {
        self.chunks.clear();
        self.told = false;
        self.route = None;
        self.holding.clear();
    }

    /// Gives back what large requests and answers took, now that nothing is under way.
    pub(super) fn shrink(&mut self) {
        let large = |buffer: &Vec<u8>| buffer.capacity() > LARGE_BUFFER;
        if large(&self.incoming) {
            self.incoming = Vec::with_capacity(FIRST_BUFFER);
        }
        if large(&self.outgoing) {
            self.outgoing = Vec::with_capacity(FIRST_BUFFER);
        }
        for buffer in [&mut self.chunks.joined, &mut self.reply.body] {
            if large(buffer) {
                *buffer = Vec::new();
            }
        }
    }

    /// Counts what the request at the front takes up that has not arrived whole. False if there is no room for it.
    pub(super) fn count_unfinished(&mut self) -> bool {
        let size = self.incoming.len() + self.chunks.joined.len();
        size <= UNCOUNTED_BYTES || self.holding.grow_to(size)
    }
}
