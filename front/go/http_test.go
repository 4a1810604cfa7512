package fipstls

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// testHandler answers what the tests ask for.
func testHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/bytes/", func(w http.ResponseWriter, r *http.Request) {
		var n int
		fmt.Sscanf(r.URL.Path, "/bytes/%d", &n)
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Write(pattern(n))
	})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Length")
		body, _ := io.ReadAll(r.Body) // HTTP/1.1 does not send while it receives
		n, _ := w.Write(body)
		w.Header().Set("X-Length", fmt.Sprint(n))
	})
	mux.HandleFunc("/slow/", func(w http.ResponseWriter, r *http.Request) {
		wait, _ := time.ParseDuration(strings.TrimPrefix(r.URL.Path, "/slow/"))
		time.Sleep(wait)
		io.WriteString(w, "late")
	})
	mux.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/echo", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/tls", func(w http.ResponseWriter, r *http.Request) {
		name := ""
		if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
			name = r.TLS.PeerCertificates[0].DNSNames[0]
		}
		fmt.Fprintf(w, "%s %v %s", r.Proto, r.TLS != nil, name)
	})
	mux.HandleFunc("/refuse", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTeapot) // without reading the body
	})
	return mux
}

func pattern(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
	}
	return data
}

// httpWorld is a server, ours or Go's, with one of its protocols.
type httpWorld struct {
	*world
	url    string
	conns  *atomic.Int64
	server *httptest.Server
}

// startGo starts a server of net/http over crypto/tls. All that it is told, it is told before: who asks it
// while it is being set up reads what is being written.
func startGo(t testing.TB, handler http.Handler, config *tls.Config, http2 bool, state func(net.Conn, http.ConnState)) *httptest.Server {
	server := httptest.NewUnstartedServer(handler)
	server.TLS, server.EnableHTTP2 = config, http2
	server.Config.ErrorLog, server.Config.ConnState = discardLog, state
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// urlOf is where a server is reached by the name that its certificate has.
func urlOf(address net.Addr) string { return "https://localhost:" + portOf(address) }

func goHTTPServer(t testing.TB, http2 bool) *httpWorld {
	w := newWorld(t)
	var conns atomic.Int64
	server := startGo(t, testHandler(), goServer(t, w), http2, func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	})
	return &httpWorld{w, urlOf(server.Listener.Addr()), &conns, server}
}

// serving serves with libssl until the test ends, and returns the URL.
func serving(t testing.TB, server *http.Server, config *Config) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if server.ErrorLog == nil { // A server that serves already reads it.
		server.ErrorLog = discardLog
	}
	ended := make(chan error, 1)
	go func() { ended <- Serve(server, listener, config) }()
	t.Cleanup(func() { server.Close(); <-ended })
	return urlOf(listener.Addr())
}

func ownHTTPServer(t testing.TB, change func(*Config)) *httpWorld {
	w := newWorld(t)
	config := w.serverConfig(t)
	if change != nil {
		change(config)
	}
	return &httpWorld{w, serving(t, &http.Server{Handler: testHandler()}, config), nil, nil}
}

// protocols is what an http.Server or http.Transport may speak.
func protocols(http1, http2 bool) *http.Protocols {
	set := new(http.Protocols)
	set.SetHTTP1(http1)
	set.SetHTTP2(http2)
	return set
}

func portOf(address net.Addr) string {
	_, port, _ := net.SplitHostPort(address.String())
	return port
}

func (h *httpWorld) client(t testing.TB, change func(*http.Transport)) *http.Client {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.Proxy = nil
	if change != nil {
		change(base)
	}
	config := closing(t, &Config{CaPEM: h.ca.pem})
	transport, err := TransportFrom(base, config)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: transport, Timeout: 30 * time.Second}
	// testing.T keeps a function that has run, which must not keep the Transport: see leavesNothing.
	t.Cleanup(func() { transport.CloseIdleConnections(); transport = nil })
	return client
}

func get(t testing.TB, client *http.Client, url string) (*http.Response, []byte) {
	t.Helper()
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	return response, body
}

// everyServer runs a test against both kinds of server and both protocols.
func everyServer(t *testing.T, test func(t *testing.T, h *httpWorld, protocol int)) {
	t.Run("Go, HTTP/1.1", func(t *testing.T) { leavesNothing(t); test(t, goHTTPServer(t, false), 1) })
	t.Run("Go, HTTP/2", func(t *testing.T) { leavesNothing(t); test(t, goHTTPServer(t, true), 2) })
	t.Run("own, HTTP/1.1", func(t *testing.T) {
		leavesNothing(t)
		test(t, ownHTTPServer(t, func(c *Config) { c.NextProtos = []string{"http/1.1"} }), 1)
	})
	t.Run("own, HTTP/2", func(t *testing.T) { leavesNothing(t); test(t, ownHTTPServer(t, nil), 2) })
}

func TestHTTPRequests(t *testing.T) {
	everyServer(t, func(t *testing.T, h *httpWorld, protocol int) {
		client := h.client(t, nil)
		for _, n := range []int{0, 1, 1066, 16 << 10, 100_000, 5 << 20} {
			response, body := get(t, client, fmt.Sprintf("%s/bytes/%d", h.url, n))
			if !bytes.Equal(body, pattern(n)) {
				t.Errorf("%d bytes: got %d", n, len(body))
			}
			if response.ProtoMajor != protocol {
				t.Errorf("HTTP/%d, expected HTTP/%d", response.ProtoMajor, protocol)
			}
			if response.TLS == nil || response.TLS.Version == 0 || len(response.TLS.PeerCertificates) != 1 {
				t.Errorf("Response.TLS is %+v", response.TLS)
			}
		}
		if h.conns != nil && h.conns.Load() != 1 {
			t.Errorf("%d connections for requests one after the other", h.conns.Load())
		}
		for _, n := range []int{0, 1, 3 << 20} {
			response, err := client.Post(h.url+"/redirect", "text/plain", bytes.NewReader(pattern(n)))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			response.Body.Close()
			if err != nil || !bytes.Equal(body, pattern(n)) {
				t.Errorf("echo of %d bytes: got %d, %v", n, len(body), err)
			}
			if response.Trailer.Get("X-Length") != fmt.Sprint(n) {
				t.Errorf("trailer %v", response.Trailer)
			}
		}
	})
}

func TestHTTPConcurrentRequests(t *testing.T) {
	everyServer(t, func(t *testing.T, h *httpWorld, protocol int) {
		client := h.client(t, nil)
		get(t, client, h.url+"/bytes/1") // from now on the host's protocol is known
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				response, err := client.Post(h.url+"/echo", "text/plain", bytes.NewReader(pattern(1000*i)))
				if err != nil {
					t.Error(err)
					return
				}
				defer response.Body.Close()
				if body, err := io.ReadAll(response.Body); err != nil || !bytes.Equal(body, pattern(1000*i)) {
					t.Errorf("got %d bytes of %d, %v", len(body), 1000*i, err)
				}
			}()
		}
		wg.Wait()
		if protocol == 2 && h.conns != nil && h.conns.Load() != 1 {
			t.Errorf("%d connections of HTTP/2 to one host", h.conns.Load())
		}
	})
}

func TestHTTPServerSeesTLS(t *testing.T) {
	everyServer(t, func(t *testing.T, h *httpWorld, protocol int) {
		_, body := get(t, h.client(t, nil), h.url+"/tls")
		want := map[int]string{1: "HTTP/1.1 true ", 2: "HTTP/2.0 true "}[protocol]
		if string(body) != want {
			t.Errorf("got %q, expected %q", body, want)
		}
	})
}

// Clients that never finish their handshake hold up nobody, and are let go after the server's time limit.
func TestHTTPSlowClients(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	server := &http.Server{Handler: testHandler(), ReadHeaderTimeout: 300 * time.Millisecond}
	h := &httpWorld{w, serving(t, server, w.serverConfig(t)), nil, nil}
	var slow []net.Conn
	for range 50 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "https://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		slow = append(slow, conn)
		go func() { // the start of a ClientHello, byte by byte
			for _, b := range []byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xFC, 3, 3} {
				if _, err := conn.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
		}()
	}
	if _, body := get(t, h.client(t, nil), h.url+"/bytes/1000"); len(body) != 1000 {
		t.Errorf("%d bytes", len(body))
	}
	for _, conn := range slow {
		conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.Copy(io.Discard, conn); isTimeout(err) {
			t.Fatal("a slow client is still connected")
		}
	}
}

func TestHTTPExpectContinue(t *testing.T) {
	everyServer(t, func(t *testing.T, h *httpWorld, protocol int) {
		request, _ := http.NewRequest("POST", h.url+"/refuse", bytes.NewReader(pattern(1<<20)))
		request.Header.Set("Expect", "100-continue")
		response, err := h.client(t, nil).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusTeapot {
			t.Error(response.Status)
		}
	})
}

func TestHTTPTrace(t *testing.T) {
	everyServer(t, func(t *testing.T, h *httpWorld, protocol int) {
		var mu sync.Mutex
		seen := map[string]int{}
		note := func(what string) { mu.Lock(); seen[what]++; mu.Unlock() }
		trace := &httptrace.ClientTrace{
			GetConn:           func(string) { note("GetConn") },
			GotConn:           func(info httptrace.GotConnInfo) { note(fmt.Sprintf("GotConn reused=%v", info.Reused)) },
			ConnectDone:       func(string, string, error) { note("ConnectDone") },
			TLSHandshakeStart: func() { note("TLSHandshakeStart") },
			TLSHandshakeDone: func(state tls.ConnectionState, err error) {
				note(fmt.Sprintf("TLSHandshakeDone %v %v", state.HandshakeComplete, err))
			},
			WroteRequest:         func(httptrace.WroteRequestInfo) { note("WroteRequest") },
			GotFirstResponseByte: func() { note("GotFirstResponseByte") },
		}
		client := h.client(t, nil)
		for range 2 {
			ctx := httptrace.WithClientTrace(context.Background(), trace)
			request, _ := http.NewRequestWithContext(ctx, "GET", h.url+"/bytes/10", nil)
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
		mu.Lock()
		defer mu.Unlock()
		for what, count := range map[string]int{"GetConn": 2, "GotConn reused=false": 1, "GotConn reused=true": 1,
			"TLSHandshakeStart": 1, "TLSHandshakeDone true <nil>": 1, "WroteRequest": 2, "GotFirstResponseByte": 2} {
			if seen[what] != count {
				t.Errorf("%s: %d times, expected %d (%v)", what, seen[what], count, seen)
			}
		}
	})
}

func TestHTTPCancellation(t *testing.T) {
	everyServer(t, func(t *testing.T, h *httpWorld, protocol int) {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		request, _ := http.NewRequestWithContext(ctx, "GET", h.url+"/slow/400ms", nil)
		began := time.Now()
		_, err := h.client(t, nil).Do(request)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 300*time.Millisecond {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

// A plain http URL is plain HTTP, never TLS to port 80.
func TestHTTPPlain(t *testing.T) {
	server := httptest.NewServer(testHandler())
	defer server.Close()
	client := &http.Client{Transport: NewClient(closing(t, new(Config))).Transport}
	defer client.CloseIdleConnections()
	response, body := get(t, client, server.URL+"/bytes/10")
	if len(body) != 10 || response.TLS != nil {
		t.Errorf("%d bytes, TLS %v", len(body), response.TLS)
	}
}

// A server that speaks HTTP/2 today and HTTP/1.1 tomorrow.
func TestHTTPServerChangesProtocol(t *testing.T) {
	leavesNothing(t)
	h := goHTTPServer(t, true)
	client := h.client(t, nil)
	if response, _ := get(t, client, h.url+"/bytes/10"); response.ProtoMajor != 2 {
		t.Fatal(response.Proto)
	}
	address := h.server.Listener.Addr().String()
	h.server.CloseClientConnections()
	h.server.Close()
	client.CloseIdleConnections()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	config := goServer(t, h.world)
	config.NextProtos = []string{"http/1.1"}
	server := &http.Server{Handler: testHandler(), ErrorLog: discardLog}
	go server.Serve(tls.NewListener(listener, config))
	defer server.Close()
	response, err := client.Post(h.url+"/echo", "text/plain", strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(response.Body)
	response.Body.Close()
	if response.ProtoMajor != 1 || string(body) != "hello" {
		t.Errorf("%s, %q", response.Proto, body)
	}
}

func TestNewClientReportsItsConfiguration(t *testing.T) {
	client := NewClient(closing(t, &Config{CaFile: "/nonexistent/ca.pem"}))
	_, err := client.Post("https://localhost:1/", "text/plain", strings.NewReader("x"))
	var config *ConfigError
	if !errors.As(err, &config) || config.Field != "CaFile" {
		t.Errorf("got %v", err)
	}
}

func TestTransportRefusesOtherTLS(t *testing.T) {
	base := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	if _, err := TransportFrom(base, nil); err == nil {
		t.Error("TLSClientConfig was accepted and would be ignored")
	}
}

// --- proxies ---------------------------------------------------------------------------------------

// proxyServer speaks CONNECT. It notes whether what it forwards begins like TLS.
type proxyServer struct {
	url      *url.URL
	connects atomic.Int64
	header   atomic.Value
	refuse   atomic.Bool
}

func newProxy(t testing.TB, w *world, secure bool) *proxyServer {
	proxy := new(proxyServer)
	handler := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || proxy.refuse.Load() {
			http.Error(rw, "only CONNECT", http.StatusForbidden)
			return
		}
		proxy.connects.Add(1)
		proxy.header.Store(r.Header.Clone())
		out, err := net.Dial("tcp", r.Host)
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadGateway)
			return
		}
		in, buffered, err := rw.(http.Hijacker).Hijack()
		if err != nil {
			out.Close()
			return
		}
		io.WriteString(in, "HTTP/1.1 200 Connection established\r\n\r\n")
		go func() { io.Copy(out, buffered); out.Close() }()
		io.Copy(in, bufio.NewReader(out))
		in.Close()
	})
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = discardLog
	if secure {
		server.TLS = goServer(t, w)
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	proxy.url, _ = url.Parse(strings.Replace(server.URL, "127.0.0.1", "localhost", 1))
	proxy.url.User = url.UserPassword("user", "secret")
	return proxy
}

// Behind a proxy http.Transport would make the TLS connection itself, by crypto/tls. The server here
// refuses clients that are not ours: it speaks only a cipher suite that crypto/tls lacks.
func TestHTTPProxyStaysWithLibssl(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("secure=%v", secure), func(t *testing.T) {
			leavesNothing(t)
			h := ownHTTPServer(t, func(c *Config) {
				c.MaxTLSVersion = Version12
				c.CipherList = "ECDHE-ECDSA-AES128-CCM"
			})
			proxy := newProxy(t, h.world, secure)
			client := h.client(t, func(base *http.Transport) { base.Proxy = http.ProxyURL(proxy.url) })
			// The CCM suite is not in the default list.
			client.Transport.(*Transport).pools.config.CipherList = "ECDHE-ECDSA-AES128-CCM"
			client.Transport.(*Transport).pools.config.Close()
			if secure {
				client.Transport.(*Transport).pools.config.CipherList += ":HIGH"
			}
			response, body := get(t, client, h.url+"/bytes/100000")
			if len(body) != 100000 || response.TLS == nil || response.TLS.CipherSuite != 0xC0AC {
				t.Errorf("%d bytes, %+v", len(body), response.TLS)
			}
			if proxy.connects.Load() != 1 {
				t.Errorf("%d CONNECTs", proxy.connects.Load())
			}
			if got := proxy.header.Load().(http.Header).Get("Proxy-Authorization"); got != "Basic dXNlcjpzZWNyZXQ=" {
				t.Errorf("Proxy-Authorization is %q", got)
			}
		})
	}
}

func TestHTTPProxyRefuses(t *testing.T) {
	leavesNothing(t)
	h := ownHTTPServer(t, nil)
	proxy := newProxy(t, h.world, false)
	proxy.refuse.Store(true)
	client := h.client(t, func(base *http.Transport) { base.Proxy = http.ProxyURL(proxy.url) })
	_, err := client.Get(h.url + "/bytes/10")
	if err == nil || !strings.Contains(err.Error(), "403 Forbidden") || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

// A proxy that accepts the connection and never answers.
func TestHTTPProxyIsMute(t *testing.T) {
	leavesNothing(t)
	h := ownHTTPServer(t, nil)
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	proxy := &url.URL{Scheme: "http", Host: mute.Addr().String()}
	client := h.client(t, func(base *http.Transport) { base.Proxy = http.ProxyURL(proxy) })
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	request, _ := http.NewRequestWithContext(ctx, "GET", h.url, nil)
	began := time.Now()
	if _, err := client.Do(request); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}

// socksProxy speaks as much of SOCKS5 as a client with a password needs (RFC 1928, RFC 1929), and notes
// what it is asked for.
func socksProxy(t *testing.T) (at *url.URL, asked chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	asked = make(chan string, 4)
	serve := func(in net.Conn) error {
		defer in.Close()
		reader := bufio.NewReader(in)
		counted := func() string { // a text behind its length
			n, _ := reader.ReadByte()
			text := make([]byte, n)
			io.ReadFull(reader, text)
			return string(text)
		}
		reader.Discard(1) // the version
		counted()         // the methods
		in.Write([]byte{5, 2})
		reader.Discard(1)
		if user, password := counted(), counted(); user != "user" || password != "secret" {
			in.Write([]byte{1, 1})
			return fmt.Errorf("user %q, password %q", user, password)
		}
		in.Write([]byte{1, 0})
		request := make([]byte, 4)
		io.ReadFull(reader, request)
		if !bytes.Equal(request, []byte{5, 1, 0, 3}) { // connect to a name
			in.Write([]byte{5, 8, 0, 1, 0, 0, 0, 0, 0, 0})
			return fmt.Errorf("request %x", request)
		}
		name, port := counted(), make([]byte, 2)
		io.ReadFull(reader, port)
		address := net.JoinHostPort(name, fmt.Sprint(int(port[0])<<8|int(port[1])))
		asked <- address
		out, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		defer out.Close()
		in.Write([]byte{5, 0, 0, 1, 127, 0, 0, 1, 0, 0})
		go func() { io.Copy(out, reader); out.(*net.TCPConn).CloseWrite() }()
		io.Copy(in, out)
		return nil
	}
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				if err := serve(in); err != nil {
					asked <- err.Error()
				}
			}()
		}
	}()
	return &url.URL{Scheme: "socks5", Host: listener.Addr().String(), User: url.UserPassword("user", "secret")}, asked
}

func TestHTTPProxySOCKS(t *testing.T) {
	for _, scheme := range []string{"socks5", "socks5h"} {
		t.Run(scheme, func(t *testing.T) {
			leavesNothing(t)
			h := ownHTTPServer(t, func(c *Config) {
				c.MaxTLSVersion = Version12
				c.CipherList = "ECDHE-ECDSA-AES128-CCM" // which crypto/tls lacks
			})
			at, asked := socksProxy(t)
			at.Scheme = scheme
			client := h.client(t, func(base *http.Transport) { base.Proxy = http.ProxyURL(at) })
			client.Transport.(*Transport).pools.config.CipherList = "ECDHE-ECDSA-AES128-CCM"
			client.Transport.(*Transport).pools.config.Close()
			response, body := get(t, client, h.url+"/bytes/100000")
			if len(body) != 100000 || response.TLS == nil || response.TLS.CipherSuite != 0xC0AC {
				t.Errorf("%d bytes, %+v", len(body), response.TLS)
			}
			if got := <-asked; "https://"+got != h.url {
				t.Errorf("the proxy was asked for %s", got)
			}
			client.CloseIdleConnections()
		})
	}
	t.Run("refused", func(t *testing.T) {
		leavesNothing(t)
		h := ownHTTPServer(t, nil)
		at, _ := socksProxy(t)
		at.User = url.UserPassword("user", "wrong")
		client := h.client(t, func(base *http.Transport) { base.Proxy = http.ProxyURL(at) })
		if _, err := client.Get(h.url); err == nil || strings.Contains(err.Error(), "wrong") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("mute", func(t *testing.T) {
		leavesNothing(t)
		mute, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer mute.Close()
		h := ownHTTPServer(t, nil)
		proxy := &url.URL{Scheme: "socks5", Host: mute.Addr().String()}
		client := h.client(t, func(base *http.Transport) { base.Proxy = http.ProxyURL(proxy) })
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		request, _ := http.NewRequestWithContext(ctx, "GET", h.url, nil)
		if _, err := client.Do(request); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func TestHTTPProxyOfAnotherKindIsRefused(t *testing.T) {
	h := ownHTTPServer(t, nil)
	proxy := &url.URL{Scheme: "socks4", Host: "127.0.0.1:1"}
	client := h.client(t, func(base *http.Transport) { base.Proxy = http.ProxyURL(proxy) })
	if _, err := client.Get(h.url); err == nil || !strings.Contains(err.Error(), "socks4") {
		t.Errorf("got %v", err)
	}
}
