//! The hashed ids of one request, each made once.

use std::net::IpAddr;

use tollgate_core::{IdHash, KeySeed};

use crate::model::Dimension;
use crate::request::Request;

/// An org, or somebody of it: who most limits count by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Member {
    Org,
    App,
    Key,
    User,
}

impl Member {
    /// The one that a dimension stands for.
    pub(super) fn of(dimension: &Dimension) -> Option<Self> {
        match dimension {
            Dimension::Org => Some(Self::Org),
            Dimension::App => Some(Self::App),
            Dimension::Key => Some(Self::Key),
            Dimension::User => Some(Self::User),
            Dimension::Global | Dimension::Endpoint | Dimension::Ip | Dimension::Descriptor(_) => None,
        }
    }
}

/// What is known of a request's org, app, key and user by their hashes. All are hashed before anything else is done
/// with a request: most limits ask for them, and while memory is waited for that holds an id, the org is looked up.
pub(super) struct Ids<'r, 'a> {
    seed: KeySeed,
    request: &'r Request<'a>,
    /// The org's, by which the catalogue knows it; of a request without one, the hash of no text, which no org
    /// can have.
    pub(super) known: IdHash,
    /// The org's, by which it is counted: another one for its test keys.
    pub(super) org: IdHash,
    members: [Option<IdHash>; 4],
}

impl<'r, 'a> Ids<'r, 'a> {
    #[inline]
    pub(super) fn new(seed: KeySeed, request: &'r Request<'a>) -> Self {
        let hash = |id: Option<&str>| id.map(|id| seed.id(id.as_bytes()));
        let [key, user, app] = [request.key, request.user, request.app].map(hash);
        let known = seed.id(request.org.unwrap_or_default().as_bytes());
        let org = if request.test { known.apart() } else { known };
        Self {
            seed,
            request,
            known,
            org,
            members: [request.org.map(|_| org), app, key, user],
        }
    }

    /// The hash of one of the request's ids.
    #[inline]
    pub(super) fn member(&self, member: Member) -> Option<IdHash> {
        self.members[member as usize]
    }

    /// The hash of what the request has in a dimension that is neither global nor the endpoint.
    pub(super) fn get(&self, dimension: &Dimension, prefixes: (u8, u8)) -> Option<IdHash> {
        if let Some(member) = Member::of(dimension) {
            return self.member(member);
        }
        let seed = self.seed;
        match dimension {
            Dimension::Ip => self.request.ip.map(|ip| seed.id(&network(ip, prefixes))),
            Dimension::Descriptor(name) => self.request.descriptor(name).map(|id| seed.id(id.as_bytes())),
            _ => None,
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
