package fipstls

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"sync"
	"time"
)

// Transport is an http.RoundTripper whose https requests go through libssl: pooled connections,
// HTTP/2 where the server chooses it by ALPN, HTTP proxies, httptrace, Response.TLS. Plain http
// requests go as http.Transport sends them.
//
// It works with two http.Transports for each proxy, since one alone speaks HTTP/2 only over a
// *tls.Conn: the first contact with a host finds out by ALPN which of them is asked. CONNECT is
// spoken here: http.Transport would go on with crypto/tls behind a proxy, which is what this package
// is there to avoid.
type Transport struct {
	config *Config
	base   *http.Transport
	plain  *http.Transport // for http://, which libssl has nothing to do with

	mu     sync.Mutex
	routes map[string]*route // by proxy, "" being none
}

// NewTransport returns a Transport with the settings of http.DefaultTransport. Mistakes in the
// configuration show here.
func NewTransport(config *Config) (http.RoundTripper, error) {
	transport, err := TransportFrom(nil, config)
	if err != nil {
		return nil, err
	}
	return transport, nil
}

// TransportFrom returns a Transport with the settings of base (timeouts, limits, Proxy, DialContext);
// nil is http.DefaultTransport. What base says about TLS is an error, since config says it.
func TransportFrom(base *http.Transport, config *Config) (*Transport, error) {
	if base == nil {
		base = http.DefaultTransport.(*http.Transport)
	} else if base.DialTLSContext != nil || base.DialTLS != nil || saysSomething(base.TLSClientConfig) {
		return nil, errors.New("fipstls: the http.Transport has TLS settings of its own; they belong into the Config")
	}
	if config == nil {
		config = &defaultConfig
	}
	if err := config.Check(); err != nil {
		return nil, err
	}
	t := &Transport{config: config, base: base.Clone(), routes: make(map[string]*route)}
	t.base.TLSNextProto, t.base.TLSClientConfig = nil, nil
	t.plain = t.base.Clone()
	t.plain.Protocols = protocols(true)
	// An https proxy for http requests: the one thing for which this one needs TLS.
	t.plain.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		return t.handshake(ctx, network, address, hostOf(address), []string{"http/1.1"})
	}
	return t, nil
}

// saysSomething tells settings from the list of protocols that http.Transport itself fills in when it
// is cloned.
func saysSomething(config *tls.Config) bool {
	return config != nil && (config.RootCAs != nil || config.ServerName != "" || config.InsecureSkipVerify ||
		len(config.Certificates) > 0 || config.GetClientCertificate != nil ||
		config.VerifyPeerCertificate != nil || config.VerifyConnection != nil ||
		config.MinVersion != 0 || config.MaxVersion != 0 || len(config.CipherSuites) > 0 ||
		len(config.CurvePreferences) > 0 || config.KeyLogWriter != nil || config.ClientSessionCache != nil)
}

func protocols(http1 bool) *http.Protocols {
	set := new(http.Protocols)
	set.SetHTTP1(http1)
	set.SetUnencryptedHTTP2(!http1) // to http.Transport a connection that is no *tls.Conn is unencrypted
	return set
}

// NewClient returns an http.Client over a [Transport]. Mistakes in the configuration come from the
// first request.
func NewClient(config *Config) *http.Client {
	transport, err := NewTransport(config)
	if err != nil {
		transport = failingTransport{err}
	}
	return &http.Client{Transport: transport}
}

type failingTransport struct{ err error }

func (f failingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body != nil {
		request.Body.Close()
	}
	return nil, f.err
}

// CloseIdleConnections closes the connections that no request is using.
func (t *Transport) CloseIdleConnections() {
	t.plain.CloseIdleConnections()
	t.mu.Lock()
	routes := make([]*route, 0, len(t.routes))
	for _, r := range t.routes {
		routes = append(routes, r)
	}
	t.mu.Unlock()
	for _, r := range routes {
		r.http1.CloseIdleConnections()
		r.http2.CloseIdleConnections()
		r.dropHanded()
	}
}

// RoundTrip sends a request, as http.RoundTripper says.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL == nil || request.URL.Scheme != "https" {
		return t.plain.RoundTrip(request)
	}
	var proxy *url.URL
	if t.base.Proxy != nil {
		var err error
		if proxy, err = t.base.Proxy(request); err != nil {
			closeBody(request)
			return nil, err
		}
	}
	return t.routeFor(proxy).roundTrip(request)
}

func closeBody(request *http.Request) {
	if request.Body != nil {
		request.Body.Close()
	}
}

func (t *Transport) routeFor(proxy *url.URL) *route {
	key := ""
	if proxy != nil {
		key = proxy.String()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.routes[key]
	if r == nil {
		r = t.newRoute(proxy)
		t.routes[key] = r
	}
	return r
}

// route is how requests reach servers: directly or by one proxy.
type route struct {
	transport *Transport
	proxy     *url.URL
	http1     *http.Transport
	http2     *http.Transport // nil when the configuration does not offer h2

	mu    sync.Mutex
	hosts map[string]*host
}

// host is what is known of a server.
type host struct {
	protocol string        // "" until the first handshake
	probing  chan struct{} // closed when the request that finds it out has its connection
	handed   []*Conn       // connections that wait for the http.Transport of their protocol
}

// errOtherProtocol says that a server chose another protocol than it did before.
var errOtherProtocol = errors.New("fipstls: the server changed its protocol; the request was not sent")

func (t *Transport) newRoute(proxy *url.URL) *route {
	r := &route{transport: t, proxy: proxy, hosts: make(map[string]*host)}
	make1 := func(http1 bool) *http.Transport {
		inner := t.base.Clone()
		inner.Proxy = nil // CONNECT is spoken in connect
		inner.Protocols = protocols(http1)
		inner.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			return r.dialFor(ctx, network, address, http1)
		}
		return inner
	}
	r.http1, r.http2 = make1(true), make1(false)
	return r
}

// offer is what is offered by ALPN.
func (t *Transport) offer() []string {
	if len(t.config.NextProtos) > 0 {
		return t.config.NextProtos
	}
	return []string{"h2", "http/1.1"}
}

func (r *route) roundTrip(request *http.Request) (*http.Response, error) {
	address := addressOf(request.URL)
	protocol, found, err := r.protocolOf(request.Context(), address)
	if err != nil {
		closeBody(request)
		return nil, err
	}
	defer func() { found() }()
	body := request.Body
	var used *Conn
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		used, _ = info.Conn.(*Conn)
		found()
	}}
	request = request.WithContext(httptrace.WithClientTrace(request.Context(), trace))
	response, err := r.inner(protocol).RoundTrip(request)
	if err != nil && errors.Is(err, errOtherProtocol) {
		// Nothing was sent, but the body was closed.
		if body != nil && body != http.NoBody {
			if request.GetBody == nil {
				return nil, err
			}
			if request.Body, err = request.GetBody(); err != nil {
				return nil, err
			}
		}
		found()
		if protocol, found, err = r.protocolOf(request.Context(), address); err != nil {
			found = func() {}
			closeBody(request)
			return nil, err
		}
		response, err = r.inner(protocol).RoundTrip(request)
	}
	if response != nil && response.TLS == nil && used != nil {
		used.ConnectionState()
		response.TLS = used.sharedState()
	}
	return response, err
}

func (r *route) inner(protocol string) *http.Transport {
	if protocol == "h2" {
		return r.http2
	}
	return r.http1
}

// addressOf is what http.Transport dials for a URL.
func addressOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// protocolOf returns what a server speaks. The first request makes a connection to find out, which its
// http.Transport then takes; others wait until it has, instead of making one each. found has to be
// called when the request has its connection or has failed.
func (r *route) protocolOf(ctx context.Context, address string) (protocol string, found func(), err error) {
	if !slices.Contains(r.transport.offer(), "h2") {
		return "http/1.1", func() {}, nil
	}
	for {
		r.mu.Lock()
		h := r.hostAt(address)
		if probing := h.probing; probing != nil {
			r.mu.Unlock()
			select {
			case <-probing:
				continue
			case <-ctx.Done():
				return "", nil, context.Cause(ctx)
			}
		}
		if h.protocol != "" {
			r.mu.Unlock()
			return h.protocol, func() {}, nil
		}
		probing := make(chan struct{})
		h.probing = probing
		r.mu.Unlock()
		found := sync.OnceFunc(func() {
			r.mu.Lock()
			h.probing = nil
			r.mu.Unlock()
			close(probing)
		})

		conn, err := r.dial(ctx, "tcp", address)
		if err != nil {
			found()
			return "", nil, err
		}
		r.mu.Lock()
		h.protocol = protocolName(conn)
		h.handed = append(h.handed, conn)
		protocol := h.protocol
		r.mu.Unlock()
		return protocol, found, nil
	}
}

// hostsKept bounds what is remembered; a host that was forgotten is asked again.
const hostsKept = 10_000

// hostAt returns what is known of a server. mu is held.
func (r *route) hostAt(address string) *host {
	h := r.hosts[address]
	if h == nil {
		for old, known := range r.hosts {
			if len(r.hosts) < hostsKept {
				break
			}
			if known.probing == nil && len(known.handed) == 0 {
				delete(r.hosts, old)
			}
		}
		h = new(host)
		r.hosts[address] = h
	}
	return h
}

func protocolName(conn *Conn) string {
	if conn.Negotiated().Protocol == "h2" {
		return "h2"
	}
	return "http/1.1"
}

// dialFor is how an http.Transport gets a connection: one that waits for it, or a new one.
func (r *route) dialFor(ctx context.Context, network, address string, http1 bool) (net.Conn, error) {
	wanted := "h2"
	if http1 {
		wanted = "http/1.1"
	}
	if conn := r.takeHanded(address, wanted); conn != nil {
		return conn, nil
	}
	conn, err := r.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	got := protocolName(conn)
	if got == wanted {
		return conn, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.hostAt(address)
	h.protocol = got
	h.handed = append(h.handed, conn)
	return nil, errOtherProtocol
}

func (r *route) takeHanded(address, protocol string) *Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.hosts[address]
	if h == nil {
		return nil
	}
	for i, conn := range h.handed {
		if protocolName(conn) == protocol {
			h.handed = slices.Delete(h.handed, i, i+1)
			return conn
		}
	}
	return nil
}

func (r *route) dropHanded() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.hosts {
		for _, conn := range h.handed {
			conn.Close()
		}
		h.handed = nil
	}
}

// dial connects to a server, by the proxy where there is one, and performs the handshake.
func (r *route) dial(ctx context.Context, network, address string) (*Conn, error) {
	t := r.transport
	name := t.config.ServerName
	if name == "" {
		name = hostOf(address)
	}
	if r.proxy == nil {
		return t.handshake(ctx, network, address, name, t.offer())
	}
	raw, err := r.connect(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return t.secure(ctx, raw, name, t.offer())
}

func (t *Transport) handshake(ctx context.Context, network, address, name string, offer []string) (*Conn, error) {
	raw, err := t.dialPlain(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return t.secure(ctx, raw, name, offer)
}

func (t *Transport) dialPlain(ctx context.Context, network, address string) (net.Conn, error) {
	if t.base.DialContext != nil {
		return t.base.DialContext(ctx, network, address)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// secure performs the handshake over a connection, which is closed when it fails.
func (t *Transport) secure(ctx context.Context, raw net.Conn, name string, offer []string) (*Conn, error) {
	trace := httptrace.ContextClientTrace(ctx)
	if trace != nil && trace.TLSHandshakeStart != nil {
		trace.TLSHandshakeStart()
	}
	if t.base.TLSHandshakeTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t.base.TLSHandshakeTimeout, handshakeTimeout{t.base.TLSHandshakeTimeout})
		defer cancel()
	}
	conn := t.config.ClientConn(raw, name, offer)
	err := conn.HandshakeContext(ctx)
	if trace != nil && trace.TLSHandshakeDone != nil {
		var state tls.ConnectionState
		if err == nil {
			state = conn.ConnectionState()
		}
		trace.TLSHandshakeDone(state, err)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// handshakeTimeout is the net.Error of TLSHandshakeTimeout.
type handshakeTimeout struct{ after time.Duration }

func (e handshakeTimeout) Error() string {
	return fmt.Sprintf("fipstls: the handshake takes longer than %s", e.after)
}
func (handshakeTimeout) Timeout() bool   { return true }
func (handshakeTimeout) Temporary() bool { return true }
