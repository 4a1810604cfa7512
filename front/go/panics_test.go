package fipstls

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A caller's code that panics or ends its goroutine ends one connection, and no process.

// ways are those in which a callback may fail to return.
var ways = map[string]func(){
	"panic":        func() { panic("a callback's") },
	"nil index":    func() { _ = (*tls.ConnectionState)(nil).PeerCertificates[0] },
	"ErrAbort":     func() { panic(http.ErrAbortHandler) },
	"Goexit":       runtime.Goexit,
	"unprintable":  func() { panic(unprintable{}) },
	"uncomparable": func() { panic([]int{1}) },
}

// unprintable panics when it is printed.
type unprintable struct{}

func (unprintable) Error() string { panic("not this either") }

// lockedLog is a log that a test reads while it is written.
type lockedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// standardLog catches what goes to the standard logger until the test ends.
func standardLog(t testing.TB) *lockedLog {
	caught := new(lockedLog)
	before := log.Writer()
	log.SetOutput(caught)
	t.Cleanup(func() { log.SetOutput(before) })
	return caught
}

// breaking is a connection that fails in one of its methods, once.
type breaking struct {
	net.Conn
	method string
	fail   func()
	isDone atomic.Bool
}

func (b *breaking) break_(method string) {
	if b.method == method && !b.isDone.Swap(true) {
		b.fail()
	}
}

func (b *breaking) Read(p []byte) (int, error)  { b.break_("Read"); return b.Conn.Read(p) }
func (b *breaking) Write(p []byte) (int, error) { b.break_("Write"); return b.Conn.Write(p) }
func (b *breaking) Close() error {
	defer b.Conn.Close() // or the peer waits
	b.break_("Close")
	return nil
}
func (b *breaking) RemoteAddr() net.Addr { b.break_("RemoteAddr"); return b.Conn.RemoteAddr() }
func (b *breaking) SetWriteDeadline(at time.Time) error {
	b.break_("SetWriteDeadline")
	return b.Conn.SetWriteDeadline(at)
}

// breakingListener breaks the first connection that it accepts.
type breakingListener struct {
	net.Listener
	method string
	fail   func()
	count  atomic.Int64
}

func (l *breakingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil && l.count.Add(1) == 1 {
		conn = &breaking{Conn: conn, method: l.method, fail: l.fail}
	}
	return conn, err
}

// once fails the first time only.
func once(fail func()) func() {
	var isDone atomic.Bool
	return func() {
		if !isDone.Swap(true) {
			fail()
		}
	}
}

type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(b []byte) (int, error) { return w(b) }

func TestServeSurvivesCallbacks(t *testing.T) {
	for way, fail := range ways {
		for what, install := range map[string]func(fail func(), c *Config, s *http.Server, l *breakingListener){
			"VerifyConnection": func(fail func(), c *Config, _ *http.Server, _ *breakingListener) {
				c.VerifyConnection = func(tls.ConnectionState) error { fail(); return nil }
			},
			"KeyLogWriter": func(fail func(), c *Config, _ *http.Server, _ *breakingListener) {
				c.KeyLogWriter = writerFunc(func(b []byte) (int, error) { fail(); return len(b), nil })
			},
			"Read":  func(fail func(), _ *Config, _ *http.Server, l *breakingListener) { l.method, l.fail = "Read", fail },
			"Write": func(fail func(), _ *Config, _ *http.Server, l *breakingListener) { l.method, l.fail = "Write", fail },
			"Close": func(fail func(), c *Config, _ *http.Server, l *breakingListener) {
				l.method, l.fail = "Close", fail
				c.VerifyConnection = func(tls.ConnectionState) error { return onceError(&l.count) }
			},
			"RemoteAddr": func(fail func(), c *Config, _ *http.Server, l *breakingListener) {
				l.method, l.fail = "RemoteAddr", fail
				c.VerifyConnection = func(tls.ConnectionState) error { return onceError(&l.count) }
			},
			"ErrorLog": func(fail func(), c *Config, s *http.Server, l *breakingListener) {
				s.ErrorLog = log.New(writerFunc(func([]byte) (int, error) { fail(); return 0, nil }), "", 0)
				c.VerifyConnection = func(tls.ConnectionState) error { return onceError(&l.count) }
			},
			"ErrorLog twice": func(fail func(), c *Config, s *http.Server, l *breakingListener) {
				s.ErrorLog = log.New(writerFunc(func([]byte) (int, error) { panic("the log's") }), "", 0)
				c.VerifyConnection = func(tls.ConnectionState) error { fail(); return nil }
			},
		} {
			t.Run(what+", "+way, func(t *testing.T) {
				leavesNothing(t)
				standard, logged := standardLog(t), new(lockedLog)
				w := newWorld(t)
				config := w.serverConfig(t)
				server := &http.Server{Handler: testHandler(), ErrorLog: log.New(logged, "", 0)}
				inner, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				l := &breakingListener{Listener: inner}
				install(once(fail), config, server, l)
				ended := make(chan error, 1)
				go func() { ended <- Serve(server, l, config) }()
				t.Cleanup(func() { server.Close(); <-ended })
				url := urlOf(inner.Addr())
				first := goClient(t, w)
				if response, err := first.Get(url + "/bytes/1"); err == nil {
					response.Body.Close()
				}
				get(t, goClient(t, w), url+"/bytes/10")
				if way != "Goexit" && way != "ErrAbort" && what != "ErrorLog" {
					await(t, func() bool {
						return strings.Contains(logged.String()+standard.String(), "http: panic serving ")
					})
				}
			})
		}
	}
}

// onceError refuses the first connection.
func onceError(count *atomic.Int64) error {
	if count.Load() == 1 {
		return errors.New("the first one is refused")
	}
	return nil
}

// A panic of the listener goes on to the caller of Serve, as from http.Server.ServeTLS.
func TestServeListenerPanics(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	for way, fail := range map[string]func(){"panic": func() { panic("the listener's") }, "Goexit": runtime.Goexit} {
		inner, _ := net.Listen("tcp", "127.0.0.1:0")
		err, value := func() (err error, value any) {
			defer func() { value = recover() }()
			return Serve(&http.Server{}, acceptFunc{inner, fail}, w.serverConfig(t)), nil
		}()
		if way == "panic" && value != "the listener's" || way == "Goexit" && err == nil {
			t.Errorf("%s: %v, panic %v", way, err, value)
		}
	}
}

type acceptFunc struct {
	net.Listener
	fail func()
}

func (a acceptFunc) Accept() (net.Conn, error) { a.fail(); return a.Listener.Accept() }

// survive runs what a caller recovers from, in a goroutine that may end.
func survive(run func() error) error {
	result := make(chan error, 1)
	go func() {
		err := errors.New("the call did not return")
		defer func() { _ = recover(); result <- err }()
		err = run()
	}()
	return <-result
}

// Where the caller recovers, no lock is left behind: the connection says that it has failed.
func TestCallersRecover(t *testing.T) {
	for way, fail := range ways {
		t.Run("VerifyConnection, "+way, func(t *testing.T) {
			leavesNothing(t)
			w := newWorld(t)
			config := w.clientConfig(t)
			config.VerifyConnection = func(tls.ConnectionState) error { fail(); return nil }
			client, _ := startedToGo(t, config, w)
			for range 2 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				if err := survive(func() error { return client.HandshakeContext(ctx) }); err == nil {
					t.Error("the handshake succeeds")
				}
				cancel()
			}
			if _, err := client.Read(make([]byte, 1)); err == nil {
				t.Error("Read succeeds")
			}
			if _, err := client.Write([]byte("x")); err == nil {
				t.Error("Write succeeds")
			}
			if err := client.Close(); err != nil {
				t.Error(err)
			}
		})
		for _, method := range []string{"Read", "Write", "Close", "SetWriteDeadline"} {
			for _, when := range []string{"handshake", "open"} {
				t.Run(method+", "+when+", "+way, func(t *testing.T) {
					leavesNothing(t)
					standardLog(t)
					w := newWorld(t)
					below := &breaking{method: method, fail: fail}
					below.isDone.Store(when == "open")
					client, server := startedOver(t, w.clientConfig(t), w, below)
					err := survive(client.Handshake)
					if (err == nil) != (when == "open" || method == "Close" || method == "SetWriteDeadline") {
						t.Errorf("handshake: %v", err)
					}
					below.isDone.Store(false)
					if err == nil {
						go server.Write([]byte("hello"))
						survive(func() error { _, err := client.Write([]byte("x")); return err })
						survive(func() error { _, err := client.Read(make([]byte, 1)); return err })
						survive(client.CloseWrite)
					}
					survive(client.Close)
					if _, err := client.Read(make([]byte, 1)); err == nil {
						t.Error("Read after Close")
					}
					if _, err := client.Write(make([]byte, 1)); err == nil {
						t.Error("Write after Close")
					}
					if err := client.Close(); err == nil {
						t.Error("a second Close")
					}
				})
			}
		}
	}
}

// startedToGo is a client of ours with a server of crypto/tls that performs its handshake.
func startedToGo(t testing.TB, config *Config, w *world) (*Conn, *tls.Conn) {
	return startedOver(t, config, w, new(breaking))
}

func startedOver(t testing.TB, config *Config, w *world, below *breaking) (*Conn, *tls.Conn) {
	a, b := socketPair(t)
	below.Conn = a
	client, server := Client(below, config), tls.Server(b, goServer(t, w))
	done := make(chan struct{})
	go func() { server.Handshake(); close(done) }()
	t.Cleanup(func() { survive(client.Close); a.Close(); server.Close(); <-done })
	return client, server
}

// An answer that a Read makes is sent by a goroutine of this package.
func TestAnswerSurvivesABrokenConnection(t *testing.T) {
	for way, fail := range ways {
		t.Run(way, func(t *testing.T) {
			leavesNothing(t)
			logged := standardLog(t)
			w := newWorld(t)
			a, b := socketPair(t)
			below := &breaking{Conn: a, method: "Write", fail: fail}
			below.isDone.Store(true)
			client, server := Client(below, w.clientConfig(t)), Server(b, w.serverConfig(t))
			defer server.Close()
			if clientErr, serverErr := shakeHands(client, server); clientErr != nil || serverErr != nil {
				t.Fatal(clientErr, serverErr)
			}
			below.isDone.Store(false)
			b.Write([]byte{23, 3, 3, 0, 17, 16: 0, 21: 0}) // a record that is answered with an alert
			if _, err := io.ReadFull(client, make([]byte, 1)); err == nil {
				t.Error("a forged record was accepted")
			}
			await(t, below.isDone.Load)
			if way != "Goexit" && way != "ErrAbort" {
				await(t, func() bool { return strings.Contains(logged.String(), "http: panic answering ") })
			}
			client.mu.Lock() // until the goroutine is done with it
			for client.draining {
				client.idle.Wait()
			}
			client.mu.Unlock()
			if _, err := client.Write([]byte("y")); !errors.Is(err, errCallback) {
				t.Errorf("Write: %v", err)
			}
			if err := client.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The end of a context closes the connection in a goroutine of this package.
func TestContextSurvivesABrokenConnection(t *testing.T) {
	leavesNothing(t)
	logged := standardLog(t)
	a, b := socketPair(t)
	client := Client(&breaking{Conn: a, method: "Close", fail: ways["panic"]}, newWorld(t).clientConfig(t))
	defer client.Close()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		// The handshake has begun: a context that ends before it closes nothing.
		_, _ = b.Read(make([]byte, 1))
		cancel()
	}()
	if err := client.HandshakeContext(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	await(t, func() bool { return strings.Contains(logged.String(), "http: panic closing a connection with ") })
}

// A request whose dial runs into a panic fails, and the next one is sent.
func TestTransportSurvivesCallbacks(t *testing.T) {
	for way, fail := range ways {
		for what, install := range map[string]func(t *testing.T, fail func(), base *http.Transport, c *Config, w *world){
			"DialContext": func(_ *testing.T, fail func(), base *http.Transport, _ *Config, _ *world) {
				base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
					fail()
					return new(net.Dialer).DialContext(ctx, network, address)
				}
			},
			"VerifyConnection": func(_ *testing.T, fail func(), _ *http.Transport, c *Config, _ *world) {
				c.VerifyConnection = func(tls.ConnectionState) error { fail(); return nil }
			},
			"KeyLogWriter": func(_ *testing.T, fail func(), _ *http.Transport, c *Config, _ *world) {
				c.KeyLogWriter = writerFunc(func(b []byte) (int, error) { fail(); return len(b), nil })
			},
			"TLSHandshakeDone": nil,
			"GetProxyConnectHeader": func(t *testing.T, fail func(), base *http.Transport, _ *Config, w *world) {
				base.Proxy = http.ProxyURL(newProxy(t, w, false).url)
				base.GetProxyConnectHeader = func(context.Context, *url.URL, string) (http.Header, error) { fail(); return nil, nil }
			},
			"OnProxyConnectResponse": func(t *testing.T, fail func(), base *http.Transport, _ *Config, w *world) {
				base.Proxy = http.ProxyURL(newProxy(t, w, false).url)
				base.OnProxyConnectResponse = func(context.Context, *url.URL, *http.Request, *http.Response) error { fail(); return nil }
			},
		} {
			t.Run(what+", "+way, func(t *testing.T) {
				leavesNothing(t)
				logged := standardLog(t)
				h := goHTTPServer(t, true)
				base := http.DefaultTransport.(*http.Transport).Clone()
				base.Proxy, base.MaxConnsPerHost = nil, 1 // whose place is given back
				config := closing(t, &Config{CaPEM: h.ca.pem})
				failOnce, ctx := once(fail), context.Background()
				if install != nil {
					install(t, failOnce, base, config, h.world)
				} else {
					ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{TLSHandshakeDone: func(tls.ConnectionState, error) { failOnce() }})
				}
				transport, err := TransportFrom(base, config)
				if err != nil {
					t.Fatal(err)
				}
				defer transport.CloseIdleConnections()
				client := &http.Client{Transport: transport, Timeout: time.Minute}
				request, _ := http.NewRequestWithContext(ctx, "GET", h.url+"/bytes/1", nil)
				if response, err := client.Do(request); err == nil {
					response.Body.Close()
					t.Error("the first request succeeds")
				}
				get(t, client, h.url+"/bytes/1")
				if way != "Goexit" && way != "ErrAbort" && !strings.Contains(logged.String(), "http: panic dialling ") {
					t.Errorf("logged: %q", logged)
				}
			})
		}
	}
}

// A connection that nobody gets because a callback panicked is closed.
func TestDialerLeavesNothingAfterAPanic(t *testing.T) {
	for way, fail := range ways {
		t.Run(way, func(t *testing.T) {
			leavesNothing(t)
			h := goHTTPServer(t, false)
			address := h.server.Listener.Addr().String()
			config := &Config{CaPEM: h.ca.pem, ServerName: "localhost"}
			survive(func() error {
				_, err := NewDialer(closing(t, config), WithLogger(logFunc(fail))).Dial("tcp", address)
				return err
			})
			config = config.Clone()
			config.VerifyConnection = func(tls.ConnectionState) error { fail(); return nil }
			survive(func() error {
				_, err := (&Dialer{Config: closing(t, config)}).Dial("tcp", address)
				return err
			})
		})
	}
}

type logFunc func()

func (l logFunc) Log(int, string, ...any) { l() }
