//! Each mistake that is planted is found, and soon.
#![allow(missing_docs)]

use tollgate_counters::shared::{node, slot};
use tollgate_simulator::{Options, Plant, run_all};

/// A mistake is found within so many seeds.
const SOON: u64 = 5_000;
/// Mistakes that few runs show are looked for from a seed on that is near the first of them.
const FROM: [(Plant, u64); 2] = [
    (Plant::Store(slot::Bug::CutIsCredited), 3_800),
    (Plant::Node(node::Bug::SettlesAlone), 23_000),
];

/// Fails unless a seed goes wrong with the mistake. That it does not without is seen by `seeds.rs`.
fn is_found(plant: Plant) {
    let options = Options {
        plant: Some(plant),
        ..Options::default()
    };
    let from = FROM.iter().find(|(rare, _)| *rare == plant);
    let from = from.map_or(0, |(_, from)| *from);
    let (_, found) = run_all(from..from + SOON, options, &|failure| failure.is_none());
    let Some(failure) = found.first() else {
        panic!("{} was not found within {SOON} seeds", plant.name());
    };
    println!("{} was found by {failure}", plant.name());
}

macro_rules! planted {
    ($($test:ident: $plant:expr,)*) => {
        $(
            #[test]
            fn $test() {
                is_found($plant);
            }
        )*

        #[test]
        fn every_mistake_has_its_test() {
            let tested = [$($plant),*];
            for plant in Plant::ALL {
                assert!(tested.contains(&plant), "{}", plant.name());
            }
        }
    };
}

planted! {
    a_bucket_drains_below_what_it_has_on_lease: Plant::Store(slot::Bug::LeasesDrain),
    a_log_has_a_lease_when_it_is_lent: Plant::Store(slot::Bug::LogAtGrant),
    a_log_has_a_returned_lease_when_it_was_lent: Plant::Store(slot::Bug::LogSettledAtGrant),
    a_lease_is_held_past_its_window: Plant::Store(slot::Bug::HoldPastEnd),
    a_debt_that_was_cut_is_credited: Plant::Store(slot::Bug::CutIsCredited),
    a_bucket_has_time_to_drain_for_each_node: Plant::Store(slot::Bug::IdleTwice),
    a_bucket_takes_every_lease_back: Plant::Store(slot::Bug::BucketCredit),
    a_bucket_takes_a_lease_back_for_another: Plant::Store(slot::Bug::AnyLeaseReturns),
    a_lease_comes_back_twice: Plant::Store(slot::Bug::ReturnTwice),
    a_lease_that_is_lent_twice_counts_once: Plant::Store(slot::Bug::LentOverAgain),
    a_lease_comes_back_to_another_window: Plant::Store(slot::Bug::ReturnAcrossWindows),
    a_counter_is_new_after_a_loss: Plant::Store(slot::Bug::WarmAfterLoss),
    a_log_that_lost_its_past_forgets_leases: Plant::Store(slot::Bug::LogColdWithoutHold),
    a_failover_is_not_noticed: Plant::Store(slot::Bug::FailoverUnnoticed),
    a_server_that_came_back_older_is_not_noticed: Plant::Store(slot::Bug::GoneBackUnnoticed),
    an_old_revision_counts: Plant::Store(slot::Bug::StaleRevisionWins),
    a_newer_revision_is_kept_without_its_number: Plant::Store(slot::Bug::RevisionSlips),
    a_change_of_numbers_forgets_leases: Plant::Store(slot::Bug::ChangeForgetsLeases),
    a_counter_forgets_one_of_another_slot: Plant::Store(slot::Bug::ForgetsOtherSlots),
    a_counter_does_not_hear_what_its_predecessor_is_charged_late: Plant::Store(slot::Bug::LateUnheard),
    a_denied_stack_charges_a_level: Plant::Store(slot::Bug::DeniedCharges),
    a_late_call_is_run: Plant::Store(slot::Bug::RunsLate),
    a_lease_ends_by_when_it_was_heard_of: Plant::Node(node::Bug::DeadlineFromReceipt),
    a_lease_never_ends: Plant::Node(node::Bug::NeverEnds),
    a_pause_after_the_check_is_not_noticed: Plant::Node(node::Bug::CheckedBeforeOnly),
    a_kept_token_goes_back_into_a_renewed_lease: Plant::Node(node::Bug::PutBackAnywhere),
    a_part_is_taken_for_the_whole: Plant::Node(node::Bug::PartsAreWhole),
    a_fallback_is_charged_again: Plant::Node(node::Bug::OwedAgain),
    a_fallback_makes_a_counter_that_knows_no_predecessors: Plant::Node(node::Bug::SettlesAlone),
    a_fallback_drains_at_the_whole_rate: Plant::Node(node::Bug::DrainsWhole),
    a_lost_call_is_sent_again: Plant::SentAgain,
    a_grant_counts_that_no_replica_has_seen: Plant::Unwitnessed,
}
