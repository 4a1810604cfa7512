package fipstls

import (
	"context"
	"net"
)

// Dialer makes TLS connections. The zero value is ready; it may be used by several goroutines at once.
type Dialer struct {
	// NetDialer makes the connection below; nil is a zero net.Dialer. Its Timeout and Deadline bound the
	// whole of dialling, the handshake included.
	NetDialer *net.Dialer
	// Config says how; its ServerName, if empty, is taken from the address.
	Config *Config
}

// Dial is DialContext without a context.
func (d *Dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialContext connects and performs the handshake; the connection is a *[Conn]. When ctx ends first,
// nothing is left behind.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	config := d.Config
	if config == nil {
		config = &defaultConfig
	}
	// What can't work is said before a connection is made.
	if _, err := config.contextFor(false); err != nil {
		return nil, err
	}
	dialer := d.NetDialer
	if dialer == nil {
		dialer = new(net.Dialer)
	}
	if dialer.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, dialer.Timeout)
		defer cancel()
	}
	if !dialer.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, dialer.Deadline)
		defer cancel()
	}
	raw, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	name := config.ServerName
	if name == "" {
		name = hostOf(address)
	}
	conn := config.ClientConn(raw, name, config.NextProtos)
	if err := conn.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
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
// checked for the name of the address that is dialled. gRPC then believes its transport to be
// insecure and is given insecure.NewCredentials; the module gabion/fipstls/grpc has credentials that
// tell it the truth. Mistakes in the configuration show here.
func NewGrpcDialFn(config *Config) (func(ctx context.Context, address string) (net.Conn, error), error) {
	if config == nil {
		config = &defaultConfig
	}
	if err := config.Check(); err != nil {
		return nil, err
	}
	return func(ctx context.Context, address string) (net.Conn, error) {
		raw, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		name := config.ServerName
		if name == "" {
			name = hostOf(address)
		}
		conn := config.ClientConn(raw, name, []string{"h2"})
		if err := conn.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, err
		}
		return conn, nil
	}, nil
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
