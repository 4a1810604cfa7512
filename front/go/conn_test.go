package fipstls

import (
	"net"
	"testing"

	"golang.org/x/net/nettest"
)

// The behaviour that every net.Conn has to have, over a socket and over a pipe without any buffer.
func TestConnIsANetConn(t *testing.T) {
	w := newWorld(t)
	clientConfig, serverConfig := w.clientConfig(t), w.serverConfig(t)
	// A server's tickets are the end of its handshake, and a pipe takes them only from a client that reads.
	serverConfig.SessionTicketsDisabled = true
	for name, pair := range map[string]func() (net.Conn, net.Conn){
		"socket": func() (net.Conn, net.Conn) { return socketPair(t) },
		"pipe":   net.Pipe,
	} {
		t.Run(name, func(t *testing.T) {
			nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
				a, b := pair()
				client, server := Client(a, clientConfig), Server(b, serverConfig)
				if clientErr, serverErr := shakeHands(client, server); clientErr != nil {
					return nil, nil, nil, clientErr
				} else if serverErr != nil {
					return nil, nil, nil, serverErr
				}
				return client, server, func() { client.Close(); server.Close() }, nil
			})
		})
	}
}

func TestHandshakeWithGo(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	client, server := connectedToGo(t, w.clientConfig(t), goServer(t, w))
	exchange(t, client, server)
	if got := client.Negotiated(); got.Version != Version13 || got.CipherSuite == "" || got.Signature == "" {
		t.Errorf("%+v", got)
	}
	if state := client.ConnectionState(); !state.HandshakeComplete || len(state.PeerCertificates) != 1 ||
		!state.PeerCertificates[0].Equal(w.server.cert) || len(state.VerifiedChains) != 1 ||
		len(state.VerifiedChains[0]) != 2 {
		t.Errorf("%+v", state)
	}
}
