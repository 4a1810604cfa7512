// Command https-get fetches a URL through libssl and says on standard error what was negotiated.
//
//	go run ./examples/https-get https://example.com/
//	go run ./examples/https-get -fips -ca ca.pem https://localhost:8443/
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"

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
	fips := flag.Bool("fips", false, "require FIPS: no connection without it")
	fipsConfig := flag.String("fips-config", "", "configuration of the FIPS provider, if not the library's own")
	ca := flag.String("ca", "", "file of certificate authorities; the system's without it")
	cert := flag.String("cert", "", "file of the own certificate")
	key := flag.String("key", "", "file or URI of its key")
	groups := flag.String("groups", "", "groups to offer, with colons between them, such as X25519MLKEM768:P-256")
	insecure := flag.Bool("insecure", false, "accept any certificate")
	flag.Parse()
	if flag.NArg() != 1 {
		return fmt.Errorf("expected one URL; example: https-get -fips https://localhost:8443/")
	}
	if err := fipstls.Init(*lib); err != nil {
		return err
	}
	config := &fipstls.Config{
		CaFile: *ca, CertFile: *cert, KeyFile: *key, InsecureSkipVerify: *insecure,
		FIPSRequired: *fips, FIPSConfigFile: *fipsConfig,
	}
	if *groups != "" {
		config.Groups = strings.Split(*groups, ":")
	}
	library, err := fipstls.Loaded()
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "library    %s, %s\n", library.Version, library.LibSsl)

	request, err := http.NewRequest("GET", flag.Arg(0), nil)
	if err != nil {
		return err
	}
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if conn, ok := info.Conn.(*fipstls.Conn); ok {
			report(conn.Negotiated())
		}
	}}
	request = request.WithContext(httptrace.WithClientTrace(request.Context(), trace))
	response, err := fipstls.NewClient(config).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	fmt.Fprintf(os.Stderr, "response   %s %s\n", response.Proto, response.Status)
	_, err = io.Copy(os.Stdout, response.Body)
	return err
}

func report(n fipstls.Negotiated) {
	orNone := func(text string) string {
		if text == "" {
			return "-"
		}
		return text
	}
	fips := "no"
	if n.FIPS {
		fips = "yes, proven when the configuration was built"
	}
	fmt.Fprintf(os.Stderr, "version    %s\ncipher     %s\ngroup      %s\nsignature  %s\nprotocol   %s\nresumed    %v\nFIPS       %s\n",
		tls.VersionName(n.Version), n.CipherSuite, orNone(n.Group), orNone(n.Signature), orNone(n.Protocol), n.Resumed, fips)
}
