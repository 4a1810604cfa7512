// Package fipsgrpc gives gRPC connections of package fipstls: libssl's TLS under credentials that know
// the peer's certificates. It is a module of its own, so that only programs that use gRPC depend on it.
package fipsgrpc

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"runtime/debug"
	"slices"

	"gabion/fipstls"

	"google.golang.org/grpc/credentials"
)

// Info is what gRPC's peer.FromContext finds as AuthInfo: credentials.TLSInfo, which other code looks
// for, and what only libssl can say. Use [InfoFrom] to get it.
type Info struct {
	credentials.TLSInfo
	Negotiated fipstls.Negotiated
}

// InfoFrom returns what a handshake agreed on, if the connection is one of this package.
func InfoFrom(info credentials.AuthInfo) (Info, bool) {
	found, ok := info.(Info)
	return found, ok
}

type transportCredentials struct {
	config *fipstls.Config
	name   string // overrides the authority
}

// protocols of every gRPC connection.
var protocols = []string{"h2"}

// errProtocol says what gRPC says: a peer that chose no protocol speaks no HTTP/2.
var errProtocol = errors.New("fipsgrpc: the peer did not choose h2 by ALPN, so it does not speak gRPC")

// NewClientCredentials returns credentials for grpc.WithTransportCredentials. The server's certificate
// has to be for the configuration's ServerName, or else for the authority of the target. Mistakes in
// the configuration show here.
func NewClientCredentials(config *fipstls.Config) (credentials.TransportCredentials, error) {
	if config == nil {
		config = new(fipstls.Config)
	}
	if err := config.Check(); err != nil {
		return nil, err
	}
	return &transportCredentials{config: config, name: config.ServerName}, nil
}

// NewServerCredentials returns credentials for grpc.Creds. The configuration's NextProtos have to hold
// h2 or be empty.
func NewServerCredentials(config *fipstls.Config) (credentials.TransportCredentials, error) {
	if config != nil && len(config.NextProtos) == 0 {
		config = config.Clone()
		config.NextProtos = protocols
	}
	if config != nil && !slices.Contains(config.NextProtos, "h2") {
		return nil, &fipstls.ConfigError{Field: "NextProtos", Err: fmt.Errorf("%q has no h2, which gRPC needs", config.NextProtos)}
	}
	if err := config.CheckServer(); err != nil {
		return nil, err
	}
	return &transportCredentials{config: config}, nil
}

// ClientHandshake performs the handshake of a client; raw is closed when it fails.
func (t *transportCredentials) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	name := t.name
	if name == "" {
		name = authority
		if host, _, err := net.SplitHostPort(authority); err == nil {
			name = host
		}
	}
	return finish(ctx, t.config.ClientConn(raw, name, protocols))
}

// ServerHandshake performs the handshake of a server; raw is closed when it fails.
func (t *transportCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return finish(context.Background(), fipstls.Server(raw, t.config))
}

// finish performs a handshake. gRPC's goroutines recover nothing: a callback that panics would end the process with all
// its calls, and one that ends its goroutine would keep Stop waiting for ever.
func finish(ctx context.Context, conn *fipstls.Conn) (net.Conn, credentials.AuthInfo, error) {
	isSecure := false
	defer func() {
		if !isSecure {
			conn.Close()
		}
	}()
	result := make(chan error, 1)
	go func() {
		err := fmt.Errorf("fipsgrpc: a callback ended its goroutine in the handshake with %s", conn.RemoteAddr())
		defer func() {
			if value := recover(); value != nil {
				err = fmt.Errorf("fipsgrpc: panic in the handshake with %s: %v", conn.RemoteAddr(), value)
				log.Printf("%v\n%s", err, debug.Stack())
			}
			result <- err
		}()
		err = conn.HandshakeContext(ctx)
	}()
	if err := <-result; err != nil {
		return nil, nil, err
	}
	negotiated := conn.Negotiated()
	if negotiated.Protocol != "h2" {
		return nil, nil, errProtocol
	}
	isSecure = true
	return conn, Info{
		TLSInfo: credentials.TLSInfo{
			State:          conn.ConnectionState(),
			CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
		},
		Negotiated: negotiated,
	}, nil
}

// Info describes the protocol, as gRPC asks for.
func (t *transportCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls", SecurityVersion: "1.2", ServerName: t.name}
}

// Clone returns a copy that shares the configuration's connections and sessions.
func (t *transportCredentials) Clone() credentials.TransportCredentials {
	copied := *t
	return &copied
}

// OverrideServerName sets the name that the server's certificate has to be for.
//
// Deprecated: gRPC wants grpc.WithAuthority instead.
func (t *transportCredentials) OverrideServerName(name string) error {
	t.name = name
	return nil
}
