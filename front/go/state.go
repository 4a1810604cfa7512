package fipstls

import (
	"crypto/tls"
	"crypto/x509"
)

// Negotiated is what a handshake agreed on, in OpenSSL's words.
type Negotiated struct {
	Version     uint16 // Version12 or Version13, say
	CipherSuite string
	Group       string // the key exchange, such as "X25519MLKEM768"; empty where libssl can't tell
	Signature   string // the peer's, such as "mldsa65"; empty where none was made (resumption)
	Protocol    string // by ALPN
	ServerName  string // by SNI
	Resumed     bool
	// HelloRetryRequest says that the server asked the client for a key share of another group,
	// which costs a round trip.
	HelloRetryRequest bool
	// FIPS says that everything came from a FIPS provider in a library context where nothing else is
	// found; for a Config without FIPSRequired, that the process's own context was one when the
	// configuration was first used.
	FIPS bool
}

// Negotiated reports what the handshake agreed on; the zero value before it is done.
func (c *Conn) Negotiated() Negotiated {
	if !c.opened.Load() {
		return Negotiated{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return Negotiated{
		Version:     c.info.version,
		CipherSuite: c.info.cipher,
		Group:       c.info.group,
		Signature:   c.info.signature,
		Protocol:    c.info.alpn,
		ServerName:  c.info.serverName,
		Resumed:     c.info.resumed,
		FIPS:        c.context.fips,

		HelloRetryRequest: c.info.retried,
	}
}

// groupIDs are the codepoints of groups by OpenSSL's names. Go has no name for some of them.
var groupIDs = map[string]tls.CurveID{
	"secp256r1": tls.CurveP256, "prime256v1": tls.CurveP256, "P-256": tls.CurveP256,
	"secp384r1": tls.CurveP384, "P-384": tls.CurveP384,
	"secp521r1": tls.CurveP521, "P-521": tls.CurveP521,
	"x25519": tls.X25519, "X25519": tls.X25519,
	"X25519MLKEM768": tls.X25519MLKEM768,
	// RFC-to-be of the ECDHE-MLKEM draft; Go has constants for them from 1.26.
	"SecP256r1MLKEM768": 4587, "SecP384r1MLKEM1024": 4589,
	"MLKEM512": 0x200, "MLKEM768": 0x201, "MLKEM1024": 0x202,
	"x448": 0x1e, "X448": 0x1e,
	"ffdhe2048": 0x100, "ffdhe3072": 0x101, "ffdhe4096": 0x102, "ffdhe6144": 0x103, "ffdhe8192": 0x104,
	"curveSM2": 0x29, "curveSM2MLKEM768": 0x11ee,
}

// ConnectionState reports the handshake as crypto/tls would, for code that expects that: net/http,
// gRPC, callbacks. CurveID is the group's codepoint also for groups that Go lacks; it is zero for
// groups with private codepoints, which [Conn.Negotiated] names. HelloRetryRequest is set if Go has
// the field (1.26 and newer). TLSUnique, OCSP responses, SCTs and ExportKeyingMaterial are missing;
// see [Conn.ExportKeyingMaterial]. The peer's signature scheme, for which Go has no field, is in
// [Conn.Negotiated]. Certificates are there if this was called before Close.
func (c *Conn) ConnectionState() tls.ConnectionState {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reported != nil {
		return *c.reported
	}
	state := tls.ConnectionState{
		Version:                    c.info.version,
		HandshakeComplete:          c.opened.Load(),
		DidResume:                  c.info.resumed,
		CipherSuite:                c.info.cipherID,
		CurveID:                    groupIDs[c.info.group],
		NegotiatedProtocol:         c.info.alpn,
		NegotiatedProtocolIsMutual: c.info.alpn != "",
		ServerName:                 c.info.serverName,
	}
	setHelloRetryRequest(&state, c.info.retried)
	if c.context == nil || !c.hasSSL || c.info.version == 0 {
		return state
	}
	state.PeerCertificates = c.context.certs.parse(c.native.chain(false))
	if c.context.verifies() && len(state.PeerCertificates) > 0 {
		chain := c.verified
		if len(chain) == 0 {
			chain = c.context.certs.parse(c.native.chain(true))
		}
		if len(chain) == 0 { // a server's ticket remembers that it was verified, not how
			chain = state.PeerCertificates
		}
		state.VerifiedChains = [][]*x509.Certificate{chain}
	}
	if state.HandshakeComplete {
		c.reported = &state
	}
	return state
}

// sharedState is one ConnectionState for all responses of a connection, as net/http has it.
func (c *Conn) sharedState() *tls.ConnectionState {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reported == nil {
		return &tls.ConnectionState{HandshakeComplete: true, Version: c.info.version, CipherSuite: c.info.cipherID}
	}
	return c.reported
}
