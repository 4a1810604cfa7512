// One side of a TLS 1.3 connection for tests/interop/tls.sh, over crypto/tls.
//
//	peer server PORT CERT KEY GROUPS [CA]     answers connections one after another; asks for a certificate
//	                                          that CA has signed
//	peer client PORT CA GROUPS [CERT KEY]     sends a line and prints the first line of the answer
//
// GROUPS is a list with colons, whose order is crypto/tls's own, not the list's.
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

var known = map[string]tls.CurveID{
	"X25519MLKEM768":     tls.X25519MLKEM768,
	"SecP256r1MLKEM768":  tls.SecP256r1MLKEM768,
	"SecP384r1MLKEM1024": tls.SecP384r1MLKEM1024,
}

func configuration(groups string) (*tls.Config, error) {
	config := &tls.Config{
		ServerName:             "localhost",
		MinVersion:             tls.VersionTLS13,
		SessionTicketsDisabled: true,
	}
	for _, name := range strings.Split(groups, ":") {
		group, ok := known[name]
		if !ok {
			return nil, fmt.Errorf("no group %q", name)
		}
		config.CurvePreferences = append(config.CurvePreferences, group)
	}
	return config, nil
}

func prove(config *tls.Config, cert, key string) error {
	pair, err := tls.LoadX509KeyPair(cert, key)
	config.Certificates = []tls.Certificate{pair}
	return err
}

func roots(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	pool := x509.NewCertPool()
	if err == nil && !pool.AppendCertsFromPEM(pem) {
		err = fmt.Errorf("no certificate in %s", file)
	}
	return pool, err
}

func server(port string, config *tls.Config) error {
	listener, err := tls.Listen("tcp", "127.0.0.1:"+port, config)
	if err != nil {
		return err
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		if line, err := bufio.NewReader(conn).ReadString('\n'); err == nil {
			fmt.Fprint(conn, line)
		} else {
			fmt.Fprintln(os.Stderr, err)
		}
		conn.Close()
	}
}

func client(port string, config *tls.Config) error {
	dialer := &net.Dialer{Timeout: 20 * time.Second}
	conn, err := tls.DialWithDialer(dialer, "tcp", "127.0.0.1:"+port, config)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintln(conn, "hello")
	line, err := bufio.NewReader(conn).ReadString('\n')
	fmt.Print(line)
	return err
}

func run(arguments []string) error {
	expected := fmt.Errorf("expected peer server PORT CERT KEY GROUPS [CA], or peer client PORT CA GROUPS [CERT KEY]")
	if len(arguments) < 4 {
		return expected
	}
	switch n := len(arguments); {
	case arguments[0] == "server" && (n == 5 || n == 6):
		config, err := configuration(arguments[4])
		if err == nil {
			err = prove(config, arguments[2], arguments[3])
		}
		if err == nil && n == 6 {
			config.ClientAuth = tls.RequireAndVerifyClientCert
			config.ClientCAs, err = roots(arguments[5])
		}
		if err != nil {
			return err
		}
		return server(arguments[1], config)
	case arguments[0] == "client" && (n == 4 || n == 6):
		config, err := configuration(arguments[3])
		if err == nil {
			config.RootCAs, err = roots(arguments[2])
		}
		if err == nil && n == 6 {
			err = prove(config, arguments[4], arguments[5])
		}
		if err != nil {
			return err
		}
		return client(arguments[1], config)
	}
	return expected
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
