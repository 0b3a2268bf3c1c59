//! The server's settings: from flags, then the environment, then the configuration file, then defaults.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Args;
use ipnet::IpNet;
use tollgate_catalog::document::{Fields, Node, Problems, Value, parse_yaml};
use tollgate_counters::redis::Address;

use crate::answer::HeaderStyles;
use crate::control_plane::limits::AdminLimits;
use crate::control_plane::oidc::{OidcFlags, OidcSettings};
use crate::data_plane::DataTokens;
use crate::data_plane::{JwtFlags, JwtSettings};
use crate::engine::DEFAULT_MAX_COUNTERS;
use crate::exposure::Protection;
use crate::fleet::RedisSettings;
use crate::tls::{TlsFiles, TlsFlags};

/// The flags of `tollgate serve`. What is left out comes from the configuration file.
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
    #[arg(long)]
    pub redis_allow_eviction: bool,
    /// Count on what Redis grants only once this many replicas have it [default: 0]
    #[arg(long, env = "TOLLGATE_REDIS_WAIT", value_name = "REPLICAS")]
    pub redis_wait: Option<u32>,
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
        value_parser = clap::builder::FalseyValueParser::new()
    )]
    pub rls_headers: Option<bool>,
    /// The name of this region [default: local]
    #[arg(long, env = "TOLLGATE_REGION", value_name = "NAME")]
    pub region: Option<String>,
    /// Believe forwarding headers from these networks only [default: loopback]
    #[arg(long, env = "TOLLGATE_TRUSTED_PROXIES", value_name = "CIDRS")]
    pub trusted_proxies: Option<String>,
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
    /// Threads that serve the data plane [default: one for each core]
    #[arg(long, env = "TOLLGATE_THREADS", value_name = "NUMBER")]
    pub threads: Option<usize>,
    /// Bind addresses beyond loopback although nothing protects them
    #[arg(long)]
    pub insecure_bind: bool,
    /// Refuse nothing and report everything: the kill switch
    #[arg(
        long,
        env = "TOLLGATE_SHADOW_ALL",
        value_name = "true|false",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        value_parser = clap::builder::FalseyValueParser::new()
    )]
    pub shadow_all: Option<bool>,
}

/// Settings that fit together.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where what must outlast the process is kept.
    pub data_dir: PathBuf,
    /// The data plane over HTTP.
    pub http: SocketAddr,
    /// The data plane over gRPC.
    pub grpc: SocketAddr,
    /// The control plane.
    pub admin: SocketAddr,
    /// The data plane in Redis's protocol, if it is spoken.
    pub resp: Option<SocketAddr>,
    /// The admin token, if it is given.
    pub admin_token: Option<String>,
    /// The files of certificates, if TLS is spoken.
    pub tls: Option<TlsFiles>,
    /// The issuer of other tokens for the admin address.
    pub oidc: Option<OidcSettings>,
    /// The issuer whose tokens say who asks, if there is one.
    pub jwt: Option<JwtSettings>,
    /// How often the control plane may be asked.
    pub admin_limits: AdminLimits,
    /// The tokens of which callers of the data plane must show one.
    pub data_tokens: Option<DataTokens>,
    /// Where the catalogue is kept.
    pub database: String,
    /// Where a fleet's counters are.
    pub redis: Option<RedisSettings>,
    /// The policy file.
    pub policies: Option<PathBuf>,
    /// The header styles.
    pub headers: HeaderStyles,
    /// Whether every answer to Envoy's rate limit filter has headers.
    pub rls_headers: bool,
    /// The region's name.
    pub region: String,
    /// From whom forwarding headers are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Counters held at most.
    pub max_counters: usize,
    /// Connections open at most.
    pub max_connections: usize,
    /// Requests of one org that wait for Redis at most.
    pub max_org_waiting: usize,
    /// Requests of one org that are decided in a second at most.
    pub max_org_rate: Option<usize>,
    /// From which parts of a quota on somebody is told, in percent.
    pub quota_alerts: Vec<u8>,
    /// Threads of the data plane.
    pub threads: usize,
    /// Refuse nothing.
    pub shadow_all: bool,
}

impl Settings {
    /// Brings flags and file together and checks them; the error is a sentence that names the setting.
    pub fn resolve(flags: Flags) -> Result<Self, String> {
        let flags = match &flags.config {
            Some(path) => flags.clone().over(read_config(path)?),
            None => flags,
        };
        let address = |name: &str, given: Option<String>, default: &str| {
            let text = given.unwrap_or_else(|| default.to_owned());
            let parsed = text.parse::<SocketAddr>();
            parsed.map_err(|_| format!("--{name}: `{text}` is not an address such as 127.0.0.1:8080"))
        };
        let data_dir = flags.data_dir.unwrap_or_else(|| PathBuf::from("./tollgate-data"));
        let in_data_dir = || format!("sqlite:{}", data_dir.join("catalogue.sqlite3").display());
        let settings = Self {
            database: flags.database.unwrap_or_else(in_data_dir),
            data_dir,
            http: address("http", flags.http, "127.0.0.1:8080")?,
            grpc: address("grpc", flags.grpc, "127.0.0.1:8081")?,
            admin: address("admin", flags.admin, "127.0.0.1:8090")?,
            resp: match flags.resp {
                Some(resp) => Some(address("resp", Some(resp), "")?),
                None => None,
            },
            admin_token: flags.admin_token,
            tls: flags.tls.files()?,
            oidc: flags.oidc.settings()?,
            jwt: flags.jwt.settings()?,
            admin_limits: flags.admin_limits.into(),
            data_tokens: match flags.data_token {
                Some(list) => Some(
                    list.parse()
                        .map_err(|problem| format!("--data-token: {problem}"))?,
                ),
                None => None,
            },
            redis: match flags.redis {
                Some(url) => Some(RedisSettings {
                    address: Address::parse(&url).map_err(|problem| format!("--redis: {problem}"))?,
                    allow_eviction: flags.redis_allow_eviction,
                    witnesses: flags.redis_wait.unwrap_or(0),
                }),
                None => None,
            },
            policies: flags.policies,
            headers: match flags.headers {
                Some(list) => list.parse().map_err(|problem| format!("--headers: {problem}"))?,
                None => HeaderStyles::default(),
            },
            rls_headers: flags.rls_headers.unwrap_or(false),
            region: flags.region.unwrap_or_else(|| "local".to_owned()),
            trusted_proxies: match flags.trusted_proxies {
                Some(list) => read_networks(&list)?,
                None => read_networks("127.0.0.0/8,::1/128")?,
            },
            max_counters: at_least_one("max-counters", flags.max_counters, DEFAULT_MAX_COUNTERS)?,
            max_connections: at_least_one("max-connections", flags.max_connections, 10_000)?,
            max_org_waiting: at_least_one("max-org-waiting", flags.max_org_waiting, 1_024)?,
            max_org_rate: match flags.max_org_rate {
                Some(rate) => Some(at_least_one("max-org-rate", Some(rate), 1)?),
                None => None,
            },
            quota_alerts: read_alerts(flags.quota_alerts.as_deref().unwrap_or("50,80,100"))?,
            threads: at_least_one("threads", flags.threads, cores())?,
            shadow_all: flags.shadow_all.unwrap_or(false),
        };
        if settings
            .admin_token
            .as_ref()
            .is_some_and(|token| token.len() < 16)
        {
            return Err("--admin-token: must have at least 16 characters".to_owned());
        }
        if !flags.insecure_bind {
            settings.check_addresses()?;
        }
        Ok(settings)
    }

    /// Refuses addresses beyond loopback that lack what must protect them.
    fn check_addresses(&self) -> Result<(), String> {
        let by_certificate = self.tls.as_ref().is_some_and(|files| files.client_ca.is_some());
        let protection = Protection {
            tls: self.tls.is_some(),
            callers: by_certificate || self.data_tokens.is_some(),
        };
        protection.allows("http", self.http)?;
        protection.allows("grpc", self.grpc)?;
        if let Some(resp) = self.resp {
            protection.allows("resp", resp)?;
        }
        protection.allows("admin", self.admin)
    }
}

impl Flags {
    /// These flags where they are given, else those of the file.
    fn over(self, file: Self) -> Self {
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
            data_token: self.data_token.or(file.data_token),
            database: self.database.or(file.database),
            redis: self.redis.or(file.redis),
            redis_allow_eviction: self.redis_allow_eviction || file.redis_allow_eviction,
            redis_wait: self.redis_wait.or(file.redis_wait),
            policies: self.policies.or(file.policies),
            headers: self.headers.or(file.headers),
            rls_headers: self.rls_headers.or(file.rls_headers),
            region: self.region.or(file.region),
            trusted_proxies: self.trusted_proxies.or(file.trusted_proxies),
            max_counters: self.max_counters.or(file.max_counters),
            max_connections: self.max_connections.or(file.max_connections),
            max_org_waiting: self.max_org_waiting.or(file.max_org_waiting),
            max_org_rate: self.max_org_rate.or(file.max_org_rate),
            quota_alerts: self.quota_alerts.or(file.quota_alerts),
            threads: self.threads.or(file.threads),
            insecure_bind: self.insecure_bind || file.insecure_bind,
            shadow_all: self.shadow_all.or(file.shadow_all),
        }
    }
}

fn read_config(path: &Path) -> Result<Flags, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let fail = |problems: Problems| {
        let lines = problems.0.iter().map(|problem| {
            let place = format!("{}:{}", path.display(), problem.line);
            format!("{place}: {}: {}", problem.field, problem.message)
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    let root = parse_yaml(&text).map_err(fail)?;
    let mut problems = Problems::default();
    let Some(mut fields) = Fields::of(&root, "", &mut problems) else {
        return Err(fail(problems));
    };
    let mut text =
        |name, problems: &mut Problems| fields.node(name).and_then(|node| joined(node, name, problems));
    let mut flags = Flags {
        config: None,
        data_dir: text("data-dir", &mut problems).map(PathBuf::from),
        http: text("http", &mut problems),
        grpc: text("grpc", &mut problems),
        admin: text("admin", &mut problems),
        resp: text("resp", &mut problems),
        admin_token: text("admin-token", &mut problems),
        tls: TlsFlags {
            tls_cert: text("tls-cert", &mut problems).map(PathBuf::from),
            tls_key: text("tls-key", &mut problems).map(PathBuf::from),
            tls_client_ca: text("tls-client-ca", &mut problems).map(PathBuf::from),
        },
        oidc: OidcFlags {
            oidc_issuer: text("oidc-issuer", &mut problems),
            oidc_audience: text("oidc-audience", &mut problems),
            oidc_jwks: text("oidc-jwks", &mut problems),
            oidc_role_claim: text("oidc-role-claim", &mut problems),
            oidc_org_claim: text("oidc-org-claim", &mut problems),
            oidc_ca: text("oidc-ca", &mut problems).map(PathBuf::from),
        },
        jwt: JwtFlags {
            jwt_issuer: text("jwt-issuer", &mut problems),
            jwt_audience: text("jwt-audience", &mut problems),
            jwt_jwks: text("jwt-jwks", &mut problems),
            jwt_org_claim: text("jwt-org-claim", &mut problems),
            jwt_app_claim: text("jwt-app-claim", &mut problems),
            jwt_key_claim: text("jwt-key-claim", &mut problems),
            jwt_user_claim: text("jwt-user-claim", &mut problems),
            jwt_scopes_claim: text("jwt-scopes-claim", &mut problems),
            jwt_ca: text("jwt-ca", &mut problems).map(PathBuf::from),
        },
        admin_limits: text("admin-limits", &mut problems).map(PathBuf::from),
        data_token: text("data-token", &mut problems),
        database: text("database", &mut problems),
        redis: text("redis", &mut problems),
        policies: text("policies", &mut problems).map(PathBuf::from),
        headers: text("headers", &mut problems),
        region: text("region", &mut problems),
        quota_alerts: text("quota-alerts", &mut problems),
        trusted_proxies: text("trusted-proxies", &mut problems),
        ..Flags::default()
    };
    let mut number = |name| {
        let number = fields.whole(name, u32::MAX.into(), &mut problems);
        number.and_then(|number| usize::try_from(number).ok())
    };
    flags.max_counters = number("max-counters");
    flags.max_connections = number("max-connections");
    flags.max_org_waiting = number("max-org-waiting");
    flags.max_org_rate = number("max-org-rate");
    flags.threads = number("threads");
    let replicas = fields.whole("redis-wait", u32::MAX.into(), &mut problems);
    flags.redis_wait = replicas.and_then(|replicas| u32::try_from(replicas).ok());
    flags.redis_allow_eviction = fields
        .flag("redis-allow-eviction", &mut problems)
        .unwrap_or(false);
    flags.insecure_bind = fields.flag("insecure-bind", &mut problems).unwrap_or(false);
    flags.shadow_all = fields.flag("shadow-all", &mut problems);
    flags.rls_headers = fields.flag("rls-headers", &mut problems);
    if let Some(node) = fields.node("rls")
        && let Some(mut rls) = Fields::of(node, "rls", &mut problems)
    {
        flags.rls_headers = rls.flag("headers", &mut problems).or(flags.rls_headers);
        rls.finish(&mut problems);
    }
    fields.finish(&mut problems);
    if problems.0.is_empty() {
        Ok(flags)
    } else {
        Err(fail(problems))
    }
}

/// A single value, or a list joined by commas, as the flag would take it.
fn joined(node: &Node, name: &str, problems: &mut Problems) -> Option<String> {
    let scalar = |node: &Node| match &node.value {
        Value::Scalar { text, .. } => Some(text.clone()),
        _ => None,
    };
    let text = match &node.value {
        Value::List(items) => items
            .iter()
            .map(scalar)
            .collect::<Option<Vec<_>>>()
            .map(|items| items.join(",")),
        _ => scalar(node),
    };
    if text.is_none() {
        problems.add(node.line, name, "must be text");
    }
    text
}

fn read_networks(list: &str) -> Result<Vec<IpNet>, String> {
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    let read = |name: &str| {
        let single = name.parse::<IpAddr>().map(IpNet::from);
        let network = name.parse::<IpNet>().or(single);
        network.map_err(|_| format!("--trusted-proxies: `{name}` is not a network such as 10.0.0.0/8"))
    };
    names.map(read).collect()
}

/// Percentages in rising order, each once.
fn read_alerts(list: &str) -> Result<Vec<u8>, String> {
    if list.trim() == "off" {
        return Ok(Vec::new());
    }
    let read = |name: &str| {
        let percent = name.trim().parse::<u8>().ok();
        let percent = percent.filter(|percent| (1..=100).contains(percent));
        percent.ok_or_else(|| format!("--quota-alerts: `{name}` is not a number from 1 to 100"))
    };
    let mut alerts = list.split(',').map(read).collect::<Result<Vec<u8>, String>>()?;
    alerts.sort_unstable();
    alerts.dedup();
    Ok(alerts)
}

fn at_least_one(name: &str, given: Option<usize>, default: usize) -> Result<usize, String> {
    match given.unwrap_or(default) {
        0 => Err(format!("--{name}: must be at least 1")),
        number => Ok(number),
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
