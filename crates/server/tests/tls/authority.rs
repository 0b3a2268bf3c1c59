//! Authorities of a test's own, and what they sign.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};

/// Somebody who signs certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM.
#[derive(Debug, Clone)]
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Its own certificate.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A server on this machine.
    pub fn server(&self) -> Identity {
        self.sign(&["127.0.0.1", "localhost"], ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A server on this machine until the beginning of a year.
    pub fn server_until(&self, year: i32) -> Identity {
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        self.signed(&params)
    }

    /// A client.
    pub fn client(&self) -> Identity {
        self.sign(&["gateway.example"], ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(&self, names: &[&str], purpose: ExtendedKeyUsagePurpose) -> Identity {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![purpose];
        self.signed(&params)
    }

    fn signed(&self, params: &CertificateParams) -> Identity {
        let key = KeyPair::generate().unwrap();
        Identity {
            certificate: params.signed_by(&key, &self.0).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }
}
