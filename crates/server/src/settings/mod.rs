//! The server's settings: from flags, then the environment, then the configuration file, then defaults.

mod changed;
mod file;
mod flags;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net};
use tollgate_catalog::model::Window;
use tollgate_counters::redis::Address;
use tollgate_counters::shared::PATIENCE;

use crate::answer::HeaderStyles;
use crate::control_plane::OrgCaps;
use crate::control_plane::limits::AdminLimits;
use crate::control_plane::oidc::OidcSettings;
use crate::data_plane::{DataTokens, JwtSettings, RequiredIdentity};
use crate::engine::DEFAULT_MAX_COUNTERS;
use crate::exposure::Protection;
use crate::fleet::RedisSettings;
use crate::tls::TlsFiles;

pub use flags::Flags;

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
    /// The file of the key that the audit is made with, if there is one.
    pub audit_key: Option<PathBuf>,
    /// How much one org may have.
    pub org_caps: OrgCaps,
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
    /// The identity without which a request is refused.
    pub required_identity: RequiredIdentity,
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
    /// Where what is left of quotas outlives the process, if it is to.
    pub quota_journal: Option<PathBuf>,
    /// Threads of the data plane.
    pub threads: usize,
    /// Refuse nothing.
    pub shadow_all: bool,
    /// How long the server is not ready before it drains.
    pub drain_delay: Duration,
    /// Whether a server that lacks one of its stores is ready.
    pub ready_when_degraded: bool,
    /// The flags as they were given, without the configuration file's.
    given: Flags,
}

/// The longest time between not being ready and draining.
const MAX_DRAIN_DELAY: Duration = Duration::from_hours(1);

impl Settings {
    /// Brings flags and file together and checks them; the error is a sentence that names the setting.
    pub fn resolve(flags: Flags) -> Result<Self, String> {
        let given = flags.clone();
        let flags = match &flags.config {
            Some(path) => flags.clone().over(file::read(path)?),
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
            audit_key: flags.audit_key,
            org_caps: flags.org_caps.caps(),
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
                    patience: match flags.redis_deadline {
                        Some(0) => return Err("--redis-deadline: must be at least 1 ms".to_owned()),
                        Some(millis) => Duration::from_millis(millis.into()),
                        None => PATIENCE,
                    },
                    nodes: match flags.fleet_nodes {
                        Some(0) => return Err("--fleet-nodes: must be at least 1".to_owned()),
                        nodes => nodes.map(u64::from),
                    },
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
            required_identity: match flags.require_identity {
                Some(name) => name
                    .parse()
                    .map_err(|problem| format!("--require-identity: {problem}"))?,
                None => RequiredIdentity::default(),
            },
            max_counters: at_least_one("max-counters", flags.max_counters, DEFAULT_MAX_COUNTERS)?,
            max_connections: at_least_one("max-connections", flags.max_connections, 10_000)?,
            max_org_waiting: at_least_one("max-org-waiting", flags.max_org_waiting, 1_024)?,
            max_org_rate: match flags.max_org_rate {
                Some(rate) => Some(at_least_one("max-org-rate", Some(rate), 1)?),
                None => None,
            },
            quota_alerts: read_alerts(flags.quota_alerts.as_deref().unwrap_or("50,80,100"))?,
            quota_journal: Some(flags.quota_journal.unwrap_or_else(|| "/dev/shm".into()))
                .filter(|directory| directory.as_os_str() != "off"),
            threads: at_least_one("threads", flags.threads, cores())?,
            shadow_all: flags.shadow_all.unwrap_or(false),
            drain_delay: read_delay("drain-delay", flags.drain_delay.as_deref())?,
            ready_when_degraded: flags.ready_when_degraded.unwrap_or(true),
            given,
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

    /// Resolves the same flags and environment again, with the configuration file as it is now.
    pub fn read_again(&self) -> Result<Self, String> {
        Self::resolve(self.given.clone())
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

fn read_networks(list: &str) -> Result<Vec<IpNet>, String> {
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    let read = |name: &str| {
        let single = name.parse::<IpAddr>().map(IpNet::from);
        let network = name.parse::<IpNet>().or(single).map(canonical);
        network.map_err(|_| format!("--trusted-proxies: `{name}` is not a network such as 10.0.0.0/8"))
    };
    names.map(read).collect()
}

/// An IPv4 network that is written as one inside IPv6 is that IPv4 network, as an address is.
fn canonical(network: IpNet) -> IpNet {
    match network {
        IpNet::V6(mapped) if mapped.prefix_len() >= 96 => {
            let inner = mapped.addr().to_ipv4_mapped();
            let inner = inner.and_then(|inner| Ipv4Net::new(inner, mapped.prefix_len() - 96).ok());
            inner.map_or(network, IpNet::V4)
        }
        _ => network,
    }
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

/// A length of time, none without one.
fn read_delay(name: &str, text: Option<&str>) -> Result<Duration, String> {
    let nanos = match text {
        None | Some("0" | "0s" | "0ms") => 0,
        Some(text) => Window::parse_length(text).map_err(|problem| format!("--{name}: {problem}"))?,
    };
    let delay = Duration::from_nanos(nanos);
    if delay > MAX_DRAIN_DELAY {
        return Err(format!("--{name}: must be at most 1h"));
    }
    Ok(delay)
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
