// A client of HTTP as it is written for github.com/aristanetworks/go-openssl-fips at its last commit: every
// setting and option that a client of it can have and that is one here.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/aristanetworks/go-openssl-fips/fipstls"
)

const target, ca = "https://example.com", "/path/to/cert.pem"

func main() {
	if err := fipstls.Init(""); err != nil {
		log.Fatal(err)
	}
	fmt.Fprintln(os.Stderr, fipstls.Version(), fipstls.ProviderInfo(), fipstls.FIPSMode())
	config := &fipstls.Config{
		CaFile: ca, ServerName: "localhost", MinTLSVersion: fipstls.Version12, MaxTLSVersion: fipstls.Version13,
		SessionTicketsDisabled: true, SessionCacheDisabled: true,
	}
	options := []fipstls.DialOption{
		fipstls.WithTimeout(10 * time.Second), fipstls.WithDeadline(time.Now().Add(time.Minute)),
		fipstls.WithNetwork("tcp4"), fipstls.WithLogging(fipstls.LogLevelInfo, os.Stderr),
	}
	for _, client := range []*http.Client{
		fipstls.NewClient(config, options...),
		{Transport: &fipstls.Transport{
			Dialer:             fipstls.NewDialer(config, options...),
			DisableCompression: true,
			SetHeader:          func(header *http.Header) { header.Set("User-Agent", "foo") },
		}},
		{Transport: &fipstls.Transport{}},
	} {
		response, err := client.Get(target)
		if err != nil {
			log.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || len(body) == 0 {
			log.Fatal(len(body), err)
		}
	}
	dial(config, options)
}

// dial talks over a connection of one's own.
func dial(config *fipstls.Config, options []fipstls.DialOption) {
	at, err := url.Parse(target)
	if err != nil {
		log.Fatal(err)
	}
	conn, err := fipstls.NewDialer(config, options...).DialContext(context.Background(), "tcp", at.Host)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
	if answer, err := io.ReadAll(conn); err != nil || len(answer) == 0 {
		log.Fatal(len(answer), err)
	}
}
