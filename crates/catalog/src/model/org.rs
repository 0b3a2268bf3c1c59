//! Organizations.

use jiff::tz::TimeZone;
use tollgate_core::BillingAnchor;

use super::overrides::KeptOverride;
use super::reset::Reset;
use super::user::UserPlan;
use crate::document::{Fields, Problems};

/// An organization: its plan, its clock, its billing day.
#[derive(Debug, Clone)]
pub struct Org {
    /// Its id.
    pub id: String,
    /// Its tier.
    pub tier: String,
    /// Its time zone.
    pub zone: TimeZone,
    /// Where its billing months begin.
    pub anchor: BillingAnchor,
    /// The line it stands on.
    pub line: usize,
}

/// All that the catalogue knows of one org.
#[derive(Debug, Clone)]
pub struct OrgRecord {
    /// The org itself.
    pub org: Org,
    /// Its overrides, older ones first.
    pub overrides: Vec<KeptOverride>,
    /// Its users with a plan of their own.
    pub users: Vec<UserPlan>,
    /// Which of its counters were emptied.
    pub resets: Vec<Reset>,
}

impl OrgRecord {
    /// An org with nothing of its own.
    pub fn plain(org: Org) -> Self {
        Self {
            org,
            overrides: Vec::new(),
            users: Vec::new(),
            resets: Vec::new(),
        }
    }

    /// The same with its overrides read; those that can't be are left out.
    #[must_use]
    pub(crate) fn read(&self) -> Self {
        let read = self.overrides.iter().filter_map(KeptOverride::get);
        Self {
            org: self.org.clone(),
            overrides: read.map(KeptOverride::Read).collect(),
            users: self.users.clone(),
            resets: self.resets.clone(),
        }
    }
}

impl Org {
    /// An org that is only named, by an override for example: one of the default tier.
    pub fn named(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            tier: super::DEFAULT_TIER.to_owned(),
            zone: TimeZone::UTC,
            anchor: BillingAnchor::default(),
            line: 0,
        }
    }

    /// Reads `{orgId, tier, timezone, billingAnchor}`.
    pub fn read(mut fields: Fields<'_>, problems: &mut Problems) -> Option<Self> {
        let id = fields.parsed("orgId", problems, |text| {
            super::check_id(text).map_err(str::to_owned)?;
            Ok(text.to_owned())
        });
        if !fields.has("orgId") {
            fields.problem(problems, "orgId", "is missing");
        }
        let tier = fields
            .parsed("tier", problems, super::tier_name)
            .unwrap_or_else(|| super::DEFAULT_TIER.to_owned());
        let few = problems.are_few();
        let zone = fields
            .parsed("timezone", problems, |name| read_zone(name, few))
            .unwrap_or(TimeZone::UTC);
        let anchor = fields
            .parsed("billingAnchor", problems, read_anchor)
            .unwrap_or_default();
        fields.unavailable(&["adaptiveWeight"], problems);
        let line = fields.line;
        fields.finish(problems);
        Some(Self {
            id: id?,
            tier,
            zone,
            anchor,
            line,
        })
    }
}

/// Reads a time zone's name. Where it is none, those that there are may be looked through for one that was meant.
pub fn read_zone(name: &str, suggest: bool) -> Result<TimeZone, String> {
    if name == "UTC" {
        return Ok(TimeZone::UTC);
    }
    TimeZone::get(name).map_err(|_| {
        let near = if suggest { zone_near(name) } else { String::new() };
        format!("`{name}` is not a time zone, such as Europe/Berlin{near}")
    })
}

fn zone_near(name: &str) -> String {
    let known: Vec<String> = jiff::tz::db()
        .available()
        .map(|zone| zone.as_str().to_owned())
        .collect();
    crate::document::suggestion(name, known.iter().map(String::as_str))
}

pub(super) fn read_anchor(text: &str) -> Result<BillingAnchor, String> {
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Ok(BillingAnchor::Instant(at));
    }
    if text.len() == 10
        && let Ok(date) = text.parse::<jiff::civil::Date>()
    {
        return Ok(BillingAnchor::Date(date));
    }
    Err(format!(
        "`{text}` is neither a date such as 2024-01-31 nor an instant such as 2024-01-31T09:00:00Z"
    ))
}
