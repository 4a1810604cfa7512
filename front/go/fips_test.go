package fipstls

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
)

// fipsTLS12 is the part of TestFIPS about what libssl and the provider leave to the application.
func fipsTLS12(t *testing.T, w *world) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{DNSNames: []string{"localhost"}, KeyUsage: x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature,
		SerialNumber: w.server.cert.SerialNumber, NotBefore: w.server.cert.NotBefore, NotAfter: w.server.cert.NotAfter}
	der, err := x509.CreateCertificate(rand.Reader, template, w.ca.cert, &key.PublicKey, w.ca.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, _ := x509.MarshalPKCS8PrivateKey(key)
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	// RSA key transport alone is no choice, and beside others it is not offered.
	config := w.clientConfig(t)
	config.FIPSRequired, config.CipherList = true, "AES128-GCM-SHA256:AES256-GCM-SHA384"
	var wrong *ConfigError
	if err := config.Check(); !errors.As(err, &wrong) || wrong.Field != "CipherList" {
		t.Errorf("only RSA key transport: %v", err)
	}
	config = w.clientConfig(t)
	config.FIPSRequired, config.MaxTLSVersion, config.CipherList = true, Version12, "AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256"
	server := closing(t, &Config{Cert: certPEM, Key: keyPEM, FIPSRequired: true, CipherList: config.CipherList})
	client, _ := connected(t, config, server)
	if got := client.Negotiated(); got.CipherSuite != "ECDHE-RSA-AES128-GCM-SHA256" || !got.FIPS {
		t.Errorf("%+v", got)
	}
	client.Close()
	config = w.clientConfig(t)
	config.FIPSRequired, config.Renegotiation = true, true
	if err := config.Check(); !errors.As(err, &wrong) || wrong.Field != "Renegotiation" {
		t.Errorf("Renegotiation: %v", err)
	}
	// A server without the extended master secret.
	port := freePort(t)
	peer := openssl(t, "s_server", "-accept", port, "-tls1_2", "-no_ems", "-www",
		"-cert", writeFile(t, "cert.pem", certPEM), "-key", writeFile(t, "key.pem", keyPEM))
	if help, _ := openssl(t, "s_server", "-help").CombinedOutput(); !strings.Contains(string(help), "-no_ems") {
		t.Log("the peer can't leave the extended master secret out; not tried")
		return
	}
	peer.Env = append(peer.Environ(), "OPENSSL_CONF=/dev/null")
	start(t, peer, port)
	for _, required := range []bool{false, true} {
		config := w.clientConfig(t)
		config.FIPSRequired = required
		conn, err := Dial("tcp", "localhost:"+port, config)
		if err == nil {
			conn.Close()
		}
		// A module that was installed with -pedantic refuses by itself, before this package looks.
		says := func(text string) bool { return strings.Contains(err.Error(), text) }
		if (err != nil) != required || required && !says("extended master secret") && !says("ems not enabled") {
			t.Errorf("without the extended master secret, FIPSRequired %v: %v", required, err)
		}
	}
}
