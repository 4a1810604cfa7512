package fipstls

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func goClient(t testing.TB, w *world) *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: w.ca.pool()}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

// Whatever http.Server.TLSConfig says, ClientAuth above all, is refused and not ignored. The fields are
// those of this release of Go.
func TestServeRefusesASecondTLSConfiguration(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	for i := range reflect.TypeFor[tls.Config]().NumField() {
		field := reflect.TypeFor[tls.Config]().Field(i)
		if !field.IsExported() || field.Name == "PreferServerCipherSuites" {
			continue
		}
		config := new(tls.Config)
		reflect.ValueOf(config).Elem().Field(i).Set(something(t, field.Type))
		listener, _ := net.Listen("tcp", "127.0.0.1:0")
		err := Serve(&http.Server{TLSConfig: config}, listener, w.serverConfig(t))
		if err == nil || !strings.Contains(err.Error(), "TLSConfig."+field.Name) {
			t.Errorf("%s: %v", field.Name, err)
		}
		base := &http.Transport{TLSClientConfig: config}
		if _, err := TransportFrom(base, w.clientConfig(t)); err == nil || !strings.Contains(err.Error(), field.Name) {
			t.Errorf("TransportFrom, %s: %v", field.Name, err)
		}
	}
}

// something is a value of a type that is not its zero value.
func something(t testing.TB, kind reflect.Type) reflect.Value {
	value := reflect.New(kind).Elem()
	switch kind.Kind() {
	case reflect.Bool:
		value.SetBool(true)
	case reflect.String:
		value.SetString("something")
	case reflect.Int, reflect.Int32, reflect.Int64:
		value.SetInt(2)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		value.SetUint(2)
	case reflect.Slice:
		value.Set(reflect.MakeSlice(kind, 1, 1))
	case reflect.Map:
		value.Set(reflect.MakeMap(kind))
	case reflect.Pointer:
		value.Set(reflect.New(kind.Elem()))
	case reflect.Func:
		value.Set(reflect.MakeFunc(kind, func([]reflect.Value) []reflect.Value { panic("not called") }))
	case reflect.Array:
		value.Index(0).Set(something(t, kind.Elem()))
	case reflect.Interface:
		for _, candidate := range []any{tls.NewLRUClientSessionCache(1), strings.NewReader("x"), io.Discard} {
			if reflect.TypeOf(candidate).Implements(kind) {
				value.Set(reflect.ValueOf(candidate))
				return value
			}
		}
		t.Fatalf("the test has no value of %v", kind)
	default:
		t.Fatalf("the test has no value of %v", kind)
	}
	return value
}

// Every field of http.Server, by what Serve makes of it. A release of Go that adds one fails here.
func TestServeKnowsEveryField(t *testing.T) {
	known := map[string]string{
		"Addr": "not used, as by http.Server.Serve", "Handler": "kept, inside another", "DisableGeneralOptionsHandler": "net/http's",
		"TLSConfig": "refused", "ReadTimeout": "net/http's, and bounds handshakes", "ReadHeaderTimeout": "net/http's, and bounds handshakes",
		"WriteTimeout": "net/http's, and bounds handshakes", "IdleTimeout": "net/http's", "MaxHeaderBytes": "net/http's",
		"TLSNextProto": "empty: no HTTP/2; others refused", "ConnState": "kept", "ErrorLog": "kept, and for handshakes",
		"BaseContext": "net/http's", "ConnContext": "kept", "HTTP2": "net/http's", "Protocols": "kept",
	}
	for i := range reflect.TypeFor[http.Server]().NumField() {
		if field := reflect.TypeFor[http.Server]().Field(i); field.IsExported() && known[field.Name] == "" {
			t.Errorf("http.Server.%s is new: is it honoured or refused?", field.Name)
		}
	}
}

func TestServeProtocols(t *testing.T) {
	for name, test := range map[string]struct {
		server *http.Server
		offer  []string
		wanted string
	}{
		"default":                   {&http.Server{}, nil, "HTTP/2.0"},
		"no h2 by TLSNextProto":     {&http.Server{TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}}, nil, "HTTP/1.1"},
		"no h2 by Protocols":        {&http.Server{Protocols: protocols(true, false)}, nil, "HTTP/1.1"},
		"no HTTP/1.1 by Protocols":  {&http.Server{Protocols: protocols(false, true)}, nil, "HTTP/2.0"},
		"no h2, and it was offered": {&http.Server{Protocols: protocols(true, false)}, []string{"h2", "http/1.1"}, "HTTP/1.1"},
		"nothing left":              {&http.Server{Protocols: protocols(true, false)}, []string{"h2"}, ""},
		"nothing at all":            {&http.Server{Protocols: protocols(false, false)}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			w := newWorld(t)
			config := w.serverConfig(t)
			config.NextProtos = test.offer
			server := test.server
			server.Handler = testHandler()
			if test.wanted == "" {
				listener, _ := net.Listen("tcp", "127.0.0.1:0")
				if err := Serve(server, listener, config); err == nil || err == http.ErrServerClosed {
					t.Errorf("got %v", err)
				}
				return
			}
			url := serving(t, server, config)
			if _, body := get(t, goClient(t, w), url+"/tls"); !strings.HasPrefix(string(body), test.wanted) {
				t.Errorf("got %s", body)
			}
		})
	}
}

// One server, two listeners, at once; and what the callbacks get is a *Conn with either protocol.
func TestServeTwice(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	var mu sync.Mutex
	kinds := map[string]bool{}
	note := func(conn net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		kinds[fmt.Sprintf("%T", conn)] = true
	}
	server := &http.Server{
		Handler:     testHandler(),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context { note(conn); return ctx },
		ConnState:   func(conn net.Conn, _ http.ConnState) { note(conn) },
	}
	config := w.serverConfig(t)
	urls := []string{serving(t, server, config), serving(t, server, config)}
	for _, url := range urls {
		for _, http2 := range []bool{false, true} {
			client := goClient(t, w)
			client.Transport.(*http.Transport).ForceAttemptHTTP2 = http2
			get(t, client, url+"/bytes/10")
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(kinds) != 1 || !kinds["*fipstls.Conn"] {
		t.Errorf("callbacks got %v", kinds)
	}
}

func TestServePlainHTTPGetsAnAnswer(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	url := serving(t, &http.Server{Handler: testHandler()}, w.serverConfig(t))
	for _, request := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "https://"))
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, request)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || response.StatusCode != http.StatusBadRequest {
			t.Errorf("%v, %v", response, err)
		}
		conn.Close()
	}
}

// GODEBUG is read when a process starts, so this asks another one.
func TestGODEBUGSwitchesHTTP2Off(t *testing.T) {
	for _, setting := range []string{"http2client=0", "http2server=0", "http2client=0,http2server=0"} {
		command := exec.Command(os.Args[0], "-test.run=^TestHTTPVersionHere$", "-test.v")
		command.Env = append(os.Environ(), "GODEBUG="+setting)
		out, err := command.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "the answer came by HTTP/1.1") {
			t.Errorf("%s: %v\n%s", setting, err, out)
		}
	}
}

func TestHTTPVersionHere(t *testing.T) {
	h := ownHTTPServer(t, nil)
	response, _ := get(t, h.client(t, nil), h.url+"/bytes/10")
	t.Log("the answer came by " + response.Proto)
	if godebug := os.Getenv("GODEBUG"); godebug == "" && response.ProtoMajor != 2 {
		t.Error(response.Proto)
	}
}

// outOfDescriptors is what Accept returns when the process has no descriptor left.
var outOfDescriptors = &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}

// scriptedListener returns connections and errors by a function.
type scriptedListener func() (net.Conn, error)

func (l scriptedListener) Accept() (net.Conn, error) { return l() }
func (scriptedListener) Close() error                { return nil }
func (scriptedListener) Addr() net.Addr              { return &net.TCPAddr{} }

// Temporary errors of Accept are logged, and retried after 5 ms, doubled up to 1 s, as http.Server does it. A
// connection that is accepted resets the delay.
func TestServeBacksOffAfterTemporaryErrors(t *testing.T) {
	w := newWorld(t)
	run := func(serve func(*http.Server, net.Listener) error) (err error, logged string, took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			text, began, calls := new(lockedLog), time.Now(), 0
			listener := scriptedListener(func() (net.Conn, error) {
				switch calls++; calls {
				case 11:
					client, server := net.Pipe()
					client.Close()
					return server, nil
				case 14:
					return nil, io.ErrUnexpectedEOF
				}
				return nil, outOfDescriptors
			})
			server := &http.Server{ErrorLog: log.New(text, "", 0), Handler: http.NotFoundHandler()}
			err = serve(server, listener)
			took = time.Since(began)
			synctest.Wait()
			for line := range strings.Lines(text.String()) {
				if !strings.Contains(line, "handshake error") {
					logged += line
				}
			}
		})
		return err, logged, took
	}
	config := w.serverConfig(t)
	err, logged, took := run(func(s *http.Server, l net.Listener) error { return Serve(s, l, config) })
	wantErr, want, wantTook := run((*http.Server).Serve)
	if err != wantErr || logged != want || took != wantTook || strings.Count(logged, "retrying in 1s") != 2 {
		t.Errorf("%v after %v, %v after %v of http.Server; logged\n%swanted\n%s", err, took, wantErr, wantTook, logged, want)
	}
}

// Close ends the wait before Accept is retried.
func TestServeClosesDuringBackOff(t *testing.T) {
	w := newWorld(t)
	config := w.serverConfig(t)
	synctest.Test(t, func(t *testing.T) {
		listener := scriptedListener(func() (net.Conn, error) { return nil, outOfDescriptors })
		server := &http.Server{ErrorLog: log.New(io.Discard, "", 0)}
		ended := make(chan error, 1)
		go func() { ended <- Serve(server, listener, config) }()
		time.Sleep(10 * time.Second)
		began := time.Now()
		server.Close()
		if err := <-ended; err != http.ErrServerClosed {
			t.Errorf("Serve: %v", err)
		}
		synctest.Wait()
		if waited := time.Since(began); waited != 0 {
			t.Errorf("Close took %v", waited)
		}
	})
}
