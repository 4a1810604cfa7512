// One side of a TLS 1.3 connection for tests/interop/tls.sh, over crypto/tls.
//
//	peer server PORT CERT KEY     answers connections one after another
//	peer client PORT CA GROUP     sends a line and prints the first line of the answer
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"time"
)

var groups = map[string]tls.CurveID{
	"X25519MLKEM768":     tls.X25519MLKEM768,
	"SecP256r1MLKEM768":  tls.SecP256r1MLKEM768,
	"SecP384r1MLKEM1024": tls.SecP384r1MLKEM1024,
}

func server(port, cert, key string) error {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return err
	}
	config := &tls.Config{
		Certificates:           []tls.Certificate{pair},
		MinVersion:             tls.VersionTLS13,
		SessionTicketsDisabled: true,
	}
	for _, group := range groups {
		config.CurvePreferences = append(config.CurvePreferences, group)
	}
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

func client(port, ca, name string) error {
	group, ok := groups[name]
	if !ok {
		return fmt.Errorf("no group %q", name)
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	dialer := &net.Dialer{Timeout: 20 * time.Second}
	conn, err := tls.DialWithDialer(dialer, "tcp", "127.0.0.1:"+port, &tls.Config{
		RootCAs:          roots,
		ServerName:       "localhost",
		MinVersion:       tls.VersionTLS13,
		CurvePreferences: []tls.CurveID{group},
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	if conn.ConnectionState().CurveID != group {
		return fmt.Errorf("negotiated %v", conn.ConnectionState().CurveID)
	}
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintln(conn, "hello")
	line, err := bufio.NewReader(conn).ReadString('\n')
	fmt.Print(line)
	return err
}

func main() {
	var err error
	switch {
	case len(os.Args) == 5 && os.Args[1] == "server":
		err = server(os.Args[2], os.Args[3], os.Args[4])
	case len(os.Args) == 5 && os.Args[1] == "client":
		err = client(os.Args[2], os.Args[3], os.Args[4])
	default:
		err = fmt.Errorf("expected peer server PORT CERT KEY, or peer client PORT CA GROUP")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
