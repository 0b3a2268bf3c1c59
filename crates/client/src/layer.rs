//! The layer in front of a service: a request is decided before the service sees it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use tower::{Layer, Service};

use crate::answer;
use crate::{Check, CheckError, Limiter};

/// What happens to a request that nobody can decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// The service sees it.
    Allow,
    /// It is answered with 503.
    #[default]
    Refuse,
}

type Report = Arc<dyn Fn(&CheckError) + Send + Sync>;

/// Puts a [`Limit`] in front of services.
#[derive(Clone)]
pub struct LimitLayer<L, I> {
    limiter: L,
    identify: Arc<I>,
    on_failure: OnFailure,
    report: Report,
}

impl<L: Limiter, I> LimitLayer<L, I> {
    /// `identify` says who asks for what. A request for which it says nothing is not limited.
    pub fn new(limiter: L, identify: I) -> Self {
        Self {
            limiter,
            identify: Arc::new(identify),
            on_failure: OnFailure::default(),
            report: Arc::new(|_| {}),
        }
    }

    /// What happens to requests that nobody can decide.
    #[must_use]
    pub fn on_failure(self, on_failure: OnFailure) -> Self {
        Self { on_failure, ..self }
    }

    /// Who is told why a request was not decided, whatever happens to it then.
    #[must_use]
    pub fn report(self, report: impl Fn(&CheckError) + Send + Sync + 'static) -> Self {
        Self {
            report: Arc::new(report),
            ..self
        }
    }
}

impl<S, L: Limiter, I> Layer<S> for LimitLayer<L, I> {
    type Service = Limit<S, L, I>;

    fn layer(&self, inner: S) -> Self::Service {
        let layer = LimitLayer {
            limiter: self.limiter.clone(),
            identify: self.identify.clone(),
            on_failure: self.on_failure,
            report: self.report.clone(),
        };
        Limit { inner, layer }
    }
}

/// A service behind a limiter.
pub struct Limit<S, L, I> {
    inner: S,
    layer: LimitLayer<L, I>,
}

impl<S: Clone, L: Limiter, I> Clone for Limit<S, L, I> {
    fn clone(&self) -> Self {
        self.layer.layer(self.inner.clone())
    }
}

impl<S, L, I, B, R> Service<Request<B>> for Limit<S, L, I>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    L: Limiter,
    I: Fn(&Request<B>) -> Option<Check> + Send + Sync + 'static,
    B: Send + 'static,
    R: From<Vec<u8>>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that is ready, and not another that would have to be asked again.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        let Some(mut check) = (self.layer.identify)(&request) else {
            return Box::pin(inner.call(request));
        };
        check.with_headers = Some(true);
        let limiter = self.layer.limiter.clone();
        let (on_failure, report) = (self.layer.on_failure, self.layer.report.clone());
        Box::pin(async move {
            let decision = match limiter.check(check).await {
                Ok(decision) => decision,
                Err(error) => {
                    report(&error);
                    let callers = matches!(error, CheckError::Invalid(_) | CheckError::UnknownKey);
                    if callers || on_failure == OnFailure::Refuse {
                        return Ok(answer::undecided(&error));
                    }
                    return inner.call(request).await;
                }
            };
            if !decision.allowed {
                return Ok(answer::denial(&decision));
            }
            if decision.delay_ms > 0 {
                tokio::time::sleep(Duration::from_millis(decision.delay_ms)).await;
            }
            let mut response = inner.call(request).await?;
            answer::put_headers(&decision, response.headers_mut());
            Ok(response)
        })
    }
}
