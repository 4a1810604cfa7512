package fipstls

import (
	"context"
	"errors"
	"net"
	"time"
)

// Dialer makes TLS connections. The zero value is ready; it may be used by several goroutines at once.
type Dialer struct {
	// NetDialer makes the connection below; nil is a zero net.Dialer. Its Timeout and Deadline bound the
	// whole of dialling, the handshake included.
	NetDialer *net.Dialer
	// Config says how; its ServerName, if empty, is taken from the address. TLS is another name for it.
	Config *Config
	TLS    *Config

	// Timeout and Deadline bound the whole of dialling beside NetDialer's.
	Timeout  time.Duration
	Deadline time.Time
	// Network, if set, is dialled in place of "tcp", by gRPC and http.Client: "tcp4", "tcp6" or "unix".
	Network string
	// Logger is told of each dial that succeeds or fails.
	Logger Logger
}

// config is the one that a Dialer has.
func (d *Dialer) config() (*Config, error) {
	switch {
	case d.Config != nil && d.TLS != nil && d.Config != d.TLS:
		return nil, errors.New("fipstls: the Dialer has two configurations, Config and TLS")
	case d.Config != nil:
		return d.Config, nil
	case d.TLS != nil:
		return d.TLS, nil
	}
	return &defaultConfig, nil
}

// Dial is DialContext without a context.
func (d *Dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialContext connects and performs the handshake; the connection is a *[Conn]. When ctx ends first,
// nothing is left behind.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return d.dial(ctx, network, address, nil)
}

// dial offers protocols by ALPN, or those of the configuration.
func (d *Dialer) dial(ctx context.Context, network, address string, protocols []string) (net.Conn, error) {
	conn, err := d.connect(ctx, network, address, protocols)
	isLogged := false
	defer func() {
		if !isLogged && conn != nil { // the Logger panicked, and nobody has the connection
			conn.Close()
		}
	}()
	if d.Logger != nil {
		if err != nil {
			d.Logger.Log(LogLevelError, "dialling %s: %v", address, err)
		} else {
			d.Logger.Log(LogLevelInfo, "dialled %s: %+v", address, conn.Negotiated())
		}
	}
	isLogged = true
	if err != nil {
		return nil, err
	}
	return conn, nil
}

func (d *Dialer) connect(ctx context.Context, network, address string, protocols []string) (*Conn, error) {
	config, err := d.config()
	if err != nil {
		return nil, err
	}
	// What can't work is said before a connection is made.
	if _, err := config.contextFor(false); err != nil {
		return nil, err
	}
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	raw, err := d.dialBelow(ctx, network, address)
	if err != nil {
		return nil, err
	}
	name := config.ServerName
	if name == "" {
		name = hostOf(address)
	}
	if protocols == nil {
		protocols = config.NextProtos
	}
	conn := config.ClientConn(raw, name, protocols)
	isSecure := false
	defer func() {
		if !isSecure { // the handshake failed, or a callback panicked
			conn.Close()
		}
	}()
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	isSecure = true
	return conn, nil
}

// bounded is a context that ends with the first of the times that were set.
func (d *Dialer) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	timeouts, deadlines := []time.Duration{d.Timeout}, []time.Time{d.Deadline}
	if d.NetDialer != nil {
		timeouts, deadlines = append(timeouts, d.NetDialer.Timeout), append(deadlines, d.NetDialer.Deadline)
	}
	for _, timeout := range timeouts {
		if timeout != 0 {
			deadlines = append(deadlines, time.Now().Add(timeout))
		}
	}
	var cancels []context.CancelFunc
	for _, deadline := range deadlines {
		if !deadline.IsZero() {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, deadline)
			cancels = append(cancels, cancel)
		}
	}
	return ctx, func() {
		for _, cancel := range cancels {
			cancel()
		}
	}
}

// dialBelow makes the connection without TLS.
func (d *Dialer) dialBelow(ctx context.Context, network, address string) (net.Conn, error) {
	if d.Network != "" && (network == "" || network == "tcp") {
		network = d.Network
	} else if network == "" {
		network = "tcp"
	}
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	dialer := d.NetDialer
	if dialer == nil {
		dialer = new(net.Dialer)
	}
	return dialer.DialContext(ctx, network, address)
}

// hostOf is an address without its port.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

// Dial connects to a TLS server as [Dialer] does.
func Dial(network, address string, config *Config) (*Conn, error) {
	conn, err := (&Dialer{Config: config}).Dial(network, address)
	if err != nil {
		return nil, err
	}
	return conn.(*Conn), nil
}

// NewGrpcDialFn returns what grpc.WithContextDialer takes: connections that offer h2 only and are
// checked for the name of the address that is dialled, or ServerName: grpc.NewClient asks DNS itself, and
// gives a name on only of a target such as "passthrough:///example.com:443". gRPC then believes its transport to be
// insecure and is given insecure.NewCredentials; the module gabion/fipstls/grpc has credentials that
// tell it the truth. Mistakes in the configuration show here.
func NewGrpcDialFn(config *Config, options ...DialOption) (func(ctx context.Context, address string) (net.Conn, error), error) {
	if config == nil {
		config = &defaultConfig
	}
	if err := config.Check(); err != nil {
		return nil, err
	}
	return NewDialContext(config, options...), nil
}

// NewDialContext is NewGrpcDialFn whose mistakes in the configuration come from the first dial.
func NewDialContext(config *Config, options ...DialOption) func(ctx context.Context, address string) (net.Conn, error) {
	dialer := NewDialer(config, options...)
	return func(ctx context.Context, address string) (net.Conn, error) {
		return dialer.dial(ctx, "tcp", address, []string{"h2"})
	}
}

// listener hands out connections whose handshake is still to be made, as crypto/tls does: a slow
// client holds up nobody else.
type listener struct {
	net.Listener
	config *Config
}

// NewListener returns a listener whose connections are [Server] connections over inner's. Their first
// Read or Write performs the handshake. For HTTP see [Serve], which knows HTTP/2.
func NewListener(inner net.Listener, config *Config) net.Listener {
	return &listener{inner, config}
}

// Listen listens and returns a [NewListener], or says what is wrong with the configuration.
func Listen(network, address string, config *Config) (net.Listener, error) {
	if err := config.CheckServer(); err != nil {
		return nil, err
	}
	inner, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	return NewListener(inner, config), nil
}

func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return Server(conn, l.config), nil
}
