//! A request that outlives its body.

use std::net::IpAddr;

use tollgate_catalog::Request;
use tollgate_catalog::route::Endpoint;

/// What a request was, to be asked again.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(super) org: Option<Box<str>>,
    pub(super) app: Option<Box<str>>,
    pub(super) key: Option<Box<str>>,
    pub(super) user: Option<Box<str>>,
    pub(super) ip: Option<IpAddr>,
    pub(super) endpoint: Option<Endpoint<'static>>,
    pub(super) scopes: Box<[Box<str>]>,
    pub(super) cost: u64,
    pub(super) costs: Box<[(Box<str>, u64)]>,
    pub(super) test: bool,
    pub(super) descriptors: Box<[(Box<str>, Box<str>)]>,
}

impl Kept {
    pub(crate) fn of(request: &Request<'_>) -> Self {
        let text = |text: Option<&str>| text.map(Into::into);
        let pairs = request.descriptors.iter();
        Self {
            org: text(request.org),
            app: text(request.app),
            key: text(request.key),
            user: text(request.user),
            ip: request.ip,
            endpoint: request.endpoint.as_ref().map(Endpoint::to_static),
            scopes: request.scopes.iter().map(|scope| (*scope).into()).collect(),
            cost: request.cost,
            costs: request
                .costs
                .iter()
                .map(|(unit, cost)| ((*unit).into(), *cost))
                .collect(),
            test: request.test,
            descriptors: pairs
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect(),
        }
    }

    pub(crate) fn request(&self) -> Request<'_> {
        Request {
            org: self.org.as_deref(),
            app: self.app.as_deref(),
            key: self.key.as_deref(),
            user: self.user.as_deref(),
            ip: self.ip,
            endpoint: self.endpoint.clone(),
            scopes: self.scopes.iter().map(|scope| &**scope).collect(),
            cost: self.cost,
            costs: self.costs.iter().map(|(unit, cost)| (&**unit, *cost)).collect(),
            test: self.test,
            descriptors: self
                .descriptors
                .iter()
                .map(|(name, value)| (&**name, &**value))
                .collect(),
            is_descriptor: false,
        }
    }
}
