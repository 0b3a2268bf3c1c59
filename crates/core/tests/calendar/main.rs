//! Calendar periods, held against a calendar that is counted out day by day and against zones read as
//! plain lists of offsets.
//!
//! `reckoning` is the judge: it knows leap years and, from `offsets`, what a clock in a zone shows. The
//! other modules put days, weeks and months in UTC, all zones, and billing months before it.

#![expect(clippy::expect_used, reason = "a test that can't be set up has failed")]

mod billing;
mod examples;
mod offsets;
mod reckoning;
mod utc;
mod zones;

const SECOND: i128 = 1_000_000_000;
const MINUTE: i128 = 60 * SECOND;
const HOUR: i128 = 60 * MINUTE;
const DAY: i128 = 24 * HOUR;
