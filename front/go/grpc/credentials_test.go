package fipsgrpc

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gabion/fipstls"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) {
	if err := fipstls.Init(os.Getenv("FIPSTLS_TEST_LIB")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// mint makes a self-signed certificate for a name.
func mint(t testing.TB, name string) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// peers are the credentials of a client and a server that trust each other.
type peers struct {
	client, server credentials.TransportCredentials
}

func everyPair(t testing.TB) map[string]peers {
	certPEM, keyPEM := mint(t, "localhost")
	must := func(c credentials.TransportCredentials, err error) credentials.TransportCredentials {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	ourClient := must(NewClientCredentials(&fipstls.Config{CaPEM: certPEM}))
	ourServer := must(NewServerCredentials(&fipstls.Config{
		Cert: certPEM, Key: keyPEM, CaPEM: certPEM, ClientAuth: fipstls.VerifyClientCertIfGiven}))
	ourMutual := must(NewClientCredentials(&fipstls.Config{CaPEM: certPEM, Cert: certPEM, Key: keyPEM}))
	goClient := credentials.NewTLS(&tls.Config{RootCAs: pool})
	goServer := credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}})
	return map[string]peers{
		"both ours":              {ourClient, ourServer},
		"both ours, certificate": {ourMutual, ourServer},
		"client ours":            {ourClient, goServer},
		"server ours":            {goClient, ourServer},
	}
}

// serve starts gRPC's own interop server.
func serve(t testing.TB, creds credentials.TransportCredentials, options ...grpc.ServerOption) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(append(options, grpc.Creds(creds))...)
	testgrpc.RegisterTestServiceServer(server, interop.NewTestServer())
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return "localhost:" + port
}

func dial(t testing.TB, target string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// interopTests are gRPC's own, but for those of Google's cloud, of load balancing and the long ones,
// which follow; they end the process when they fail.
func interopTests(conn *grpc.ClientConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := testgrpc.NewTestServiceClient(conn)
	interop.DoEmptyUnaryCall(ctx, client)
	interop.DoLargeUnaryCall(ctx, client)
	interop.DoClientStreaming(ctx, client)
	interop.DoServerStreaming(ctx, client)
	interop.DoPingPong(ctx, client)
	interop.DoEmptyStream(ctx, client)
	interop.DoTimeoutOnSleepingServer(ctx, client)
	interop.DoCancelAfterBegin(ctx, client)
	interop.DoCancelAfterFirstResponse(ctx, client)
	interop.DoCustomMetadata(ctx, client)
	interop.DoStatusCodeAndMessage(ctx, client)
	interop.DoSpecialStatusMessage(ctx, client)
	interop.DoUnimplementedMethod(ctx, conn)
	interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(conn))
}

// soak is gRPC's own test of large calls by several workers, of connections that are there or of a new
// one for each call.
func soak(t *testing.T, pair peers, calls int, newConnections bool) {
	address := serve(t, pair.server)
	credentials := grpc.WithTransportCredentials(pair.client)
	conn := dial(t, address, credentials)
	interop.DoSoakTest(t.Context(), interop.SoakTestConfig{
		RequestSize:                      271828,
		ResponseSize:                     314159,
		PerIterationMaxAcceptableLatency: time.Minute,
		OverallTimeout:                   5 * time.Minute,
		ServerAddr:                       address,
		NumWorkers:                       4,
		Iterations:                       calls,
		ChannelForTest: func() (*grpc.ClientConn, func()) {
			if !newConnections {
				return conn, func() {}
			}
			one, err := grpc.NewClient(address, credentials)
			if err != nil {
				t.Error(err)
			}
			return one, func() { one.Close() }
		},
	})
}

func TestInteropSoak(t *testing.T) {
	for name, pair := range everyPair(t) {
		t.Run(name+", one connection", func(t *testing.T) { soak(t, pair, 200, false) })
		t.Run(name+", new connections", func(t *testing.T) { soak(t, pair, 40, true) })
	}
}

func TestInterop(t *testing.T) {
	for name, pair := range everyPair(t) {
		t.Run(name, func(t *testing.T) {
			interopTests(dial(t, serve(t, pair.server), grpc.WithTransportCredentials(pair.client)))
		})
	}
}

func TestDialFunction(t *testing.T) {
	certPEM, keyPEM := mint(t, "localhost")
	server, err := NewServerCredentials(&fipstls.Config{Cert: certPEM, Key: keyPEM})
	if err != nil {
		t.Fatal(err)
	}
	dialFn, err := fipstls.NewGrpcDialFn(&fipstls.Config{CaPEM: certPEM, ServerName: "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	interopTests(dial(t, serve(t, server), grpc.WithContextDialer(dialFn),
		grpc.WithTransportCredentials(insecure.NewCredentials())))
}

func TestAuthInfo(t *testing.T) {
	pairs := everyPair(t)
	for name, certificates := range map[string]int{"both ours": 0, "both ours, certificate": 1} {
		var seen atomic.Pointer[Info]
		note := func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if p, ok := peer.FromContext(ctx); ok {
				if info, ok := InfoFrom(p.AuthInfo); ok {
					seen.Store(&info)
				}
			}
			return handler(ctx, request)
		}
		pair := pairs[name]
		conn := dial(t, serve(t, pair.server, grpc.UnaryInterceptor(note)), grpc.WithTransportCredentials(pair.client))
		var p peer.Peer
		_, err := testgrpc.NewTestServiceClient(conn).EmptyCall(context.Background(), &testgrpc.Empty{}, grpc.Peer(&p))
		if err != nil {
			t.Fatal(err)
		}
		if info, ok := InfoFrom(p.AuthInfo); !ok || len(info.State.PeerCertificates) != 1 || info.Negotiated.Protocol != "h2" {
			t.Errorf("%s: the client sees %+v", name, p.AuthInfo)
		}
		if info := seen.Load(); info == nil || len(info.State.PeerCertificates) != certificates {
			t.Errorf("%s: the server sees %+v", name, info)
		}
	}
}

func TestRefusals(t *testing.T) {
	certPEM, keyPEM := mint(t, "localhost")
	strangerPEM, _ := mint(t, "localhost")
	otherPEM, otherKey := mint(t, "other.test")
	goCert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	ours := func(cert, key []byte) credentials.TransportCredentials {
		creds, err := NewServerCredentials(&fipstls.Config{Cert: cert, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		return creds
	}
	for name, test := range map[string]struct {
		server credentials.TransportCredentials
		ca     []byte
		says   string
	}{
		"unknown authority": {ours(certPEM, keyPEM), strangerPEM, "certificate"},
		"other name":        {ours(otherPEM, otherKey), otherPEM, "ostname mismatch"},
		"no h2":             {noProtocol{&tls.Config{Certificates: []tls.Certificate{goCert}}}, certPEM, "ALPN"},
	} {
		client, err := NewClientCredentials(&fipstls.Config{CaPEM: test.ca})
		if err != nil {
			t.Fatal(err)
		}
		// gRPC's own resolver would try every address of localhost and report the last failure, that of ::1.
		conn := dial(t, "passthrough:///"+serve(t, test.server), grpc.WithTransportCredentials(client))
		_, err = testgrpc.NewTestServiceClient(conn).EmptyCall(context.Background(), &testgrpc.Empty{})
		if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewClientCredentials(&fipstls.Config{CaFile: "/nonexistent"}); err == nil {
		t.Error("a wrong configuration was accepted")
	}
	if _, err := NewServerCredentials(nil); err == nil {
		t.Error("a server without a certificate was accepted")
	}
}

// noProtocol is a TLS server without ALPN.
type noProtocol struct{ config *tls.Config }

func (noProtocol) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, net.ErrClosed
}
func (n noProtocol) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn := tls.Server(raw, n.config)
	return conn, credentials.TLSInfo{}, conn.Handshake()
}
func (noProtocol) Info() credentials.ProtocolInfo            { return credentials.ProtocolInfo{} }
func (n noProtocol) Clone() credentials.TransportCredentials { return n }
func (noProtocol) OverrideServerName(string) error           { return nil }

func TestServerCredentialsNeedHTTP2(t *testing.T) {
	certPEM, keyPEM := mint(t, "localhost")
	config := &fipstls.Config{Cert: certPEM, Key: keyPEM, NextProtos: []string{"http/1.1"}}
	var wrong *fipstls.ConfigError
	if _, err := NewServerCredentials(config); !errors.As(err, &wrong) || wrong.Field != "NextProtos" {
		t.Errorf("got %v", err)
	}
}

// A peer for which a callback panics ends its own connection.
func TestServerSurvivesCallbacks(t *testing.T) {
	certPEM, keyPEM := mint(t, "localhost")
	for way, fail := range map[string]func(){"panic": func() { panic("a callback's") }, "Goexit": runtime.Goexit} {
		var count atomic.Int64
		server, err := NewServerCredentials(&fipstls.Config{Cert: certPEM, Key: keyPEM, VerifyConnection: func(tls.ConnectionState) error {
			if count.Add(1) == 1 {
				fail()
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		client, err := NewClientCredentials(&fipstls.Config{CaPEM: certPEM})
		if err != nil {
			t.Fatal(err)
		}
		conn := dial(t, serve(t, server), grpc.WithTransportCredentials(client))
		_, err = testgrpc.NewTestServiceClient(conn).EmptyCall(t.Context(), &testgrpc.Empty{}, grpc.WaitForReady(true))
		if err != nil || count.Load() < 2 {
			t.Errorf("%s: %v after %d handshakes", way, err, count.Load())
		}
	}
}
