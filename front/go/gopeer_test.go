package fipstls

import (
	"crypto/tls"
	"testing"
)

// goServer is a server of crypto/tls with the world's certificate.
func goServer(t testing.TB, w *world) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{w.server.tlsCertificate(t)}, MaxVersion: tls.VersionTLS13}
}
