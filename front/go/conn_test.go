package fipstls

import (
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
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

// helloSize is how many bytes a client sends first, with the header of its record.
func helloSize(t *testing.T, config *Config) int {
	a, b := net.Pipe()
	client := config.ClientConn(a, "localhost", nil)
	ended := make(chan error, 1)
	go func() { ended <- client.Handshake() }()
	header := make([]byte, 5)
	if _, err := io.ReadFull(b, header); err != nil {
		t.Fatal(err)
	}
	b.Close()
	<-ended
	client.Close()
	return len(header) + int(header[3])<<8 + int(header[4])
}

// docs/guide/go.md says how large hellos are with 3.5, and by how much the two switches make them smaller.
func TestHelloSizes(t *testing.T) {
	leavesNothing(t)
	library, _ := Loaded()
	if library.Number < 0x30500000 {
		t.Skip("only from 3.5 on there is a post-quantum hello; this is " + library.Version)
	}
	schemes := []string{"ecdsa_secp256r1_sha256", "rsa_pss_rsae_sha256"}
	var sizes []int
	for _, config := range []*Config{
		{}, {SignatureAlgorithms: schemes}, {Groups: []string{"X25519", "P-256"}},
		{Groups: []string{"X25519", "P-256"}, SignatureAlgorithms: schemes},
	} {
		sizes = append(sizes, helloSize(t, closing(t, config)))
	}
	if sizes[0] < 1400 || sizes[1] >= sizes[0] || sizes[2] > 400 || sizes[3] >= sizes[2] {
		t.Errorf("hellos of %d bytes", sizes)
	}
	page, err := os.ReadFile("../../docs/guide/go.md")
	if err != nil {
		t.Fatal(err)
	}
	said := regexp.MustCompile(`hello for .localhost. has (\d+) bytes, (\d+) with .*, (\d+) with .*, (\d+) with both`).
		FindStringSubmatch(strings.Join(strings.Fields(string(page)), " "))
	if said == nil {
		t.Fatal("docs/guide/go.md does not say how large hellos are")
	}
	for i, size := range sizes {
		// A system's openssl.cnf may offer a little more or less.
		if number, _ := strconv.Atoi(said[i+1]); library.Number>>20 == 0x305 && (size < number-100 || size > number+100) {
			t.Errorf("a hello of %d bytes, and docs/guide/go.md says %d", size, number)
		}
	}
	t.Logf("%s: hellos of %d bytes", library.Version, sizes)
}
