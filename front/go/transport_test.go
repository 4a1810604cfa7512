package fipstls

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Every field of http.Transport, by what becomes of it. A release of Go that adds one fails here.
func TestTransportKnowsEveryField(t *testing.T) {
	known := map[string]string{
		"Proxy": "kept, by CONNECT of our own", "OnProxyConnectResponse": "kept", "ProxyConnectHeader": "kept",
		"GetProxyConnectHeader": "kept", "DialContext": "kept", "Dial": "kept", "DialTLSContext": "refused", "DialTLS": "refused",
		"TLSClientConfig": "refused", "TLSHandshakeTimeout": "kept", "TLSNextProto": "empty: no HTTP/2; others refused",
		"ForceAttemptHTTP2": "kept", "Protocols": "kept", "HTTP2": "net/http's", "DisableKeepAlives": "net/http's",
		"DisableCompression": "net/http's", "MaxIdleConns": "net/http's, for each protocol", "MaxIdleConnsPerHost": "net/http's",
		"MaxConnsPerHost": "net/http's, for each protocol", "IdleConnTimeout": "net/http's", "ResponseHeaderTimeout": "net/http's",
		"ExpectContinueTimeout": "net/http's", "MaxResponseHeaderBytes": "net/http's", "WriteBufferSize": "net/http's",
		"ReadBufferSize": "net/http's",
	}
	for i := range reflect.TypeFor[http.Transport]().NumField() {
		if field := reflect.TypeFor[http.Transport]().Field(i); field.IsExported() && known[field.Name] == "" {
			t.Errorf("http.Transport.%s is new: is it honoured or refused?", field.Name)
		}
	}
}

func TestTransportProtocols(t *testing.T) {
	dial := new(net.Dialer).DialContext
	for name, test := range map[string]struct {
		base   *http.Transport
		wanted int
	}{
		"default":                {&http.Transport{}, 2},
		"no h2 by TLSNextProto":  {&http.Transport{TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}, 1},
		"no h2 by Protocols":     {&http.Transport{Protocols: protocols(true, false)}, 1},
		"h2 only":                {&http.Transport{Protocols: protocols(false, true)}, 2},
		"own dial":               {&http.Transport{DialContext: dial}, 1},
		"own dial, h2 forced":    {&http.Transport{DialContext: dial, ForceAttemptHTTP2: true}, 2},
		"DefaultTransport, used": {http.DefaultTransport.(*http.Transport).Clone(), 2},
	} {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			h := goHTTPServer(t, true)
			test.base.Proxy = nil
			transport, err := TransportFrom(test.base, closing(t, &Config{CaPEM: h.ca.pem}))
			if err != nil {
				t.Fatal(err)
			}
			defer transport.CloseIdleConnections()
			if response, _ := get(t, &http.Client{Transport: transport}, h.url+"/bytes/10"); response.ProtoMajor != test.wanted {
				t.Errorf("HTTP/%d", response.ProtoMajor)
			}
		})
	}
	dialed := false
	base := &http.Transport{Dial: func(network, address string) (net.Conn, error) {
		dialed = true
		return net.Dial(network, address)
	}}
	h := goHTTPServer(t, true)
	transport, err := TransportFrom(base, closing(t, &Config{CaPEM: h.ca.pem}))
	if err != nil {
		t.Fatal(err)
	}
	if get(t, &http.Client{Transport: transport}, h.url+"/bytes/1"); !dialed {
		t.Error("Dial is not called")
	}
	transport.CloseIdleConnections()
}

// A websocket's request needs HTTP/1.1 although the host speaks HTTP/2, by itself and behind a proxy that
// passes it on.
func TestUpgradeUsesHTTP1(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	server := startGo(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			fmt.Fprint(rw, r.Proto)
			return
		}
		conn, buffered, err := rw.(http.Hijacker).Hijack()
		if err != nil {
			http.Error(rw, err.Error(), http.StatusInternalServerError)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+r.Header.Get("Upgrade")+"\r\n\r\n")
		line, _ := buffered.ReadString('\n')
		io.WriteString(conn, "echo: "+line)
	}), goServer(t, w), true, nil)
	h := &httpWorld{w, urlOf(server.Listener.Addr()), nil, server}
	client := h.client(t, nil)
	client.Timeout = 0 // whose body would hide that it can be written to
	target, _ := url.Parse(h.url)
	reverse := httputil.NewSingleHostReverseProxy(target)
	reverse.Transport = client.Transport
	front := httptest.NewServer(reverse)
	defer front.Close()
	for _, from := range []string{h.url, front.URL, h.url} {
		for _, protocol := range []string{"websocket", "other"} {
			request, _ := http.NewRequest("GET", from, nil)
			request.Header.Set("Connection", "keep-alive, Upgrade")
			request.Header.Set("Upgrade", protocol)
			through := client
			if from == front.URL {
				through = front.Client()
			}
			response, err := through.Do(request)
			if err != nil {
				t.Fatalf("%s: %v", from, err)
			}
			stream, ok := response.Body.(io.ReadWriteCloser)
			if response.StatusCode != http.StatusSwitchingProtocols || !ok {
				t.Fatalf("%s: %s", from, response.Status)
			}
			io.WriteString(stream, "hello\n")
			if line, err := bufio.NewReader(stream).ReadString('\n'); line != "echo: hello\n" {
				t.Errorf("%q, %v", line, err)
			}
			stream.Close()
		}
		if _, body := get(t, client, h.url); string(body) != "HTTP/2.0" {
			t.Errorf("an ordinary request went by %s", body)
		}
	}
	front.Client().CloseIdleConnections()
}

// Requests that fail on their way leave no connection behind for the next one, nor any at all.
func TestFailedRequestsLeaveNoConnection(t *testing.T) {
	everyServer(t, func(t *testing.T, h *httpWorld, protocol int) {
		client := h.client(t, nil)
		fails := map[string]func() (*http.Response, error){
			"header name": func() (*http.Response, error) {
				request, _ := http.NewRequest("GET", h.url, nil)
				request.Header["bad name"] = []string{"x"}
				return client.Transport.RoundTrip(request)
			},
			"no host": func() (*http.Response, error) {
				return client.Transport.RoundTrip(&http.Request{Method: "GET", URL: &url.URL{Scheme: "https", Path: "/"}, Header: http.Header{}})
			},
			"cancel in the handshake": func() (*http.Response, error) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				trace := &httptrace.ClientTrace{TLSHandshakeDone: func(tls.ConnectionState, error) { cancel() }}
				request, _ := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), "GET", h.url+"/slow/100ms", nil)
				return client.Transport.RoundTrip(request)
			},
		}
		for name, fail := range fails {
			client.CloseIdleConnections()
			if response, err := fail(); err == nil {
				response.Body.Close()
				t.Errorf("%s: no error", name)
			}
			if _, body := get(t, client, h.url+"/bytes/10"); len(body) != 10 {
				t.Errorf("%s: %d bytes", name, len(body))
			}
		}
		for i := range 40 { // short deadlines, at every stage of a connection
			client.CloseIdleConnections()
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*100*time.Microsecond)
			request, _ := http.NewRequestWithContext(ctx, "GET", h.url+"/bytes/10", nil)
			if response, err := client.Do(request); err == nil {
				response.Body.Close()
			}
			cancel()
			if _, body := get(t, client, h.url+"/bytes/10"); len(body) != 10 {
				t.Errorf("after a deadline: %d bytes", len(body))
			}
		}
	})
}

// alternating chooses another protocol with each connection, as machines behind a balancer may.
func alternating(t *testing.T) *httpWorld {
	w := newWorld(t)
	var count atomic.Int64
	config := goServer(t, w)
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		one := goServer(t, w)
		one.NextProtos = []string{[]string{"h2", "http/1.1"}[count.Add(1)%2]}
		return one, nil
	}
	server := startGo(t, testHandler(), config, true, nil)
	return &httpWorld{w, urlOf(server.Listener.Addr()), nil, server}
}

// A body that can be read once only is sent, whatever the server speaks this time.
func TestStreamedBodiesToAChangingServer(t *testing.T) {
	leavesNothing(t)
	h := alternating(t)
	client := h.client(t, nil)
	for i := range 60 {
		if i%3 != 0 {
			client.CloseIdleConnections()
		}
		reader, writer := io.Pipe()
		go func() {
			writer.Write(pattern(20_000))
			writer.Close()
		}()
		request, _ := http.NewRequest("POST", h.url+"/echo", reader)
		response, err := client.Do(request)
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || !bytes.Equal(body, pattern(20_000)) {
			t.Errorf("request %d: %d bytes, %v", i, len(body), err)
		}
	}
}

// closeCounter is a body that counts how often it is closed.
type closeCounter struct {
	io.Reader
	closed atomic.Int64
}

func (c *closeCounter) Close() error { c.closed.Add(1); return nil }

func TestBodiesAreClosed(t *testing.T) {
	leavesNothing(t)
	h := alternating(t)
	client := h.client(t, nil)
	for i, target := range []string{h.url + "/echo", h.url + "/refuse", "https://localhost:1/", "https:///", h.url + "/echo"} {
		client.CloseIdleConnections()
		body := &closeCounter{Reader: strings.NewReader("hello")}
		request, _ := http.NewRequest("POST", target, body)
		response, err := client.Transport.RoundTrip(request)
		if err == nil {
			io.Copy(io.Discard, response.Body)
			response.Body.Close()
			if response.Request != request {
				t.Error("Response.Request is another one")
			}
		}
		for range 100 {
			if body.closed.Load() > 0 {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		if body.closed.Load() == 0 {
			t.Errorf("request %d: the body is not closed (%v)", i, err)
		}
	}
}

// Proxies that differ with each request, by a session in their name, say, keep no connections beyond the limit.
func TestManyProxies(t *testing.T) {
	leavesNothing(t)
	h := goHTTPServer(t, true)
	proxy := newProxy(t, h.world, false)
	var count atomic.Int64
	client := h.client(t, func(base *http.Transport) {
		base.MaxIdleConns = 5
		base.ForceAttemptHTTP2, base.TLSNextProto = false, map[string]func(string, *tls.Conn) http.RoundTripper{}
		base.Proxy = func(*http.Request) (*url.URL, error) {
			one := *proxy.url
			one.User = url.UserPassword(fmt.Sprint("session-", count.Add(1)), "x")
			return &one, nil
		}
	})
	before := countResources()
	var addresses sync.Map
	for range 60 {
		trace := &httptrace.ClientTrace{GetConn: func(address string) { addresses.Store(address, true) }}
		request, _ := http.NewRequestWithContext(httptrace.WithClientTrace(context.Background(), trace), "GET", h.url+"/bytes/10", nil)
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if response.Request.URL.Host != strings.TrimPrefix(h.url, "https://") {
			t.Errorf("Response.Request is for %s", response.Request.URL)
		}
	}
	addresses.Range(func(address, _ any) bool {
		if address != proxy.url.Host {
			t.Errorf("GetConn for %s", address)
		}
		return true
	})
	for range 200 {
		if now := countResources(); now.conns-before.conns <= 5 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if now := countResources(); now.conns-before.conns > 5 {
		t.Errorf("%d connections are kept", now.conns-before.conns)
	}
	if proxy.connects.Load() != 60 {
		t.Errorf("%d connections by the proxy: requests of different proxies share some", proxy.connects.Load())
	}
}

func TestInternationalHosts(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	server := w.ca.issue(t, nil, "xn--bcher-kva.test")
	seen := make(chan string, 10)
	config := &tls.Config{Certificates: []tls.Certificate{server.tlsCertificate(t)}, NextProtos: []string{"h2", "http/1.1"}}
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		seen <- hello.ServerName
		return nil, nil
	}
	h := startGo(t, testHandler(), config, true, nil)
	base := &http.Transport{ForceAttemptHTTP2: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, h.Listener.Addr().String())
	}}
	transport, err := TransportFrom(base, closing(t, &Config{CaPEM: w.ca.pem}))
	if err != nil {
		t.Fatal(err)
	}
	defer transport.CloseIdleConnections()
	if _, body := get(t, &http.Client{Transport: transport}, "https://bücher.test/bytes/10"); len(body) != 10 || <-seen != "xn--bcher-kva.test" {
		t.Errorf("%d bytes", len(body))
	}
}
