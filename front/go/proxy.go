package fipstls

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/proxy"
)

// connectHeaderMax bounds what a proxy may answer to CONNECT.
const connectHeaderMax = 64 << 10

// route is the way to a server by a proxy.
type route struct {
	transport *pools
	proxy     *url.URL
}

// connectTimeout bounds what a proxy may take; http.Transport gives it as much.
const connectTimeout = time.Minute

// connect reaches address through the route's proxy (RFC 9110, section 9.3.6). The connection to an
// https proxy is libssl's too.
func (r *route) connect(ctx context.Context, network, address string) (net.Conn, error) {
	t := r.transport
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if r.proxy.Scheme == "socks5" || r.proxy.Scheme == "socks5h" {
		return r.connectSOCKS(ctx, network, address)
	}
	raw, err := r.dialProxy(ctx, network)
	if err != nil {
		return nil, fmt.Errorf("fipstls: proxy %s: %w", r.proxy.Redacted(), err)
	}
	isConnected := false // a callback may panic, too
	defer func() {
		if !isConnected {
			raw.Close()
		}
	}()
	header, err := r.connectHeader(ctx, address)
	if err != nil {
		return nil, err
	}
	request := &http.Request{
		Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: header,
	}
	// A proxy that says nothing must not hold the request beyond its context.
	stop := context.AfterFunc(ctx, func() {
		defer recovered(log.Printf, "ending CONNECT with", raw)
		raw.SetDeadline(time.Unix(1, 0))
	})
	defer stop()
	tunnel, response, err := speakConnect(raw, request)
	if !stop() {
		err = context.Cause(ctx)
	}
	if err == nil && t.base.OnProxyConnectResponse != nil {
		err = t.base.OnProxyConnectResponse(ctx, r.proxy, request, response)
	}
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	if err != nil {
		return nil, fmt.Errorf("fipstls: CONNECT %s by proxy %s: %w", address, r.proxy.Redacted(), err)
	}
	isConnected = true
	return tunnel, nil
}

// connectSOCKS reaches address through a SOCKS5 proxy (RFC 1928), which also looks the name up, as with
// http.Transport.
func (r *route) connectSOCKS(ctx context.Context, network, address string) (net.Conn, error) {
	var auth *proxy.Auth
	if user := r.proxy.User; user != nil {
		password, _ := user.Password()
		auth = &proxy.Auth{User: user.Username(), Password: password}
	}
	at := r.proxy.Host
	if r.proxy.Port() == "" {
		at = net.JoinHostPort(r.proxy.Hostname(), "1080")
	}
	dialer, err := proxy.SOCKS5(network, at, auth, plainDialer{r.transport})
	if err != nil {
		return nil, fmt.Errorf("fipstls: proxy %s: %w", r.proxy.Redacted(), err)
	}
	conn, err := dialer.(proxy.ContextDialer).DialContext(ctx, network, address)
	if err != nil {
		// The library gives the deadline to the connection, whose clock may be the first to say so.
		if at, ok := ctx.Deadline(); ok && isTimeout(err) && !time.Now().Before(at) {
			<-ctx.Done()
		}
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("fipstls: proxy %s: %w", r.proxy.Redacted(), err)
	}
	return conn, nil
}

// plainDialer dials as the transport's settings say.
type plainDialer struct{ t *pools }

func (p plainDialer) Dial(network, address string) (net.Conn, error) {
	return p.t.dialPlain(context.Background(), network, address)
}

func (p plainDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return p.t.dialPlain(ctx, network, address)
}

func (r *route) dialProxy(ctx context.Context, network string) (net.Conn, error) {
	t := r.transport
	address := r.proxy.Host
	switch r.proxy.Scheme {
	case "http":
		if r.proxy.Port() == "" {
			address = net.JoinHostPort(r.proxy.Hostname(), "80")
		}
		return t.dialPlain(ctx, network, address)
	case "https":
		if r.proxy.Port() == "" {
			address = net.JoinHostPort(r.proxy.Hostname(), "443")
		}
		return t.handshake(ctx, network, address, r.proxy.Hostname(), []string{"http/1.1"})
	}
	return nil, fmt.Errorf("%q is not supported for https requests; http, https and socks5 are", r.proxy.Scheme)
}

func (r *route) connectHeader(ctx context.Context, address string) (http.Header, error) {
	base := r.transport.base
	header := base.ProxyConnectHeader.Clone()
	if base.GetProxyConnectHeader != nil {
		var err error
		if header, err = base.GetProxyConnectHeader(ctx, r.proxy, address); err != nil {
			return nil, err
		}
		header = header.Clone()
	}
	if header == nil {
		header = make(http.Header)
	}
	if user := r.proxy.User; user != nil && header.Get("Proxy-Authorization") == "" {
		password, _ := user.Password()
		header.Set("Proxy-Authorization",
			"Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	return header, nil
}

// speakConnect sends the request and reads the answer, and not a byte more: what follows belongs to
// the server behind the proxy.
func speakConnect(raw net.Conn, request *http.Request) (net.Conn, *http.Response, error) {
	if err := request.Write(raw); err != nil {
		return nil, nil, err
	}
	limited := &limitedConn{Conn: raw, left: connectHeaderMax}
	reader := bufio.NewReader(limited)
	response, err := http.ReadResponse(reader, request)
	if err != nil {
		return nil, nil, err
	}
	limited.left = 0
	// Bytes behind the answer come first in what is read next.
	early := make([]byte, reader.Buffered())
	if _, err := reader.Read(early); len(early) > 0 && err != nil {
		return nil, nil, err
	}
	if len(early) > 0 {
		return &earlyConn{Conn: raw, early: early}, response, nil
	}
	return raw, response, nil
}

// limitedConn reads no more than is left.
type limitedConn struct {
	net.Conn
	left int
}

func (l *limitedConn) Read(b []byte) (int, error) {
	if l.left <= 0 {
		return 0, errors.New("the answer is too long")
	}
	n, err := l.Conn.Read(b[:min(len(b), l.left)])
	l.left -= n
	return n, err
}

// earlyConn gives out what was read too early before it reads on. One reader at a time, as Conn is.
type earlyConn struct {
	net.Conn
	early []byte
}

func (e *earlyConn) Read(b []byte) (int, error) {
	if len(e.early) > 0 {
		n := copy(b, e.early)
		e.early = e.early[n:]
		return n, nil
	}
	return e.Conn.Read(b)
}
