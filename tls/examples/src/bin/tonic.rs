//! A service of gRPC by tonic and its client, with tonic's feature `tls-aws-lc`: both take the installed provider.
//!
//! ```text
//! cargo run -p gabion-rustls-examples --bin tonic               the server: prints where it listens, and its roots
//! cargo run -p gabion-rustls-examples --bin tonic PORT ROOTS    the client
//! ```
//!
//! The service has one method and messages of text, so that nothing is generated for it; what tonic-build makes of a
//! .proto file is added by `add_service` instead.

use std::time::Duration;

use axum::Router;
use axum::extract::Request as HttpRequest;
use axum::http::uri::PathAndQuery;
use axum::routing::post;
use bytes::{Buf, BufMut};
use gabion_rustls_examples::{Localhost, Outcome};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::service::Routes;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status};

/// The method of the service.
const PATH: &str = "/gabion.Example/Greet";

/// Messages that are text.
#[derive(Default)]
struct Text;

impl Codec for Text {
    type Encode = String;
    type Decode = String;
    type Encoder = Text;
    type Decoder = Text;

    fn encoder(&mut self) -> Text {
        Text
    }

    fn decoder(&mut self) -> Text {
        Text
    }
}

impl Encoder for Text {
    type Item = String;
    type Error = Status;

    fn encode(&mut self, text: String, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put_slice(text.as_bytes());
        Ok(())
    }
}

impl Decoder for Text {
    type Item = String;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<String>, Status> {
        let bytes = bytes.copy_to_bytes(bytes.remaining()).to_vec();
        String::from_utf8(bytes).map(Some).map_err(|_| Status::invalid_argument("no UTF-8"))
    }
}

async fn greet(name: Request<String>) -> Result<Response<String>, Status> {
    Ok(Response::new(format!("hello, {}", name.into_inner())))
}

async fn answer(request: HttpRequest) -> axum::http::Response<tonic::body::Body> {
    tonic::server::Grpc::new(Text).unary(tower::service_fn(greet), request).await
}

async fn serve() -> Outcome<()> {
    let localhost = Localhost::make();
    let (certificate, key) = localhost.identity();
    let tls = ServerTlsConfig::new()
        .identity(Identity::from_pem(certificate, key))
        .timeout(Duration::from_secs(10));
    let incoming = TcpIncoming::bind(([127, 0, 0, 1], gabion_rustls_examples::port()?).into())?;
    localhost.announce("https", incoming.local_addr()?.port())?;
    let routes = Routes::from(Router::new().route(PATH, post(answer)));
    Server::builder().tls_config(tls)?.add_routes(routes).serve_with_incoming(incoming).await?;
    Ok(())
}

async fn ask(port: u16, roots: &str) -> Outcome<()> {
    let roots = Certificate::from_pem(std::fs::read(roots)?);
    let tls = ClientTlsConfig::new().ca_certificate(roots).domain_name("localhost");
    let server = Endpoint::from_shared(format!("https://localhost:{port}"))?.tls_config(tls)?;
    let mut client = tonic::client::Grpc::new(server.connect().await?);
    client.ready().await?;
    let name = Request::new("gRPC".to_owned());
    let answer = client.unary(name, PathAndQuery::from_static(PATH), Text).await?;
    println!("{}", answer.into_inner());
    Ok(())
}

#[tokio::main]
async fn main() -> Outcome<()> {
    gabion_rustls::install_default().map_err(|_| "another provider was installed before")?;
    match gabion_rustls_examples::server_to_ask()? {
        Some((port, roots)) => ask(port, &roots).await,
        None => serve().await,
    }
}
