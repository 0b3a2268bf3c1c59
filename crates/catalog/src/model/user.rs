//! Users with a plan of their own.

use tollgate_core::BillingAnchor;

use super::org::read_anchor;
use crate::document::{Fields, Problems};

/// A user whose own limits are those of another tier than the org's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserPlan {
    /// The user.
    pub id: String,
    /// The tier whose limits on users hold for this one.
    pub tier: String,
    /// Where the user's billing months begin; `None` for the org's.
    pub anchor: Option<BillingAnchor>,
}

impl UserPlan {
    /// Reads `{userId, tier, billingAnchor}`.
    pub fn read(mut fields: Fields<'_>, problems: &mut Problems) -> Option<Self> {
        let id = fields.parsed("userId", problems, |text| {
            super::check_id(text).map_err(str::to_owned)?;
            Ok(text.to_owned())
        });
        let tier = fields.text("tier", problems).map(str::to_owned);
        for name in ["userId", "tier"] {
            if !fields.has(name) {
                fields.problem(problems, name, "is missing");
            }
        }
        let anchor = fields.parsed("billingAnchor", problems, read_anchor);
        fields.finish(problems);
        Some(Self {
            id: id?,
            tier: tier?,
            anchor,
        })
    }
}
