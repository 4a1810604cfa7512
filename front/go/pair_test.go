package fipstls

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// socketPair returns the two ends of a TCP connection over loopback.
func socketPair(t testing.TB) (client, server net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		conn, _ := listener.Accept()
		accepted <- conn
	}()
	client, err = net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server = <-accepted
	if server == nil {
		t.Fatal("nothing was accepted")
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// shakeHands runs both handshakes and returns their errors.
func shakeHands(client, server interface{ Handshake() error }) (clientErr, serverErr error) {
	done := make(chan error, 1)
	go func() { done <- server.Handshake() }()
	clientErr = client.Handshake()
	if clientErr != nil {
		// A client that refuses leaves a server waiting.
		if conn, ok := client.(net.Conn); ok {
			conn.Close()
		}
	}
	select {
	case serverErr = <-done:
	case <-time.After(10 * time.Second):
		serverErr = errors.New("the server's handshake does not end")
	}
	return clientErr, serverErr
}

// connected returns two ends of ours with the handshake done.
func connected(t testing.TB, clientConfig, serverConfig *Config) (client, server *Conn) {
	t.Helper()
	a, b := socketPair(t)
	client, server = Client(a, clientConfig), Server(b, serverConfig)
	t.Cleanup(func() { client.Close(); server.Close() })
	if clientErr, serverErr := shakeHands(client, server); clientErr != nil || serverErr != nil {
		t.Fatalf("client: %v; server: %v", clientErr, serverErr)
	}
	return client, server
}

// connectedToGo returns a client of ours and a server of crypto/tls.
func connectedToGo(t testing.TB, clientConfig *Config, serverConfig *tls.Config) (*Conn, *tls.Conn) {
	t.Helper()
	a, b := socketPair(t)
	client, server := Client(a, clientConfig), tls.Server(b, serverConfig)
	t.Cleanup(func() { client.Close(); server.Close() })
	if clientErr, serverErr := shakeHands(client, server); clientErr != nil || serverErr != nil {
		t.Fatalf("client: %v; server: %v", clientErr, serverErr)
	}
	return client, server
}

// exchange sends a message each way.
func exchange(t testing.TB, a, b net.Conn) {
	t.Helper()
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		if _, err := pair[0].Write([]byte("ping")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 4)
		if _, err := io.ReadFull(pair[1], got); err != nil || string(got) != "ping" {
			t.Fatalf("got %q, %v", got, err)
		}
	}
}
