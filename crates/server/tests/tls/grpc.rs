//! gRPC's own health check, over TLS.

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity as TonicIdentity};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::authority::{Authority, Identity};
use crate::common::{DEADLINE, Server};

/// Whether the server says of itself that it serves, to a client that shows this certificate.
pub fn healthy(server: &Server, authority: &Authority, identity: Option<&Identity>) -> Result<bool, String> {
    let mut tls = ClientTlsConfig::new()
        .domain_name("localhost")
        .ca_certificate(Certificate::from_pem(authority.pem()));
    if let Some(identity) = identity {
        tls = tls.identity(TonicIdentity::from_pem(&identity.certificate, &identity.key));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let endpoint = Endpoint::from_shared(format!("https://{}", server.grpc)).unwrap();
        let endpoint = endpoint.timeout(DEADLINE).connect_timeout(DEADLINE);
        let channel = endpoint.tls_config(tls).unwrap().connect().await;
        let channel = channel.map_err(|error| format!("{error:?}"))?;
        let request = HealthCheckRequest {
            service: String::new(),
        };
        let answer = HealthClient::new(channel).check(request).await;
        let answer = answer.map_err(|status| format!("{status:?}"))?;
        Ok(answer.into_inner().status == 1)
    })
}
