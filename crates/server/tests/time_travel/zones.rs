//! Time zones as plain tables: from when on which offset is in force. Written out by Python's `zoneinfo`, so that nothing
//! here depends on the time zone database that the server carries. All of it is past, and no later rule can change it.

/// A zone, as far as a table goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    pub name: &'static str,
    /// Instants in Unix seconds, each with the seconds that local clocks are ahead of UTC from then on. The first is where
    /// the table begins.
    pub offsets: &'static [(i64, i64)],
}

/// Where the tables end, but for Apia's: 2025-07-01.
pub const END: i64 = 1_751_328_000;
const BEGIN: i64 = 1_688_169_600;

pub const UTC: Zone = zone("UTC", &[(BEGIN, 0)]);
/// Clocks go forward and back at two in the morning.
pub const NEW_YORK: Zone = zone(
    "America/New_York",
    &[
        (BEGIN, -14_400),
        (1_699_164_000, -18_000),
        (1_710_054_000, -14_400),
        (1_730_613_600, -18_000),
        (1_741_503_600, -14_400),
    ],
);
/// At 01:00 UTC, on the last day of March 2024.
pub const BERLIN: Zone = zone(
    "Europe/Berlin",
    &[
        (BEGIN, 7_200),
        (1_698_541_200, 3_600),
        (1_711_846_800, 7_200),
        (1_729_990_800, 3_600),
        (1_743_296_400, 7_200),
    ],
);
/// At midnight: one midnight of spring is skipped, one of autumn comes twice.
pub const HAVANA: Zone = zone(
    "America/Havana",
    &[
        (BEGIN, -14_400),
        (1_699_160_400, -18_000),
        (1_710_046_800, -14_400),
        (1_730_610_000, -18_000),
        (1_741_496_400, -14_400),
    ],
);
/// At midnight: forward from 0 to 1, back from 24 to 23 on the last evening of October.
pub const CAIRO: Zone = zone(
    "Africa/Cairo",
    &[
        (BEGIN, 10_800),
        (1_698_354_000, 7_200),
        (1_714_082_400, 10_800),
        (1_730_408_400, 7_200),
        (1_745_532_000, 10_800),
    ],
);
/// The same, on Sundays: the skipped midnight is of the last day of March.
pub const BEIRUT: Zone = zone(
    "Asia/Beirut",
    &[
        (BEGIN, 10_800),
        (1_698_526_800, 7_200),
        (1_711_836_000, 10_800),
        (1_729_976_400, 7_200),
        (1_743_285_600, 10_800),
    ],
);
pub const SANTIAGO: Zone = zone(
    "America/Santiago",
    &[
        (BEGIN, -14_400),
        (1_693_713_600, -10_800),
        (1_712_458_800, -14_400),
        (1_725_768_000, -10_800),
        (1_743_908_400, -14_400),
    ],
);
pub const KOLKATA: Zone = zone("Asia/Kolkata", &[(BEGIN, 19_800)]);
pub const KATHMANDU: Zone = zone("Asia/Kathmandu", &[(BEGIN, 20_700)]);
pub const KIRITIMATI: Zone = zone("Pacific/Kiritimati", &[(BEGIN, 50_400)]);
/// Clocks move by half an hour.
pub const LORD_HOWE: Zone = zone(
    "Australia/Lord_Howe",
    &[
        (BEGIN, 37_800),
        (1_696_087_800, 39_600),
        (1_712_415_600, 37_800),
        (1_728_142_200, 39_600),
        (1_743_865_200, 37_800),
    ],
);
pub const ST_JOHNS: Zone = zone(
    "America/St_Johns",
    &[
        (BEGIN, -9_000),
        (1_699_158_600, -12_600),
        (1_710_048_600, -9_000),
        (1_730_608_200, -12_600),
        (1_741_498_200, -9_000),
    ],
);
pub const CHATHAM: Zone = zone(
    "Pacific/Chatham",
    &[
        (BEGIN, 45_900),
        (1_695_477_600, 49_500),
        (1_712_412_000, 45_900),
        (1_727_532_000, 49_500),
        (1_743_861_600, 45_900),
    ],
);
/// From June 2011 to July 2012. There was no 30 December 2011.
pub const APIA: Zone = zone(
    "Pacific/Apia",
    &[
        (1_306_886_400, -39_600),
        (1_316_872_800, -36_000),
        (1_325_239_200, 50_400),
        (1_333_202_400, 46_800),
    ],
);

/// Those whose tables go from 2023 to 2025.
pub const ALL: [Zone; 13] = [
    UTC, NEW_YORK, BERLIN, HAVANA, CAIRO, BEIRUT, SANTIAGO, KOLKATA, KATHMANDU, KIRITIMATI, LORD_HOWE,
    ST_JOHNS, CHATHAM,
];

const fn zone(name: &'static str, offsets: &'static [(i64, i64)]) -> Zone {
    Zone { name, offsets }
}

impl Zone {
    /// How far local clocks are ahead of UTC at an instant.
    pub fn offset(&self, at: i64) -> i64 {
        let known = self.offsets.iter().rev().find(|(from, _)| *from <= at);
        known
            .unwrap_or_else(|| panic!("{} is not known at {at}", self.name))
            .1
    }

    /// The first instant at which local clocks show this time, given as if it were UTC. If they skip it, the instant that
    /// would have shown it had they not been moved.
    pub fn instant(&self, local: i64) -> i64 {
        let ends = self
            .offsets
            .iter()
            .skip(1)
            .map(|(from, _)| *from)
            .chain([i64::MAX]);
        let spans = self.offsets.iter().zip(ends);
        let mut shown = spans.filter_map(|((from, offset), end)| {
            let at = local - offset;
            (*from <= at && at < end).then_some(at)
        });
        shown.next().unwrap_or_else(|| {
            let mut changes = self.offsets.windows(2);
            let skipped = changes.find(|change| {
                let [(_, before), (at, after)] = [change[0], change[1]];
                (at + before..at + after).contains(&local)
            });
            local - skipped.unwrap_or_else(|| panic!("{} never shows {local}", self.name))[0].1
        })
    }
}
