//! What became of a call that has no result.

use std::fmt;

use redis::{ServerError, ServerErrorKind, Value};

/// A call without a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Nothing was executed, for certain.
    NotRun(Why),
    /// It was sent, and there is no reply: it ran, or runs yet, or never will. It must not be repeated.
    Unknown,
    /// It ran and ended with an error; what it wrote before stays.
    Failed(String),
}

/// Why a call did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// There is no connection to the slot's primary, or no primary.
    NotConnected,
    /// The primary has not answered for a while; only probes go there.
    Open,
    /// As many calls as may be are under way.
    Full,
    /// The server did not know the script and would not learn it in time.
    NoScript,
    /// The slot is elsewhere, and the call could not follow in time.
    Moved,
    /// The slot is on its way, and the call's keys are at both ends.
    TryAgain,
    /// The Cluster does not serve the slot.
    ClusterDown,
    /// The call's keys are of several slots.
    CrossSlot,
    /// The server is reading its data from disk.
    Loading,
    /// The server is a replica that has lost its primary.
    MasterDown,
    /// The server is a replica.
    ReadOnly,
    /// The server is at its `maxmemory`.
    OutOfMemory,
    /// The server cannot write to its disk, and takes no writes.
    DiskError,
    /// The server has fewer replicas than it must have to take writes.
    TooFewReplicas,
    /// The server is held up by a script of someone's.
    Busy,
    /// The user may not do this.
    NotPermitted,
}

impl Why {
    /// A name for metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotConnected => "not_connected",
            Self::Open => "open",
            Self::Full => "full",
            Self::NoScript => "no_script",
            Self::Moved => "moved",
            Self::TryAgain => "try_again",
            Self::ClusterDown => "cluster_down",
            Self::CrossSlot => "cross_slot",
            Self::Loading => "loading",
            Self::MasterDown => "master_down",
            Self::ReadOnly => "read_only",
            Self::OutOfMemory => "out_of_memory",
            Self::DiskError => "disk_error",
            Self::TooFewReplicas => "too_few_replicas",
            Self::Busy => "busy",
            Self::NotPermitted => "not_permitted",
        }
    }

    /// Whether an error says that the server as a whole does not work, whatever is asked of it.
    pub(super) fn of_whole_server(code: &str) -> Option<Self> {
        match code {
            "LOADING" => Some(Self::Loading),
            "MISCONF" => Some(Self::DiskError),
            "BUSY" => Some(Self::Busy),
            _ => None,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRun(why) => write!(f, "not run: {why}"),
            Self::Unknown => f.write_str("unknown"),
            Self::Failed(error) => write!(f, "failed: {error}"),
        }
    }
}

impl std::error::Error for Failure {}

/// What a reply to a call means.
pub(super) enum Verdict {
    Ran(Value),
    Failed(String),
    NotRun(Why, ServerError),
    /// To the server with this address, this once or from now on.
    Ask(String),
    Moved(String),
}

pub(super) fn judge(reply: Value) -> Verdict {
    match reply {
        Value::ServerError(error) => judge_error(error),
        value => Verdict::Ran(value),
    }
}

fn judge_error(error: ServerError) -> Verdict {
    let text = error.details().unwrap_or_default();
    let target = || {
        text.split_ascii_whitespace()
            .nth(1)
            .unwrap_or_default()
            .to_owned()
    };
    match error.kind() {
        Some(ServerErrorKind::Moved) => return Verdict::Moved(target()),
        Some(ServerErrorKind::Ask) => return Verdict::Ask(target()),
        _ => {}
    }
    // An error inside the script names the script and the line. Servers refuse a script's first write or none, so
    // with these nothing has been written; any other may have come after a write.
    let inside = text.contains("user_script");
    let why = match error.code() {
        "OOM" => Why::OutOfMemory,
        "READONLY" => Why::ReadOnly,
        "MISCONF" => Why::DiskError,
        "NOREPLICAS" => Why::TooFewReplicas,
        _ if inside => return Verdict::Failed(sentence(&error)),
        "NOSCRIPT" => Why::NoScript,
        "TRYAGAIN" => Why::TryAgain,
        "CLUSTERDOWN" => Why::ClusterDown,
        "CROSSSLOT" => Why::CrossSlot,
        "LOADING" => Why::Loading,
        "MASTERDOWN" => Why::MasterDown,
        "BUSY" => Why::Busy,
        "NOPERM" | "NOAUTH" => Why::NotPermitted,
        _ => return Verdict::Failed(sentence(&error)),
    };
    Verdict::NotRun(why, error)
}

/// An error as the server wrote it.
pub(super) fn sentence(error: &ServerError) -> String {
    match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    }
}
