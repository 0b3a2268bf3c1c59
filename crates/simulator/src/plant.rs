//! Mistakes that can be planted, to see whether they are found.

use tollgate_counters::shared::{node, slot};

/// A mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// In the store.
    Store(slot::Bug),
    /// In the nodes. It needs the feature `plant`.
    Node(node::Bug),
    /// Calls that nobody knows the outcome of are sent again.
    SentAgain,
    /// What a server grants counts though no replica has seen it.
    Unwitnessed,
}

impl Plant {
    /// All of them.
    pub const ALL: [Self; 32] = [
        Self::Store(slot::Bug::LeasesDrain),
        Self::Store(slot::Bug::LogAtGrant),
        Self::Store(slot::Bug::LogSettledAtGrant),
        Self::Store(slot::Bug::HoldPastEnd),
        Self::Store(slot::Bug::CutIsCredited),
        Self::Store(slot::Bug::IdleTwice),
        Self::Store(slot::Bug::BucketCredit),
        Self::Store(slot::Bug::AnyLeaseReturns),
        Self::Store(slot::Bug::ReturnTwice),
        Self::Store(slot::Bug::LentOverAgain),
        Self::Store(slot::Bug::ReturnAcrossWindows),
        Self::Store(slot::Bug::WarmAfterLoss),
        Self::Store(slot::Bug::LogColdWithoutHold),
        Self::Store(slot::Bug::FailoverUnnoticed),
        Self::Store(slot::Bug::GoneBackUnnoticed),
        Self::Store(slot::Bug::StaleRevisionWins),
        Self::Store(slot::Bug::RevisionSlips),
        Self::Store(slot::Bug::ChangeForgetsLeases),
        Self::Store(slot::Bug::ForgetsOtherSlots),
        Self::Store(slot::Bug::LateUnheard),
        Self::Store(slot::Bug::DeniedCharges),
        Self::Store(slot::Bug::RunsLate),
        Self::Node(node::Bug::DeadlineFromReceipt),
        Self::Node(node::Bug::NeverEnds),
        Self::Node(node::Bug::CheckedBeforeOnly),
        Self::Node(node::Bug::PutBackAnywhere),
        Self::Node(node::Bug::PartsAreWhole),
        Self::Node(node::Bug::OwedAgain),
        Self::Node(node::Bug::SettlesAlone),
        Self::Node(node::Bug::DrainsWhole),
        Self::SentAgain,
        Self::Unwitnessed,
    ];

    /// What it is called on the command line.
    pub fn name(self) -> String {
        match self {
            Self::Store(bug) => format!("{bug:?}"),
            Self::Node(bug) => format!("{bug:?}"),
            Self::SentAgain | Self::Unwitnessed => format!("{self:?}"),
        }
    }
}

impl std::str::FromStr for Plant {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|plant| plant.name() == name);
        found.ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|plant| plant.name()).collect();
            format!("one of {}", names.join(", "))
        })
    }
}
