package fipstls

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unsafe"
)

// Options of SSL_CTX_set_options(3).
const (
	optionNoTicket                 = 1 << 14
	optionNoCompression            = 1 << 17
	optionNoRenegotiation          = 1 << 30
	optionAllowClientRenegotiation = 1 << 8
)

// Modes of SSL_CTX_set_verify(3) and flags of X509_VERIFY_PARAM_set_flags(3).
const (
	verifyNone         = 0
	verifyPeer         = 1
	verifyFailIfNoPeer = 2

	flagCrlCheck    = 0x4
	flagCrlCheckAll = 0x8
	// Whatever is trusted ends a chain, an intermediate or the peer's own certificate too, as in crypto/x509.
	flagPartialChain = 0x80000
)

// sslContext is an SSL_CTX and what connections of it share in Go.
type sslContext struct {
	native   nativeContext
	server   bool
	check    bool // the peer's name is checked
	asks     bool // a server that asks for certificates
	fips     bool // the library context was proven to be in FIPS mode when this was built
	sessions *sessionCache
	certs    certificateCache
	verify   func(*Conn) error
	keylog   *lockedWriter

	mu       sync.Mutex
	released bool
	uses     int // connections being made; the native side counts those that exist
}

// lockedWriter writes whole lines from many connections.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) write(lines []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.w.Write(lines) // a failing log is no reason to fail a connection
}

// newContext builds the SSL_CTX of a configuration, or says which field is wrong.
func newContext(c *Config, server bool) (*sslContext, error) {
	if err := ensureLoaded(); err != nil {
		return nil, err
	}
	if err := c.checkTexts(); err != nil {
		return nil, err
	}
	var library unsafe.Pointer
	if c.FIPSRequired {
		var err error
		if library, err = requireFIPS(c.FIPSConfigFile); err != nil {
			return nil, err
		}
	}
	native, err := newNativeContext(library, c.FIPSRequired, server)
	if err != nil {
		return nil, fmt.Errorf("fipstls: %w", err)
	}
	context := &sslContext{
		native: native,
		server: server,
		check:  !server && !c.InsecureSkipVerify,
		fips:   c.FIPSRequired || fipsProven(nil) == nil,
	}
	if err := context.configure(c); err != nil {
		native.free()
		return nil, err
	}
	return context, nil
}

// verifies tells whether peers are only accepted with a certificate that is trusted.
func (s *sslContext) verifies() bool { return s.check || s.asks }

// release drops the configuration's own reference; open connections have theirs.
func (s *sslContext) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		return
	}
	s.released = true
	if s.sessions != nil {
		s.sessions.clear()
	}
	if s.uses == 0 {
		s.native.free()
	}
}

// newConn makes a connection's native half, if the context was not released meanwhile.
func (s *sslContext) newConn(o nativeConnOptions) (nativeConn, error) {
	s.mu.Lock()
	if s.released {
		s.mu.Unlock()
		o.session.free()
		return nativeConn{}, errors.New("fipstls: the configuration was closed")
	}
	s.uses++
	s.mu.Unlock()
	conn, err := newNativeConn(s.native, o)
	s.mu.Lock()
	s.uses--
	if s.released && s.uses == 0 {
		s.native.free()
	}
	s.mu.Unlock()
	return conn, err
}

func (s *sslContext) configure(c *Config) error {
	steps := []func(*Config) error{
		s.setVersions, s.setAlgorithms, s.setOptions, s.setIdentity, s.setTrust, s.setRevocation, s.setProtocols,
	}
	for _, step := range steps {
		if err := step(c); err != nil {
			return err
		}
	}
	if c.KeyLogWriter != nil {
		s.keylog = &lockedWriter{w: c.KeyLogWriter}
		s.native.keylog()
	}
	cached := !s.server && !c.SessionCacheDisabled && !c.SessionTicketsDisabled
	if cached {
		s.sessions = newSessionCache(c.SessionCacheSize)
	}
	s.native.sessions(cached, s.server && !c.SessionTicketsDisabled)
	if c.VerifyConnection != nil {
		callback := c.VerifyConnection
		s.verify = func(conn *Conn) error { return callback(conn.ConnectionState()) }
	}
	return nil
}

func (s *sslContext) setVersions(c *Config) error {
	for name, version := range map[string]uint16{"MinTLSVersion": c.MinTLSVersion, "MaxTLSVersion": c.MaxTLSVersion} {
		if version != 0 && (version < Version10 || version > Version13) {
			return &ConfigError{name, fmt.Errorf("%#x is no version from Version10 to Version13", version)}
		}
	}
	min := c.MinTLSVersion
	if min == 0 {
		min = Version12
	}
	if c.MaxTLSVersion != 0 && c.MaxTLSVersion < min {
		return &ConfigError{"MaxTLSVersion", fmt.Errorf("%#x is below the oldest, %#x", c.MaxTLSVersion, min)}
	}
	if !s.native.versions(c.MinTLSVersion, c.MaxTLSVersion) {
		return &ConfigError{"MinTLSVersion", fmt.Errorf("%w: versions %#x to %#x", ErrUnsupported, min, c.MaxTLSVersion)}
	}
	return nil
}

func (s *sslContext) setAlgorithms(c *Config) error {
	for _, setting := range []struct {
		field string
		what  contextText
		value string
	}{
		{"CipherSuites", textCiphers13, strings.Join(c.CipherSuites, ":")},
		{"CipherList", textCiphers12, c.CipherList},
		{"Groups", textGroups, strings.Join(c.Groups, ":")},
		{"SignatureAlgorithms", textSignatures, strings.Join(c.SignatureAlgorithms, ":")},
	} {
		if setting.value == "" {
			continue
		}
		if strings.ContainsAny(setting.value, "\n") {
			return &ConfigError{setting.field, fmt.Errorf("%q is no list of names", setting.value)}
		}
		if err := s.native.set(setting.what, setting.value); err != nil {
			return &ConfigError{setting.field, fmt.Errorf("%w: %s: %w", ErrUnsupported, setting.value, err)}
		}
	}
	if c.FIPSRequired {
		if err := s.native.approvedCiphers(); err != nil {
			return &ConfigError{"CipherList", err}
		}
	}
	return nil
}

func (s *sslContext) setOptions(c *Config) error {
	options := uint64(optionNoCompression)
	if c.SessionTicketsDisabled {
		options |= optionNoTicket
	}
	if c.Renegotiation && c.FIPSRequired {
		return &ConfigError{"Renegotiation", errors.New("with FIPSRequired, what a handshake agreed on stays")}
	}
	if !c.Renegotiation {
		options |= optionNoRenegotiation
	} else if s.server && loadedLibrary().Number >= 0x30000000 {
		options |= optionAllowClientRenegotiation
	}
	if !s.native.options(options) {
		return fmt.Errorf("fipstls: libssl does not take the options %#x", options)
	}
	return nil
}

// isURI tells a name for an OSSL_STORE loader from a file's.
func isURI(name string) bool {
	scheme, _, ok := strings.Cut(name, ":")
	return ok && len(scheme) > 1 && !strings.ContainsAny(scheme, "/.\\")
}

// setIdentity loads the own certificate, its chain and its key.
func (s *sslContext) setIdentity(c *Config) error {
	hasCert := c.CertFile != "" || len(c.Cert) > 0
	hasKey := c.KeyFile != "" || len(c.Key) > 0
	switch {
	case !hasCert && !hasKey && s.server:
		return &ConfigError{"Cert", errors.New("a server needs a certificate and its key")}
	case !hasCert && !hasKey:
		return nil
	case !hasCert:
		return &ConfigError{"Cert", errors.New("a key needs its certificate")}
	}
	if err := s.loadCertificate(c); err != nil {
		return err
	}
	if !hasKey && !(c.CertFile != "" && !isURI(c.CertFile)) {
		return &ConfigError{"Key", errors.New("a certificate needs its private key")}
	}
	if err := s.loadKey(c); err != nil {
		return err
	}
	if err := s.native.checkKey(); err != nil {
		return &ConfigError{keyField(c), err}
	}
	return nil
}

func (s *sslContext) loadCertificate(c *Config) error {
	field, data := "Cert", c.Cert
	if len(data) == 0 {
		field = "CertFile"
		if isURI(c.CertFile) {
			if err := s.fromStore(c.CertFile, false, c.KeyPassphrase); err != nil {
				return &ConfigError{field, fmt.Errorf("%s: %w", withoutQuery(c.CertFile), err)}
			}
			return nil
		}
		var err error
		if data, err = os.ReadFile(c.CertFile); err != nil {
			return &ConfigError{field, err}
		}
	}
	chain := anchorsIn(data)
	if len(chain) == 0 {
		return &ConfigError{field, errors.New("no certificate is in it, neither PEM nor DER")}
	}
	for i, cert := range chain {
		what := addChain
		if i == 0 {
			what = addCertificate
		}
		if err := s.native.add(what, cert.plain()); err != nil {
			return &ConfigError{field, fmt.Errorf("certificate %d: %w", i+1, err)}
		}
	}
	return nil
}

// opening lets one configuration at a time look for keys by URI: a provider for tokens finds and opens
// them at the first time, and pkcs11-provider 1.0 crashed when two threads came together.
var opening sync.Mutex

func (s *sslContext) fromStore(uri string, wantKey bool, passphrase string) error {
	opening.Lock()
	defer opening.Unlock()
	return s.native.store(uri, wantKey, passphrase)
}

func keyField(c *Config) string {
	if len(c.Key) > 0 {
		return "Key"
	}
	return "KeyFile"
}

func (s *sslContext) loadKey(c *Config) error {
	data, file := c.Key, c.KeyFile
	if len(data) == 0 && file == "" {
		file = c.CertFile // certificate and key in one file
	}
	if len(data) == 0 {
		if isURI(file) {
			if err := s.fromStore(file, true, c.KeyPassphrase); err != nil {
				return &ConfigError{"KeyFile", fmt.Errorf("%s: %w", withoutQuery(file), err)}
			}
			return nil
		}
		var err error
		if data, err = os.ReadFile(file); err != nil {
			return &ConfigError{"KeyFile", err}
		}
		defer clear(data)
	}
	isPEM := bytes.Contains(data, []byte("-----BEGIN"))
	if err := s.native.key(data, isPEM, c.KeyPassphrase); err != nil {
		return &ConfigError{keyField(c), err}
	}
	return nil
}

// withoutQuery leaves out the part of a URI that may hold a PIN.
func withoutQuery(uri string) string {
	uri, _, _ = strings.Cut(uri, "?")
	return uri
}

// anchor is a certificate to trust. One of a TRUSTED CERTIFICATE has OpenSSL's settings behind it, of what
// it is trusted or rejected for.
type anchor struct {
	der      []byte
	settings bool
}

// anchorsIn returns the certificates of PEM in both forms, or the one of DER.
func anchorsIn(data []byte) []anchor {
	if !bytes.Contains(data, []byte("-----BEGIN")) {
		if len(data) == 0 {
			return nil
		}
		return []anchor{{data, false}}
	}
	var anchors []anchor
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case "CERTIFICATE", "X509 CERTIFICATE":
			anchors = append(anchors, anchor{block.Bytes, false})
		case "TRUSTED CERTIFICATE":
			anchors = append(anchors, anchor{block.Bytes, true})
		}
	}
	return anchors
}

func (a anchor) kind() contextAdd {
	if a.settings {
		return addTrustAux
	}
	return addTrust
}

// plain is the certificate without its settings, for who only shows it.
func (a anchor) plain() []byte {
	if !a.settings {
		return a.der
	}
	var certificate asn1.RawValue
	if _, err := asn1.Unmarshal(a.der, &certificate); err != nil {
		return a.der
	}
	return certificate.FullBytes
}

func blocksOf(data []byte, kinds ...string) [][]byte {
	var found [][]byte
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return found
		}
		for _, kind := range kinds {
			if block.Type == kind {
				found = append(found, block.Bytes)
			}
		}
	}
}

// setTrust says whose certificates are accepted, and whether any has to be.
func (s *sslContext) setTrust(c *Config) error {
	roots := anchorsIn(c.CaPEM)
	if len(c.CaPEM) > 0 && len(roots) == 0 {
		return &ConfigError{"CaPEM", errors.New("no certificate is in it, neither PEM nor DER")}
	}
	for _, root := range c.RootCAs {
		roots = append(roots, anchor{root.Raw, false})
	}
	for i, root := range roots {
		if err := s.native.add(root.kind(), root.der); err != nil {
			return &ConfigError{"CaPEM", fmt.Errorf("certificate %d: %w", i+1, err)}
		}
	}
	if c.CaFile != "" {
		if err := s.addTrustFile("CaFile", c.CaFile); err != nil {
			return err
		}
	}
	if c.CaPath != "" {
		if info, err := os.Stat(c.CaPath); err != nil || !info.IsDir() {
			return &ConfigError{"CaPath", errors.Join(fmt.Errorf("%s is no folder", c.CaPath), err)}
		}
		if err := s.native.set(textCaPath, c.CaPath); err != nil {
			return &ConfigError{"CaPath", err}
		}
	}
	given := len(roots) > 0 || c.CaFile != "" || c.CaPath != ""
	s.native.storeFlags(flagPartialChain)
	if s.server {
		return s.setClientAuth(c, roots, given)
	}
	if c.InsecureSkipVerify {
		s.native.verify(verifyNone)
		return nil
	}
	s.native.verify(verifyPeer)
	if !given {
		return s.setDefaultTrust()
	}
	return nil
}

func (s *sslContext) addTrustFile(field, file string) error {
	if _, err := os.Stat(file); err != nil {
		return &ConfigError{field, err}
	}
	if err := s.native.set(textCaFile, file); err != nil {
		return &ConfigError{field, fmt.Errorf("%s: %w", file, err)}
	}
	return nil
}

// setClientAuth makes a server ask for certificates, and name the authorities that it trusts.
func (s *sslContext) setClientAuth(c *Config, roots []anchor, given bool) error {
	if c.ClientAuth == NoClientCert {
		s.native.verify(verifyNone)
		return nil
	}
	if !given {
		return &ConfigError{"ClientAuth", errors.New("CaFile, CaPath, CaPEM or RootCAs has to say whose clients are trusted")}
	}
	if c.CaFile != "" {
		data, err := os.ReadFile(c.CaFile)
		if err != nil {
			return &ConfigError{"CaFile", err}
		}
		roots = append(roots, anchorsIn(data)...)
	}
	for _, root := range roots {
		if err := s.native.add(addClientCA, root.plain()); err != nil {
			return &ConfigError{"CaPEM", err}
		}
	}
	s.asks = true
	mode := verifyPeer
	if c.ClientAuth == RequireAndVerifyClientCert {
		mode |= verifyFailIfNoPeer
	}
	s.native.verify(mode)
	return nil
}

// systemBundles are where distributions keep their certificate authorities in one file.
var systemBundles = []string{
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem",
	"/etc/ssl/cert.pem",
}

// setDefaultTrust trusts what libssl trusts. A libssl of one's own build has an OPENSSLDIR without
// certificates; then the system's bundle is taken.
func (s *sslContext) setDefaultTrust() error {
	if err := s.native.defaultTrust(); err != nil {
		return fmt.Errorf("fipstls: the system's certificate authorities: %w", err)
	}
	if environment("SSL_CERT_FILE") != "" || environment("SSL_CERT_DIR") != "" {
		return nil
	}
	if _, err := os.Stat(defaultCertFile()); err == nil {
		return nil
	}
	if hashed, _ := filepath.Glob(filepath.Join(defaultCertDir(), "*.0")); len(hashed) > 0 {
		return nil
	}
	for _, bundle := range systemBundles {
		if _, err := os.Stat(bundle); err == nil {
			return s.addTrustFile("CaFile", bundle)
		}
	}
	return nil // nothing is trusted; handshakes will say so
}

func (s *sslContext) setRevocation(c *Config) error {
	lists := make([][]byte, 0, len(c.CRLs))
	add := func(field string, data []byte) error {
		found := blocksOf(data, "X509 CRL")
		if len(found) == 0 && !bytes.Contains(data, []byte("-----BEGIN")) && len(data) > 0 {
			found = [][]byte{data}
		}
		if len(found) == 0 {
			return &ConfigError{field, errors.New("no revocation list is in it, neither PEM nor DER")}
		}
		lists = append(lists, found...)
		return nil
	}
	if c.CrlFile != "" {
		data, err := os.ReadFile(c.CrlFile)
		if err != nil {
			return &ConfigError{"CrlFile", err}
		}
		if err := add("CrlFile", data); err != nil {
			return err
		}
	}
	for _, data := range c.CRLs {
		if err := add("CRLs", data); err != nil {
			return err
		}
	}
	if len(lists) == 0 {
		if c.CrlCheckChain {
			return &ConfigError{"CrlCheckChain", errors.New("no revocation list is given")}
		}
		return nil
	}
	for _, der := range lists {
		if err := s.native.add(addCRL, der); err != nil {
			return &ConfigError{"CRLs", err}
		}
	}
	flags := uint64(flagCrlCheck)
	if c.CrlCheckChain {
		flags |= flagCrlCheckAll
	}
	s.native.storeFlags(flags)
	return nil
}

// setProtocols lets a server choose by ALPN; a client's offer is made for each connection.
func (s *sslContext) setProtocols(c *Config) error {
	wire, err := alpnWire(c.NextProtos)
	if err != nil {
		return &ConfigError{"NextProtos", err}
	}
	if s.server && len(wire) > 0 && !s.native.alpn(wire) {
		return errors.New("fipstls: no memory for ALPN")
	}
	return nil
}

// alpnWire encodes protocols as RFC 7301 does: each behind its length.
func alpnWire(protos []string) ([]byte, error) {
	var wire []byte
	for _, proto := range protos {
		if len(proto) == 0 || len(proto) > 255 {
			return nil, fmt.Errorf("%q has %d bytes; 1 to 255 are possible", proto, len(proto))
		}
		wire = append(append(wire, byte(len(proto))), proto...)
	}
	return wire, nil
}

// certificateCache keeps parsed certificates: a client meets the same few again and again.
type certificateCache struct {
	mu    sync.Mutex
	known map[string]*x509.Certificate
}

const certificatesKept = 256

// parse returns the certificates that Go understands; a chain may hold algorithms that it does not.
func (c *certificateCache) parse(chain [][]byte) []*x509.Certificate {
	if len(chain) == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	certs := make([]*x509.Certificate, 0, len(chain))
	for _, der := range chain {
		cert := c.known[string(der)]
		if cert == nil {
			var err error
			if cert, err = x509.ParseCertificate(der); err != nil {
				cert = &x509.Certificate{Raw: der}
			}
			if c.known == nil || len(c.known) >= certificatesKept {
				c.known = make(map[string]*x509.Certificate)
			}
			c.known[string(der)] = cert
		}
		certs = append(certs, cert)
	}
	return certs
}
