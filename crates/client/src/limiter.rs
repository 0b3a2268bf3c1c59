//! Whoever decides.

use std::future::Future;

use crate::{Check, CheckError, Decision};

/// Decides checks. A denial is a decision, not an error.
pub trait Limiter: Clone + Send + Sync + 'static {
    /// Decides one.
    fn check(&self, check: Check) -> impl Future<Output = Result<Decision, CheckError>> + Send;
}
