//! The authorities whose certificates other servers are believed by.

use std::path::Path;

use rustls::RootCertStore;

use crate::tls::read_certificates;

/// Those of a file that a flag names, else the system's. The error is a sentence that names the flag.
pub(crate) fn roots(flag: &'static str, file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = file {
        for certificate in read_certificates(flag, path).map_err(|error| error.to_string())? {
            let added = roots.add(certificate);
            added.map_err(|error| {
                format!("{flag}: {}: a certificate can't be used: {error}", path.display())
            })?;
        }
        return Ok(roots);
    }
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(format!(
            "this system has no authorities to trust; give {flag} FILE"
        ));
    }
    Ok(roots)
}
