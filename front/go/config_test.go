package fipstls

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestConfigSaysWhichFieldIsWrong(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	other := newWorld(t)
	garbage := writeFile(t, "garbage.pem", []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	for name, test := range map[string]struct {
		field  string
		server bool
		config *Config
	}{
		"CA file is missing":       {"CaFile", false, &Config{CaFile: "/nonexistent/ca.pem"}},
		"CA file is garbage":       {"CaFile", false, &Config{CaFile: garbage}},
		"CA folder is missing":     {"CaPath", false, &Config{CaPath: "/nonexistent"}},
		"CA in memory is none":     {"CaPEM", false, &Config{CaPEM: w.client.keyPEM}},
		"certificate without key":  {"Key", false, &Config{Cert: w.client.certPEM}},
		"key without certificate":  {"Cert", false, &Config{Key: w.client.keyPEM}},
		"key of another":           {"Key", false, &Config{Cert: w.client.certPEM, Key: other.client.keyPEM}},
		"key is garbage":           {"Key", false, &Config{Cert: w.client.certPEM, Key: []byte("garbage")}},
		"key file is missing":      {"KeyFile", false, &Config{Cert: w.client.certPEM, KeyFile: "/nonexistent/key.pem"}},
		"server without any":       {"Cert", true, &Config{}},
		"version is unknown":       {"MinTLSVersion", false, &Config{MinTLSVersion: 7}},
		"versions cross":           {"MaxTLSVersion", false, &Config{MinTLSVersion: Version13, MaxTLSVersion: Version12}},
		"group is unknown":         {"Groups", false, &Config{Groups: []string{"P-256", "no-such-group"}}},
		"suite is unknown":         {"CipherSuites", false, &Config{CipherSuites: []string{"TLS_NO_SUCH"}}},
		"cipher is unknown":        {"CipherList", false, &Config{CipherList: "NO-SUCH"}},
		"signature is unknown":     {"SignatureAlgorithms", false, &Config{SignatureAlgorithms: []string{"no-such"}}},
		"protocol is empty":        {"NextProtos", false, &Config{NextProtos: []string{""}}},
		"protocol is too long":     {"NextProtos", true, &Config{Cert: w.server.certPEM, Key: w.server.keyPEM, NextProtos: []string{strings.Repeat("x", 256)}}},
		"CRL is garbage":           {"CRLs", false, &Config{CRLs: [][]byte{[]byte("garbage")}}},
		"CRL file is missing":      {"CrlFile", false, &Config{CrlFile: "/nonexistent.crl"}},
		"chain check without CRL":  {"CrlCheckChain", false, &Config{CrlCheckChain: true}},
		"client CAs are not given": {"ClientAuth", true, &Config{Cert: w.server.certPEM, Key: w.server.keyPEM, ClientAuth: RequireAndVerifyClientCert}},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			if test.server {
				err = test.config.CheckServer()
			} else {
				err = test.config.Check()
			}
			var config *ConfigError
			if !errors.As(err, &config) || config.Field != test.field {
				t.Errorf("expected field %s, got %v", test.field, err)
			}
		})
	}
}

// handshakeOf connects a client to a server of crypto/tls and returns the client's verdict.
func handshakeOf(t *testing.T, clientConfig *Config, name string, serverConfig *tls.Config) (*Conn, error) {
	t.Helper()
	a, b := socketPair(t)
	client, server := clientConfig.ClientConn(a, name, nil), tls.Server(b, serverConfig)
	t.Cleanup(func() { client.Close(); server.Close() })
	clientErr, serverErr := shakeHands(client, server)
	if clientErr == nil && serverErr != nil {
		t.Errorf("only the server failed: %v", serverErr)
	}
	return client, clientErr
}

func TestServerCertificates(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	expired := w.ca.issue(t, func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	}, "localhost")
	early := w.ca.issue(t, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }, "localhost")
	commonName := w.ca.issue(t, func(c *x509.Certificate) { c.Subject.CommonName = "localhost" }, "other.test")
	wildcard := w.ca.issue(t, nil, "*.example.test")
	clientOnly := w.ca.issue(t, func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}, "localhost")
	revoked := w.ca.issue(t, nil, "localhost")
	crl := w.ca.revoke(t, revoked.cert)
	stranger := newAuthority(t, "stranger").issue(t, nil, "localhost")
	var hostname x509.HostnameError
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	for name, test := range map[string]struct {
		server identity
		name   string
		change func(*Config)
		target any // nil when it has to be accepted
		code   int
	}{
		"good":                    {w.server, "localhost", nil, nil, 0},
		"dot at the end":          {w.server, "localhost.", nil, nil, 0},
		"IPv4 address":            {w.server, "127.0.0.1", nil, nil, 0},
		"IPv6 address":            {w.server, "::1", nil, nil, 0},
		"IPv6 address, brackets":  {w.server, "[::1]", nil, nil, 0},
		"wildcard":                {wildcard, "a.example.test", nil, nil, 0},
		"wildcard, two labels":    {wildcard, "a.b.example.test", nil, &hostname, verifyHostname},
		"wildcard, no label":      {wildcard, "example.test", nil, &hostname, verifyHostname},
		"other name":              {w.server, "other.test", nil, &hostname, verifyHostname},
		"other address":           {w.server, "127.0.0.2", nil, &hostname, verifyIPAddress},
		"only the common name":    {commonName, "localhost", nil, &hostname, verifyHostname},
		"expired":                 {expired, "localhost", nil, &invalid, verifyExpired},
		"not yet valid":           {early, "localhost", nil, &invalid, verifyNotYetValid},
		"for clients":             {clientOnly, "localhost", nil, &invalid, verifyWrongPurpose},
		"unknown authority":       {stranger, "localhost", nil, &unknown, -1},
		"not verified":            {stranger, "other.test", func(c *Config) { c.InsecureSkipVerify = true }, nil, 0},
		"revoked":                 {revoked, "localhost", func(c *Config) { c.CRLs = [][]byte{crl} }, new(error), 23},
		"revoked, not asked":      {revoked, "localhost", nil, nil, 0},
		"not revoked":             {w.server, "localhost", func(c *Config) { c.CRLs = [][]byte{crl} }, nil, 0},
		"not revoked, file":       {w.server, "localhost", func(c *Config) { c.CrlFile = writeFile(t, "crl.pem", crl) }, nil, 0},
		"CRL of another, missing": {w.server, "localhost", func(c *Config) { c.CRLs = [][]byte{newAuthority(t, "x").revoke(t)} }, new(error), 3},
	} {
		t.Run(name, func(t *testing.T) {
			config := w.clientConfig(t)
			if test.change != nil {
				test.change(config)
			}
			client, err := handshakeOf(t, config, test.name, &tls.Config{Certificates: []tls.Certificate{test.server.tlsCertificate(t)}})
			if test.target == nil {
				if err != nil {
					t.Fatal(err)
				}
				if got := client.ConnectionState().PeerCertificates; len(got) != 1 || !got[0].Equal(test.server.cert) {
					t.Errorf("%d certificates", len(got))
				}
				return
			}
			var ours *CertificateVerificationError
			var gos *tls.CertificateVerificationError
			if !errors.As(err, &ours) || !errors.As(err, &gos) || !errors.As(err, test.target) {
				t.Fatalf("%T %v", err, err)
			}
			if test.code >= 0 && ours.Code != test.code {
				t.Errorf("code %d, expected %d: %v", ours.Code, test.code, err)
			}
			if len(gos.UnverifiedCertificates) == 0 {
				t.Error("the certificates that were sent are not in the error")
			}
		})
	}
}

func TestServerNameIsNeeded(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	_, err := handshakeOf(t, w.clientConfig(t), "", goServer(t, w))
	var config *ConfigError
	if !errors.As(err, &config) || config.Field != "ServerName" {
		t.Errorf("got %v", err)
	}
}

func TestSNI(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	for name, wanted := range map[string]string{"localhost": "localhost", "example.test.": "example.test", "127.0.0.1": "", "::1": ""} {
		seen := "none"
		config := goServer(t, w)
		config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			seen = hello.ServerName
			return nil, nil
		}
		if _, err := handshakeOf(t, w.clientConfig(t), name, config); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if seen != wanted {
			t.Errorf("%s: SNI is %q, expected %q", name, seen, wanted)
		}
	}
}

// Certificates and keys by file, in memory, as PEM and as DER, and a key with a passphrase.
func TestIdentityForms(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	certFile := writeFile(t, "cert.pem", w.client.certPEM)
	keyFile := writeFile(t, "key.pem", w.client.keyPEM)
	both := writeFile(t, "both.pem", append(append([]byte{}, w.client.keyPEM...), w.client.certPEM...))
	block, _ := pem.Decode(w.client.keyPEM)
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	sec1, err := x509.MarshalECPrivateKey(parsed.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	//lint:ignore SA1019 the old encryption of PEM is what Go can write
	encrypted, err := x509.EncryptPEMBlock(zeroes{}, "EC PRIVATE KEY", sec1, []byte("secret"), x509.PEMCipherAES128)
	if err != nil {
		t.Fatal(err)
	}
	encryptedKey := pem.EncodeToMemory(encrypted)
	for name, identity := range map[string]*Config{
		"files":      {CertFile: certFile, KeyFile: keyFile},
		"one file":   {CertFile: both},
		"memory":     {Cert: w.client.certPEM, Key: w.client.keyPEM},
		"DER":        {Cert: w.client.cert.Raw, Key: block.Bytes},
		"SEC 1 DER":  {Cert: w.client.cert.Raw, Key: sec1},
		"DER file":   {CertFile: writeFile(t, "cert.der", w.client.cert.Raw), KeyFile: writeFile(t, "key.der", block.Bytes)},
		"passphrase": {Cert: w.client.certPEM, Key: encryptedKey, KeyPassphrase: "secret"},
	} {
		t.Run(name, func(t *testing.T) {
			config := w.clientConfig(t)
			config.CertFile, config.KeyFile = identity.CertFile, identity.KeyFile
			config.Cert, config.Key, config.KeyPassphrase = identity.Cert, identity.Key, identity.KeyPassphrase
			server := goServer(t, w)
			server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, w.ca.pool()
			client, goServer := connectedToGo(t, config, server)
			exchange(t, client, goServer)
			if got := goServer.ConnectionState().PeerCertificates; len(got) != 1 || !got[0].Equal(w.client.cert) {
				t.Errorf("%d certificates", len(got))
			}
		})
	}
	for _, passphrase := range []string{"", "wrong"} {
		config := w.clientConfig(t)
		config.Cert, config.Key, config.KeyPassphrase = w.client.certPEM, encryptedKey, passphrase
		if err := config.Check(); err == nil {
			t.Errorf("passphrase %q opens the key", passphrase)
		}
	}
}

// zeroes is randomness for a passphrase test.
type zeroes struct{}

func (zeroes) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestIdentityByURI(t *testing.T) {
	leavesNothing(t)
	library, err := Loaded()
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	config := w.clientConfig(t)
	config.CertFile = "file:" + writeFile(t, "cert.pem", w.client.certPEM)
	config.KeyFile = "file:" + writeFile(t, "key.pem", w.client.keyPEM)
	if !library.Store {
		if err := config.Check(); err == nil || !strings.Contains(err.Error(), "OSSL_STORE") {
			t.Errorf("got %v", err)
		}
		return
	}
	server := goServer(t, w)
	server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, w.ca.pool()
	client, goServer := connectedToGo(t, config, server)
	exchange(t, client, goServer)
	missing := w.clientConfig(t)
	missing.CertFile, missing.KeyFile = config.CertFile, "file:/nonexistent?pin-value=1234"
	if err := missing.Check(); err == nil || strings.Contains(err.Error(), "1234") {
		t.Errorf("got %v", err)
	}
}

func TestTrustForms(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	folder := t.TempDir()
	for name, change := range map[string]func(*Config){
		"file":        func(c *Config) { c.CaFile = writeFile(t, "ca.pem", w.ca.pem) },
		"memory":      func(c *Config) { c.CaPEM = w.ca.pem },
		"DER":         func(c *Config) { c.CaPEM = w.ca.cert.Raw },
		"certificate": func(c *Config) { c.RootCAs = []*x509.Certificate{w.ca.cert} },
		"two":         func(c *Config) { c.CaPEM = append(newAuthority(t, "other").pem, w.ca.pem...) },
	} {
		config := closing(t, new(Config))
		change(config)
		if _, err := handshakeOf(t, config, "localhost", goServer(t, w)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// An empty folder trusts nobody.
	config := closing(t, &Config{CaPath: folder})
	var unknown x509.UnknownAuthorityError
	if _, err := handshakeOf(t, config, "localhost", goServer(t, w)); !errors.As(err, &unknown) {
		t.Errorf("empty folder: %v", err)
	}
	// The system's authorities do not know ours.
	if _, err := handshakeOf(t, closing(t, new(Config)), "localhost", goServer(t, w)); !errors.As(err, &unknown) {
		t.Errorf("system: %v", err)
	}
}

func TestMutualTLS(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	for _, version := range []uint16{Version12, Version13} {
		serverConfig := w.serverConfig(t)
		serverConfig.CaPEM, serverConfig.ClientAuth = w.ca.pem, RequireAndVerifyClientCert
		serverConfig.MaxTLSVersion = version
		with := w.clientConfig(t)
		with.Cert, with.Key = w.client.certPEM, w.client.keyPEM
		client, server := connected(t, with, serverConfig)
		exchange(t, client, server)
		state := server.ConnectionState()
		if len(state.PeerCertificates) != 1 || !state.PeerCertificates[0].Equal(w.client.cert) || len(state.VerifiedChains) != 1 {
			t.Errorf("%d certificates, %d chains", len(state.PeerCertificates), len(state.VerifiedChains))
		}
		client.Close()
		server.Close()

		// Without a certificate, and with a stranger's.
		stranger := w.clientConfig(t)
		identity := newAuthority(t, "stranger").issue(t, nil, "client.test")
		stranger.Cert, stranger.Key = identity.certPEM, identity.keyPEM
		for name, config := range map[string]*Config{"none": w.clientConfig(t), "stranger": stranger} {
			a, b := socketPair(t)
			client, server := Client(a, config), Server(b, serverConfig)
			_, serverErr := shakeHands(client, server)
			// A TLS 1.3 client learns of it when it reads.
			client.SetReadDeadline(time.Now().Add(5 * time.Second))
			_, readErr := client.Read(make([]byte, 1))
			var alert AlertError
			if serverErr == nil || !errors.As(readErr, &alert) {
				t.Errorf("%s: server: %v; client: %v", name, serverErr, readErr)
			}
			client.Close()
			server.Close()
		}
	}
}

func TestALPN(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	for _, test := range []struct {
		client, server []string
		wanted         string
		fails          bool
	}{
		{nil, nil, "", false},
		{[]string{"h2"}, nil, "", false},
		{nil, []string{"h2"}, "", false},
		{[]string{"a", "h2"}, []string{"h2", "a"}, "h2", false}, // the server's order
		{[]string{"a"}, []string{"b"}, "", true},
	} {
		clientConfig, serverConfig := w.clientConfig(t), w.serverConfig(t)
		clientConfig.NextProtos, serverConfig.NextProtos = test.client, test.server
		a, b := socketPair(t)
		client, server := Client(a, clientConfig), Server(b, serverConfig)
		clientErr, _ := shakeHands(client, server)
		var alert AlertError
		if test.fails {
			if !errors.As(clientErr, &alert) || alert != 120 { // no_application_protocol
				t.Errorf("%v, %v: %v", test.client, test.server, clientErr)
			}
		} else if clientErr != nil || client.Negotiated().Protocol != test.wanted || server.Negotiated().Protocol != test.wanted {
			t.Errorf("%v, %v: %q, %v", test.client, test.server, client.Negotiated().Protocol, clientErr)
		}
		client.Close()
		server.Close()
	}
}

func TestVerifyConnection(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	refusal := errors.New("not today")
	for _, version := range []uint16{Version12, Version13} {
		config := w.clientConfig(t)
		config.MaxTLSVersion = version
		calls := 0
		var answer error
		config.VerifyConnection = func(state tls.ConnectionState) error {
			calls++
			if len(state.PeerCertificates) != 1 || state.ServerName != "localhost" {
				t.Errorf("%+v", state)
			}
			return answer
		}
		for range 2 { // the second one is resumed
			client, server := connectedToGo(t, config, goServer(t, w))
			exchange(t, client, server)
			client.Close()
		}
		if calls != 2 {
			t.Errorf("%d calls", calls)
		}
		answer = refusal
		a, b := socketPair(t)
		client, server := Client(a, config), tls.Server(b, goServer(t, w))
		clientErr, serverErr := shakeHands(client, server)
		if !errors.Is(clientErr, refusal) {
			t.Errorf("got %v", clientErr)
		}
		if version == Version13 && serverErr == nil {
			t.Error("the server saw a finished handshake")
		}
		if _, err := client.Write([]byte("x")); !errors.Is(err, refusal) {
			t.Errorf("Write after the refusal: %v", err)
		}
		client.Close()
	}
}

func TestKeyLog(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	var ours, gos bytes.Buffer
	config, serverConfig := w.clientConfig(t), goServer(t, w)
	config.KeyLogWriter, serverConfig.KeyLogWriter = &ours, &gos
	client, server := connectedToGo(t, config, serverConfig)
	exchange(t, client, server)
	for _, line := range strings.Split(strings.TrimSpace(gos.String()), "\n") {
		if !strings.Contains(ours.String(), line) {
			t.Errorf("the log lacks %q", line)
		}
	}
}

func TestGroups(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	library, _ := Loaded()
	isPQ := library.Number >= 0x30500000
	for group, id := range map[string]tls.CurveID{"P-256": tls.CurveP256, "X25519": tls.X25519, "X25519MLKEM768": tls.X25519MLKEM768} {
		config := w.clientConfig(t)
		config.Groups = []string{group}
		if group == "X25519MLKEM768" && !isPQ {
			if err := config.Check(); !errors.Is(err, ErrUnsupported) {
				t.Errorf("%s on %s: %v", group, library.Version, err)
			}
			continue
		}
		client, server := connectedToGo(t, config, goServer(t, w))
		if got := server.ConnectionState().CurveID; got != id {
			t.Errorf("%s: the server sees %v", group, got)
		}
		if got := client.ConnectionState().CurveID; got != id {
			t.Errorf("%s: the client says %v (%s)", group, got, client.Negotiated().Group)
		}
	}
	// By default a libssl that has it negotiates the hybrid.
	client, _ := connectedToGo(t, w.clientConfig(t), goServer(t, w))
	if got := client.ConnectionState().CurveID; (got == tls.X25519MLKEM768) != isPQ {
		t.Errorf("%s negotiates %v by default", library.Version, got)
	}
}

// A share of a group that the peer does not take costs a HelloRetryRequest, on either side.
func TestHelloRetryRequest(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	for group, want := range map[tls.CurveID]bool{tls.X25519: false, tls.CurveP384: true} {
		config, serverConfig := w.clientConfig(t), goServer(t, w)
		config.Groups = []string{"X25519", "P-384"} // with a share of the first
		serverConfig.CurvePreferences = []tls.CurveID{group}
		client, server := connectedToGo(t, config, serverConfig)
		exchange(t, client, server)
		ours, gos := client.ConnectionState(), server.ConnectionState()
		if client.Negotiated().HelloRetryRequest != want || retried(ours) != retried(gos) {
			t.Errorf("%v: the client says %v, the server %v", group, retried(ours), retried(gos))
		}
		if ours.CurveID != group || gos.CurveID != group {
			t.Errorf("%v: %v, %v", group, ours.CurveID, gos.CurveID)
		}
	}
}

func TestHelloRetryRequestOfServer(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	library, _ := Loaded()
	groups := []string{"P-384"}
	if library.Number >= 0x30500000 {
		groups = append(groups, "MLKEM768", "MLKEM1024")
	}
	for _, group := range groups {
		for _, retry := range []bool{false, true} {
			config, serverConfig := w.clientConfig(t), w.serverConfig(t)
			config.Groups, serverConfig.Groups = []string{group}, []string{group}
			if retry {
				config.Groups = []string{"P-256", group}
			}
			client, server := connected(t, config, serverConfig)
			exchange(t, client, server)
			for _, conn := range []*Conn{client, server} {
				state := conn.ConnectionState()
				if conn.Negotiated().HelloRetryRequest != retry || state.CurveID == 0 || state.CurveID != groupIDs[group] {
					t.Errorf("%s, retry %v: %+v, CurveID %v", group, retry, conn.Negotiated(), state.CurveID)
				}
			}
		}
	}
}

// retried is the field HelloRetryRequest, of a Go that has it.
func retried(state tls.ConnectionState) bool {
	field := reflect.ValueOf(state).FieldByName("HelloRetryRequest")
	return field.IsValid() && field.Bool()
}

func TestVersionsAndCiphers(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	for name, test := range map[string]struct {
		change  func(*Config)
		version uint16
		suite   uint16
	}{
		"1.2": {func(c *Config) { c.MaxTLSVersion = Version12 }, Version12, 0},
		"1.3": {func(c *Config) { c.MinTLSVersion = Version13 }, Version13, 0},
		"1.3, a suite": {func(c *Config) { c.CipherSuites = []string{"TLS_CHACHA20_POLY1305_SHA256"} }, Version13,
			tls.TLS_CHACHA20_POLY1305_SHA256},
		"1.2, a suite": {func(c *Config) { c.MaxTLSVersion, c.CipherList = Version12, "ECDHE-ECDSA-AES256-GCM-SHA384" }, Version12,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384},
	} {
		config := w.clientConfig(t)
		test.change(config)
		client, server := connectedToGo(t, config, goServer(t, w))
		exchange(t, client, server)
		state := client.ConnectionState()
		if state.Version != test.version || test.suite != 0 && state.CipherSuite != test.suite ||
			server.ConnectionState().CipherSuite != state.CipherSuite {
			t.Errorf("%s: %x %x", name, state.Version, state.CipherSuite)
		}
	}
	old := w.clientConfig(t)
	server := goServer(t, w)
	server.MaxVersion = tls.VersionTLS11
	if _, err := handshakeOf(t, old, "localhost", server); err == nil {
		t.Error("TLS 1.1 by default")
	}
}

func TestExportKeyingMaterial(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	client, server := connectedToGo(t, w.clientConfig(t), goServer(t, w))
	ours, err := client.ExportKeyingMaterial("EXPERIMENTAL test", []byte("context"), 32)
	if err != nil {
		t.Fatal(err)
	}
	state := server.ConnectionState()
	gos, err := state.ExportKeyingMaterial("EXPERIMENTAL test", []byte("context"), 32)
	if err != nil || !bytes.Equal(ours, gos) {
		t.Errorf("%x, %x, %v", ours, gos, err)
	}
}

// --- sessions --------------------------------------------------------------------------------------

func TestResumption(t *testing.T) {
	w := newWorld(t)
	for _, version := range []uint16{Version12, Version13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			leavesNothing(t)
			config, serverConfig := w.clientConfig(t), goServer(t, w)
			config.MaxTLSVersion = version
			once := func(name string, protos []string) bool {
				t.Helper()
				a, b := socketPair(t)
				client, server := config.ClientConn(a, name, protos), tls.Server(b, serverConfig)
				defer server.Close()
				defer client.Close()
				if clientErr, serverErr := shakeHands(client, server); clientErr != nil || serverErr != nil {
					t.Fatal(clientErr, serverErr)
				}
				exchange(t, client, server) // TLS 1.3 sends tickets behind the handshake
				if client.Negotiated().Resumed != server.ConnectionState().DidResume {
					t.Error("the ends disagree")
				}
				if state := client.ConnectionState(); len(state.PeerCertificates) == 0 || len(state.VerifiedChains) == 0 {
					t.Error("no certificate")
				}
				return client.Negotiated().Resumed
			}
			for i, wanted := range []bool{false, true, true, true} {
				if got := once("localhost", nil); got != wanted {
					t.Errorf("connection %d: resumed %v", i, got)
				}
			}
			if once("example.test", nil) {
				t.Error("resumed under another name")
			}
			if once("localhost", []string{"other"}) {
				t.Error("resumed with other protocols")
			}
			config.Close() // a new context has no sessions
			if once("localhost", nil) {
				t.Error("resumed after Close")
			}
			config.Close()
			config.SessionCacheDisabled = true
			if once("localhost", nil) || once("localhost", nil) {
				t.Error("resumed in spite of SessionCacheDisabled")
			}
		})
	}
}

// A session outlives the connection that it came from, however that one ends.
func TestEveryNewConnectionResumes(t *testing.T) {
	leavesNothing(t)
	h := goHTTPServer(t, false)
	client := h.client(t, func(base *http.Transport) { base.DisableKeepAlives = true })
	full := 0
	for range 200 {
		if response, _ := get(t, client, h.url+"/bytes/10"); !response.TLS.DidResume {
			full++
		}
	}
	if full != 1 {
		t.Errorf("%d of 200 handshakes were full ones", full)
	}
}

func TestOwnServerResumes(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	for _, version := range []uint16{Version12, Version13} {
		for _, disabled := range []bool{false, true} {
			config, serverConfig := w.clientConfig(t), w.serverConfig(t)
			config.MaxTLSVersion, serverConfig.SessionTicketsDisabled = version, disabled
			resumed := false
			for range 2 {
				client, server := connected(t, config, serverConfig)
				exchange(t, client, server)
				resumed = client.Negotiated().Resumed
				client.Close()
				server.Close()
			}
			if resumed == disabled {
				t.Errorf("%x: resumed %v, tickets disabled %v", version, resumed, disabled)
			}
		}
	}
}

func TestSessionCacheIsBounded(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	config := w.clientConfig(t)
	config.SessionCacheSize = 3
	for _, name := range []string{"localhost", "example.test", "127.0.0.1", "::1", "localhost"} {
		a, b := socketPair(t)
		client, server := config.ClientConn(a, name, nil), tls.Server(b, goServer(t, w))
		if clientErr, serverErr := shakeHands(client, server); clientErr != nil || serverErr != nil {
			t.Fatal(clientErr, serverErr)
		}
		exchange(t, client, server)
		client.Close()
		server.Close()
	}
	if _, _, sessions := counters(); sessions > 3 {
		t.Errorf("%d sessions are kept", sessions)
	}
}

// --- FIPS ------------------------------------------------------------------------------------------

// fipsConfigFile finds a fipsmodule.cnf for the libssl under test, or skips.
func fipsConfigFile(t *testing.T) string {
	t.Helper()
	library, err := Loaded()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(library.Directory, "fipsmodule.cnf")
	if _, err := os.Stat(file); err != nil {
		t.Skipf("no FIPS provider: %s has no fipsmodule.cnf", library.Directory)
	}
	return file
}

func TestFIPS(t *testing.T) {
	leavesNothing(t)
	file := fipsConfigFile(t)
	w := newWorld(t)
	for _, configFile := range []string{"", file} {
		config, serverConfig := w.clientConfig(t), w.serverConfig(t)
		config.FIPSRequired, config.FIPSConfigFile = true, configFile
		serverConfig.FIPSRequired = true
		client, server := connected(t, config, serverConfig)
		exchange(t, client, server)
		if !client.Negotiated().FIPS || !server.Negotiated().FIPS {
			t.Errorf("%+v", client.Negotiated())
		}
	}
	fipsTLS12(t, w)
	// The process's own library context is left alone.
	client, _ := connected(t, w.clientConfig(t), w.serverConfig(t))
	if client.Negotiated().FIPS {
		t.Error("a connection without FIPSRequired claims FIPS")
	}
	// What is not approved is not there.
	for field, change := range map[string]func(*Config){
		"Groups": func(c *Config) { c.Groups = []string{"X25519"} },
		"CipherSuites": func(c *Config) {
			c.CipherSuites = []string{"TLS_CHACHA20_POLY1305_SHA256"}
			c.MinTLSVersion = Version13
		},
	} {
		config := w.clientConfig(t)
		config.FIPSRequired = true
		change(config)
		if err := config.Check(); err != nil {
			continue
		}
		if _, err := handshakeOf(t, config, "localhost", goServer(t, w)); err == nil {
			t.Errorf("%s: something unapproved was negotiated", field)
		}
	}
}

// Each way in which FIPS can be missing refuses.
func TestFIPSRefusals(t *testing.T) {
	leavesNothing(t)
	fipsConfigFile(t)
	for name, text := range map[string]string{
		"no provider":      "openssl_conf = i\n[i]\nproviders = p\n[p]\ndefault = d\n[d]\nactivate = 1\n",
		"missing module":   "config_diagnostics = 1\nopenssl_conf = i\n[i]\nproviders = p\n[p]\nfips = f\n[f]\nmodule = /nonexistent/fips.so\nactivate = 1\n",
		"not a file of it": "hello",
	} {
		if err := FIPSAvailable(writeFile(t, "openssl.cnf", []byte(text))); !errors.Is(err, ErrFIPSUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := FIPSAvailable("/nonexistent/openssl.cnf"); !errors.Is(err, ErrFIPSUnavailable) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

var _ net.Conn = (*Conn)(nil)
