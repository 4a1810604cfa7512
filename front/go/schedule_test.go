package fipstls

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// schedule is a life of a connection, drawn at random, which libssl's and crypto/tls's client both live.
type schedule struct {
	seed    uint64
	version uint16
	pipe    bool // net.Pipe, or TCP
	chunk   int  // bytes that the client's net.Conn moves at once; 0 is all
	peer    string
	procs   int
	early   bool // Close comes whatever else happens; otherwise when the peer has ended
	after   time.Duration
}

// schedulePeers are what a server does when the handshake is done. All but the silent one read.
var schedulePeers = []string{"echo", "chatty", "half-closed", "cut", "silent", "renegotiating"}

const scheduleBytes = 10_000 // of the peers that end

func newSchedule(seed uint64) schedule {
	r := rand.New(rand.NewPCG(seed, 1))
	s := schedule{
		seed: seed, version: []uint16{Version12, Version13}[r.IntN(2)], pipe: r.IntN(3) == 0,
		chunk: []int{0, 0, 1, 1 + r.IntN(100)}[r.IntN(4)], peer: schedulePeers[r.IntN(len(schedulePeers))],
		procs: []int{1, 2, 8}[r.IntN(3)], early: r.IntN(2) == 0, after: time.Duration(r.IntN(15_000)) * time.Microsecond,
	}
	if s.peer == "silent" { // a pipe to it would take no close_notify, from neither client
		s.pipe, s.early = false, true
	}
	if s.peer == "renegotiating" {
		s.version = Version12
	}
	if s.peer == "echo" || s.peer == "chatty" || s.peer == "renegotiating" {
		s.early = true
	}
	return s
}

// schedulePeer is the server's end.
func schedulePeer(t testing.TB, w *world, s schedule, raw net.Conn) interface {
	net.Conn
	Handshake() error
	CloseWrite() error
} {
	if s.peer == "renegotiating" {
		config := w.serverConfig(t)
		config.Renegotiation, config.SessionTicketsDisabled = true, true
		return Server(raw, config)
	}
	config := goServer(t, w)
	config.MaxVersion, config.SessionTicketsDisabled = s.version, s.pipe
	return tls.Server(raw, config)
}

func (s schedule) play(server interface {
	net.Conn
	CloseWrite() error
}, raw net.Conn) {
	defer server.Close()
	switch s.peer {
	case "echo":
		io.Copy(server, server)
	case "silent":
		time.Sleep(s.after + 20*time.Millisecond)
	case "chatty", "renegotiating":
		go func() {
			for data := pattern(3 << 13); ; { // whose period divides this
				if own, ok := server.(*Conn); ok {
					own.mu.Lock()
					if own.hasSSL {
						own.native.renegotiate()
					}
					own.mu.Unlock()
				}
				if _, err := server.Write(data[:1<<13]); err != nil {
					return
				}
			}
		}()
		io.Copy(io.Discard, server)
	case "half-closed":
		server.Write(pattern(scheduleBytes))
		server.CloseWrite()
		io.Copy(io.Discard, server)
	case "cut":
		server.Write(pattern(scheduleBytes))
		raw.Close()
	}
}

// outcome is what a client's user sees.
type outcome struct {
	read int
	end  string
}

func classOf(err error) string {
	switch {
	case err == io.EOF:
		return "end"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.ErrClosedPipe), errors.Is(err, syscall.EPIPE):
		return "cut"
	case errors.Is(err, net.ErrClosed):
		return "closed"
	}
	return fmt.Sprintf("%T %v", err, err)
}

func isClosed(channel chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

// live runs the client's goroutines until Close has ended all of them.
func (s schedule) live(t testing.TB, client net.Conn) (outcome, bool) {
	var wg sync.WaitGroup
	var result outcome
	ended, stop := make(chan struct{}), make(chan struct{})
	r := rand.New(rand.NewPCG(s.seed, 2))
	sizes := [2]int{1 + r.IntN(20_000), 1 + r.IntN(20_000)}
	data := pattern(1 << 16)
	wg.Go(func() { // reader
		defer close(ended)
		for buf := make([]byte, sizes[0]); ; {
			n, err := client.Read(buf)
			if s.peer != "renegotiating" && s.peer != "chatty" {
				for i := range n {
					if buf[i] != data[(result.read+i)%len(data)] {
						t.Errorf("%+v: another byte than was sent, at %d", s, result.read+i)
						return
					}
				}
			}
			result.read += n
			if err != nil && !isTimeout(err) {
				result.end = classOf(err)
				return
			}
			if _, isGo := client.(*tls.Conn); isGo && err != nil && isClosed(stop) {
				return // a deadline within its renegotiation is its error for good
			}
		}
	})
	wg.Go(func() { // writer
		for sent := 0; ; {
			part := data[sent : sent+min(sizes[1], len(data)-sent)]
			n, err := client.Write(part)
			if sent = (sent + n) % len(data); err != nil {
				return
			}
			if s.peer == "half-closed" || s.peer == "cut" {
				return
			}
		}
	})
	wg.Go(func() { // deadlines and questions
		for r := rand.New(rand.NewPCG(s.seed, 3)); ; {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(r.IntN(2000)) * time.Microsecond):
			}
			client.SetReadDeadline(time.Now().Add(time.Duration(r.IntN(3000)-500) * time.Microsecond))
			client.(interface{ ConnectionState() tls.ConnectionState }).ConnectionState()
			client.SetReadDeadline(time.Time{})
			if own, ok := client.(*Conn); ok {
				own.Negotiated()
				own.ExportKeyingMaterial("EXPERIMENTAL schedule", nil, 8)
				if s.peer == "echo" && r.IntN(4) == 0 {
					own.KeyUpdate(r.IntN(2) == 0)
				}
			}
		}
	})
	if s.early {
		time.Sleep(s.after)
	} else {
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Errorf("%+v: the peer's end is not seen", s)
		}
	}
	close(stop)
	began := time.Now()
	client.Close()
	took := time.Since(began)
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		stacks := make([]byte, 1<<17)
		t.Fatalf("%+v, %T: Close took %s and ends nobody\n%s", s, client, took, relevant(string(stacks[:runtime.Stack(stacks, true)])))
	}
	return result, took < 4*time.Second
}

// No schedule may panic, hang, leave anything or give other bytes; what ends by itself ends for the
// client of libssl as it does for that of crypto/tls.
func TestRandomSchedules(t *testing.T) {
	leavesNothing(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	w := newWorld(t)
	for seed := range longer(40, 4000) {
		s := newSchedule(uint64(seed))
		runtime.GOMAXPROCS(s.procs)
		var outcomes [2]outcome
		var quick [2]bool
		for i := range 2 {
			a, b := socketPair(t)
			if s.pipe {
				a, b = net.Pipe()
			}
			below := net.Conn(&limited{Conn: a, read: s.chunk, write: s.chunk})
			var client net.Conn
			if i == 0 {
				config := w.clientConfig(t)
				config.MaxTLSVersion, config.Renegotiation = s.version, true
				client = Client(below, config)
			} else {
				client = tls.Client(below, &tls.Config{RootCAs: w.ca.pool(), ServerName: "localhost",
					MaxVersion: s.version, Renegotiation: tls.RenegotiateFreelyAsClient})
			}
			server := schedulePeer(t, w, s, b)
			if clientErr, serverErr := shakeHands(client.(interface{ Handshake() error }), server); clientErr != nil || serverErr != nil {
				t.Fatalf("%+v, client %d: %v, %v", s, i, clientErr, serverErr)
			}
			played := make(chan struct{})
			go func() { s.play(server, b); close(played) }()
			outcomes[i], quick[i] = s.live(t, client)
			b.Close()
			<-played
			a.Close()
			if t.Failed() {
				return
			}
		}
		if s.peer == "cut" && !s.early {
			// crypto/tls takes a cut between records for an end; here it never is one. A reset may eat bytes.
			if outcomes[0].end != "cut" {
				t.Errorf("%+v: %+v", s, outcomes[0])
			}
		} else if !s.early && outcomes[0] != outcomes[1] {
			t.Errorf("%+v: %+v, and with crypto/tls %+v", s, outcomes[0], outcomes[1])
		}
		if !quick[0] && quick[1] && !s.pipe { // a pipe holds close_notify up until its peer reads
			t.Errorf("%+v: Close is slow, and not with crypto/tls", s)
		}
	}
}
