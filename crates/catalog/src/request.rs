//! A request for a decision, checked and ready to be resolved.

use std::fmt;
use std::net::IpAddr;

use smallvec::SmallVec;
use tollgate_core::MAX_LIMIT;

use crate::model::check_id;
use crate::route::{Endpoint, EndpointError};

/// The maximum cost of one request, in any unit: as much as the largest limit admits.
pub const MAX_COST: u64 = MAX_LIMIT;

/// What is known of a request. Every part is optional.
#[derive(Debug, Clone, Default)]
pub struct Request<'a> {
    /// The organization.
    pub org: Option<&'a str>,
    /// The app.
    pub app: Option<&'a str>,
    /// The key's id.
    pub key: Option<&'a str>,
    /// The user.
    pub user: Option<&'a str>,
    /// The client's address.
    pub ip: Option<IpAddr>,
    /// The route.
    pub endpoint: Option<Endpoint<'a>>,
    /// The permissions it carries.
    pub scopes: SmallVec<[&'a str; 2]>,
    /// What it costs.
    pub cost: u64,
    /// What it costs in other units.
    pub costs: SmallVec<[(&'a str, u64); 1]>,
    /// It came by a key for trying things out: its org's counts are others than those of live keys.
    pub test: bool,
    /// Its descriptors.
    pub descriptors: SmallVec<[(&'a str, &'a str); 2]>,
    /// It came as Envoy sends them: its descriptors are a domain, and entries in order, whose names may repeat.
    pub is_descriptor: bool,
}

/// What is wrong with a request: the field, and a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestError {
    /// The field's name as a client writes it.
    pub field: &'static str,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.field, self.message)
    }
}

impl std::error::Error for RequestError {}

impl RequestError {
    /// An error in a field.
    pub fn new(field: &'static str, message: impl Into<String>) -> Self {
        Self {
            field,
            message: message.into(),
        }
    }
}

impl From<EndpointError> for RequestError {
    fn from(error: EndpointError) -> Self {
        Self::new("endpoint", error.to_string())
    }
}

impl<'a> Request<'a> {
    /// A request of cost 1 that nothing is known of.
    #[inline]
    pub fn new() -> Self {
        Self {
            cost: 1,
            ..Self::default()
        }
    }

    /// Checks one of the ids.
    #[inline]
    pub fn id(field: &'static str, id: Option<&'a str>) -> Result<Option<&'a str>, RequestError> {
        match id.map(check_id) {
            Some(Err(problem)) => Err(RequestError::new(field, problem)),
            _ => Ok(id),
        }
    }

    /// Checks a cost against [`MAX_COST`].
    #[inline]
    pub fn checked_cost(field: &'static str, cost: u64) -> Result<u64, RequestError> {
        if cost > MAX_COST {
            return Err(RequestError::new(field, format!("must be at most {MAX_COST}")));
        }
        Ok(cost)
    }

    /// Reads the address. One that carries an IPv4 address inside an IPv6 one is that IPv4 address.
    pub fn address(text: &str) -> Result<IpAddr, RequestError> {
        let address = text.parse::<IpAddr>();
        address
            .map(|ip| ip.to_canonical())
            .map_err(|_| RequestError::new("ip", "must be an IP address"))
    }

    /// The value of a descriptor. `NAME#2` is the second of that name.
    pub fn descriptor(&self, name: &str) -> Option<&'a str> {
        let mut named = self.descriptors.iter().filter(|(known, _)| *known == name);
        let value = named.next().or_else(|| {
            let (name, number) = name.rsplit_once('#').filter(|_| self.is_descriptor)?;
            let before = number.parse::<usize>().ok()?.checked_sub(1)?;
            let mut named = self.descriptors.iter().filter(|(known, _)| *known == name);
            named.nth(before)
        });
        value.map(|(_, value)| *value)
    }

    /// What the request costs in a unit; without a name, its plain cost.
    #[inline]
    pub fn cost_in(&self, unit: Option<&str>) -> u64 {
        unit.map_or(self.cost, |unit| self.cost_of(unit))
    }

    #[inline(never)]
    fn cost_of(&self, unit: &str) -> u64 {
        let mut costs = self.costs.iter();
        costs.find(|(name, _)| *name == unit).map_or(0, |(_, cost)| *cost)
    }
}
