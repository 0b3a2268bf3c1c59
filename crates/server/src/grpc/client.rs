//! One connection's client, and what its requests take up: bounded for the connection, and for all of them.

use std::cell::Cell;
use std::rc::Rc;

use tokio::sync::{Semaphore, SemaphorePermit};
use tonic::Status;

use super::{Bounds, UNCOUNTED_BYTES};
use crate::workers::{Holding, Line};

/// Requests of a connection that are being decided at a time: an eighth of what all together may have.
const DECIDING: u32 = 512;
/// So many requests of a connection may be unfinished without regard to others of its peer: nobody else can take these.
const OWN_UNFINISHED: u32 = 8;
/// What an unfinished request takes up without its message.
const UNFINISHED_BYTES: usize = 4 * 1024;
/// The same of calls to health and reflection, which need no token: those without regard to others, and the most.
const OWN_PROBES: u32 = 4;
const PROBES: u32 = 64;

/// A client. Its requests count themselves here.
pub(super) struct Client {
    pub(super) line: Line,
    deciding: Cell<u32>,
    unfinished: Cell<u32>,
    probes: Cell<u32>,
}

/// One more of something, until it is dropped.
struct Count<'c>(&'c Cell<u32>);

impl<'c> Count<'c> {
    fn one_more(cell: &'c Cell<u32>) -> Self {
        cell.set(cell.get() + 1);
        Self(cell)
    }
}

impl Drop for Count<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// A request whose message is being waited for.
pub(super) struct Unfinished<'c> {
    _count: Count<'c>,
    holding: Holding,
    /// What is held without its message.
    base: usize,
}

/// A place among the requests that are being decided.
pub(super) struct Place<'c> {
    _count: Count<'c>,
    _place: SemaphorePermit<'c>,
    _holding: Option<Holding>,
}

/// A place among the calls that need no token.
pub(super) struct Probe {
    client: Rc<Client>,
    _holding: Option<Holding>,
}

impl Client {
    pub(super) fn at(line: Line) -> Rc<Self> {
        Rc::new(Self {
            line,
            deciding: Cell::new(0),
            unfinished: Cell::new(0),
            probes: Cell::new(0),
        })
    }

    /// Waits for a message that has not arrived whole.
    pub(super) fn waits_for_message(&self) -> Result<Unfinished<'_>, Status> {
        let mut holding = self.line.part();
        let base = if self.unfinished.get() < OWN_UNFINISHED {
            0
        } else {
            UNFINISHED_BYTES
        };
        if !holding.grow_to(base) {
            return Err(too_much());
        }
        Ok(Unfinished {
            _count: Count::one_more(&self.unfinished),
            holding,
            base,
        })
    }

    /// Decides a request whose message, of so many bytes, has arrived.
    pub(super) fn decides<'c>(&'c self, places: &'c Semaphore, bytes: usize) -> Result<Place<'c>, Status> {
        let mut holding = None;
        if bytes > UNCOUNTED_BYTES {
            let part = holding.insert(self.line.part());
            if !part.grow_to(bytes) {
                return Err(too_much());
            }
        }
        let place = places
            .try_acquire()
            .ok()
            .filter(|_| self.deciding.get() < DECIDING);
        Ok(Place {
            _place: place.ok_or_else(too_much)?,
            _count: Count::one_more(&self.deciding),
            _holding: holding,
        })
    }

    /// Answers a call that needs no token.
    pub(super) fn probes(self: &Rc<Self>, bounds: &Bounds) -> Result<Probe, Status> {
        let open = self.probes.get();
        let mut holding = None;
        if open >= OWN_PROBES {
            let part = holding.insert(bounds.probes.part_of(self.line.peer));
            if open >= PROBES || !part.grow_to(1) {
                return Err(too_much());
            }
        }
        self.probes.set(open + 1);
        Ok(Probe {
            client: self.clone(),
            _holding: holding,
        })
    }
}

impl Unfinished<'_> {
    /// So much of the message has arrived.
    pub(super) fn holds(&mut self, bytes: usize) -> Result<(), Status> {
        if bytes <= UNCOUNTED_BYTES || self.holding.grow_to(self.base + bytes) {
            return Ok(());
        }
        Err(too_much())
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let probes = &self.client.probes;
        probes.set(probes.get().saturating_sub(1));
    }
}

fn too_much() -> Status {
    Status::resource_exhausted("as many requests are under way as may be")
}
