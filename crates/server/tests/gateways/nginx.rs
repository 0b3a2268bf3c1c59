//! nginx

use crate::gateway::Kind;
use crate::suite;

const KIND: Kind = Kind {
    dir: "nginx",
    files: &["nginx.conf"],
    command: &["nginx", "-p", ".", "-c", "nginx.conf", "-g", "daemon off;"],
};

/// What is changed for everybody to pass while Tollgate is away.
const OPEN: (&str, &str) = ("# error_page 500 = @open;", "error_page 500 = @open;");

#[test]
#[ignore = "needs nginx, which ./test installs"]
fn it_passes_on_what_tollgate_says() {
    suite::passes_on_what_tollgate_says(KIND);
}

#[test]
#[ignore = "needs nginx, which ./test installs"]
fn it_tells_tollgate_the_truth() {
    suite::tells_tollgate_the_truth(KIND);
}

#[test]
#[ignore = "needs nginx, which ./test installs"]
fn it_does_as_it_is_set_while_tollgate_is_away() {
    suite::does_as_it_is_set_while_tollgate_is_away(KIND, OPEN, 500);
}

#[test]
#[ignore = "needs nginx, which ./test installs"]
fn it_follows_a_change() {
    suite::follows_a_change(KIND);
}

#[test]
#[ignore = "needs nginx, which ./test installs"]
fn a_mistake_does_not_pass() {
    suite::a_mistake_does_not_pass(KIND, OPEN);
}

#[test]
#[ignore = "needs nginx, which ./test installs"]
fn it_passes_on_headers_of_either_style() {
    suite::passes_on_headers_of_either_style(KIND);
}

#[test]
#[ignore = "needs nginx, which ./test installs"]
fn a_long_denial_is_a_denial() {
    suite::a_long_denial_is_a_denial(KIND, OPEN);
}

#[test]
#[ignore = "needs nginx, which ./test installs"]
fn no_spelling_gets_by() {
    suite::no_spelling_gets_by(KIND);
}

#[test]
#[ignore = "needs nginx, which ./test installs"]
fn a_key_that_comes_twice_is_refused() {
    suite::a_key_that_comes_twice_is_refused(KIND);
}

#[test]
#[ignore = "needs nginx, which ./test installs"]
fn what_has_no_path_is_refused() {
    suite::what_has_no_path_is_refused(KIND);
}
