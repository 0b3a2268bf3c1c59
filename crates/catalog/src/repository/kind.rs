//! Kinds by their names, which are what the database keeps.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use super::Kind;

/// How many kinds are remembered as reported: a database that holds more of them is not one of a newer version.
const MAX_REPORTED_KINDS: usize = 32;

impl Kind {
    /// Every kind that is known.
    pub const ALL: [Self; 13] = [
        Self::Tier,
        Self::Org,
        Self::User,
        Self::App,
        Self::Key,
        Self::Policy,
        Self::Override,
        Self::EndpointClasses,
        Self::Reset,
        Self::Rollout,
        Self::Eras,
        Self::Token,
        Self::Quota,
    ];

    /// Its name. Names are in databases, so they stay what they are.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tier => "tier",
            Self::Org => "org",
            Self::User => "user",
            Self::App => "app",
            Self::Key => "key",
            Self::Policy => "policy",
            Self::Override => "override",
            Self::EndpointClasses => "endpointClasses",
            Self::Reset => "reset",
            Self::Rollout => "rollout",
            Self::Eras => "eras",
            Self::Token => "token",
            Self::Quota => "quota",
            Self::Unknown => "unknown",
        }
    }

    /// The kind of a name, if there is one.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The kind of a name that is stored somewhere. One that a newer version has written is reported, once for each
    /// name.
    pub fn stored(name: &str) -> Self {
        static REPORTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
        if let Some(kind) = Self::parse(name) {
            return kind;
        }
        let mut reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.len() < MAX_REPORTED_KINDS && reported.insert(name.to_owned()) {
            tracing::warn!(
                kind = name,
                "the catalogue holds entries of a kind that this version does not know: they are skipped. A newer \
                 version has written them; update this node"
            );
        }
        Self::Unknown
    }
}
