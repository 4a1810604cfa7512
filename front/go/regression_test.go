package fipstls

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"
)

// One test for each defect of the package whose place this one takes, named by what went wrong there.

func TestBodyOverOneBufferIsNotTruncated(t *testing.T) {
	leavesNothing(t)
	h := goHTTPServer(t, false)
	client := h.client(t, func(base *http.Transport) { base.DisableCompression = true })
	if _, body := get(t, client, h.url+"/bytes/100000"); !bytes.Equal(body, pattern(100_000)) {
		t.Errorf("%d bytes of 100000", len(body))
	}
}

func TestIdleConnectionLivesOn(t *testing.T) {
	leavesNothing(t)
	h := goHTTPServer(t, false)
	client := h.client(t, nil)
	if _, body := get(t, client, h.url+"/slow/1500ms"); string(body) != "late" {
		t.Errorf("got %q", body)
	}
	time.Sleep(1500 * time.Millisecond)
	if _, body := get(t, client, h.url+"/bytes/10"); len(body) != 10 {
		t.Errorf("%d bytes", len(body))
	}
	if h.conns.Load() != 1 {
		t.Errorf("%d connections", h.conns.Load())
	}
}

func TestDialWorksAfterAFailedOne(t *testing.T) {
	leavesNothing(t)
	h := goHTTPServer(t, false)
	client := h.client(t, nil)
	if _, err := client.Get("https://localhost:1/"); err == nil {
		t.Fatal("port 1 answered")
	}
	dialer := &Dialer{Config: closing(t, &Config{CaPEM: h.ca.pem, ServerName: "other.test"})}
	if _, err := dialer.Dial("tcp", h.server.Listener.Addr().String()); err == nil {
		t.Fatal("a wrong name was accepted")
	}
	if _, body := get(t, client, h.url+"/bytes/10"); len(body) != 10 {
		t.Errorf("%d bytes", len(body))
	}
}

// Both directions of one connection at once, from different goroutines.
func TestFullDuplex(t *testing.T) {
	const size = 8 << 20
	for _, version := range []uint16{Version12, Version13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			leavesNothing(t)
			w := newWorld(t)
			for range 3 {
				clientConfig := w.clientConfig(t)
				clientConfig.MaxTLSVersion = version
				client, server := connected(t, clientConfig, w.serverConfig(t))
				duplex(t, client, server, size)
				client.Close()
				server.Close()
			}
		})
	}
}

// duplex sends size bytes each way at the same time. What fails ends the others.
func duplex(t testing.TB, a, b net.Conn, size int) {
	t.Helper()
	failed := func(format string, values ...any) {
		t.Errorf(format, values...)
		go a.Close()
		go b.Close()
	}
	data := pattern(1 << 16)
	var wg sync.WaitGroup
	for _, conn := range []net.Conn{a, b} {
		wg.Add(2)
		end := "one end"
		if own, ok := conn.(*Conn); ok {
			end = map[bool]string{false: "client", true: "server"}[own.server]
		}
		go func() {
			defer wg.Done()
			for sent := 0; sent < size; sent += len(data) {
				if _, err := conn.Write(data); err != nil {
					failed("%s: write: %v", end, err)
					return
				}
			}
		}()
		go func() {
			defer wg.Done()
			got := make([]byte, len(data))
			for received := 0; received < size; received += len(data) {
				if _, err := io.ReadFull(conn, got); err != nil {
					failed("%s: read after %d bytes: %v", end, received, err)
					return
				}
				if !bytes.Equal(got, data) {
					failed("%s: other bytes after %d", end, received)
					return
				}
			}
		}()
	}
	wg.Wait()
}

func TestReadDeadlineLosesNothing(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	client, server := connectedToGo(t, w.clientConfig(t), goServer(t, w))
	buf := make([]byte, 16)
	for i := range 20 {
		client.SetReadDeadline(time.Now().Add(3 * time.Millisecond))
		if n, err := client.Read(buf); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("%d bytes, %v", n, err)
		}
		client.SetReadDeadline(time.Time{})
		message := fmt.Sprintf("message %02d", i)
		if _, err := server.Write([]byte(message)); err != nil {
			t.Fatal(err)
		}
		n, err := io.ReadFull(client, buf[:len(message)])
		if err != nil || string(buf[:n]) != message {
			t.Fatalf("got %q, %v", buf[:n], err)
		}
	}
}

func TestSetReadDeadlineWakesABlockedRead(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	client, _ := connectedToGo(t, w.clientConfig(t), goServer(t, w))
	began := time.Now()
	time.AfterFunc(50*time.Millisecond, func() { client.SetReadDeadline(time.Now()) })
	_, err := client.Read(make([]byte, 1))
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() || time.Since(began) > 500*time.Millisecond {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}

func TestContextEndsAHandshake(t *testing.T) {
	leavesNothing(t)
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	dialer := &Dialer{Config: closing(t, &Config{InsecureSkipVerify: true})}
	began := time.Now()
	_, err = dialer.DialContext(ctx, "tcp", mute.Addr().String())
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 500*time.Millisecond {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}

// leavesNothing counts what fifty cancelled dials leave.
func TestCancelledDialsLeaveNothing(t *testing.T) {
	leavesNothing(t)
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	dialer := &Dialer{Config: closing(t, &Config{InsecureSkipVerify: true})}
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*time.Millisecond)
			defer cancel()
			if _, err := dialer.DialContext(ctx, "tcp", mute.Addr().String()); err == nil {
				t.Error("connected to a mute server")
			}
		}()
	}
	wg.Wait()
}

func TestOptionsReachTheWire(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	hasTicket := func(config *Config) bool {
		hello := clientHello(t, config)
		return bytes.Contains(hello, []byte{0, 35, 0, 0}) // session_ticket, empty
	}
	with, without := w.clientConfig(t), w.clientConfig(t)
	with.MaxTLSVersion, without.MaxTLSVersion = Version12, Version12
	without.SessionTicketsDisabled = true
	if !hasTicket(with) {
		t.Error("no session_ticket in the ClientHello by default")
	}
	if hasTicket(without) {
		t.Error("session_ticket in the ClientHello in spite of SessionTicketsDisabled")
	}
}

// clientHello returns a client's first flight.
func clientHello(t *testing.T, config *Config) []byte {
	t.Helper()
	a, b := net.Pipe()
	client := Client(a, config)
	done := make(chan error, 1)
	go func() { done <- client.Handshake() }()
	hello := make([]byte, 16<<10)
	n, err := b.Read(hello)
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	if err := <-done; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a handshake that was cut off: %v", err)
	}
	client.Close()
	return hello[:n]
}

func TestFIPSFailsClosed(t *testing.T) {
	leavesNothing(t)
	if FIPSAvailable("") == nil {
		t.Skip("FIPS is available here; TestFIPS covers it")
	}
	w := newWorld(t)
	config := w.clientConfig(t)
	config.FIPSRequired = true
	if err := config.Check(); !errors.Is(err, ErrFIPSUnavailable) {
		t.Errorf("Check: %v", err)
	}
	if _, err := NewTransport(config); !errors.Is(err, ErrFIPSUnavailable) {
		t.Errorf("NewTransport: %v", err)
	}
	h := goHTTPServer(t, false)
	if _, err := NewClient(config).Get(h.url); !errors.Is(err, ErrFIPSUnavailable) {
		t.Errorf("Get: %v", err)
	}
	if h.conns.Load() != 0 {
		t.Error("a connection was made")
	}
}

func TestTruncationIsNotAnEnd(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	for name, end := range map[string]func(*tls.Conn){
		"close_notify": func(server *tls.Conn) { server.Close() },
		"cut off":      func(server *tls.Conn) { server.NetConn().Close() },
	} {
		client, server := connectedToGo(t, w.clientConfig(t), goServer(t, w))
		if _, err := server.Write([]byte("last words")); err != nil {
			t.Fatal(err)
		}
		end(server)
		got, err := io.ReadAll(client)
		wanted := map[string]error{"close_notify": nil, "cut off": io.ErrUnexpectedEOF}[name]
		if string(got) != "last words" || !errors.Is(err, wanted) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		client.Close()
	}
}

func TestAlertsAreTyped(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	serverConfig := goServer(t, w)
	serverConfig.ClientAuth = tls.RequireAndVerifyClientCert
	serverConfig.ClientCAs = x509.NewCertPool()
	serverConfig.MaxVersion = tls.VersionTLS12
	a, b := socketPair(t)
	client, server := Client(a, w.clientConfig(t)), tls.Server(b, serverConfig)
	clientErr, _ := shakeHands(client, server)
	client.Close()
	var alert AlertError
	if !errors.As(clientErr, &alert) {
		t.Fatalf("%T %v", clientErr, clientErr)
	}
	var ours *Error
	if !errors.As(clientErr, &ours) || ours.Code == 0 || ours.Op != "handshake" {
		t.Errorf("%+v", clientErr)
	}
	// bad_certificate or handshake_failure, by the version of Go.
	if alert != 42 && alert != 40 && alert != 116 {
		t.Errorf("alert %d: %v", uint8(alert), clientErr)
	}
}

// A connection and a configuration that nobody closes are freed by the garbage collector.
func TestGarbageIsFreed(t *testing.T) {
	before, _, _ := counters()
	func() {
		w := newWorld(t)
		config := &Config{CaPEM: w.ca.pem, ServerName: "localhost"}
		a, b := socketPair(t)
		client, server := Client(a, config), tls.Server(b, goServer(t, w))
		if clientErr, serverErr := shakeHands(client, server); clientErr != nil || serverErr != nil {
			t.Fatal(clientErr, serverErr)
		}
		if now, _, _ := counters(); now != before+1 {
			t.Fatalf("%d connections, %d before", now, before)
		}
	}()
	for range 100 {
		runtime.GC()
		if now, _, _ := counters(); now <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the connection is still there")
}
