//! Why a server can't be used.

use std::fmt;

use redis::ServerError;

use super::address::Server;
use super::failure::{Why, sentence};

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// No connection could be made, or it broke while the server introduced itself.
    Unreachable(String),
    /// The server let too much time pass.
    TimedOut,
    /// User and password are not right, or the user may not do what is needed.
    Refused(String),
    /// The server would drop counters when its memory is full.
    Evicts(String),
    /// The server is not a primary.
    Replica,
    /// The address is not a Cluster's, and the server is of one.
    IsCluster,
    /// The address is a Cluster's, and the server is of none.
    NoCluster,
    /// The server is there and takes no commands for now.
    Unwell(Why),
    /// The server's answer is none that Redis gives, or one that helps nobody.
    Strange(String),
}

impl Trouble {
    /// Its name, for programs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::TimedOut => "timedOut",
            Self::Refused(_) => "refused",
            Self::Evicts(_) => "evicts",
            Self::Replica => "replica",
            Self::IsCluster => "isCluster",
            Self::NoCluster => "noCluster",
            Self::Unwell(_) => "unwell",
            Self::Strange(_) => "strange",
        }
    }

    pub(super) fn lost(error: &impl fmt::Display) -> Self {
        Self::Unreachable(error.to_string())
    }

    /// A command was answered with an error.
    pub(super) fn answered(command: &str, error: &ServerError) -> Self {
        if let Some(why) = Why::of_whole_server(error.code()) {
            return Self::Unwell(why);
        }
        let text = format!("{command} is answered by {:?}", sentence(error));
        match error.code() {
            "NOAUTH" | "NOPERM" | "WRONGPASS" | "DENIED" => Self::Refused(text),
            _ if command == "AUTH" => Self::Refused(text),
            _ if sentence(error).contains("cluster support disabled") => Self::NoCluster,
            _ => Self::Strange(text),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(error) => write!(f, "can't be reached: {error}"),
            Self::TimedOut => f.write_str("does not answer in time"),
            Self::Refused(error) => write!(
                f,
                "refuses this user ({error}); it needs AUTH if it has a password, and EVALSHA, SCRIPT LOAD, INFO, \
                 TIME, PING, with --redis-wait WAIT, and in a Cluster ASKING, CLUSTER SLOTS and CLUSTER NODES"
            ),
            Self::Evicts(policy) => write!(
                f,
                "has maxmemory-policy {policy}, by which it forgets counters and lets too much through; set it to \
                 noeviction, or allow eviction"
            ),
            Self::Replica => f.write_str("is a replica, not a primary"),
            Self::IsCluster => f.write_str("is part of a Cluster; its URL must begin with redis-cluster://"),
            Self::NoCluster => f.write_str("is not part of a Cluster; its URL must begin with redis://"),
            Self::Unwell(Why::Loading) => f.write_str("is still reading its data from disk"),
            Self::Unwell(Why::DiskError) => f.write_str("takes no writes because it can't write to its disk"),
            Self::Unwell(Why::TooFewReplicas) => {
                f.write_str("is followed by fewer replicas than must know of what it grants")
            }
            Self::Unwell(why) => write!(f, "takes no commands: {why}"),
            Self::Strange(what) => write!(f, "gives an answer that is of no use: {what}"),
        }
    }
}

/// Redis can't be used as it is set up, or is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartError {
    /// A server can't be used.
    Server {
        /// Its host and port.
        server: String,
        /// Why not.
        trouble: Trouble,
    },
    /// TLS is not possible, whatever the server.
    Tls(String),
    /// The runtime has ended.
    Ended,
}

impl StartError {
    pub(super) fn of(server: &Server, trouble: Trouble) -> Self {
        let server = server.to_string();
        Self::Server { server, trouble }
    }

    /// It may pass by itself, so that a node could start all the same and connect later.
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Server {
                trouble: Trouble::Unreachable(_) | Trouble::TimedOut | Trouble::Unwell(_) | Trouble::Replica,
                ..
            }
        )
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server { server, trouble } => write!(f, "Redis at {server} {trouble}"),
            Self::Tls(error) => write!(f, "no TLS with Redis: {error}"),
            Self::Ended => f.write_str("the runtime ended before Redis was connected to"),
        }
    }
}

impl std::error::Error for StartError {}
