//! Stacks of requests that come together. In a batch most have the org of the one before, and differ in an id: then so
//! does the stack, and what it has for all others need not be found again.

use tollgate_core::Timestamp;

use super::common::Common;
use super::ids::{Member, Members};
use super::org::OrgEntry;
use super::resolve::Stack;
use super::{Catalogue, Snapshot};
use crate::request::Request;

/// The request that a stack was last filled for, if all that could make a difference to the next are its ids.
#[derive(Clone, Copy)]
pub(super) struct Last<'s> {
    catalogue: &'s Catalogue,
    members: Members,
}

impl Snapshot {
    /// Fills a stack that may be another request's.
    #[inline]
    pub fn resolve_next<'s>(&'s self, request: &Request<'_>, now: Timestamp, stack: &mut Stack<'s>) {
        if !self.resolve_again(request, stack) {
            stack.clear();
            self.resolve(request, now, stack);
            stack.last = self.last(request);
        }
    }

    /// Puts the ids of a request into the stack of another, if they differ in no more.
    #[inline]
    fn resolve_again<'s>(&'s self, request: &Request<'_>, stack: &mut Stack<'s>) -> bool {
        let catalogue = &*self.catalogue;
        let Some(last) = &mut stack.last else {
            return false;
        };
        if request.endpoint.is_some() || !std::ptr::eq(last.catalogue, catalogue) {
            return false;
        }
        let mut ids = catalogue.ids(request);
        ids.add_members();
        let before = std::mem::replace(&mut last.members, ids.members);
        if !before.are_of_same_org_and_kind(&ids.members) {
            return false;
        }
        for (level, limit) in stack.levels.iter_mut().zip(&stack.limits) {
            level.cost = limit.cost(request);
            if let Some(member) = limit.plain
                && !before.share(member, &ids.members)
                && let Some((key, _)) = limit.member_key(member, &ids)
            {
                level.key = key;
            }
        }
        stack.again = before.share(Member::App, &ids.members);
        true
    }

    /// What there is to remember of a request whose stack was filled.
    #[inline(never)]
    fn last(&self, request: &Request<'_>) -> Option<Last<'_>> {
        let catalogue = &*self.catalogue;
        let mut ids = catalogue.ids(request);
        let (org, common) = catalogue.find(ids.org(), request.org);
        let only_ids = request.endpoint.is_none() && self.formers.is_empty() && is_plain(org, common);
        ids.add_members();
        only_ids.then_some(Last {
            catalogue,
            members: ids.members,
        })
    }
}

/// Whether nothing but ids can make a difference to the limits of an org's requests.
fn is_plain(org: &OrgEntry, common: &Common) -> bool {
    let mut limits = common.tiers[org.tier as usize].limits.iter();
    let of_tier = limits.all(|index| common.limits[*index as usize].plain.is_some());
    let own = org.users.is_empty() && org.extras.is_empty();
    of_tier && own && org.has_only_what_its_tier_has() && !common.remembers
}
