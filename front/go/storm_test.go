package fipstls

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// limited is a net.Conn that moves few bytes at a time, and can be stopped after some.
type limited struct {
	net.Conn
	read, write int          // at most so many bytes a call; 0 is all
	left        atomic.Int64 // bytes that may still be read, if limit is set
	limit       bool
}

func (l *limited) Read(b []byte) (int, error) {
	if l.read > 0 && len(b) > l.read {
		b = b[:l.read]
	}
	if l.limit {
		if l.left.Load() <= 0 {
			untilClosed(l.Conn) // as a peer that says nothing more
			return 0, net.ErrClosed
		}
		if left := l.left.Load(); int64(len(b)) > left {
			b = b[:left]
		}
	}
	n, err := l.Conn.Read(b)
	l.left.Add(-int64(n))
	return n, err
}

// untilClosed waits until the connection is closed.
func untilClosed(conn net.Conn) {
	for err := error(nil); err == nil; {
		_, err = conn.Read(make([]byte, 1))
	}
}

func (l *limited) Write(b []byte) (int, error) {
	if l.write == 0 {
		return l.Conn.Write(b)
	}
	written := 0
	for written < len(b) {
		n, err := l.Conn.Write(b[written:min(written+l.write, len(b))])
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// over makes the two ends over wrapped sockets.
func over(t *testing.T, clientConfig, serverConfig *Config, wrap func(net.Conn) net.Conn) (*Conn, *Conn) {
	t.Helper()
	a, b := socketPair(t)
	client, server := Client(wrap(a), clientConfig), Server(wrap(b), serverConfig)
	t.Cleanup(func() { client.Close(); server.Close() })
	if clientErr, serverErr := shakeHands(client, server); clientErr != nil || serverErr != nil {
		t.Fatalf("client: %v; server: %v", clientErr, serverErr)
	}
	return client, server
}

func TestOneByteAtATime(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	for _, version := range []uint16{Version12, Version13} {
		config := w.clientConfig(t)
		config.MaxTLSVersion = version
		client, server := over(t, config, w.serverConfig(t), func(conn net.Conn) net.Conn {
			return &limited{Conn: conn, read: 1, write: 1}
		})
		exchange(t, client, server)
		go client.Write(pattern(20_000))
		got := make([]byte, 20_000)
		one := make([]byte, 1)
		for i := range got { // and plaintext byte by byte too
			if _, err := io.ReadFull(server, one); err != nil {
				t.Fatal(err)
			}
			got[i] = one[0]
		}
		if !bytes.Equal(got, pattern(20_000)) {
			t.Error("other bytes")
		}
	}
}

func TestTinySocketBuffers(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	client, server := over(t, w.clientConfig(t), w.serverConfig(t), func(conn net.Conn) net.Conn {
		conn.(*net.TCPConn).SetReadBuffer(8192)
		conn.(*net.TCPConn).SetWriteBuffer(2048)
		return conn
	})
	duplex(t, client, server, 1<<18)
}

// New keys while both directions are full: neither end may stop reading in order to answer.
func TestKeyUpdateStorm(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	client, server := connected(t, w.clientConfig(t), w.serverConfig(t))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var updates atomic.Int64
	for _, conn := range []*Conn{client, server} {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := conn.KeyUpdate(true); err != nil {
					t.Errorf("KeyUpdate: %v", err)
					return
				}
				updates.Add(1)
				time.Sleep(time.Millisecond)
			}
		}()
	}
	duplex(t, client, server, 16<<20)
	close(stop)
	wg.Wait()
	if updates.Load() < 4 {
		t.Errorf("only %d key updates", updates.Load())
	}
}

// The answer to a KeyUpdate can't be sent while the peer does not read: a Read that makes it must go
// on reading all the same.
func TestKeyUpdateAnswerDoesNotBlockReading(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	client, server := connected(t, w.clientConfig(t), w.serverConfig(t))
	// Fill the way from client to server, which does not read.
	client.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	for err := error(nil); err == nil; {
		_, err = client.Write(pattern(1 << 16))
	}
	client.SetWriteDeadline(time.Time{})
	if err := server.KeyUpdate(true); err != nil {
		t.Fatal(err)
	}
	go server.Write(pattern(1 << 20))
	client.SetReadDeadline(time.Now().Add(5 * time.Second))
	got := make([]byte, 1<<20)
	if n, err := io.ReadFull(client, got); err != nil || !bytes.Equal(got, pattern(1<<20)) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// A TLS 1.2 server asks for renegotiation while the client reads, writes, or does both.
func TestRenegotiation(t *testing.T) {
	w := newWorld(t)
	for name, allowed := range map[string]bool{"allowed": true, "refused": false} {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			config, serverConfig := w.clientConfig(t), w.serverConfig(t)
			config.MaxTLSVersion, config.Renegotiation, serverConfig.Renegotiation = Version12, allowed, true
			client, server := connected(t, config, serverConfig)
			server.mu.Lock()
			if !server.native.renegotiate() {
				t.Fatal("libssl does not renegotiate")
			}
			server.mu.Unlock()
			// The request goes out with the next write; the answer is read by Read.
			go func() {
				server.Write([]byte("ping"))
				io.Copy(io.Discard, server)
			}()
			got := make([]byte, 4)
			client.SetDeadline(time.Now().Add(5 * time.Second))
			n, err := io.ReadFull(client, got)
			if allowed && (err != nil || string(got[:n]) != "ping") {
				t.Errorf("got %q, %v", got[:n], err)
			}
			if !allowed && err == nil && string(got) != "ping" {
				t.Errorf("got %q", got)
			}
			if allowed {
				if _, err := client.Write(pattern(100_000)); err != nil {
					t.Errorf("write after it: %v", err)
				}
			}
		})
	}
}

// Renegotiation again and again while both directions are full, at the wish of either end.
func TestRenegotiationStorm(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"client", "server"} {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			var keys lineCounter // libssl logs one line for each full handshake of TLS 1.2
			config, serverConfig := w.clientConfig(t), w.serverConfig(t)
			config.MaxTLSVersion, config.Renegotiation, serverConfig.Renegotiation = Version12, true, true
			config.KeyLogWriter = &keys
			client, server := connected(t, config, serverConfig)
			wishes := map[string]*Conn{"client": client, "server": server}[name]
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				for {
					wishes.mu.Lock()
					wishes.native.renegotiate() // refused while the last one runs
					wishes.mu.Unlock()
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
					}
				}
			}()
			for range 20 {
				duplex(t, client, server, 4<<20)
				if t.Failed() || keys.lines.Load() > 10 {
					break
				}
			}
			close(stop)
			<-stopped
			if keys.lines.Load() <= 10 {
				t.Errorf("only %d handshakes", keys.lines.Load())
			}
		})
	}
}

// lineCounter counts the lines that are written to it.
type lineCounter struct{ lines atomic.Int64 }

func (l *lineCounter) Write(b []byte) (int, error) {
	l.lines.Add(int64(bytes.Count(b, []byte("\n"))))
	return len(b), nil
}

// The context ends before each byte of what the server says.
func TestCancellationAtEachFlight(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	config := closing(t, &Config{CaPEM: w.ca.pem, ServerName: "localhost", SessionCacheDisabled: true})
	serverConfig := goServer(t, w)
	for _, left := range []int64{0, 1, 5, 90, 130, 500, 700} {
		a, b := socketPair(t)
		cut := &limited{Conn: a, limit: true}
		cut.left.Store(left)
		client, server := Client(cut, config), tls.Server(b, serverConfig)
		done := make(chan struct{})
		go func() { server.Handshake(); close(done) }()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		began := time.Now()
		err := client.HandshakeContext(ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > time.Second {
			t.Errorf("after %d bytes and %s: %v", left, time.Since(began), err)
		}
		if again := client.Handshake(); again == nil {
			t.Error("the handshake succeeds afterwards")
		}
		client.Close()
		<-done
		server.Close()
	}
}

func TestHandshakeGoesOnAfterADeadline(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	a, b := socketPair(t)
	client := Client(a, w.clientConfig(t))
	client.SetDeadline(time.Now().Add(20 * time.Millisecond))
	if err := client.Handshake(); !isTimeout(err) {
		t.Fatalf("got %v", err)
	}
	client.SetDeadline(time.Time{})
	server := tls.Server(b, goServer(t, w))
	if clientErr, serverErr := shakeHands(client, server); clientErr != nil || serverErr != nil {
		t.Fatal(clientErr, serverErr)
	}
	exchange(t, client, server)
	client.Close()
}

func TestHalfClose(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	for _, version := range []uint16{Version12, Version13} {
		config := w.clientConfig(t)
		config.MaxTLSVersion = version
		client, server := connected(t, config, w.serverConfig(t))
		if _, err := client.Write([]byte("question")); err != nil {
			t.Fatal(err)
		}
		if err := client.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(server); err != nil || string(got) != "question" {
			t.Errorf("%q, %v", got, err)
		}
		if _, err := client.Write([]byte("more")); err == nil {
			t.Error("Write after CloseWrite")
		}
		if _, err := server.Write(pattern(100_000)); err != nil {
			t.Errorf("%x: answer: %v", version, err)
		}
		server.Close()
		if got, err := io.ReadAll(client); err != nil || !bytes.Equal(got, pattern(100_000)) {
			t.Errorf("%x: %d bytes, %v", version, len(got), err)
		}
	}
}

func TestCloseWakesEveryone(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	client, _ := connected(t, w.clientConfig(t), w.serverConfig(t))
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(2)
		go func() {
			defer wg.Done()
			if _, err := client.Read(make([]byte, 1)); err == nil {
				t.Error("Read ended without an error")
			}
		}()
		go func() {
			defer wg.Done()
			for err := error(nil); err == nil; {
				_, err = client.Write(pattern(1 << 16))
			}
		}()
	}
	time.Sleep(50 * time.Millisecond)
	began := time.Now()
	client.Close()
	wg.Wait()
	if time.Since(began) > time.Second {
		t.Errorf("after %s", time.Since(began))
	}
	if err := client.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
}

// What a peer may send instead of TLS.
func TestGarbageFromThePeer(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	for _, garbage := range [][]byte{
		[]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), bytes.Repeat([]byte{0}, 100),
		{0x15, 3, 3, 0, 2, 2, 40}, {0x16, 3, 3, 0xFF, 0xFF}, {},
	} {
		a, b := socketPair(t)
		client := Client(a, w.clientConfig(t))
		go func() {
			b.Write(garbage)
			b.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, b)
		}()
		if err := client.Handshake(); err == nil {
			t.Errorf("%q is a handshake", garbage)
		} else if first := client.Handshake(); first.Error() != err.Error() {
			t.Errorf("the second time: %v, the first: %v", first, err)
		}
		client.Close()
	}
}

// Connections come and go; what they leave is counted by leavesNothing.
func TestManyConnections(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	config, serverConfig := w.clientConfig(t), w.serverConfig(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 25 {
				a, b := socketPair(t)
				client, server := Client(a, config), Server(b, serverConfig)
				go func() { io.Copy(server, server); server.Close() }()
				client.Write([]byte("hello"))
				got := make([]byte, 5)
				if _, err := io.ReadFull(client, got); err != nil || string(got) != "hello" {
					t.Errorf("%q, %v", got, err)
				}
				client.Close()
			}
		}()
	}
	wg.Wait()
}
