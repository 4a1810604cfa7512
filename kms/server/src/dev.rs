//! A development server: keys in memory, a temporary certificate, and one token with all
//! permissions.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::certificate;
use crate::error::Error;
use crate::lifecycle::service_host::ServiceHost;
use crate::net::options::{Coalesce, Listen, Options};
use crate::net::tls::Tls;
use crate::server::Server;

/// A development server. Its keys and files are deleted when it is dropped.
pub struct Dev {
    server: Server,
    address: String,
    token: Zeroizing<String>,
    authorities: tempfile::NamedTempFile,
}

impl Dev {
    /// Starts a development server at a loopback address. It serves when this returns.
    ///
    /// # Errors
    /// An address that other machines can reach; errors of sockets and files.
    pub fn start(listen: SocketAddr) -> Result<Self, Error> {
        let (host, token) = ServiceHost::in_memory()?;
        Self::over(listen, host, token, Coalesce::Any)
    }

    /// Starts a server for an existing service, whose tokens it accepts.
    ///
    /// # Errors
    /// Those of [`Self::start`].
    pub fn over(
        listen: SocketAddr,
        host: ServiceHost,
        token: Zeroizing<String>,
        coalesce: Coalesce,
    ) -> Result<Self, Error> {
        if !listen.ip().is_loopback() {
            return Err(Error::Settings(format!(
                "{listen} can be reached from elsewhere; a server for trying things out listens at 127.0.0.1 or [::1]"
            )));
        }
        let mut names = vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        names.extend(Some(listen.ip()).filter(|other| !names.contains(other)));
        let (tls, pem) = certificate::fresh(&names)?;
        let authorities = tempfile::Builder::new()
            .prefix("gabion-kms-")
            .suffix(".pem")
            .tempfile()
            .and_then(|mut file| file.write_all(pem.as_bytes()).map(|()| file))
            .map_err(Error::system("write the certificate of the authority"))?;
        let options = Options {
            listen: vec![Listen::Tls(listen)],
            tls: Some(Arc::new(Tls::fixed(tls))),
            coalesce,
            ..Options::default()
        };
        let server = Server::start(Arc::new(host), &options)?;
        let address = match server.addresses() {
            [address @ Listen::Tls(_)] => address.to_string(),
            other => return Err(Error::Settings(format!("it listens at {other:?}"))),
        };
        Ok(Dev { server, address, token, authorities })
    }

    /// Returns the server's address: `https://HOST:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the token. Secret.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Returns the file with the certificate authorities. It is removed when the server is dropped.
    pub fn authorities(&self) -> &Path {
        self.authorities.path()
    }

    /// Serves until the process gets SIGTERM, SIGINT, SIGQUIT or SIGHUP. `tell` is called when the
    /// signal handlers are installed.
    ///
    /// # Errors
    /// The signal handlers cannot be installed.
    pub fn serve(self, tell: impl FnOnce() -> bool) -> Result<(), Error> {
        // The file stays until this returns.
        let Dev { server, authorities: _file, .. } = self;
        server.serve(tell)
    }
}
