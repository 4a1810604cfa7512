//! A server to try things out with: keys in memory, a certificate of its own, one token that may do everything.

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

/// A server to try things out with. All that it had ends with it.
pub struct Dev {
    server: Server,
    address: String,
    token: Zeroizing<String>,
    authorities: tempfile::NamedTempFile,
}

impl Dev {
    /// Starts one at an address of this machine. It serves when this returns.
    ///
    /// # Errors
    /// An address that others can reach; sockets, files.
    pub fn start(listen: SocketAddr) -> Result<Self, Error> {
        let (host, token) = ServiceHost::in_memory()?;
        Self::over(listen, host, token, Coalesce::Any)
    }

    /// Starts one over keys that are there, for whoever has a token of theirs.
    ///
    /// # Errors
    /// As [`Self::start`].
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

    /// Where it is: `https://HOST:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The token. Secret.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The file with the authorities that its certificates come from. It is removed at the end.
    pub fn authorities(&self) -> &Path {
        self.authorities.path()
    }

    /// Serves until the process is asked to end (SIGTERM, SIGINT, SIGQUIT, SIGHUP). `tell` is called when the process no longer ends
    /// otherwise.
    ///
    /// # Errors
    /// The signals can't be had.
    pub fn serve(self, tell: impl FnOnce() -> bool) -> Result<(), Error> {
        // The file stays until this returns.
        let Dev { server, authorities: _file, .. } = self;
        server.serve(tell)
    }
}
