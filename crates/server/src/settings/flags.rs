//! The flags of `tollgate serve`, which the environment may give as well.

use std::path::PathBuf;

use clap::Args;

use crate::control_plane::OrgCapFlags;
use crate::control_plane::oidc::OidcFlags;
use crate::data_plane::{JwtFlags, RequiredIdentity};
use crate::tls::TlsFlags;

/// What is left out comes from the configuration file.
#[derive(Debug, Clone, Default, Args)]
pub struct Flags {
    /// Read settings from this YAML file; its keys are the flags' names
    #[arg(long, env = "TOLLGATE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Keep what must outlast the process here [default: ./tollgate-data]
    #[arg(long, env = "TOLLGATE_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Serve the data plane over HTTP here [default: 127.0.0.1:8080]
    #[arg(long, env = "TOLLGATE_HTTP", value_name = "ADDR")]
    pub http: Option<String>,
    /// Serve the data plane over gRPC here [default: 127.0.0.1:8081]
    #[arg(long, env = "TOLLGATE_GRPC", value_name = "ADDR")]
    pub grpc: Option<String>,
    /// Serve health, readiness, metrics and the control plane here [default: 127.0.0.1:8090]
    #[arg(long, env = "TOLLGATE_ADMIN", value_name = "ADDR")]
    pub admin: Option<String>,
    /// Serve the data plane in Redis's protocol here [default: off]
    #[arg(long, env = "TOLLGATE_RESP", value_name = "ADDR")]
    pub resp: Option<String>,
    /// The token for the admin address [default: made at first start, kept in DATA_DIR/admin-token]
    #[arg(
        long,
        env = "TOLLGATE_ADMIN_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true
    )]
    pub admin_token: Option<String>,
    /// Certificates and keys
    #[command(flatten)]
    pub tls: TlsFlags,
    /// Tokens of another issuer
    #[command(flatten)]
    pub oidc: OidcFlags,
    /// Tokens that say who asks
    #[command(flatten)]
    pub jwt: JwtFlags,
    /// Limit the control plane itself by this policy file, or not at all: off [default: built-in limits]
    #[arg(long, env = "TOLLGATE_ADMIN_LIMITS", value_name = "FILE|off")]
    pub admin_limits: Option<PathBuf>,
    /// Make the audit's hashes with the key in this file, so that whoever has the database alone can't make them; all nodes
    /// need the same
    #[arg(long, env = "TOLLGATE_AUDIT_KEY", value_name = "FILE")]
    pub audit_key: Option<PathBuf>,
    /// How much one org may have
    #[command(flatten)]
    pub org_caps: OrgCapFlags,
    /// Decide only for callers that send this token in `X-Tollgate-Token`; several stand with commas between them
    #[arg(
        long,
        env = "TOLLGATE_DATA_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true
    )]
    pub data_token: Option<String>,
    /// Keep the catalogue here: `postgres://…`, or `sqlite:FILE` [default: SQLite in the data directory]
    #[arg(
        long,
        env = "TOLLGATE_DATABASE_URL",
        value_name = "URL",
        hide_env_values = true
    )]
    pub database: Option<String>,
    /// Share counters with a fleet in Redis: `redis://…`, `rediss://…`, `redis-cluster://HOST:PORT,…` [default: in memory]
    #[arg(long, env = "TOLLGATE_REDIS_URL", value_name = "URL", hide_env_values = true)]
    pub redis: Option<String>,
    /// Use a Redis that may forget counters when its memory is full, and so lets too much through
    #[arg(long, env = "TOLLGATE_REDIS_ALLOW_EVICTION", value_parser = switch)]
    pub redis_allow_eviction: bool,
    /// Count on what Redis grants only once this many replicas have it [default: 0]
    #[arg(long, env = "TOLLGATE_REDIS_WAIT", value_name = "REPLICAS")]
    pub redis_wait: Option<u32>,
    /// Let a request wait this many milliseconds for Redis before its policies' failMode decides [default: 25]
    #[arg(long, env = "TOLLGATE_REDIS_DEADLINE", value_name = "MS")]
    pub redis_deadline: Option<u32>,
    /// Take the fleet to have at least this many nodes while Redis is unavailable [default: as many as were known, else 10]
    #[arg(long, env = "TOLLGATE_FLEET_NODES", value_name = "NUMBER")]
    pub fleet_nodes: Option<u32>,
    /// Apply this policy file at start and whenever it changes [default: a small demonstration set]
    #[arg(long, env = "TOLLGATE_POLICIES", value_name = "FILE")]
    pub policies: Option<PathBuf>,
    /// Tell clients by these header styles: ietf, x, levels, legacy, or off [default: ietf,x,levels]
    #[arg(long, env = "TOLLGATE_HEADERS", value_name = "LIST")]
    pub headers: Option<String>,
    /// Tell clients behind Envoy by headers on every answer to its rate limit filter, not only when they are refused
    #[arg(
        long,
        env = "TOLLGATE_RLS_HEADERS",
        value_name = "true|false",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        value_parser = switch
    )]
    pub rls_headers: Option<bool>,
    /// The name of this region [default: local]
    #[arg(long, env = "TOLLGATE_REGION", value_name = "NAME")]
    pub region: Option<String>,
    /// Believe forwarding headers from these networks only [default: loopback]
    #[arg(long, env = "TOLLGATE_TRUSTED_PROXIES", value_name = "CIDRS")]
    pub trusted_proxies: Option<String>,
    /// Refuse a request (401) that names no org, or no key of an org [default: none]
    #[arg(
        long,
        env = "TOLLGATE_REQUIRE_IDENTITY",
        value_name = "none|org|key",
        value_parser = RequiredIdentity::NAMES,
        hide_possible_values = true
    )]
    pub require_identity: Option<String>,
    /// Hold at most this many counters in memory [default: 10000000]
    #[arg(long, env = "TOLLGATE_MAX_COUNTERS", value_name = "NUMBER")]
    pub max_counters: Option<usize>,
    /// Keep at most this many client connections open [default: 10000]
    #[arg(long, env = "TOLLGATE_MAX_CONNECTIONS", value_name = "NUMBER")]
    pub max_connections: Option<usize>,
    /// Let at most this many requests of one org wait for Redis at a time [default: 1024]
    #[arg(long, env = "TOLLGATE_MAX_ORG_WAITING", value_name = "NUMBER")]
    pub max_org_waiting: Option<usize>,
    /// Decide at most this many requests of one org a second, whatever is decided [default: as many as come]
    #[arg(long, env = "TOLLGATE_MAX_ORG_RATE", value_name = "NUMBER")]
    pub max_org_rate: Option<usize>,
    /// Note when so many percent of a quota are used, `off` for never [default: 50,80,100]
    #[arg(long, env = "TOLLGATE_QUOTA_ALERTS", value_name = "LIST")]
    pub quota_alerts: Option<String>,
    /// Note here what is left of quotas, in a file system that is memory, so that a killed process loses nothing; or `off`
    /// [default: /dev/shm]
    #[arg(long, env = "TOLLGATE_QUOTA_JOURNAL", value_name = "DIR|off")]
    pub quota_journal: Option<PathBuf>,
    /// Threads that serve the data plane [default: one for each core]
    #[arg(long, env = "TOLLGATE_THREADS", value_name = "NUMBER")]
    pub threads: Option<usize>,
    /// Bind addresses beyond loopback although nothing protects them
    #[arg(long, env = "TOLLGATE_INSECURE_BIND", value_parser = switch)]
    pub insecure_bind: bool,
    /// Answer 503 on /readyz for this long before draining, so that balancers send requests elsewhere [default: 0s]
    #[arg(long, env = "TOLLGATE_DRAIN_DELAY", value_name = "DURATION")]
    pub drain_delay: Option<String>,
    /// Answer 200 on /readyz while Redis or the database is unavailable; with `off` 503 [default: on]
    #[arg(
        long,
        env = "TOLLGATE_READY_WHEN_DEGRADED",
        value_name = "on|off",
        num_args = 0..=1,
        default_missing_value = "true",
        hide_possible_values = true,
        value_parser = switch
    )]
    pub ready_when_degraded: Option<bool>,
    /// Refuse nothing and report everything: the kill switch
    #[arg(
        long,
        env = "TOLLGATE_SHADOW_ALL",
        value_name = "true|false",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        value_parser = switch
    )]
    pub shadow_all: Option<bool>,
}

/// A switch as the environment sets it. Whatever is neither on nor off is an error: it might open what was to be closed.
fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" | "y" | "t" => Ok(true),
        "" | "0" | "false" | "no" | "off" | "n" | "f" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

impl Flags {
    /// These flags where they are given, else those of the file.
    pub(super) fn over(self, file: Self) -> Self {
        Self {
            config: self.config,
            data_dir: self.data_dir.or(file.data_dir),
            http: self.http.or(file.http),
            grpc: self.grpc.or(file.grpc),
            admin: self.admin.or(file.admin),
            resp: self.resp.or(file.resp),
            admin_token: self.admin_token.or(file.admin_token),
            tls: self.tls.over(file.tls),
            oidc: self.oidc.over(file.oidc),
            jwt: self.jwt.over(file.jwt),
            admin_limits: self.admin_limits.or(file.admin_limits),
            audit_key: self.audit_key.or(file.audit_key),
            org_caps: self.org_caps.over(file.org_caps),
            data_token: self.data_token.or(file.data_token),
            database: self.database.or(file.database),
            redis: self.redis.or(file.redis),
            redis_allow_eviction: self.redis_allow_eviction || file.redis_allow_eviction,
            redis_wait: self.redis_wait.or(file.redis_wait),
            redis_deadline: self.redis_deadline.or(file.redis_deadline),
            fleet_nodes: self.fleet_nodes.or(file.fleet_nodes),
            policies: self.policies.or(file.policies),
            headers: self.headers.or(file.headers),
            rls_headers: self.rls_headers.or(file.rls_headers),
            region: self.region.or(file.region),
            trusted_proxies: self.trusted_proxies.or(file.trusted_proxies),
            require_identity: self.require_identity.or(file.require_identity),
            max_counters: self.max_counters.or(file.max_counters),
            max_connections: self.max_connections.or(file.max_connections),
            max_org_waiting: self.max_org_waiting.or(file.max_org_waiting),
            max_org_rate: self.max_org_rate.or(file.max_org_rate),
            quota_alerts: self.quota_alerts.or(file.quota_alerts),
            quota_journal: self.quota_journal.or(file.quota_journal),
            threads: self.threads.or(file.threads),
            insecure_bind: self.insecure_bind || file.insecure_bind,
            shadow_all: self.shadow_all.or(file.shadow_all),
            drain_delay: self.drain_delay.or(file.drain_delay),
            ready_when_degraded: self.ready_when_degraded.or(file.ready_when_degraded),
        }
    }
}
