package fipstls

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// authority mints certificates when a test runs, so that none can expire in the tree.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

type identity struct {
	cert    *x509.Certificate
	certPEM []byte
	keyPEM  []byte
}

var serials atomic.Int64

func sign(t testing.TB, template, parent *x509.Certificate, key *ecdsa.PrivateKey, parentKey *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	template.SerialNumber = big.NewInt(serials.Add(1))
	if template.NotBefore.IsZero() {
		template.NotBefore = time.Now().Add(-time.Hour)
	}
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(24 * time.Hour)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, SubjectKeyId: []byte(name),
	}
	cert := sign(t, template, template, key, key)
	return &authority{cert, key, encodeCert(cert)}
}

func encodeCert(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

// issue makes a certificate for names, addresses among them.
func (a *authority) issue(t testing.TB, change func(*x509.Certificate), names ...string) identity {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "leaf"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	if change != nil {
		change(template)
	}
	cert := sign(t, template, a.cert, key, a.key)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return identity{cert, encodeCert(cert), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})}
}

// revoke returns a list of revoked certificates.
func (a *authority) revoke(t testing.TB, certs ...*x509.Certificate) []byte {
	t.Helper()
	list := &x509.RevocationList{
		Number: big.NewInt(1), ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: time.Now().Add(time.Hour),
	}
	for _, cert := range certs {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: cert.SerialNumber, RevocationTime: time.Now().Add(-time.Minute)})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, a.cert, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})
}

// tlsCertificate is the identity for crypto/tls.
func (i identity) tlsCertificate(t testing.TB) tls.Certificate {
	t.Helper()
	cert, err := tls.X509KeyPair(i.certPEM, i.keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func writeFile(t testing.TB, name string, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// world is a test's authority with a server and a client that it vouches for.
type world struct {
	ca             *authority
	server, client identity
	shared         *Config
}

func newWorld(t testing.TB) *world {
	ca := newAuthority(t, "test authority")
	return &world{ca: ca, server: ca.issue(t, nil, "localhost", "example.test", "127.0.0.1", "::1"), client: ca.issue(t, nil, "client.test")}
}

// config is closed when the test ends.
func closing(t testing.TB, config *Config) *Config {
	own := config
	t.Cleanup(func() { own.Close(); own = nil }) // testing.T keeps the function; see leavesNothing
	return config
}

func (w *world) clientConfig(t testing.TB) *Config {
	return closing(t, &Config{CaPEM: w.ca.pem, ServerName: "localhost"})
}

func (w *world) serverConfig(t testing.TB) *Config {
	return closing(t, &Config{Cert: w.server.certPEM, Key: w.server.keyPEM})
}

// clientConfigShared is the same one each time, with its sessions.
func (w *world) clientConfigShared(t testing.TB) *Config {
	if w.shared == nil {
		w.shared = w.clientConfig(t)
	}
	return w.shared
}
