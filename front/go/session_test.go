package fipstls

import (
	"crypto/x509"
	"fmt"
	"testing"
	"time"
)

// A session stands for certificates that are not sent again. When one of the chain has ended, a full
// handshake decides, at the client about the server's and at the server about the client's.
func TestSessionsEndWithTheirCertificates(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	end := time.Now().Add(2 * time.Second).Truncate(time.Second)
	short := func(c *x509.Certificate) { c.NotAfter = end }
	middle := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotAfter: end}
	middle.Subject.CommonName, middle.SubjectKeyId = "short authority", []byte("short")
	key := newKey(t)
	under := &authority{cert: sign(t, middle, w.ca.cert, key, w.ca.key), key: key}
	chained := func(name string) identity {
		id := under.issue(t, nil, name)
		id.certPEM = append(id.certPEM, encodeCert(under.cert)...)
		return id
	}
	type pair struct{ client, server *Config }
	pairs := map[string]pair{}
	for _, version := range []uint16{Version12, Version13} {
		for name, ids := range map[string][2]identity{
			"server's leaf":  {w.client, w.ca.issue(t, short, "localhost")},
			"server's chain": {w.client, chained("localhost")},
			"client's leaf":  {w.ca.issue(t, short, "client.test"), w.server},
			"client's chain": {chained("client.test"), w.server},
		} {
			client := closing(t, &Config{CaPEM: w.ca.pem, ServerName: "localhost", MaxTLSVersion: version, Cert: ids[0].certPEM, Key: ids[0].keyPEM})
			server := closing(t, &Config{CaPEM: w.ca.pem, ClientAuth: RequireAndVerifyClientCert, Cert: ids[1].certPEM, Key: ids[1].keyPEM})
			pairs[fmt.Sprintf("%s, %x", name, version)] = pair{client, server}
		}
	}
	// connect returns whether the session was resumed, and what failed.
	connect := func(p pair) (resumed bool, err error) {
		a, b := socketPair(t)
		client, server := Client(a, p.client), Server(b, p.server)
		defer func() { client.Close(); server.Close() }()
		clientErr, serverErr := shakeHands(client, server)
		if clientErr != nil || serverErr != nil {
			return false, fmt.Errorf("client: %v; server: %v", clientErr, serverErr)
		}
		exchange(t, client, server)
		if chains := client.ConnectionState().VerifiedChains; len(chains) != 1 || len(chains[0]) < 2 {
			t.Errorf("the chain is not known: %v", chains)
		}
		return client.Negotiated().Resumed, nil
	}
	for name, p := range pairs {
		for i := range 3 {
			if resumed, err := connect(p); err != nil || resumed != (i > 0) {
				t.Errorf("%s, while it is valid, connection %d: resumed %v, %v", name, i, resumed, err)
			}
		}
	}
	time.Sleep(time.Until(end) + 1100*time.Millisecond)
	for name, p := range pairs {
		for range 2 {
			if resumed, err := connect(p); err == nil {
				t.Errorf("%s, after its end: resumed %v", name, resumed)
			}
		}
	}
}
