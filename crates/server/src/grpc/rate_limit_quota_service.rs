//! `envoy.service.rate_limit_quota.v3.RateLimitQuotaService`, for Envoy's rate limit quota filter.

use std::sync::Arc;

use envoy_types::pb::envoy::service::rate_limit_quota::v3::RateLimitQuotaUsageReports;
use envoy_types::pb::envoy::service::rate_limit_quota::v3::rate_limit_quota_service_server::RateLimitQuotaService as Service;
use tokio::sync::watch;
use tonic::{Request, Response, Status, Streaming};

use crate::data_plane::DataPlane;
use crate::rlqs::{Quotas, Replies};

/// The service.
pub(super) struct RateLimitQuotaService {
    quotas: Arc<Quotas>,
    stop: watch::Receiver<bool>,
}

impl RateLimitQuotaService {
    pub(super) fn new(plane: Arc<DataPlane>, stop: watch::Receiver<bool>) -> Self {
        let quotas = Arc::new(Quotas::new(plane));
        Self { quotas, stop }
    }
}

#[tonic::async_trait]
impl Service for RateLimitQuotaService {
    type StreamRateLimitQuotasStream = Replies;

    async fn stream_rate_limit_quotas(
        &self,
        request: Request<Streaming<RateLimitQuotaUsageReports>>,
    ) -> Result<Response<Replies>, Status> {
        let replies = self.quotas.open(request.into_inner(), self.stop.clone())?;
        Ok(Response::new(replies))
    }
}
