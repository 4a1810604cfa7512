package fipstls_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"

	"gabion/fipstls"
)

// Stop when libssl is missing, rather than going on with something else.
func ExampleInit() {
	if err := fipstls.Init("/opt/openssl/lib/libssl.so.3"); errors.Is(err, fipstls.ErrLoadLibSslFailed) {
		log.Fatal(err)
	}
	library, err := fipstls.Loaded()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(library.Version, library.LibSsl, library.Providers)
}

// An http.Client whose https requests go through libssl.
func ExampleNewClient() {
	client := fipstls.NewClient(&fipstls.Config{
		CaFile:        "/etc/ssl/certs/ca-certificates.crt",
		MinTLSVersion: fipstls.Version13,
	})
	response, err := client.Get("https://example.com/")
	if err != nil {
		log.Print(err)
		return
	}
	defer response.Body.Close()
	io.Copy(io.Discard, response.Body)
}

// The client shows a certificate; its key may be in a token.
func ExampleNewClient_mutualTLS() {
	client := fipstls.NewClient(&fipstls.Config{
		CaFile:        "ca.pem",
		CertFile:      "client.pem",
		KeyFile:       "pkcs11:token=clients;object=client;type=private",
		KeyPassphrase: "the token's PIN",
	})
	if _, err := client.Get("https://internal.example/"); err != nil {
		log.Print(err)
	}
}

// Nothing is sent unless FIPS is proven.
func ExampleConfig_fips() {
	config := &fipstls.Config{FIPSRequired: true}
	if err := config.Check(); errors.Is(err, fipstls.ErrFIPSUnavailable) {
		log.Print("no FIPS here: ", err)
		return
	}
	conn, err := fipstls.Dial("tcp", "example.com:443", config)
	if err != nil {
		log.Print(err)
		return
	}
	defer conn.Close()
	fmt.Println("FIPS:", conn.Negotiated().FIPS)
}

// Only post-quantum key exchange; a libssl that lacks the group says so at once.
func ExampleConfig_postQuantum() {
	config := &fipstls.Config{Groups: []string{"X25519MLKEM768"}, MinTLSVersion: fipstls.Version13}
	if err := config.Check(); errors.Is(err, fipstls.ErrUnsupported) {
		log.Print("OpenSSL 3.5 or newer is needed: ", err)
		return
	}
	conn, err := fipstls.Dial("tcp", "example.com:443", config)
	if err != nil {
		log.Print(err)
		return
	}
	defer conn.Close()
	fmt.Println(conn.Negotiated().Group)
}

// A server of HTTP/1.1 and HTTP/2.
func ExampleServe() {
	listener, err := net.Listen("tcp", "localhost:8443")
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s, %s\n", r.Proto, r.TLS.CurveID)
	})}
	log.Fatal(fipstls.Serve(server, listener, &fipstls.Config{CertFile: "cert.pem", KeyFile: "key.pem"}))
}

// gRPC with the dial function alone; the module gabion/fipstls/grpc has credentials.
func ExampleNewGrpcDialFn() {
	dial, err := fipstls.NewGrpcDialFn(&fipstls.Config{CaFile: "ca.pem"})
	if err != nil {
		log.Print(err)
		return
	}
	_ = dial // grpc.NewClient(target, grpc.WithContextDialer(dial), ...)
}
