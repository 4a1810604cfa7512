package fipstls

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
)

// forger writes handshake messages of its own under the keys of a connection of crypto/tls, in TLS 1.3
// or 1.2, with AES-128-GCM and SHA-256.
type forger struct {
	net.Conn
	aead     cipher.AEAD
	iv       []byte
	sequence uint64
	isTLS13  bool
}

// recorder keeps what a server sent first.
type recorder struct {
	net.Conn
	sent bytes.Buffer
}

func (r *recorder) Write(b []byte) (int, error) {
	r.sent.Write(b)
	return r.Conn.Write(b)
}

// forgedServer connects a client to a server whose next records are forged.
func forgedServer(t *testing.T, version uint16, makeClient func(testing.TB, net.Conn, *world) net.Conn) (net.Conn, *forger) {
	t.Helper()
	w := newWorld(t)
	a, b := socketPair(t)
	var keys bytes.Buffer
	first := &recorder{Conn: b}
	config := goServer(t, w)
	config.MaxVersion, config.KeyLogWriter, config.SessionTicketsDisabled = version, &keys, true
	client, server := makeClient(t, a, w), tls.Server(first, config)
	t.Cleanup(func() { client.Close() })
	if clientErr, serverErr := shakeHands(client.(interface{ Handshake() error }), server); clientErr != nil || serverErr != nil {
		t.Fatal(clientErr, serverErr)
	}
	secret := func(label string) (random, secret []byte) {
		for line := range strings.Lines(keys.String()) {
			if fields := strings.Fields(line); fields[0] == label {
				random, _ = hex.DecodeString(fields[1])
				secret, _ = hex.DecodeString(fields[2])
			}
		}
		return random, secret
	}
	f := &forger{Conn: b, isTLS13: version == Version13}
	var key []byte
	if f.isTLS13 {
		_, traffic := secret("SERVER_TRAFFIC_SECRET_0")
		key, f.iv = expand13(t, traffic, "key", 16), expand13(t, traffic, "iv", 12)
	} else {
		clientRandom, master := secret("CLIENT_RANDOM")
		serverRandom := first.sent.Bytes()[11:43]
		block := prf12(master, append([]byte("key expansion"), append(serverRandom, clientRandom...)...), 40)
		key, f.iv, f.sequence = block[16:32], block[36:40], 1 // Finished was 0
	}
	cipherBlock, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	f.aead, _ = cipher.NewGCM(cipherBlock)
	return client, f
}

// expand13 is HKDF-Expand-Label of RFC 8446, section 7.1, without a context.
func expand13(t *testing.T, secret []byte, label string, length int) []byte {
	t.Helper()
	label = "tls13 " + label
	info := append([]byte{byte(length >> 8), byte(length), byte(len(label))}, label...)
	out, err := hkdf.Expand(sha256.New, secret, string(append(info, 0)), length)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// prf12 is P_SHA256 of RFC 5246, section 5.
func prf12(secret, seed []byte, length int) []byte {
	mac := func(data ...[]byte) []byte {
		h := hmac.New(sha256.New, secret)
		for _, d := range data {
			h.Write(d)
		}
		return h.Sum(nil)
	}
	var out []byte
	for a := mac(seed); len(out) < length; a = mac(a) {
		out = append(out, mac(a, seed)...)
	}
	return out[:length]
}

// seal makes a record of handshake messages.
func (f *forger) seal(messages []byte) []byte {
	sequence := binary.BigEndian.AppendUint64(nil, f.sequence)
	f.sequence++
	if f.isTLS13 {
		nonce := bytes.Clone(f.iv)
		for i := range sequence {
			nonce[4+i] ^= sequence[i]
		}
		size := len(messages) + 1 + f.aead.Overhead()
		header := []byte{23, 3, 3, byte(size >> 8), byte(size)}
		return f.aead.Seal(header, nonce, append(bytes.Clone(messages), 22), header)
	}
	size := 8 + len(messages) + f.aead.Overhead()
	record := append([]byte{22, 3, 3, byte(size >> 8), byte(size)}, sequence...)
	extra := append(bytes.Clone(sequence), 22, 3, 3, byte(len(messages)>>8), byte(len(messages)))
	return f.aead.Seal(record, append(bytes.Clone(f.iv), sequence...), messages, extra)
}

// floods are messages that ask for answers or for memory, and move nothing.
var floods = map[string]struct {
	version uint16
	message []byte
}{
	"tickets":      {Version13, []byte{4, 0, 0, 15, 0, 0, 28, 32, 1, 2, 3, 4, 1, 7, 0, 2, 9, 9, 0, 0}},
	"HelloRequest": {Version12, []byte{0, 0, 0, 0}},
}

// A flood ends the connection, as it does with crypto/tls, before it fills memory.
func TestFloodsAreRefused(t *testing.T) {
	clients := map[string]func(testing.TB, net.Conn, *world) net.Conn{
		"own": func(t testing.TB, conn net.Conn, w *world) net.Conn {
			config := w.clientConfig(t)
			config.CipherSuites, config.CipherList = []string{"TLS_AES_128_GCM_SHA256"}, "ECDHE-ECDSA-AES128-GCM-SHA256"
			return Client(conn, config)
		},
		"own, renegotiating": func(t testing.TB, conn net.Conn, w *world) net.Conn {
			config := w.clientConfig(t)
			config.CipherSuites, config.CipherList = []string{"TLS_AES_128_GCM_SHA256"}, "ECDHE-ECDSA-AES128-GCM-SHA256"
			config.Renegotiation = true
			return Client(conn, config)
		},
		"Go": func(t testing.TB, conn net.Conn, w *world) net.Conn {
			return tls.Client(conn, &tls.Config{RootCAs: w.ca.pool(), ServerName: "localhost"})
		},
	}
	for name, flood := range floods {
		for kind, makeClient := range clients {
			t.Run(name+", "+kind, func(t *testing.T) {
				leavesNothing(t)
				client, forger := forgedServer(t, flood.version, makeClient)
				ended := make(chan error, 1)
				go func() { _, err := client.Read(make([]byte, 100)); ended <- err; client.Close() }()
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				messages := bytes.Repeat(flood.message, 16000/len(flood.message))
				for range 2000 {
					forger.SetWriteDeadline(time.Now().Add(2 * time.Second))
					if _, err := forger.Write(forger.seal(messages)); err != nil {
						break
					}
				}
				select {
				case err := <-ended:
					if err == nil || isTimeout(err) {
						t.Errorf("Read: %v", err)
					}
				case <-time.After(5 * time.Second):
					t.Error("the client still reads")
				}
				runtime.ReadMemStats(&after)
				if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 16<<20 {
					t.Errorf("the heap grew by %d MiB", grown>>20)
				}
			})
		}
	}
}

// New keys at each message, and an answer wanted: the peer's own doing, so the other end is ours, too.
func TestKeyUpdatesWithoutDataAreRefused(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	client, server := connected(t, w.clientConfig(t), w.serverConfig(t))
	ended := make(chan error, 1)
	go func() { _, err := server.Read(make([]byte, 100)); ended <- err }()
	client.SetWriteDeadline(time.Now().Add(5 * time.Second))
	for range 1000 {
		if err := client.KeyUpdate(true); err != nil {
			break
		}
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "without end") {
		t.Errorf("got %v", err)
	}
}

// Answers that the peer does not take are bounded, however much data comes between its messages.
func TestAnswersThatNobodyTakesAreBounded(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	a, b := net.Pipe()
	stuck := &stubborn{Conn: b, closed: make(chan struct{})}
	serverConfig := w.serverConfig(t)
	serverConfig.SessionTicketsDisabled = true
	client, server := Client(a, w.clientConfig(t)), Server(stuck, serverConfig)
	if clientErr, serverErr := shakeHands(client, server); clientErr != nil || serverErr != nil {
		t.Fatal(clientErr, serverErr)
	}
	stuck.mu.Lock()
	stuck.stuck = true
	stuck.mu.Unlock()
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := server.Read(make([]byte, 100)); err != nil {
				ended <- err
				stuck.Close()
				return
			}
		}
	}()
	for range 10_000 {
		if err := client.KeyUpdate(true); err != nil {
			break
		}
		if _, err := client.Write([]byte("x")); err != nil {
			break
		}
	}
	client.Close()
	if err := <-ended; err != errAnswers {
		t.Errorf("got %v", err)
	}
	server.Close()
}
