package fipstls_test

import (
	"net/http"
	"os"
	"testing"
	"time"

	"gabion/fipstls"
)

// The ways in which programs of github.com/aristanetworks/go-openssl-fips make clients compile, and fail
// with an error and not before where no server answers.
func TestDropIn(t *testing.T) {
	config := &fipstls.Config{MinTLSVersion: fipstls.Version13}
	for name, client := range map[string]*http.Client{
		"NewClient": fipstls.NewClient(config, fipstls.WithTimeout(time.Second), fipstls.WithNetwork("tcp4"), fipstls.WithLogging(fipstls.LogLevelError, os.Stderr)),
		"Transport": {Transport: &fipstls.Transport{
			Dialer:       fipstls.NewDialer(config),
			ModifyHeader: func(header *http.Header) { header.Add("User-Agent", "foo") },
		}},
		"zero Transport": {Transport: &fipstls.Transport{}},
		"TLS":            {Transport: &fipstls.Transport{Dialer: &fipstls.Dialer{TLS: config}, DisableCompression: true}},
	} {
		if _, err := client.Get("https://localhost:1"); err == nil {
			t.Errorf("%s: port 1 answers", name)
		}
	}
	if _, err := fipstls.NewGrpcDialFn(&fipstls.Config{CaFile: "/nonexistent/cert.pem"}); err == nil {
		t.Error("a file that is missing")
	}
	if fipstls.NewDialContext(config) == nil || fipstls.Version() == "" || fipstls.ProviderInfo() == "" {
		t.Error("names are missing")
	}
}
