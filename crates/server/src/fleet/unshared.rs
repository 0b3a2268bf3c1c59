//! What nodes that share a Redis don't share unless they share a database.

/// The warning for nodes of a fleet whose catalogue is in such a database, if there is any.
pub fn unshared(backend: &str) -> Option<&'static str> {
    (backend == "sqlite").then_some(
        "--redis is given without a shared --database: nodes share their counters, but each has its own tiers, orgs, \
         API keys, policies, overrides, tokens and audit in its data directory, and quotas are only as durable as \
         Redis is. Give all nodes the same --database postgres://…",
    )
}
