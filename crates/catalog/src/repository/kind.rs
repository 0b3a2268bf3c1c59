//! Kinds by their names, which are what the database keeps.

use super::{Kind, RepositoryError};

impl Kind {
    /// Every kind.
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
        }
    }

    /// The kind of a name, if there is one.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The kind of a name that a table holds.
    pub(super) fn stored(name: &str) -> Result<Self, RepositoryError> {
        Self::parse(name).ok_or_else(|| {
            RepositoryError::Content(format!(
                "the database holds an entry of the unknown kind {name:?}"
            ))
        })
    }
}
