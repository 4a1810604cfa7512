package fipstls

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/idna"
)

// Transport is an http.RoundTripper whose https requests go through libssl: pooled connections,
// HTTP/2 where the server chooses it by ALPN, HTTP proxies, httptrace, Response.TLS. Plain http
// requests go as http.Transport sends them. The zero value is ready; its fields must not be changed
// after the first request.
//
// It works with two http.Transports, since one alone speaks HTTP/2 only over a *tls.Conn, and a third one
// for plain http. Each has the limits of idle and other connections that were set. ALPN decides which of
// them sends a request. While a host's protocol is unknown each request dials for itself, as in net/http,
// and is sent by the first connection that is free for it, whichever request made that. A connection is made
// only when one of them asks for it, and belongs to it; one that came with the other protocol belongs to its request
// until the right one has taken it, and is closed otherwise (see pendingDial). CONNECT is spoken here:
// http.Transport would go on with crypto/tls behind a proxy, which is what this package is there to avoid.
type Transport struct {
	// Dialer, if there is one, has the configuration and makes the connections below. NewTransport and
	// TransportFrom don't set it.
	Dialer *Dialer
	// DisableCompression does not ask for gzip.
	DisableCompression bool
	// SetHeader and ModifyHeader, if set, may change a copy of each request's header before it is sent.
	SetHeader    func(header *http.Header)
	ModifyHeader func(header *http.Header)

	mu    sync.Mutex
	pools *pools
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

// TransportFrom returns a Transport with the settings of base (timeouts, limits, Proxy, DialContext,
// Protocols); nil is http.DefaultTransport. What base says about TLS is an error, since config says it.
func TransportFrom(base *http.Transport, config *Config) (*Transport, error) {
	made, err := newPools(base, config)
	if err != nil {
		return nil, err
	}
	return &Transport{pools: made}, nil
}

// NewClient returns an http.Client over a [Transport], whose connections are made as options say.
// Mistakes in the configuration come from the first request.
func NewClient(config *Config, options ...DialOption) *http.Client {
	if len(options) > 0 {
		return &http.Client{Transport: &Transport{Dialer: NewDialer(config, options...)}}
	}
	transport, err := NewTransport(config)
	if err != nil {
		transport = failingTransport{err}
	}
	return &http.Client{Transport: transport}
}

type failingTransport struct{ err error }

func (f failingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	closeBody(request)
	return nil, f.err
}

// ready returns the connections of a Transport, also of one that was not made by a function here. What is
// wrong is said again by the next request: a file that is missing may be there then.
func (t *Transport) ready() (*pools, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pools != nil {
		return t.pools, nil
	}
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.DisableCompression = t.DisableCompression
	var config *Config
	if t.Dialer != nil {
		var err error
		if config, err = t.Dialer.config(); err != nil {
			return nil, err
		}
		base.DialContext = t.Dialer.dialBelow
	}
	var err error
	t.pools, err = newPools(base, config)
	return t.pools, err
}

// CloseIdleConnections closes the connections that no request is using.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	p := t.pools
	t.mu.Unlock()
	if p == nil {
		return
	}
	p.plain.CloseIdleConnections()
	p.http1.CloseIdleConnections()
	p.http2.CloseIdleConnections()
}

// RoundTrip sends a request, as http.RoundTripper says.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	p, err := t.ready()
	if err != nil {
		closeBody(request)
		return nil, err
	}
	if t.SetHeader != nil || t.ModifyHeader != nil {
		request = request.WithContext(request.Context())
		if request.Header = request.Header.Clone(); request.Header == nil {
			request.Header = make(http.Header)
		}
		for _, change := range []func(*http.Header){t.SetHeader, t.ModifyHeader} {
			if change != nil {
				change(&request.Header)
			}
		}
	}
	if request.URL == nil || request.URL.Scheme != "https" || request.URL.Host == "" {
		return p.plain.RoundTrip(request) // which also says what is wrong with such a URL
	}
	var proxy *url.URL
	if p.base.Proxy != nil {
		if proxy, err = p.base.Proxy(request); err != nil {
			closeBody(request)
			return nil, err
		}
	}
	return p.roundTrip(request, proxy)
}

func closeBody(request *http.Request) {
	if request.Body != nil {
		request.Body.Close()
	}
}

// pools are the connections of a Transport.
type pools struct {
	config *Config
	base   *http.Transport
	offer  []string        // by ALPN
	plain  *http.Transport // for http://, which libssl has nothing to do with
	http1  *http.Transport
	http2  *http.Transport

	mu    sync.Mutex
	hosts map[string]*host // by address, or by proxy and address
}

// otherProtocol says that a server chose another protocol than it was asked in.
type otherProtocol struct{ protocol string }

func (e *otherProtocol) Error() string {
	return "fipstls: the server chose " + e.protocol + " this time; the request was not sent"
}

func newPools(base *http.Transport, config *Config) (*pools, error) {
	if base == nil {
		base = http.DefaultTransport.(*http.Transport)
	} else if err := refuse(base); err != nil {
		return nil, err
	}
	if config == nil {
		config = &defaultConfig
	}
	if err := config.Check(); err != nil {
		return nil, err
	}
	wanted := protocolsOf(base)
	p := &pools{config: config, base: base.Clone(), hosts: make(map[string]*host)}
	offer := config.NextProtos
	if len(offer) == 0 {
		offer = []string{"h2", "http/1.1"}
	}
	for _, protocol := range offer {
		if (protocol != "h2" || wanted.HTTP2()) && (protocol != "http/1.1" || wanted.HTTP1()) {
			p.offer = append(p.offer, protocol)
		}
	}
	if len(p.offer) == 0 {
		return nil, fmt.Errorf("fipstls: the http.Transport speaks none of the protocols %q", offer)
	}
	p.base.TLSNextProto, p.base.TLSClientConfig, p.base.DialTLSContext = nil, nil, nil
	p.plain = p.base.Clone()
	p.plain.Protocols = new(http.Protocols)
	p.plain.Protocols.SetHTTP1(wanted.HTTP1())
	p.plain.Protocols.SetUnencryptedHTTP2(wanted.UnencryptedHTTP2())
	// An https proxy for http requests: the one thing for which this one needs TLS.
	p.plain.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := guardedDial(address, func() (*Conn, error) {
			return p.handshake(ctx, network, address, hostOf(address), []string{"http/1.1"})
		})
		if err != nil {
			return nil, err
		}
		return conn, nil
	}
	p.http1, p.http2 = p.inner(true), p.inner(false)
	return p, nil
}

// inner is the http.Transport of one protocol.
func (p *pools) inner(http1 bool) *http.Transport {
	inner := p.base.Clone()
	inner.Proxy = nil // CONNECT is spoken in connect
	inner.Protocols = new(http.Protocols)
	inner.Protocols.SetHTTP1(http1)
	inner.Protocols.SetUnencryptedHTTP2(!http1) // to http.Transport a connection that is no *tls.Conn is unencrypted
	wanted := "h2"
	if http1 {
		wanted = "http/1.1"
	}
	inner.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		return p.dial(ctx, network, address, wanted)
	}
	return inner
}

// refuse names what an http.Transport says about TLS.
func refuse(base *http.Transport) error {
	//lint:ignore SA1019 what is set is refused
	if base.DialTLSContext != nil || base.DialTLS != nil {
		return errors.New("fipstls: the http.Transport has a DialTLSContext or DialTLS of its own, which would not be libssl's")
	}
	if field := saying(base.TLSClientConfig); field != "" {
		return fmt.Errorf("fipstls: http.Transport.TLSClientConfig.%s would be ignored; what it says belongs into the Config", field)
	}
	for protocol := range base.TLSNextProto {
		if protocol != "h2" && protocol != unencryptedHTTP2 {
			return fmt.Errorf("fipstls: http.Transport.TLSNextProto has %q, which takes a *tls.Conn", protocol)
		}
	}
	return nil
}

// protocolsOf is what an http.Transport would speak, by the rules of net/http: Protocols, or else a
// TLSNextProto that is set, a dial function without ForceAttemptHTTP2, or GODEBUG may switch HTTP/2 off.
func protocolsOf(base *http.Transport) http.Protocols {
	var set http.Protocols
	if base.Protocols != nil {
		set = *base.Protocols
	} else {
		set.SetHTTP1(true)
		//lint:ignore SA1019 what is set is kept
		isCustom := base.Dial != nil || base.DialContext != nil
		if base.TLSNextProto != nil {
			set.SetHTTP2(base.TLSNextProto["h2"] != nil)
		} else {
			set.SetHTTP2(base.ForceAttemptHTTP2 || !isCustom)
		}
	}
	if set.HTTP2() || set.UnencryptedHTTP2() {
		// net/http knows the ways in which it can be built or told not to.
		probe := &http.Transport{Protocols: new(http.Protocols)}
		probe.Protocols.SetUnencryptedHTTP2(true)
		probe.CloseIdleConnections()
		if len(probe.TLSNextProto) == 0 {
			set.SetHTTP2(false)
			set.SetUnencryptedHTTP2(false)
		}
	}
	return set
}

// --- a request -------------------------------------------------------------------------------------

// attempt is a request on its way to a connection. It is the context that goes into dial, which
// http.Transport runs on its own, beyond the request's end.
type attempt struct {
	context.Context
	key       string // in hosts
	host      *host
	address   string
	proxy     *url.URL
	onlyHTTP1 bool
	used      atomic.Pointer[Conn]

	// pools.mu protects what is below.
	dials    []*pendingDial // that no http.Transport has taken yet
	claimed  int            // connections of this request that other requests have taken
	hasMoved bool           // to the other http.Transport, because of another request's connection
	hasEnded bool
}

type attemptKey struct{}

// Value gives the attempt itself, and what the request's context has.
func (a *attempt) Value(key any) any {
	if key == (attemptKey{}) {
		return a
	}
	return a.Context.Value(key)
}

// heldBody keeps a body open that http.Transport closes because it got no connection: the request goes
// on with another one. Once it was read from, everything passes.
type heldBody struct {
	io.ReadCloser
	mu      sync.Mutex
	passing bool
	closed  bool
}

func (h *heldBody) Read(b []byte) (int, error) {
	h.mu.Lock()
	h.passing = true
	h.mu.Unlock()
	return h.ReadCloser.Read(b)
}

func (h *heldBody) Close() error {
	h.mu.Lock()
	h.closed = true
	isPassing := h.passing
	h.mu.Unlock()
	if !isPassing {
		return nil
	}
	return h.ReadCloser.Close()
}

// again opens the body for another try, if it was not read.
func (h *heldBody) again() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = false
	return !h.passing
}

// release lets everything pass, and does what was held up.
func (h *heldBody) release() {
	h.mu.Lock()
	isHeld := h.closed && !h.passing
	h.passing = true
	h.mu.Unlock()
	if isHeld {
		h.ReadCloser.Close()
	}
}

// maxTries is how often a request is sent to an http.Transport if no other request claims its connections: the
// first try may learn from another request's connection that the server speaks the other protocol, the second
// makes a connection that negotiates yet another one, and the third takes that connection. Each connection that
// another request claims (see pools.claim) allows one try more.
const maxTries = 3

func (p *pools) roundTrip(request *http.Request, proxy *url.URL) (response *http.Response, err error) {
	a := &attempt{proxy: proxy, onlyHTTP1: needsHTTP1(request)}
	if err := a.prepare(request); err != nil {
		closeBody(request)
		return nil, err
	}
	a.host = p.hostAt(a.key)
	protocol := p.protocolOf(a)
	hasFailed := true // or a hook has panicked
	defer func() { p.end(a, hasFailed) }()
	a.Context = a.traced(request.Context())
	inner := a.inner(request)
	var body *heldBody
	if inner.Body != nil && inner.Body != http.NoBody {
		body = &heldBody{ReadCloser: inner.Body}
		inner.Body = body
		defer body.release()
	}
	for try := 1; ; try++ {
		if protocol == "h2" {
			response, err = p.http2.RoundTrip(inner)
		} else {
			response, err = p.http1.RoundTrip(inner)
		}
		var other *otherProtocol
		if err == nil || !errors.As(err, &other) || !p.mayRetry(a, try) || body != nil && !body.again() {
			break
		}
		protocol = other.protocol
	}
	hasFailed = err != nil
	if response != nil {
		response.Request = request
		used := a.used.Load()
		if response.TLS == nil && used != nil {
			used.ConnectionState()
			response.TLS = used.sharedState()
		}
	}
	return response, err
}

// mayRetry returns whether a request whose connection negotiated the other protocol may be tried again.
func (p *pools) mayRetry(a *attempt, try int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return try < maxTries+a.claimed
}

// untraced is a context without the hooks of httptrace that it has.
type untraced struct{ context.Context }

func (u untraced) Value(key any) any {
	value := u.Context.Value(key)
	if _, isTrace := value.(*httptrace.ClientTrace); isTrace {
		return nil
	}
	return value
}

// traced notes the connection that a request gets. The request's own hooks see one wish for a connection,
// however many http.Transports are asked, and the address that it is for.
func (a *attempt) traced(ctx context.Context) context.Context {
	var trace httptrace.ClientTrace
	if own := httptrace.ContextClientTrace(ctx); own != nil {
		trace, ctx = *own, untraced{ctx}
	}
	gotConn, getConn := trace.GotConn, trace.GetConn
	trace.GotConn = func(info httptrace.GotConnInfo) {
		used, _ := info.Conn.(*Conn)
		a.used.Store(used)
		if gotConn != nil {
			gotConn(info)
		}
	}
	if getConn != nil {
		address := a.address
		if a.proxy != nil {
			address = a.proxy.Host
		}
		var once sync.Once
		trace.GetConn = func(string) { once.Do(func() { getConn(address) }) }
	}
	return httptrace.WithClientTrace(ctx, &trace)
}

// needsHTTP1 tells requests that HTTP/2 has no words for, such as those of websockets.
func needsHTTP1(request *http.Request) bool {
	if request.Header.Get("Upgrade") == "" {
		return false
	}
	for _, value := range request.Header["Connection"] {
		for token := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(token), "upgrade") {
				return true
			}
		}
	}
	return false
}

// prepare fills in where a request goes. The inner http.Transports pool by the URL's host and know of no
// proxy, so what goes by a proxy gets a host of its own for each.
func (a *attempt) prepare(request *http.Request) error {
	name := request.URL.Hostname()
	if !isASCII(name) {
		var err error
		if name, err = idna.Lookup.ToASCII(name); err != nil {
			return fmt.Errorf("fipstls: host %q: %w", request.URL.Hostname(), err)
		}
	}
	port := request.URL.Port()
	if port == "" {
		port = "443"
	}
	a.address = net.JoinHostPort(name, port)
	a.key = a.address
	if a.proxy != nil {
		hash := sha256.Sum256([]byte(a.proxy.String() + "\x00" + a.address))
		a.key = hex.EncodeToString(hash[:24]) + ".proxied.invalid:" + port
	}
	return nil
}

// inner is a copy of a request for the inner http.Transports; the server sees the request's host.
func (a *attempt) inner(request *http.Request) *http.Request {
	inner := request.WithContext(a)
	if a.proxy == nil {
		return inner
	}
	alias := *request.URL
	alias.Host = a.key
	inner.URL = &alias
	if inner.Host == "" {
		inner.Host = request.URL.Host
	}
	return inner
}

// protocolOf returns in what to ask a server first: HTTP/2 while its protocol is unknown.
func (p *pools) protocolOf(a *attempt) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch known := a.host.protocol; {
	case a.onlyHTTP1 || !slices.Contains(p.offer, "h2"):
		return "http/1.1"
	case known != "":
		return known
	}
	return "h2"
}

// --- connections -----------------------------------------------------------------------------------

// connect reaches a server, by the proxy where there is one, and performs the handshake.
func (p *pools) connect(ctx context.Context, network string, a *attempt, offer []string) (*Conn, error) {
	name := p.config.ServerName
	if name == "" {
		name = hostOf(a.address)
	}
	if a.proxy == nil {
		return p.handshake(ctx, network, a.address, name, offer)
	}
	raw, err := (&route{p, a.proxy}).connect(ctx, network, a.address)
	if err != nil {
		return nil, err
	}
	return p.secure(ctx, raw, name, offer)
}

func (t *pools) handshake(ctx context.Context, network, address, name string, offer []string) (*Conn, error) {
	raw, err := t.dialPlain(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return t.secure(ctx, raw, name, offer)
}

func (t *pools) dialPlain(ctx context.Context, network, address string) (net.Conn, error) {
	if t.base.DialContext != nil {
		return t.base.DialContext(ctx, network, address)
	}
	if t.base.Dial != nil { //lint:ignore SA1019 what is set is kept
		return t.base.Dial(network, address)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// secure performs the handshake over a connection, which is closed when it fails or a hook panics.
func (t *pools) secure(ctx context.Context, raw net.Conn, name string, offer []string) (*Conn, error) {
	conn := t.config.ClientConn(raw, name, offer)
	isSecure := false
	defer func() {
		if !isSecure {
			conn.Close()
		}
	}()
	trace := httptrace.ContextClientTrace(ctx)
	if trace != nil && trace.TLSHandshakeStart != nil {
		trace.TLSHandshakeStart()
	}
	if t.base.TLSHandshakeTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t.base.TLSHandshakeTimeout, handshakeTimeout{t.base.TLSHandshakeTimeout})
		defer cancel()
	}
	err := conn.HandshakeContext(ctx)
	if trace != nil && trace.TLSHandshakeDone != nil {
		var state tls.ConnectionState
		if err == nil {
			state = conn.ConnectionState()
		}
		trace.TLSHandshakeDone(state, err)
	}
	if err != nil {
		return nil, err
	}
	isSecure = true
	return conn, nil
}

// handshakeTimeout is the net.Error of TLSHandshakeTimeout.
type handshakeTimeout struct{ after time.Duration }

func (e handshakeTimeout) Error() string {
	return fmt.Sprintf("fipstls: the handshake takes longer than %s", e.after)
}
func (handshakeTimeout) Timeout() bool   { return true }
func (handshakeTimeout) Temporary() bool { return true }
