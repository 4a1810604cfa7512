// Command https-server serves HTTP/1.1 and HTTP/2 through libssl, and tells each client what was
// negotiated with it.
//
//	go run ./examples/https-server -cert cert.pem -key key.pem -listen localhost:8443
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"

	"gabion/fipstls"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run() error {
	lib := flag.String("lib", "", "libssl: a path, a version such as 3.5, or nothing to search")
	fips := flag.Bool("fips", false, "require FIPS: nothing is served without it")
	cert := flag.String("cert", "cert.pem", "file of the certificate and its chain")
	key := flag.String("key", "key.pem", "file or URI of its key")
	clients := flag.String("clients", "", "file of authorities; clients without their certificate are refused")
	listen := flag.String("listen", "localhost:8443", "address to listen at")
	flag.Parse()
	if err := fipstls.Init(*lib); err != nil {
		return err
	}
	config := &fipstls.Config{CertFile: *cert, KeyFile: *key, FIPSRequired: *fips}
	if *clients != "" {
		config.CaFile, config.ClientAuth = *clients, fipstls.RequireAndVerifyClientCert
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "serving https://%s/\n", listener.Addr())
	return fipstls.Serve(&http.Server{Handler: http.HandlerFunc(answer)}, listener, config)
}

func answer(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s over %s with %s\n", r.Proto, tls.VersionName(r.TLS.Version), r.TLS.CurveID)
	for _, cert := range r.TLS.PeerCertificates {
		fmt.Fprintf(w, "client: %s\n", cert.Subject)
	}
}
