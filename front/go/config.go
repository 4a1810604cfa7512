package fipstls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"runtime"
	"sync"
)

// TLS versions for MinTLSVersion and MaxTLSVersion; the numbers are those of crypto/tls.
const (
	Version10 = tls.VersionTLS10
	Version11 = tls.VersionTLS11
	Version12 = tls.VersionTLS12
	Version13 = tls.VersionTLS13
)

// ClientAuth says what a server asks of its clients.
type ClientAuth int

const (
	// NoClientCert asks for no certificate.
	NoClientCert ClientAuth = iota
	// VerifyClientCertIfGiven asks for one and accepts a client without; one that is given has to be
	// trusted.
	VerifyClientCertIfGiven
	// RequireAndVerifyClientCert ends the handshake with a client that has no trusted certificate.
	RequireAndVerifyClientCert
)

// Config says how to make connections. The zero value, and nil, is a client that trusts the system's
// certificate authorities and speaks TLS 1.2 and 1.3.
//
// The first use builds one SSL_CTX from it, which all its connections share: certificates are parsed
// once. After its first use a Config must not be changed and not be copied (Clone makes a copy that
// may be changed).
type Config struct {
	// Certificate authorities to trust: a PEM file, a folder hashed by `openssl rehash`, certificates in
	// memory (PEM, or one as DER). They add up. A client without any trusts what libssl finds in its
	// OPENSSLDIR, or else the system's bundle where Go looks for it. A server verifies its clients with
	// them.
	CaFile string
	CaPath string
	CaPEM  []byte
	// RootCAs are more of them, as certificates. (An x509.CertPool does not give its certificates out.)
	RootCAs []*x509.Certificate

	// The own certificate with its chain, and its private key: files (PEM or DER), bytes (the same), or
	// URIs for an OSSL_STORE loader such as pkcs11: (3.0 or newer). KeyPassphrase decrypts the key, or
	// is the token's PIN.
	CertFile      string
	KeyFile       string
	Cert          []byte
	Key           []byte
	KeyPassphrase string

	// ServerName is what the server's certificate has to be for, and what SNI asks for. Dialers and
	// transports take the name that is dialled where it is empty. A name that is an IP address is
	// looked for among the certificate's addresses, and never sent by SNI.
	ServerName string

	// MinTLSVersion and MaxTLSVersion bound the version. Zero leaves the system's policy in openssl.cnf,
	// but never less than TLS 1.2.
	MinTLSVersion uint16
	MaxTLSVersion uint16

	// InsecureSkipVerify accepts any certificate for any name. VerifyConnection can still refuse.
	InsecureSkipVerify bool

	// NextProtos are the application's protocols (ALPN), best first.
	NextProtos []string

	// CipherSuites are TLS 1.3's, CipherList those of TLS 1.2 and older, in OpenSSL's words (see
	// openssl-ciphers(1)); Groups and SignatureAlgorithms too, such as "X25519MLKEM768", "P-256",
	// "mldsa65", "ecdsa_secp256r1_sha256". Empty leaves libssl's choice, hence the system's policy. A
	// name that this libssl does not know is an error, not silence.
	CipherSuites        []string
	CipherList          string
	Groups              []string
	SignatureAlgorithms []string

	// Certificate revocation lists: a file of PEM, or lists in memory (PEM or DER). With any of them
	// the peer's own certificate has to be covered by one, and with CrlCheckChain every one of its chain.
	CrlFile       string
	CRLs          [][]byte
	CrlCheckChain bool

	// ClientAuth is for servers.
	ClientAuth ClientAuth

	// VerifyConnection runs in Go when the handshake is done and before any data passes, on resumed
	// connections too. An error ends the connection.
	VerifyConnection func(tls.ConnectionState) error

	// KeyLogWriter gets the secrets of connections in NSS key log format, for debugging: whoever has
	// them reads the traffic. Whole lines come, one call at a time; while a call lasts, handshakes of this
	// configuration wait, Close does not.
	KeyLogWriter io.Writer

	// SessionTicketsDisabled keeps servers from giving tickets out, and clients from taking them.
	SessionTicketsDisabled bool
	// SessionCacheDisabled makes every client handshake a full one.
	SessionCacheDisabled bool
	// SessionCacheSize is how many sessions a client keeps; zero is 256.
	SessionCacheSize int

	// Renegotiation lets a TLS 1.2 peer ask for a new handshake. Without it such a wish is refused.
	Renegotiation bool

	// FIPSRequired builds nothing unless libssl's FIPS provider is loaded in a library context of its
	// own, everything is fetched from there with fips=yes, and an unapproved algorithm is not found.
	// Errors wrap ErrFIPSUnavailable. With 1.1.1 the process has to be in FIPS mode. In TLS 1.2, suites with
	// RSA key transport are dropped, and a peer without the extended master secret is refused.
	FIPSRequired bool
	// FIPSConfigFile is an OpenSSL configuration that activates the provider, or the fipsmodule.cnf that
	// `openssl fipsinstall` wrote. Empty tries OPENSSL_CONF, fipsmodule.cnf in OPENSSLDIR, and the
	// provider without a configuration, in this order.
	FIPSConfigFile string

	mu     sync.Mutex
	client *sslContext
	server *sslContext
}

// Clone returns a copy that may be changed; it builds its own SSL_CTX.
func (c *Config) Clone() *Config {
	if c == nil {
		return nil
	}
	return &Config{
		CaFile: c.CaFile, CaPath: c.CaPath, CaPEM: c.CaPEM, RootCAs: c.RootCAs,
		CertFile: c.CertFile, KeyFile: c.KeyFile, Cert: c.Cert, Key: c.Key,
		KeyPassphrase: c.KeyPassphrase, ServerName: c.ServerName,
		MinTLSVersion: c.MinTLSVersion, MaxTLSVersion: c.MaxTLSVersion,
		InsecureSkipVerify: c.InsecureSkipVerify, NextProtos: c.NextProtos,
		CipherSuites: c.CipherSuites, CipherList: c.CipherList, Groups: c.Groups,
		SignatureAlgorithms: c.SignatureAlgorithms, CrlFile: c.CrlFile, CRLs: c.CRLs,
		CrlCheckChain: c.CrlCheckChain, ClientAuth: c.ClientAuth,
		VerifyConnection: c.VerifyConnection, KeyLogWriter: c.KeyLogWriter,
		SessionTicketsDisabled: c.SessionTicketsDisabled,
		SessionCacheDisabled:   c.SessionCacheDisabled, SessionCacheSize: c.SessionCacheSize,
		Renegotiation: c.Renegotiation, FIPSRequired: c.FIPSRequired,
		FIPSConfigFile: c.FIPSConfigFile,
	}
}

// defaultConfig stands for nil, so that all its users share one context.
var defaultConfig Config

// Check builds what connections of a client need, so that mistakes show now and not with the first
// connection. The error says which field is wrong.
func (c *Config) Check() error {
	_, err := c.contextFor(false)
	return err
}

// CheckServer is Check for servers.
func (c *Config) CheckServer() error {
	_, err := c.contextFor(true)
	return err
}

// Close frees what was built, sessions included, now and not when the Config is garbage. Open
// connections keep what they need; a Config that is used again builds again.
func (c *Config) Close() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	client, server := c.client, c.server
	c.client, c.server = nil, nil
	c.mu.Unlock()
	for _, context := range []*sslContext{client, server} {
		if context != nil {
			context.release()
		}
	}
	return nil
}

// contextFor returns the shared context of this configuration. A failure is not kept: a file that was
// missing may be there the next time.
func (c *Config) contextFor(server bool) (*sslContext, error) {
	if c == nil {
		if server {
			return nil, &ConfigError{"Cert", errors.New("a server needs a certificate and its key")}
		}
		c = &defaultConfig
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	place := &c.client
	if server {
		place = &c.server
	}
	if *place != nil {
		return *place, nil
	}
	built, err := newContext(c, server)
	if err != nil {
		return nil, err
	}
	*place = built
	// The net under Close: a Config that becomes garbage takes its context with it.
	runtime.AddCleanup(c, func(context *sslContext) { context.release() }, built)
	return built, nil
}
