//! Steps of a case: where the clock goes, and what is asked for there. They are told in terms of what the
//! last answer was, since the edges that matter lie there: just at the end of a wait, just all that is left.

use proptest::prelude::*;
use tollgate_core::MAX_LIMIT;
use tollgate_oracle::LevelVerdict;

const YEAR: u64 = 366 * 86_400 * 1_000_000_000;
const START_OF_2024: u64 = 1_704_067_200 * 1_000_000_000;
/// The year 2540: every window that is open then still ends within representable time.
pub(crate) const LAST_MOMENT: u64 = 18_000_000_000 * 1_000_000_000;

/// Where the clock stands at first.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Start {
    Epoch,
    /// So many 256ths of a window after the epoch.
    Early(u16),
    In2024(u64),
    /// At the end of an epoch-aligned window, or a nanosecond before it.
    Boundary(u16, bool),
}

/// Where the clock goes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tick {
    Stay,
    Nano,
    /// A window, less or more the nanoseconds.
    Window(i8),
    /// As long as the last denial said, less or more the nanoseconds.
    Wait(i8),
    /// As long as the last answer said till the reset, less or more the nanoseconds.
    Reset(i8),
    /// So many 256ths of a window.
    Part(u16),
    Idle(u8),
    Years(u8),
    BackNano,
    /// Back by so many 256ths of a window.
    Back(u16),
    BackYears(u8),
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cost {
    Zero,
    One,
    Few(u64),
    /// So many 256ths of the capacity.
    Part(u8),
    Capacity,
    OverCapacity,
    Left,
    OverLeft,
    Largest,
    Huge,
}

/// One request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) tick: Tick,
    pub(crate) cost: Cost,
}

/// A handful of requests, and where they begin.
pub(crate) fn steps() -> impl Strategy<Value = (Start, Vec<Step>)> {
    (start(), proptest::collection::vec(step(), 1..=12))
}

pub(crate) fn start() -> impl Strategy<Value = Start> {
    prop_oneof![
        1 => Just(Start::Epoch),
        1 => (0..1_024_u16).prop_map(Start::Early),
        2 => (0..YEAR).prop_map(Start::In2024),
        2 => any::<(u16, bool)>().prop_map(|(windows, before)| Start::Boundary(windows, before)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    (tick(), cost()).prop_map(|(tick, cost)| Step { tick, cost })
}

pub(crate) fn tick() -> impl Strategy<Value = Tick> {
    prop_oneof![
        6 => Just(Tick::Stay),
        1 => Just(Tick::Nano),
        2 => (-1..=1_i8).prop_map(Tick::Window),
        4 => (-1..=1_i8).prop_map(Tick::Wait),
        2 => (-1..=1_i8).prop_map(Tick::Reset),
        5 => (0..600_u16).prop_map(Tick::Part),
        1 => (2..9_u8).prop_map(Tick::Idle),
        1 => (1..=100_u8).prop_map(Tick::Years),
        1 => Just(Tick::BackNano),
        2 => (0..600_u16).prop_map(Tick::Back),
        1 => (1..=30_u8).prop_map(Tick::BackYears),
    ]
}

pub(crate) fn cost() -> impl Strategy<Value = Cost> {
    prop_oneof![
        2 => Just(Cost::Zero),
        6 => Just(Cost::One),
        3 => (2..10_u64).prop_map(Cost::Few),
        4 => any::<u8>().prop_map(Cost::Part),
        2 => Just(Cost::Capacity),
        1 => Just(Cost::OverCapacity),
        4 => Just(Cost::Left),
        2 => Just(Cost::OverLeft),
        1 => Just(Cost::Largest),
        1 => Just(Cost::Huge),
    ]
}

impl Start {
    pub(crate) fn nanos(self, window: u64) -> u64 {
        match self {
            Self::Epoch => 0,
            Self::Early(parts) => window / 256 * u64::from(parts),
            Self::In2024(into) => START_OF_2024 + into,
            Self::Boundary(windows, before) => {
                let at = (START_OF_2024 / window + u64::from(windows)).saturating_mul(window);
                at.min(START_OF_2024 + 100 * YEAR) - u64::from(before)
            }
        }
    }
}

impl Tick {
    /// The clock after the tick. One that would lead out of time stays.
    pub(crate) fn after(self, now: u64, window: u64, wait: u128, reset: u128) -> u64 {
        let parts = |parts: u16| u128::from(window) * u128::from(parts) / 256;
        let near = |length: u128, more: i8| length.saturating_add_signed(more.into());
        let (ahead, back) = match self {
            Self::Stay => (0, 0),
            Self::Nano => (1, 0),
            Self::Window(more) => (near(window.into(), more), 0),
            Self::Wait(more) => (near(wait, more), 0),
            Self::Reset(more) => (near(reset, more), 0),
            Self::Part(share) => (parts(share), 0),
            Self::Idle(windows) => (u128::from(window) * u128::from(windows), 0),
            Self::Years(years) => (u128::from(YEAR) * u128::from(years), 0),
            Self::BackNano => (0, 1),
            Self::Back(share) => (0, parts(share)),
            Self::BackYears(years) => (0, u128::from(YEAR) * u128::from(years)),
        };
        u64::try_from(u128::from(now).saturating_sub(back).saturating_add(ahead))
            .ok()
            .filter(|then| *then <= LAST_MOMENT)
            .unwrap_or(now)
    }
}

impl Cost {
    /// The cost to a level with this capacity, of which the last answer is known.
    pub(crate) fn units(self, capacity: u64, last: Option<&LevelVerdict>) -> u64 {
        let left = last.map_or(capacity, |last| last.remaining);
        match self {
            Self::Zero => 0,
            Self::One => 1,
            Self::Few(few) => few,
            Self::Part(share) => (u128::from(capacity) * u128::from(share) / 256)
                .try_into()
                .unwrap_or(capacity),
            Self::Capacity => capacity,
            Self::OverCapacity => capacity + 1,
            Self::Left => left,
            Self::OverLeft => left + 1,
            Self::Largest => MAX_LIMIT,
            Self::Huge => u64::MAX,
        }
    }
}
