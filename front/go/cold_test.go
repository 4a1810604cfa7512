package fipstls

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Requests to a host whose protocol is unknown: none waits for another one's connection alone.

// gate is a listener that hands a test each connection before the server gets it, if the test lets it pass.
type gate struct {
	net.Listener
	arrived chan net.Conn // what was accepted
	passed  chan net.Conn // what the server gets
	closed  chan struct{}
	once    sync.Once
}

func newGate(t testing.TB) *gate {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{Listener: inner, arrived: make(chan net.Conn, 1000), passed: make(chan net.Conn, 1000), closed: make(chan struct{})}
	go func() {
		for {
			conn, err := inner.Accept()
			if err != nil {
				return
			}
			g.arrived <- conn
		}
	}()
	return g
}

func (g *gate) Accept() (net.Conn, error) {
	select {
	case conn := <-g.passed:
		return conn, nil
	case <-g.closed:
		return nil, net.ErrClosed
	}
}

func (g *gate) Close() error {
	g.once.Do(func() { close(g.closed) })
	return g.Listener.Close()
}

// next is the next connection of a client; the test fails if none comes.
func (g *gate) next(t testing.TB) net.Conn {
	t.Helper()
	select {
	case conn := <-g.arrived:
		return conn
	case <-time.After(20 * time.Second):
		t.Fatal("no further connection is made")
		return nil
	}
}

// gated is a server of crypto/tls behind a gate. Requests for /held wait until the test ends or frees them.
func gated(t testing.TB, http2 bool) (h *httpWorld, g *gate, held chan struct{}) {
	w, g := newWorld(t), newGate(t)
	held = make(chan struct{})
	mux := http.NewServeMux()
	mux.Handle("/", testHandler())
	mux.HandleFunc("/held", func(rw http.ResponseWriter, r *http.Request) {
		select {
		case <-held:
		case <-r.Context().Done():
		}
		io.WriteString(rw, "late")
	})
	config := goServer(t, w)
	config.NextProtos = []string{"http/1.1"}
	if http2 {
		config.NextProtos = []string{"h2"}
	}
	server := &http.Server{Handler: mux, TLSConfig: config, ErrorLog: discardLog}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(g, "", "") }()
	t.Cleanup(func() { server.Close(); <-ended })
	return &httpWorld{w, urlOf(g.Addr()), nil, nil}, g, held
}

// coldClient never gives up on a handshake by itself.
func (h *httpWorld) coldClient(t testing.TB, change func(*http.Transport)) *http.Client {
	return h.client(t, func(base *http.Transport) {
		base.TLSHandshakeTimeout = 0
		if change != nil {
			change(base)
		}
	})
}

// begin sends a request; its error comes later.
func begin(client *http.Client, url string) <-chan error {
	result := make(chan error, 1)
	go func() {
		response, err := client.Get(url)
		if err == nil {
			_, err = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
		result <- err
	}()
	return result
}

func everyProtocol(t *testing.T, run func(t *testing.T, http2 bool)) {
	for _, http2 := range []bool{false, true} {
		t.Run(map[bool]string{false: "HTTP1", true: "HTTP2"}[http2], func(t *testing.T) {
			leavesNothing(t)
			run(t, http2)
		})
	}
}

func TestColdRequestsDialAtOnce(t *testing.T) {
	everyProtocol(t, func(t *testing.T, http2 bool) {
		h, g, _ := gated(t, http2)
		client := h.coldClient(t, nil)
		var results []<-chan error
		var conns []net.Conn
		for range 6 { // none is answered before all are there
			results = append(results, begin(client, h.url+"/bytes/1"))
			conns = append(conns, g.next(t))
		}
		conns[0].Close()
		if err := <-results[0]; err == nil {
			t.Error("a request succeeds whose connection was closed")
		}
		for _, conn := range conns[1:] {
			g.passed <- conn
		}
		for i, result := range results[1:] {
			if err := <-result; err != nil {
				t.Errorf("request %d: %v", i+1, err)
			}
		}
	})
}

// A host that says nothing holds up nobody whose connection is answered, and the request that waits for it
// is sent by another one's connection.
func TestMuteConnectionHoldsNobodyUp(t *testing.T) {
	everyProtocol(t, func(t *testing.T, http2 bool) {
		h, g, _ := gated(t, http2)
		client := h.coldClient(t, nil)
		first := begin(client, h.url+"/bytes/1")
		mute := g.next(t)
		defer mute.Close()
		second := begin(client, h.url+"/bytes/1")
		g.passed <- g.next(t)
		for i, result := range []<-chan error{first, second} {
			if err := <-result; err != nil {
				t.Errorf("request %d: %v", i, err)
			}
		}
	})
}

// The request's own connection serves it when it comes after all, and no other is free.
func TestSlowConnectionIsUsed(t *testing.T) {
	leavesNothing(t)
	h, g, held := gated(t, false)
	client := h.coldClient(t, nil)
	first := begin(client, h.url+"/bytes/1")
	slow := g.next(t)
	second := begin(client, h.url+"/held")
	g.passed <- g.next(t)
	await(t, func() bool { return knows(client, h) })
	g.passed <- slow
	if err := <-first; err != nil {
		t.Error(err)
	}
	close(held)
	if err := <-second; err != nil {
		t.Error(err)
	}
	if len(g.arrived) != 0 {
		t.Errorf("%d connections beside the two", len(g.arrived))
	}
}

// knows tells whether a client has learned a server's protocol.
func knows(client *http.Client, h *httpWorld) bool {
	p := client.Transport.(*Transport).pools
	known := p.hostAt(strings.TrimPrefix(h.url, "https://"))
	p.mu.Lock()
	defer p.mu.Unlock()
	return known.protocol != ""
}

// await returns when something has come about; the test fails if it does not.
func await(t testing.TB, hasHappened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !hasHappened(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not happen")
		}
	}
}

// A request that is cancelled ends its dial, and leaves the others theirs.
func TestCancelledColdRequest(t *testing.T) {
	everyProtocol(t, func(t *testing.T, http2 bool) {
		h, g, _ := gated(t, http2)
		client := h.coldClient(t, nil)
		ctx, cancel := context.WithCancel(context.Background())
		request, _ := http.NewRequestWithContext(ctx, "GET", h.url+"/bytes/1", nil)
		first := make(chan error, 1)
		go func() {
			_, err := client.Do(request)
			first <- err
		}()
		mute := g.next(t)
		second := begin(client, h.url+"/bytes/1")
		other := g.next(t)
		cancel()
		if err := <-first; err == nil {
			t.Error("a request that was cancelled succeeds")
		}
		if _, err := io.Copy(io.Discard, mute); err != nil { // until the client closes it
			t.Error(err)
		}
		mute.Close()
		g.passed <- other
		if err := <-second; err != nil {
			t.Error(err)
		}
	})
}

// MaxConnsPerHost bounds connections of both protocols together while it is unknown which one it is.
func TestColdRequestsKeepMaxConnsPerHost(t *testing.T) {
	const limit, requests = 2, 40
	for _, mutes := range []int{0, 1} {
		everyProtocol(t, func(t *testing.T, http2 bool) {
			h, g, _ := gated(t, http2)
			var open, most, made atomic.Int64
			client := h.coldClient(t, func(base *http.Transport) {
				base.MaxConnsPerHost = limit
				base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
					conn, err := new(net.Dialer).DialContext(ctx, network, address)
					if err == nil {
						made.Add(1)
						most.Store(max(most.Load(), open.Add(1))) // one dial at a time ends, but for a race that only hides one
						conn = &countedConn{Conn: conn, open: &open}
					}
					return conn, err
				}
			})
			var results []<-chan error
			for range requests {
				results = append(results, begin(client, h.url+"/bytes/1000"))
			}
			for range mutes {
				defer g.next(t).Close()
			}
			stop := make(chan struct{})
			defer close(stop)
			go func() {
				for {
					select {
					case conn := <-g.arrived:
						g.passed <- conn
					case <-stop:
						return
					}
				}
			}()
			for i, result := range results {
				if err := <-result; err != nil {
					t.Errorf("request %d: %v", i, err)
				}
			}
			if most.Load() > limit {
				t.Errorf("%d connections at once, %d in all", most.Load(), made.Load())
			}
		})
	}
}

// countedConn counts itself until it is closed.
type countedConn struct {
	net.Conn
	open *atomic.Int64
	once sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// Connections that were made at the same time and are not needed are closed, or kept as idle ones are.
func TestColdRequestsKeepNoSurplus(t *testing.T) {
	everyProtocol(t, func(t *testing.T, http2 bool) {
		h, g, _ := gated(t, http2)
		before := countResources()
		client := h.coldClient(t, func(base *http.Transport) { base.MaxIdleConnsPerHost = 1 })
		var results []<-chan error
		for range 12 {
			results = append(results, begin(client, h.url+"/bytes/1"))
		}
		var conns []net.Conn
		for range 12 {
			conns = append(conns, g.next(t))
		}
		for _, conn := range conns {
			g.passed <- conn
		}
		for _, result := range results {
			if err := <-result; err != nil {
				t.Error(err)
			}
		}
		await(t, func() bool { return countResources().conns-before.conns <= 1 })
	})
}

// No connection gets to the http.Transport of the other protocol, also when the server changes it all the time.
func TestColdRequestsToAChangingServer(t *testing.T) {
	for _, limit := range []int{0, 3} {
		t.Run(fmt.Sprint("MaxConnsPerHost ", limit), func(t *testing.T) {
			leavesNothing(t)
			h := alternating(t)
			client := h.client(t, func(base *http.Transport) { base.MaxConnsPerHost = limit })
			for range 15 {
				client.CloseIdleConnections()
				var wg sync.WaitGroup
				for range 8 {
					wg.Go(func() {
						response, err := client.Get(h.url + "/tls")
						if err != nil {
							t.Error(err)
							return
						}
						body, _ := io.ReadAll(response.Body)
						response.Body.Close()
						spoken := map[string]string{"h2": "HTTP/2.0", "http/1.1": "HTTP/1.1"}[response.TLS.NegotiatedProtocol]
						if string(body[:8]) != spoken || response.Proto != spoken {
							t.Errorf("%s over %s", body, response.TLS.NegotiatedProtocol)
						}
					})
				}
				wg.Wait()
			}
		})
	}
}

// With MaxConnsPerHost other requests may claim a request's connections. Each claim allows the request one try more, so
// that a server that changes its protocol with each connection cannot fail it.
func TestClaimedConnectionsAllowMoreTries(t *testing.T) {
	p := &pools{base: &http.Transport{MaxConnsPerHost: 1}, hosts: make(map[string]*host)}
	h := p.hostAt("localhost:443")
	h.learn("h2")
	loser, claimer := &attempt{host: h, hasMoved: true}, &attempt{host: h}
	for claims := range 3 {
		if !p.mayRetry(loser, maxTries+claims-1) || p.mayRetry(loser, maxTries+claims) {
			t.Errorf("after %d claims the request has not %d tries", claims, maxTries+claims)
		}
		left := &pendingDial{maker: loser, owner: loser, done: make(chan struct{})}
		loser.dials = append(loser.dials, left)
		h.dials[left] = struct{}{}
		if claimed := p.claim(claimer, "h2"); claimed != left || left.owner != claimer || len(loser.dials) > 0 {
			t.Fatalf("claimed %v", claimed)
		}
		p.forget(left)
	}
}
