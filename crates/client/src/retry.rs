//! The layer of the calling side: a service that says `Retry-After` is asked again once that time has passed.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{DATE, RETRY_AFTER};
use http::{Request, Response, StatusCode};
use tokio::sync::Semaphore;
use tower::{Layer, Service};

/// How long, how often and how many wait. Past any of these the caller gets the answer that there is.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// The longest wait that is sat out.
    pub longest: Duration,
    /// How often a request is sent again.
    pub times: u32,
    /// Requests that wait at a time.
    pub waiting: usize,
    /// Up to so much is added to each wait, so that not all come back at once.
    pub jitter: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            longest: Duration::from_mins(1),
            times: 3,
            waiting: 1_024,
            jitter: Duration::from_secs(1),
        }
    }
}

/// Puts a [`Retry`] in front of services. All of them share the places to wait in.
#[derive(Debug, Clone)]
pub struct RetryLayer {
    patience: Patience,
    places: Arc<Semaphore>,
}

impl RetryLayer {
    /// Waits with so much patience.
    pub fn new(patience: Patience) -> Self {
        let places = patience.waiting.min(Semaphore::MAX_PERMITS);
        Self {
            patience,
            places: Arc::new(Semaphore::new(places)),
        }
    }
}

impl<S> Layer<S> for RetryLayer {
    type Service = Retry<S>;

    fn layer(&self, inner: S) -> Retry<S> {
        let layer = self.clone();
        Retry { inner, layer }
    }
}

/// A service that is asked again when it says so.
#[derive(Debug, Clone)]
pub struct Retry<S> {
    inner: S,
    layer: RetryLayer,
}

impl<S, B, R> Service<Request<B>> for Retry<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    B: Clone + Send + 'static,
    R: Send,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        let RetryLayer { patience, places } = self.layer.clone();
        Box::pin(async move {
            let again = request.clone();
            let mut response = inner.call(request).await?;
            for _ in 0..patience.times {
                let Some(wait) = asked_wait(&response).filter(|wait| *wait <= patience.longest) else {
                    break;
                };
                // Without a place to wait in, the caller hears what the service said.
                let Ok(_place) = places.try_acquire() else {
                    break;
                };
                tokio::time::sleep(wait + part_of(patience.jitter)).await;
                std::future::poll_fn(|context| inner.poll_ready(context)).await?;
                response = inner.call(again.clone()).await?;
            }
            Ok(response)
        })
    }
}

/// How long a refusal asks to wait.
fn asked_wait<R>(response: &Response<R>) -> Option<Duration> {
    let refused = matches!(
        response.status(),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    );
    if !refused {
        return None;
    }
    let text = |name| response.headers().get(name)?.to_str().ok().map(str::trim);
    let told = text(RETRY_AFTER)?;
    if let Ok(seconds) = told.parse() {
        return Some(Duration::from_secs(seconds));
    }
    // A date counts from when the service answered, by its own clock.
    let until = httpdate::parse_http_date(told).ok()?;
    let answered = httpdate::parse_http_date(text(DATE)?).ok()?;
    Some(until.duration_since(answered).unwrap_or_default())
}

/// A random part of a length of time. Without randomness all of it.
fn part_of(length: Duration) -> Duration {
    let part = getrandom::u32().unwrap_or(u32::MAX);
    length.mul_f64(f64::from(part) / f64::from(u32::MAX))
}
