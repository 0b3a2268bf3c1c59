//! Which of a policy's values are meant.

use super::policy::Values;

/// Some of the values of a policy, and the rest of it as one more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ValueSet(u16);

impl ValueSet {
    /// What of a policy no override can set.
    pub(crate) const REST: Self = Self(1 << 15);

    /// Those that some values leave to the policy that they are for.
    pub(crate) fn left_by(values: &Values) -> Self {
        let set = Self::differing(values, &Values::default());
        Self(!set.0)
    }

    /// Those in which two differ.
    pub(crate) fn differing(one: &Values, other: &Values) -> Self {
        // By name, so that a value that is added can't be forgotten here.
        let Values {
            algorithm,
            limit,
            burst,
            window,
            anchor,
            zone,
            counter,
            unit,
            fail_mode,
            mode,
            accuracy,
            reset_jitter_ns,
            expose,
            ipv4_prefix,
            ipv6_prefix,
        } = one;
        let differ: [bool; 15] = [
            *algorithm != other.algorithm,
            *limit != other.limit,
            *burst != other.burst,
            *window != other.window,
            *anchor != other.anchor,
            *zone != other.zone,
            *counter != other.counter,
            *unit != other.unit,
            *fail_mode != other.fail_mode,
            *mode != other.mode,
            *accuracy != other.accuracy,
            *reset_jitter_ns != other.reset_jitter_ns,
            *expose != other.expose,
            *ipv4_prefix != other.ipv4_prefix,
            *ipv6_prefix != other.ipv6_prefix,
        ];
        let bits = (0..).zip(differ).filter(|(_, differs)| *differs);
        Self(bits.fold(0, |set, (bit, _)| set | 1 << bit))
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tollgate_core::{Anchor, Mode, Period};

    use super::super::policy::{Accuracy, FailMode, PolicyMode, Zone};
    use super::super::window::Window;
    use super::*;

    /// Each value one of two, or not set.
    fn values() -> impl Strategy<Value = Values> {
        prop::collection::vec(prop::option::of(any::<bool>()), 15).prop_map(|given| Values {
            algorithm: given[0].map(|one| if one { "quota" } else { "fixed_window" }),
            limit: given[1].map(u64::from),
            burst: given[2].map(u64::from),
            window: given[3].map(|one| {
                if one {
                    Window::Length(1)
                } else {
                    Window::Calendar(Period::Day)
                }
            }),
            anchor: given[4].map(|one| if one { Anchor::Epoch } else { Anchor::First }),
            zone: given[5].map(|one| {
                if one {
                    Zone::Org
                } else {
                    Zone::Fixed(jiff::tz::TimeZone::UTC)
                }
            }),
            counter: given[6].map(|one| one.to_string()),
            unit: given[7].map(|one| one.to_string()),
            fail_mode: given[8].map(|one| if one { FailMode::Open } else { FailMode::Closed }),
            mode: given[9].map(|one| {
                if one {
                    PolicyMode::Off
                } else {
                    PolicyMode::On(Mode::Soft)
                }
            }),
            accuracy: given[10].map(|one| if one { Accuracy::Exact } else { Accuracy::Within(1) }),
            reset_jitter_ns: given[11].map(u64::from),
            expose: given[12],
            ipv4_prefix: given[13].map(u8::from),
            ipv6_prefix: given[14].map(u8::from),
        })
    }

    proptest! {
        #[test]
        fn a_change_shows_through_just_where_values_are_left_to_the_policy(
            given in values(), before in values(), after in values(),
        ) {
            let shows = ValueSet::left_by(&given).meets(ValueSet::differing(&before, &after));
            prop_assert_eq!(shows, given.over(&before) != given.over(&after));
            prop_assert!(ValueSet::left_by(&given).meets(ValueSet::REST));
            prop_assert!(!ValueSet::differing(&before, &after).meets(ValueSet::REST));
        }
    }
}
