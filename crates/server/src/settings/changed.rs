//! Which settings are others than before.

use super::Settings;

/// Names the fields in which two settings differ, each by its flag.
macro_rules! differing {
    ($one:expr, $other:expr, $($field:ident: $flag:literal),+ $(,)?) => {{
        let mut flags = Vec::new();
        $(
            if format!("{:?}", $one.$field) != format!("{:?}", $other.$field) {
                flags.push($flag);
            }
        )+
        flags
    }};
}

impl Settings {
    /// The flags of settings that are others in `next`.
    pub fn changed(&self, next: &Self) -> Vec<&'static str> {
        let mut flags = differing!(self, next,
            data_dir: "--data-dir",
            http: "--http",
            grpc: "--grpc",
            admin: "--admin",
            resp: "--resp",
            admin_token: "--admin-token",
            tls: "--tls-*",
            oidc: "--oidc-*",
            jwt: "--jwt-*",
            admin_limits: "--admin-limits",
            database: "--database",
            redis: "--redis*",
            policies: "--policies",
            headers: "--headers",
            rls_headers: "--rls-headers",
            region: "--region",
            trusted_proxies: "--trusted-proxies",
            required_identity: "--require-identity",
            max_counters: "--max-counters",
            max_connections: "--max-connections",
            max_org_waiting: "--max-org-waiting",
            max_org_rate: "--max-org-rate",
            quota_alerts: "--quota-alerts",
            quota_journal: "--quota-journal",
            threads: "--threads",
            shadow_all: "--shadow-all",
            drain_delay: "--drain-delay",
            ready_when_degraded: "--ready-when-degraded",
        );
        // These don't show what they are.
        if self.data_tokens != next.data_tokens {
            flags.push("--data-token");
        }
        flags
    }
}
