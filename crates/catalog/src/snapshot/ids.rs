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

/// What is known of a request's org, app, key and user by their hashes. The org's is made first, and it is looked up; then
/// the others', while memory is waited for that holds them.
pub(super) struct Ids<'r, 'a> {
    seed: &'r KeySeed,
    pub(super) request: &'r Request<'a>,
    pub(super) members: Members,
}

/// The hashes themselves.
#[derive(Clone, Copy)]
pub(super) struct Members {
    /// Those that the request has. Without an org there is the hash of no text, which no org can have.
    hashes: [IdHash; 4],
    has: [bool; 4],
}

impl Members {
    /// Whether a request has the same org as another, and ids where the other has some.
    #[inline]
    pub(super) fn are_of_same_org_and_kind(&self, other: &Self) -> bool {
        self.has == other.has && self.share(Member::Org, other)
    }

    /// Whether one of a request's ids is the same as another's.
    #[inline]
    pub(super) fn share(&self, member: Member, other: &Self) -> bool {
        self.hashes[member as usize] == other.hashes[member as usize]
    }
}

impl<'r, 'a> Ids<'r, 'a> {
    /// The org as the catalogue knows it.
    #[inline]
    pub(super) fn of_org(seed: &'r KeySeed, request: &'r Request<'a>) -> Self {
        let mut hashes = [IdHash::default(); 4];
        hashes[Member::Org as usize] = seed.id(request.org.unwrap_or_default().as_bytes());
        let has = [request.org.is_some(), false, false, false];
        Self {
            seed,
            request,
            members: Members { hashes, has },
        }
    }

    /// All as they are counted: the org of a test key by another hash.
    #[inline]
    pub(super) fn add_members(&mut self) {
        if self.request.test {
            self.count_apart();
        }
        self.add(Member::App, self.request.app);
        self.add(Member::Key, self.request.key);
        self.add(Member::User, self.request.user);
    }

    #[inline]
    fn add(&mut self, member: Member, id: Option<&str>) {
        if let Some(id) = id {
            self.members.hashes[member as usize] = self.seed.id(id.as_bytes());
            self.members.has[member as usize] = true;
        }
    }

    #[cold]
    fn count_apart(&mut self) {
        self.members.hashes[Member::Org as usize] = self.org().apart();
    }

    /// The org's; of a request without one, the hash of no text.
    #[inline]
    pub(super) fn org(&self) -> IdHash {
        self.members.hashes[Member::Org as usize]
    }

    /// The hash of one of the request's ids.
    #[inline]
    pub(super) fn member(&self, member: Member) -> Option<IdHash> {
        let Members { hashes, has } = &self.members;
        has[member as usize].then(|| hashes[member as usize])
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
