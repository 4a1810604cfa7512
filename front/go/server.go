package fipstls

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"
)

// handshakeMax bounds the handshake of a server's client where the http.Server has no timeouts.
const handshakeMax = 30 * time.Second

// Serve serves HTTP/1.1 and HTTP/2 over libssl's TLS, as http.Server.ServeTLS does over crypto/tls:
// server.Serve alone knows HTTP/2 and Request.TLS only for *tls.Conn. It sets server's Protocols,
// ConnContext, ConnState and Handler, keeping what they do, so a server that was given to Serve belongs to
// it; it may be given again, with another listener.
//
// config says all about TLS and needs a certificate. A TLSConfig of server's that says something is an
// error: a ClientAuth that is ignored would let everybody in. Protocols, an empty TLSNextProto and
// GODEBUG=http2server=0 are kept as net/http keeps them; NextProtos of config restrict them further.
func Serve(server *http.Server, inner net.Listener, config *Config) error {
	protocols, err := prepare(server)
	if err == nil {
		config, err = protocols.restrict(config)
	}
	if err == nil {
		defer config.Close()
		err = config.CheckServer()
	}
	if err != nil {
		inner.Close()
		return err
	}
	l := &handshakeListener{
		inner: inner, config: config, http1: protocols.http1, log: server.ErrorLog, limit: handshakeLimit(server),
		ready: make(chan net.Conn), failed: make(chan error, 1), done: make(chan struct{}),
		pending: make(map[net.Conn]struct{}),
	}
	go l.acceptAll()
	defer l.Close()
	return server.Serve(l)
}

// served are the protocols of a server.
type served struct{ http1, http2 bool }

// restrict returns a copy of a configuration that offers what the server speaks.
func (s served) restrict(config *Config) (*Config, error) {
	if config == nil {
		config = new(Config)
	}
	config = config.Clone()
	wanted := config.NextProtos
	if len(wanted) == 0 {
		wanted = []string{"h2", "http/1.1"}
	}
	config.NextProtos = nil
	for _, protocol := range wanted {
		if (protocol != "h2" || s.http2) && (protocol != "http/1.1" || s.http1) {
			config.NextProtos = append(config.NextProtos, protocol)
		}
	}
	if len(config.NextProtos) == 0 {
		return nil, fmt.Errorf("fipstls: the http.Server speaks none of the protocols %q", wanted)
	}
	return config, nil
}

// servedHandler marks a server that was prepared, and gives its requests their TLS.
type servedHandler struct {
	next      http.Handler
	protocols served
}

func (h *servedHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if conn, ok := r.Context().Value(connKey{}).(*Conn); ok && r.TLS == nil {
		conn.ConnectionState()
		r.TLS = conn.sharedState()
	}
	next := h.next
	if next == nil {
		next = http.DefaultServeMux
	}
	next.ServeHTTP(w, r)
}

// preparing orders several calls of Serve with one server: the first one changes it.
var preparing sync.Mutex

func prepare(server *http.Server) (served, error) {
	preparing.Lock()
	defer preparing.Unlock()
	if handler, ok := server.Handler.(*servedHandler); ok {
		return handler.protocols, nil
	}
	if field := saying(server.TLSConfig); field != "" {
		return served{}, fmt.Errorf("fipstls: http.Server.TLSConfig.%s would be ignored; what it says belongs into the Config", field)
	}
	for protocol := range server.TLSNextProto {
		if protocol != "h2" && protocol != unencryptedHTTP2 {
			return served{}, fmt.Errorf("fipstls: http.Server.TLSNextProto has %q, which takes a *tls.Conn", protocol)
		}
	}
	protocols := served{http1: true, http2: (server.TLSNextProto == nil || server.TLSNextProto["h2"] != nil) && canServeHTTP2()}
	if set := server.Protocols; set != nil {
		protocols = served{http1: set.HTTP1(), http2: set.HTTP2() && canServeHTTP2()}
	}
	server.TLSNextProto = nil
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(protocols.http1)
	// To http.Server a connection that is no *tls.Conn is unencrypted. Every one here is encrypted.
	server.Protocols.SetUnencryptedHTTP2(protocols.http2)
	connContext, connState := server.ConnContext, server.ConnState
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		own := ownConn(conn)
		if connContext != nil {
			ctx = connContext(ctx, own)
		}
		return context.WithValue(ctx, connKey{}, own)
	}
	if connState != nil {
		server.ConnState = func(conn net.Conn, state http.ConnState) { connState(ownConn(conn), state) }
	}
	server.Handler = &servedHandler{server.Handler, protocols}
	return protocols, nil
}

// unencryptedHTTP2 is net/http's own name for what it fills in.
const unencryptedHTTP2 = "unencrypted_http2"

// canServeHTTP2 asks net/http, which has several ways to be built or told not to.
func canServeHTTP2() bool {
	probe := &http.Server{Protocols: new(http.Protocols)}
	probe.Protocols.SetUnencryptedHTTP2(true)
	probe.Serve(closedListener{})
	return len(probe.TLSNextProto) > 0
}

type closedListener struct{}

func (closedListener) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (closedListener) Close() error              { return nil }
func (closedListener) Addr() net.Addr            { return &net.TCPAddr{} }

// saying names the first field of a tls.Config that says something. Not counted is what net/http fills in
// by itself, and PreferServerCipherSuites, which has no effect in crypto/tls either.
func saying(config *tls.Config) string {
	if config == nil {
		return ""
	}
	value := reflect.ValueOf(config).Elem()
	for i := range value.NumField() {
		field := value.Type().Field(i)
		if !field.IsExported() || field.Name == "PreferServerCipherSuites" || value.Field(i).IsZero() {
			continue
		}
		filledIn := func(protocol string) bool { return protocol == "h2" || protocol == "http/1.1" }
		if field.Name == "NextProtos" && !slices.ContainsFunc(config.NextProtos, func(p string) bool { return !filledIn(p) }) {
			continue
		}
		return field.Name
	}
	return ""
}

type connKey struct{}

// ownConn is the connection without what hides a method of it from net/http.
func ownConn(conn net.Conn) net.Conn {
	if hidden, ok := conn.(http2Conn); ok {
		return hidden.Conn
	}
	return conn
}

// http2Conn hides ConnectionState: http.Server looks for HTTP/2's preface only on a connection that
// has none.
type http2Conn struct{ *Conn }

// ConnectionState has another signature than the one that is hidden.
func (http2Conn) ConnectionState() {}

// handshakeLimit is the shortest timeout of a server that covers the handshake, as in net/http.
func handshakeLimit(server *http.Server) time.Duration {
	limit := handshakeMax
	for _, timeout := range []time.Duration{server.ReadHeaderTimeout, server.ReadTimeout, server.WriteTimeout} {
		if timeout > 0 && timeout < limit {
			limit = timeout
		}
	}
	return limit
}

// handshakeListener hands connections out when their handshake is done, so that their protocol is
// known. Slow clients wait beside each other.
type handshakeListener struct {
	inner  net.Listener
	config *Config
	http1  bool // a client that chooses no protocol means HTTP/1.1
	log    *log.Logger
	limit  time.Duration
	ready  chan net.Conn
	failed chan error
	done   chan struct{}
	once   sync.Once

	mu      sync.Mutex
	pending map[net.Conn]struct{} // whose handshake is not done
	closed  bool
}

// acceptDelayMin and acceptDelayMax bound the delay before Accept is retried after a temporary error, as in net/http.
const (
	acceptDelayMin = 5 * time.Millisecond
	acceptDelayMax = time.Second
)

// acceptPanic is a panic of the listener below, which goes on in Accept: in the goroutine of Serve's caller, as in net/http.
type acceptPanic struct{ value any }

func (a acceptPanic) Error() string {
	return fmt.Sprintf("fipstls: the listener panicked: %v", a.value)
}

func (l *handshakeListener) acceptAll() {
	err := errors.New("fipstls: the listener's Accept ended its goroutine")
	defer func() {
		if value := recover(); value != nil {
			err = acceptPanic{value}
		}
		l.failed <- err
	}()
	var delay time.Duration // after the last error
	for {
		raw, acceptErr := l.inner.Accept()
		if acceptErr == nil {
			delay = 0
			if !l.begin(raw) {
				closeGuarded(raw)
			}
			continue
		}
		//lint:ignore SA1019 net/http retries by it, for example when the process is out of descriptors
		if temporary, ok := acceptErr.(net.Error); !ok || !temporary.Temporary() {
			err = acceptErr
			return
		}
		delay = min(max(2*delay, acceptDelayMin), acceptDelayMax)
		l.logf("http: Accept error: %v; retrying in %v", acceptErr, delay)
		select {
		case <-time.After(delay):
		case <-l.done:
			err = net.ErrClosed
			return
		}
	}
}

// begin starts the handshake of a connection, unless the listener is closed.
func (l *handshakeListener) begin(raw net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.pending[raw] = struct{}{}
	go l.handshake(raw)
	return true
}

// end notes that a connection's handshake is over, and tells whether the listener is closed.
func (l *handshakeListener) end(raw net.Conn) (isClosed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pending, raw)
	return l.closed
}

// handshake runs in a goroutine of its own. It calls VerifyConnection, KeyLogWriter, the http.Server's log and
// what the listener accepted: a panic there ends this connection and nothing else.
func (l *handshakeListener) handshake(raw net.Conn) {
	conn := Server(raw, l.config)
	isServed := false
	defer recovered(l.logf, "serving", raw)
	defer func() {
		l.end(raw)
		if !isServed {
			conn.Close()
		}
	}()
	defer recovered(l.logf, "serving", raw)
	ctx, cancel := context.WithTimeout(context.Background(), l.limit)
	defer cancel()
	err := conn.HandshakeContext(ctx)
	isClosed := l.end(raw)
	if err == nil && !l.http1 && protocolName(conn) != "h2" {
		err = errNoProtocol
	}
	if err != nil {
		if looksLikeHTTP(conn.start[:]) {
			raw.SetWriteDeadline(time.Now().Add(time.Second))
			io.WriteString(raw, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
			dropUnread(raw) // which would reset the connection, and the answer with it
		}
		conn.Close()
		if !isClosed {
			l.logf("http: TLS handshake error from %s: %v", raw.RemoteAddr(), err)
		}
		return
	}
	var ready net.Conn = conn
	if protocolName(conn) == "h2" {
		ready = http2Conn{conn}
	}
	select {
	case l.ready <- ready:
		isServed = true
	case <-l.done:
	}
}

// errNoProtocol is about a client that offers none, at a server that speaks HTTP/2 only.
var errNoProtocol = errors.New("fipstls: the client does not offer h2")

// errPlainHTTP is about a client that does not speak TLS.
var errPlainHTTP = errors.New("fipstls: the client sent an HTTP request without TLS")

// looksLikeHTTP tells a request from a TLS record by its first five bytes, as net/http does.
func looksLikeHTTP(start []byte) bool {
	return slices.Contains([]string{"GET /", "HEAD ", "POST ", "PUT /", "OPTIO"}, string(start))
}

func (l *handshakeListener) logf(format string, values ...any) {
	if l.log != nil {
		l.log.Printf(format, values...)
	} else {
		log.Printf(format, values...)
	}
}

// Accept returns the next connection whose handshake is done.
func (l *handshakeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.ready:
		return conn, nil
	case err := <-l.failed:
		l.failed <- err // for the next call
		if panicked, ok := err.(acceptPanic); ok {
			panic(panicked.value)
		}
		return nil, err
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close ends the listener below and every handshake.
func (l *handshakeListener) Close() (err error) {
	l.once.Do(func() {
		close(l.done)
		defer func() {
			for raw := range l.endAll() {
				closeGuarded(raw)
			}
		}()
		err = l.inner.Close()
	})
	return err
}

// endAll lets no handshake begin any more, and returns the connections of those that have.
func (l *handshakeListener) endAll() map[net.Conn]struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return maps.Clone(l.pending)
}

// Addr returns the address that is listened at.
func (l *handshakeListener) Addr() net.Addr { return l.inner.Addr() }

var _ interface{ ConnectionState() tls.ConnectionState } = (*Conn)(nil)
