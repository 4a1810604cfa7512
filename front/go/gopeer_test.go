package fipstls

import (
	"crypto/tls"
	"io"
	"log"
	"testing"
)

// goServer is a server of crypto/tls with the world's certificate.
func goServer(t testing.TB, w *world) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{w.server.tlsCertificate(t)}, MaxVersion: tls.VersionTLS13}
}

// discardLog is for servers whose clients fail on purpose.
var discardLog = log.New(io.Discard, "", 0)
