//! `envoy.service.ratelimit.v3.RateLimitService`, for Envoy and whoever else asks as it does.

use std::sync::Arc;

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::RateLimitService as Service;
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use tonic::{Request, Response, Status};

use super::status::status;
use crate::clock;
use crate::data_plane::DataPlane;
use crate::rls::Question;

/// The service.
pub(super) struct RateLimitService {
    plane: Arc<DataPlane>,
}

impl RateLimitService {
    pub(super) fn new(plane: Arc<DataPlane>) -> Self {
        Self { plane }
    }
}

#[tonic::async_trait]
impl Service for RateLimitService {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let request = request.into_inner();
        let (snapshot, now) = (self.plane.engine.snapshot_full(), clock::now());
        let question = Question::read(&request, &snapshot).map_err(status)?;
        let decided = question.decide_in_time(&self.plane, &snapshot, now).await;
        let decided = decided.map_err(|undecided| status(undecided.into()))?;
        Ok(Response::new(question.answer(&decided, &self.plane)))
    }
}
