//! What can't be decided, as a gRPC status.

use std::fmt::Display;

use tonic::Status;

use crate::answer::Problem;

/// The status of an error that over HTTP is this problem.
pub(super) fn status(problem: Problem) -> Status {
    match problem.status {
        400 => Status::invalid_argument(problem.detail),
        401 => Status::unauthenticated(problem.detail),
        404 => Status::not_found(problem.detail),
        409 => Status::aborted(problem.detail),
        410 => Status::failed_precondition(problem.detail),
        422 => Status::already_exists(problem.detail),
        429 => Status::resource_exhausted(problem.detail),
        503 => Status::unavailable(problem.detail),
        _ => Status::internal(problem.detail),
    }
}

/// The status of a message that can't be read.
pub(super) fn malformed(error: impl Display) -> Status {
    Status::internal(error.to_string())
}
