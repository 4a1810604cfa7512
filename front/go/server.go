package fipstls

import (
	"context"
	"crypto/tls"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// handshakeMax bounds the handshake of a server's client where the http.Server has no timeouts.
const handshakeMax = 30 * time.Second

// Serve serves HTTP/1.1 and HTTP/2 over libssl's TLS, as http.Server.ServeTLS does over crypto/tls:
// server.Serve alone knows HTTP/2 and Request.TLS only for *tls.Conn. It sets server's Protocols,
// ConnContext and Handler, keeping what they do, so a server that was given to Serve once belongs to it.
// config needs a certificate; its NextProtos are h2 and http/1.1 where they are empty.
func Serve(server *http.Server, inner net.Listener, config *Config) error {
	if err := config.CheckServer(); err != nil {
		inner.Close()
		return err
	}
	if len(config.NextProtos) == 0 {
		config = config.Clone()
		config.NextProtos = []string{"h2", "http/1.1"}
		defer config.Close()
	}
	set := new(http.Protocols)
	set.SetHTTP1(true)
	// To http.Server a connection that is no *tls.Conn is unencrypted. Every one here is encrypted.
	set.SetUnencryptedHTTP2(true)
	server.Protocols = set
	before := server.ConnContext
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if before != nil {
			ctx = before(ctx, conn)
		}
		if h2, ok := conn.(http2Conn); ok {
			ctx = context.WithValue(ctx, connKey{}, h2.Conn)
		}
		return ctx
	}
	handler := server.Handler
	if handler == nil {
		handler = http.DefaultServeMux
	}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, ok := r.Context().Value(connKey{}).(*Conn); ok && r.TLS == nil {
			conn.ConnectionState()
			r.TLS = conn.sharedState()
		}
		handler.ServeHTTP(w, r)
	})
	l := &handshakeListener{
		inner: inner, config: config, log: server.ErrorLog, limit: handshakeLimit(server),
		ready: make(chan net.Conn), failed: make(chan error, 1), done: make(chan struct{}),
		pending: make(map[net.Conn]struct{}),
	}
	go l.acceptAll()
	defer l.Close()
	return server.Serve(l)
}

type connKey struct{}

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

func (l *handshakeListener) acceptAll() {
	for {
		raw, err := l.inner.Accept()
		if err != nil {
			if temporary, ok := err.(interface{ Temporary() bool }); ok && temporary.Temporary() {
				time.Sleep(5 * time.Millisecond) // out of descriptors, say
				continue
			}
			l.failed <- err
			return
		}
		l.mu.Lock()
		if l.closed {
			raw.Close()
		} else {
			l.pending[raw] = struct{}{}
			go l.handshake(raw)
		}
		l.mu.Unlock()
	}
}

func (l *handshakeListener) handshake(raw net.Conn) {
	conn := Server(raw, l.config)
	ctx, cancel := context.WithTimeout(context.Background(), l.limit)
	err := conn.HandshakeContext(ctx)
	cancel()
	l.mu.Lock()
	delete(l.pending, raw)
	closed := l.closed
	l.mu.Unlock()
	if err != nil {
		conn.Close()
		if !closed {
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
	case <-l.done:
		conn.Close()
	}
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
		return nil, err
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close ends the listener below and every handshake.
func (l *handshakeListener) Close() error {
	var err error
	l.once.Do(func() {
		close(l.done)
		err = l.inner.Close()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.closed = true
		for raw := range l.pending {
			raw.Close()
		}
	})
	return err
}

// Addr returns the address that is listened at.
func (l *handshakeListener) Addr() net.Addr { return l.inner.Addr() }

var _ interface{ ConnectionState() tls.ConnectionState } = (*Conn)(nil)
