//! A bill as a text, for whichever node of a fleet has it settled.

use std::sync::atomic::AtomicBool;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use tollgate_catalog::route::Endpoint;
use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::Timestamp;
use tollgate_counters::shared::call::{Kind, Micros, Name};
use tollgate_counters::shared::record::Back;

use super::bill::{Bill, Lies, Line, Unit};
use super::request::Kept;

/// What is written. Members that a later version adds are left alone by this one.
#[derive(Serialize, Deserialize)]
struct Written {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    org: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    app: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ip: Option<std::net::IpAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    endpoint: Option<String>,
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    scopes: Box<[Box<str>]>,
    cost: u64,
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    costs: Box<[(Box<str>, u64)]>,
    #[serde(default)]
    test: bool,
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    descriptors: Box<[(Box<str>, Box<str>)]>,
    at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    class: Option<Box<str>>,
    lines: Vec<WrittenLine>,
}

#[derive(Serialize, Deserialize)]
struct WrittenLine {
    name: String,
    cost: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unit: Option<Box<str>>,
    /// In the store's time, or of a quota in the ledger in nanoseconds.
    end: u64,
    /// Of a counter in the shared store: how it counts, and its window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shared: Option<(u8, Micros)>,
}

impl Bill {
    /// The bill as a text.
    pub fn text(&self) -> Vec<u8> {
        let request = &self.request;
        let written = Written {
            org: request.org.clone(),
            app: request.app.clone(),
            key: request.key.clone(),
            user: request.user.clone(),
            ip: request.ip,
            endpoint: request.endpoint.as_ref().map(Endpoint::spelling),
            scopes: request.scopes.clone(),
            cost: request.cost,
            costs: request.costs.clone(),
            test: request.test,
            descriptors: request.descriptors.clone(),
            at: self.at.nanos(),
            class: self.class.1.clone(),
            lines: self.lines.iter().filter_map(Line::written).collect(),
        };
        serde_json::to_vec(&written).unwrap_or_default()
    }

    /// What a text says that some node wrote, by the policies of this one.
    pub fn read(text: &[u8], snapshot: &Snapshot) -> Option<Self> {
        let written: Written = serde_json::from_slice(text).ok()?;
        let endpoint = match &written.endpoint {
            Some(text) => Some(Endpoint::parse(text).ok()?.to_static()),
            None => None,
        };
        let number = |class: &str| snapshot.classes().iter().position(|known| &**known == class);
        let class = written.class.as_deref().and_then(number);
        Some(Self {
            request: Kept {
                org: written.org,
                app: written.app,
                key: written.key,
                user: written.user,
                ip: written.ip,
                endpoint,
                scopes: written.scopes,
                cost: written.cost,
                costs: written.costs,
                test: written.test,
                descriptors: written.descriptors,
            },
            at: Timestamp::from_nanos(written.at),
            class: (class.and_then(|class| u32::try_from(class).ok()), written.class),
            lines: written.lines.into_iter().map(Line::read).collect::<Option<_>>()?,
            began: None,
            recorded: AtomicBool::new(true),
        })
    }
}

impl Line {
    /// `None` if it can be given back only here, or not at all.
    fn written(&self) -> Option<WrittenLine> {
        let unit = match &self.unit {
            Unit::Cost => None,
            Unit::Other(unit) => Some(unit.clone()),
            Unit::Unknown => return None,
        };
        let (name, end, shared) = match self.lies {
            Lies::Shared(back) => (back.name.0, back.end, Some((back.kind as u8, back.window))),
            Lies::Here(held, quota) => match held.whence {
                tollgate_core::Whence::Window { end } => (quota?, end, None),
                _ => return None,
            },
            Lies::Ledger(name, end) => (name, end, None),
        };
        Some(WrittenLine {
            name: URL_SAFE_NO_PAD.encode(name),
            cost: self.cost,
            unit,
            end,
            shared,
        })
    }

    fn read(written: WrittenLine) -> Option<Self> {
        let name = URL_SAFE_NO_PAD.decode(&written.name).ok()?;
        let name: [u8; 16] = name.try_into().ok()?;
        let lies = match written.shared {
            None => Lies::Ledger(name, written.end),
            Some((kind, window)) => Lies::Shared(Back {
                name: Name(name),
                kind: Kind::numbered(kind)?,
                window,
                end: written.end,
                amount: written.cost,
            }),
        };
        Some(Self {
            cost: written.cost,
            unit: written.unit.map_or(Unit::Cost, Unit::Other),
            lies,
        })
    }
}
