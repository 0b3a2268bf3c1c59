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
    seed: &'r KeySeed,
    request: &'r Request<'a>,
    /// Those that the request has. Without an org there is the hash of no text, which no org can have.
    members: [IdHash; 4],
    has: [bool; 4],
}

impl<'r, 'a> Ids<'r, 'a> {
    /// As the catalogue knows them.
    #[inline]
    pub(super) fn new(seed: &'r KeySeed, request: &'r Request<'a>) -> Self {
        let hash = |id: Option<&str>| id.map_or_else(IdHash::default, |id| seed.id(id.as_bytes()));
        let (key, user, app) = (hash(request.key), hash(request.user), hash(request.app));
        let org = seed.id(request.org.unwrap_or_default().as_bytes());
        let (with_app, with_key) = (request.app.is_some(), request.key.is_some());
        Self {
            seed,
            request,
            members: [org, app, key, user],
            has: [request.org.is_some(), with_app, with_key, request.user.is_some()],
        }
    }

    /// From here on as they are counted: the org of a test key by another hash.
    #[inline]
    pub(super) fn count(&mut self) {
        if self.request.test {
            self.members[Member::Org as usize] = self.org().apart();
        }
    }

    /// The org's; of a request without one, the hash of no text.
    #[inline]
    pub(super) fn org(&self) -> IdHash {
        self.members[Member::Org as usize]
    }

    /// The hash of one of the request's ids.
    #[inline]
    pub(super) fn member(&self, member: Member) -> Option<IdHash> {
        self.has[member as usize].then(|| self.members[member as usize])
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
