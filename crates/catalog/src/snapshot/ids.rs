//! The hashed ids of one request, each made once and only if a limit asks for it.

use std::net::IpAddr;

use tollgate_core::{IdHash, KeySeed};

use crate::model::Dimension;
use crate::request::Request;

pub(super) struct Ids<'r, 'a> {
    seed: KeySeed,
    request: &'r Request<'a>,
    /// The org's, by which the catalogue knows it; of a request without one, the hash of no text, which no org
    /// can have.
    pub(super) known: IdHash,
    /// The org's, by which it is counted: another one for its test keys.
    pub(super) org: IdHash,
    app: Option<IdHash>,
    key: Option<IdHash>,
    user: Option<IdHash>,
}

impl<'r, 'a> Ids<'r, 'a> {
    pub(super) fn new(seed: KeySeed, request: &'r Request<'a>) -> Self {
        let known = seed.id(request.org.unwrap_or_default().as_bytes());
        Self {
            seed,
            request,
            known,
            org: if request.test { known.apart() } else { known },
            app: None,
            key: None,
            user: None,
        }
    }

    /// The hash of what the request has in a dimension that is neither global nor the endpoint.
    pub(super) fn get(&mut self, dimension: &Dimension, prefixes: (u8, u8)) -> Option<IdHash> {
        let seed = self.seed;
        let hash = |id: &str| seed.id(id.as_bytes());
        match dimension {
            Dimension::Org => self.request.org.map(|_| self.org),
            Dimension::App => self
                .request
                .app
                .map(|id| *self.app.get_or_insert_with(|| hash(id))),
            Dimension::Key => self
                .request
                .key
                .map(|id| *self.key.get_or_insert_with(|| hash(id))),
            Dimension::User => self
                .request
                .user
                .map(|id| *self.user.get_or_insert_with(|| hash(id))),
            Dimension::Ip => self.request.ip.map(|ip| seed.id(&network(ip, prefixes))),
            Dimension::Descriptor(name) => self.request.descriptor(name).map(hash),
            Dimension::Global | Dimension::Endpoint => None,
        }
    }
}

/// The network that an address is counted with: its first bits, the rest zero.
pub(super) fn network(ip: IpAddr, (v4, v6): (u8, u8)) -> [u8; 17] {
    let mut bytes = [0; 17];
    match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(v4.min(32))).unwrap_or(0);
            bytes[0] = 4;
            bytes[1..5].copy_from_slice(&(ip.to_bits() & mask).to_be_bytes());
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(v6.min(128))).unwrap_or(0);
            bytes[0] = 6;
            bytes[1..].copy_from_slice(&(ip.to_bits() & mask).to_be_bytes());
        }
    }
    bytes
}
