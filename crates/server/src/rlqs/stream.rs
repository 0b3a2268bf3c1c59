//! A stream: reports come in, assignments go out.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_stream::Stream;
use tonic::{Status, Streaming};

use super::action;
use super::bucket::{Around, Bucket};
use super::left::Left;
use super::name::Name;
use super::{SECOND_NS, TTL_S, pb};
use crate::clock;
use crate::data_plane::DataPlane;
use crate::rls::bounded;
use crate::serve::stopped;

/// Streams, buckets of one, and buckets of all.
const MOST_STREAMS: u64 = 1_000;
const MOST_BUCKETS: usize = 10_000;
const MOST_BUCKETS_IN_ALL: u64 = 200_000;
/// Messages that wait for an Envoy that does not take them, before it is left alone.
const BACKLOG: usize = 16;
/// An assignment that has waited for longer is not sent any more: it might arrive after all that is known of it is settled.
const LATE_NS: u64 = SECOND_NS;
/// Buckets are looked at this often at most.
const TICK: Duration = Duration::from_millis(50);
/// Actions of one message. What is charged is sent soon.
const ACTIONS: usize = 256;

/// All streams.
pub(crate) struct Quotas {
    plane: Arc<DataPlane>,
    left: Left,
}

/// What goes out on a stream, and the status at its end.
pub(crate) struct Replies {
    messages: mpsc::Receiver<Message>,
    end: Arc<OnceLock<Status>>,
    ended: bool,
}

/// A message, and when it was made.
type Message = (u64, pb::RateLimitQuotaResponse);

/// One that is open.
struct Open {
    quotas: Arc<Quotas>,
    domain: Option<Arc<str>>,
    buckets: HashMap<Name, Bucket>,
    replies: mpsc::Sender<Message>,
}

impl Quotas {
    pub(crate) fn new(plane: Arc<DataPlane>) -> Self {
        let left = Left::default();
        Self { plane, left }
    }

    /// Begins with a stream.
    pub(crate) fn open(
        self: &Arc<Self>,
        reports: Streaming<pb::RateLimitQuotaUsageReports>,
        stop: watch::Receiver<bool>,
    ) -> Result<Replies, Status> {
        let streams = &self.plane.metrics.quota_streams.streams;
        if streams.fetch_add(1, Ordering::Relaxed) >= MOST_STREAMS {
            streams.fetch_sub(1, Ordering::Relaxed);
            return Err(Status::resource_exhausted(
                "as many quota streams are open as may be",
            ));
        }
        let (replies, messages) = mpsc::channel(BACKLOG);
        let end = Arc::<OnceLock<Status>>::default();
        let open = Open {
            quotas: self.clone(),
            domain: None,
            buckets: HashMap::new(),
            replies,
        };
        tokio::spawn(open.serve(reports, stop, end.clone()));
        Ok(Replies {
            messages,
            end,
            ended: false,
        })
    }
}

impl Open {
    async fn serve(
        mut self,
        mut reports: Streaming<pb::RateLimitQuotaUsageReports>,
        mut stop: watch::Receiver<bool>,
        end: Arc<OnceLock<Status>>,
    ) {
        let served = loop {
            let due = self.due();
            let done = tokio::select! {
                report = reports.message() => match report {
                    Ok(Some(report)) => self.take(report).await,
                    Ok(None) => break Ok(()),
                    Err(status) => Err(status),
                },
                () = sleep_until(due) => self.renew().await,
                () = stopped(&mut stop) => Err(Status::unavailable("the server stops")),
            };
            if done.is_err() {
                break done;
            }
        };
        if let Err(status) = served {
            let _ = end.set(status);
        }
    }

    /// When the next bucket is to be looked at.
    fn due(&self) -> Option<u64> {
        self.buckets.values().filter_map(Bucket::due).min()
    }

    /// Takes a report on some buckets, and answers it.
    async fn take(&mut self, report: pb::RateLimitQuotaUsageReports) -> Result<(), Status> {
        let quotas = self.quotas.clone();
        let metrics = &quotas.plane.metrics.quota_streams;
        metrics.reports.fetch_add(1, Ordering::Relaxed);
        let domain = self.domain(&report.domain)?;
        let mut actions = Vec::new();
        for usage in report.bucket_quota_usages {
            if let Some(name) = self.find(&domain, &usage, &mut actions)
                && let Some(bucket) = self.buckets.get_mut(&name)
                && !bucket.report(&usage, &quotas.around(), &mut actions).await
            {
                self.buckets.remove(&name);
                metrics.buckets.fetch_sub(1, Ordering::Relaxed);
            }
            if actions.len() >= ACTIONS {
                self.send(&mut actions)?;
            }
        }
        self.send(&mut actions)
    }

    /// Looks at buckets whose time has come.
    async fn renew(&mut self) -> Result<(), Status> {
        let (quotas, now) = (self.quotas.clone(), clock::steady());
        let mut actions = Vec::new();
        let due = self.buckets.values_mut();
        for bucket in due.filter(|bucket| bucket.due().is_some_and(|due| due <= now)) {
            bucket.renew(&quotas.around(), &mut actions).await;
            if actions.len() >= ACTIONS {
                send(&quotas, &self.replies, &mut actions)?;
            }
        }
        self.send(&mut actions)
    }

    /// The stream's domain. The first report says it; it may be said again.
    fn domain(&mut self, said: &str) -> Result<Arc<str>, Status> {
        match &self.domain {
            Some(domain) if said.is_empty() || **domain == *said => Ok(domain.clone()),
            Some(_) => Err(Status::invalid_argument("a stream has one domain")),
            None if said.is_empty() => Err(Status::invalid_argument("the first report must name a domain")),
            None => {
                bounded("domain", said).map_err(|problem| Status::invalid_argument(problem.detail))?;
                Ok(self.domain.insert(said.into()).clone())
            }
        }
    }

    /// Finds the bucket that is reported, or begins with it. One that can't be had lets nothing through, and is forgotten once
    /// nobody asks for it; others must not suffer from what a client may have made up.
    fn find(
        &mut self,
        domain: &Arc<str>,
        usage: &pb::BucketQuotaUsage,
        actions: &mut Vec<pb::BucketAction>,
    ) -> Option<Name> {
        let metrics = &self.quotas.plane.metrics.quota_streams;
        let id = usage.bucket_id.clone().filter(|id| !id.bucket.is_empty());
        let Some(id) = id else {
            // Envoy takes no answer without a name.
            metrics.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let name = Name::of(domain, id);
        if self.buckets.contains_key(&name) {
            return Some(name);
        }
        if usage.num_requests_allowed == 0 && usage.num_requests_denied == 0 {
            actions.push(action::abandon(&name));
            return None;
        }
        let in_all = metrics.buckets.load(Ordering::Relaxed);
        if self.buckets.len() >= MOST_BUCKETS || in_all >= MOST_BUCKETS_IN_ALL || name.request().is_err() {
            metrics.refused.fetch_add(1, Ordering::Relaxed);
            actions.push(action::deny(&name, TTL_S));
            return None;
        }
        metrics.buckets.fetch_add(1, Ordering::Relaxed);
        self.buckets.insert(name.clone(), Bucket::new(name.clone()));
        Some(name)
    }

    fn send(&self, actions: &mut Vec<pb::BucketAction>) -> Result<(), Status> {
        send(&self.quotas, &self.replies, actions)
    }
}

impl Quotas {
    fn around(&self) -> Around<'_> {
        Around {
            plane: &self.plane,
            left: &self.left,
            streams: self.plane.metrics.quota_streams.streams.load(Ordering::Relaxed),
        }
    }
}

/// However a stream ends, all that its Envoy holds stays charged.
impl Drop for Open {
    fn drop(&mut self) {
        let Quotas { plane, left } = &*self.quotas;
        let metrics = &plane.metrics.quota_streams;
        metrics.streams.fetch_sub(1, Ordering::Relaxed);
        metrics
            .buckets
            .fetch_sub(self.buckets.len() as u64, Ordering::Relaxed);
        for (_, bucket) in self.buckets.drain() {
            bucket.end(plane, left);
        }
    }
}

fn send(
    quotas: &Quotas,
    replies: &mpsc::Sender<Message>,
    actions: &mut Vec<pb::BucketAction>,
) -> Result<(), Status> {
    if actions.is_empty() {
        return Ok(());
    }
    let bucket_action = std::mem::take(actions);
    let message = pb::RateLimitQuotaResponse { bucket_action };
    let sent = replies.try_send((clock::steady(), message));
    sent.map_err(|_| Status::resource_exhausted("assignments are not taken"))?;
    let metrics = &quotas.plane.metrics.quota_streams;
    metrics.replies.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// Sleeps until something is due, and a little longer, so that what is due soon after is looked at as well.
async fn sleep_until(due: Option<u64>) {
    match due {
        Some(due) => {
            let wait = Duration::from_nanos(due.saturating_sub(clock::steady()));
            tokio::time::sleep(wait.max(TICK)).await;
        }
        None => std::future::pending().await,
    }
}

impl Stream for Replies {
    type Item = Result<pb::RateLimitQuotaResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match self.messages.poll_recv(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some((made, _))) if clock::steady() - made > LATE_NS => {}
                Poll::Ready(Some((_, message))) => return Poll::Ready(Some(Ok(message))),
                Poll::Ready(None) if self.ended => return Poll::Ready(None),
                Poll::Ready(None) => {
                    self.ended = true;
                    return Poll::Ready(self.end.get().cloned().map(Err));
                }
            }
        }
    }
}
