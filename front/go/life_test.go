package fipstls

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// Every state is entered from where the table of Conn says, and from nowhere else.
func TestStatesMoveAsTheTableSays(t *testing.T) {
	states := []connState{stateHandshaking, stateOpen, stateClosing, stateClosed}
	for _, from := range states {
		for _, to := range states {
			c := &Conn{state: from}
			moved := c.move(to)
			if wanted := slices.Contains(moves[to], from); moved != wanted || moved && c.state != to || !moved && c.state != from {
				t.Errorf("from %d to %d: moved %v, now %d", from, to, moved, c.state)
			}
		}
	}
}

// slowWrite holds up one write.
type slowWrite struct {
	net.Conn
	count, slow int
	began       chan struct{}
	wait        time.Duration
}

func (s *slowWrite) Write(b []byte) (int, error) {
	if s.count++; s.count == s.slow {
		close(s.began)
		time.Sleep(s.wait)
	}
	return s.Conn.Write(b)
}

// A Read that begins while the last flight is still being written waits for it: the input buffer
// belongs to the handshake until then.
func TestReadDuringTheLastFlight(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	a, b := socketPair(t)
	slow := &slowWrite{Conn: a, slow: 2, began: make(chan struct{}), wait: 50 * time.Millisecond}
	client, server := Client(slow, w.clientConfig(t)), tls.Server(b, goServer(t, w))
	defer client.Close()
	served := make(chan error, 1)
	go func() { _, err := io.WriteString(server, "hello"); served <- err }()
	go client.Handshake()
	<-slow.began
	if client.ConnectionState().HandshakeComplete {
		t.Error("the handshake is complete before its last flight was sent")
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(client, got); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// A peer that says nothing holds up neither Close nor http.Client's timeout, whatever was read before.
func TestCloseBesideASilentPeer(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	for _, version := range []uint16{Version12, Version13} {
		config := w.clientConfig(t)
		config.MaxTLSVersion = version
		serverConfig := goServer(t, w)
		serverConfig.SessionTicketsDisabled = true
		client, _ := connectedToGo(t, config, serverConfig)
		ended := make(chan error, 1)
		go func() { _, err := client.Read(make([]byte, 1)); ended <- err }()
		time.Sleep(20 * time.Millisecond)
		began := time.Now()
		if err := client.Close(); err != nil || time.Since(began) > time.Second {
			t.Errorf("Close: %v after %s", err, time.Since(began))
		}
		if err := <-ended; err == nil {
			t.Error("Read ended without an error")
		}
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", goServer(t, w))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { io.Copy(io.Discard, conn); conn.Close() }()
		}
	}()
	client := NewClient(w.clientConfig(t))
	client.Timeout = 100 * time.Millisecond
	began := time.Now()
	if _, err := client.Get("https://" + listener.Addr().String()); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 2*time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
	client.Transport.(interface{ CloseIdleConnections() }).CloseIdleConnections()
}

// stubborn is a net.Conn that keeps no deadline and takes no more after a while.
type stubborn struct {
	net.Conn
	mu     sync.Mutex
	stuck  bool
	closed chan struct{}
	once   sync.Once
}

func (s *stubborn) SetDeadline(time.Time) error      { return nil }
func (s *stubborn) SetReadDeadline(time.Time) error  { return nil }
func (s *stubborn) SetWriteDeadline(time.Time) error { return nil }
func (s *stubborn) Close() error                     { s.once.Do(func() { close(s.closed) }); return s.Conn.Close() }
func (s *stubborn) Write(b []byte) (int, error) {
	s.mu.Lock()
	stuck := s.stuck
	s.mu.Unlock()
	if stuck {
		<-s.closed
		return 0, net.ErrClosed
	}
	return s.Conn.Write(b)
}

func TestCloseOverANetConnWithoutDeadlines(t *testing.T) {
	t.Parallel() // it waits for closeWait
	w := newWorld(t)
	a, b := socketPair(t)
	conn := &stubborn{Conn: a, closed: make(chan struct{})}
	client, server := Client(conn, w.clientConfig(t)), tls.Server(b, goServer(t, w))
	if clientErr, serverErr := shakeHands(client, server); clientErr != nil || serverErr != nil {
		t.Fatal(clientErr, serverErr)
	}
	conn.mu.Lock()
	conn.stuck = true
	conn.mu.Unlock()
	began := time.Now()
	client.Close()
	if took := time.Since(began); took > closeWait+3*time.Second {
		t.Errorf("Close took %s", took)
	}
}

// A second handshake, after a deadline, beside Close: one of them is first.
func TestHandshakeAgainBesideClose(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	for range 20 {
		a, _ := socketPair(t)
		client := Client(a, w.clientConfigShared(t))
		client.SetDeadline(time.Now().Add(time.Millisecond))
		client.Handshake()
		client.SetDeadline(time.Time{})
		var wg sync.WaitGroup
		wg.Go(func() { client.Handshake() })
		wg.Go(func() { client.Close() })
		wg.Wait()
	}
}

// A Write that has to read for a renegotiation still ends with the write deadline.
func TestWriteDeadlineDuringARenegotiation(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	config, serverConfig := w.clientConfig(t), w.serverConfig(t)
	config.MaxTLSVersion, config.Renegotiation, serverConfig.Renegotiation = Version12, true, true
	client, server := connected(t, config, serverConfig)
	exchange(t, client, server)
	server.mu.Lock()
	server.native.renegotiate()
	server.step(opHandshake, nil, nil)
	server.sendLocked()
	server.mu.Unlock()
	// The client begins, and the server says nothing more.
	client.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	client.Read(make([]byte, 1))
	client.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	began := time.Now()
	if n, err := client.Write([]byte("hello")); n != 0 || !isTimeout(err) || time.Since(began) > time.Second {
		t.Errorf("%d bytes, %v after %s", n, err, time.Since(began))
	}
}

// stuckWriter takes nothing until it is let go.
type stuckWriter struct{ began, let chan struct{} }

func (s stuckWriter) Write(b []byte) (int, error) {
	s.began <- struct{}{}
	<-s.let
	return len(b), nil
}

// A key log that blocks holds up handshakes, and neither Close nor the deadlines of anybody.
func TestCloseBesideAKeyLogThatBlocks(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	for _, version := range []uint16{Version12, Version13} {
		for _, server := range []bool{false, true} {
			log := stuckWriter{make(chan struct{}, 8), make(chan struct{})}
			config, serverConfig := w.clientConfig(t), w.serverConfig(t)
			config.MaxTLSVersion = version
			logs := config
			if server {
				logs = serverConfig
			}
			logs.KeyLogWriter = log
			a, b := socketPair(t)
			ends := []*Conn{Client(a, config), Server(b, serverConfig)}
			handshakes := make(chan error, 2)
			for _, end := range ends {
				go func() { handshakes <- end.Handshake() }()
			}
			<-log.began
			for _, end := range ends {
				closed := make(chan error, 1)
				go func() { closed <- end.Close() }()
				select {
				case err := <-closed:
					if err != nil {
						t.Error(err)
					}
				case <-time.After(2 * time.Second):
					t.Errorf("%#x, server %v: Close waits for the key log", version, server)
				}
			}
			close(log.let)
			<-handshakes
			<-handshakes
		}
	}
}

// During a renegotiation a Write keeps 1 MiB of what the peer sends, and gives a Read a while to come: one
// processor may be too busy to run it. Without a Read it gives up.
func TestWriteKeepsDataForARead(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	const size = 2 << 20
	for _, reads := range []bool{true, false} {
		config, serverConfig := w.clientConfig(t), w.serverConfig(t)
		config.MaxTLSVersion, config.Renegotiation, serverConfig.Renegotiation = Version12, true, true
		client, server := connected(t, config, serverConfig)
		exchange(t, client, server)
		server.mu.Lock()
		server.native.renegotiate()
		server.mu.Unlock()
		served := make(chan error, 1)
		go func() {
			_, err := server.Write(pattern(size))
			if err == nil {
				_, err = io.ReadFull(server, make([]byte, 5))
			}
			served <- err
		}()
		if _, err := io.ReadFull(client, make([]byte, 1)); err != nil { // behind the HelloRequest
			t.Fatal(err)
		}
		read := make(chan error, 1)
		if reads {
			time.AfterFunc(300*time.Millisecond, func() {
				_, err := io.ReadFull(client, make([]byte, size-1))
				read <- err
			})
		}
		_, err := client.Write([]byte("hello"))
		if reads && err != nil || !reads && !errors.Is(err, errStash) {
			t.Errorf("a Read comes: %v; Write: %v", reads, err)
		}
		if !reads || err != nil {
			client.Close()
		}
		if err := <-served; reads && err != nil {
			t.Error(err)
		}
		if reads {
			if err := <-read; err != nil {
				t.Error(err)
			}
		}
	}
}
