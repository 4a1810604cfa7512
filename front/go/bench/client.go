package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"gabion/fipstls"
	fipsgrpc "gabion/fipstls/grpc"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

type clientOptions struct {
	client, lib, name, target, kind, group string
	fips                                   bool
	round                                  int
}

// cases are what is measured: how often, and whether connections are kept and sessions resumed.
var cases = map[string]struct {
	ops              int
	path, post       string // what is got, and what is posted to by turns
	keep, resume     bool
	streams, letters int // of gRPC
}{
	"pooled":  {ops: 3000, path: "/small", keep: true},
	"get-1m":  {ops: 300, path: "/large", keep: true},
	"mixed":   {ops: 2000, path: "/get", post: "/post", keep: true},
	"full":    {ops: 300, path: "/small"},
	"resumed": {ops: 300, path: "/small", resume: true},
	"grpc":    {ops: 1, streams: 100, letters: 1000},
}

// runClient runs one case and prints its row.
func runClient(o clientOptions) error {
	what, ok := cases[o.kind]
	if !ok {
		return fmt.Errorf("no case %q", o.kind)
	}
	r := row{
		Case: o.kind, Groups: "default", Client: o.name, Round: o.round, Ops: what.ops,
		Version: runtime.Version(), Load: load(), Machine: machine(), Compiler: runtime.Version(),
	}
	if o.group != "" {
		r.Groups = o.group
	}
	if o.client == "fipstls" {
		if err := fipstls.Init(o.lib); err != nil {
			return err
		}
		library, err := fipstls.Loaded()
		if err != nil {
			return err
		}
		r.Version = library.Version
	}
	var once func(n int) error
	var err error
	if o.kind == "grpc" {
		once, err = o.grpcCase(what.streams, what.letters, &r)
	} else {
		once, err = o.httpCase(what.path, what.post, what.keep, what.resume, &r)
	}
	if err != nil {
		return err
	}
	if err := once(max(what.ops/20, 1)); err != nil { // warm up
		return err
	}
	before := measure()
	if err := once(what.ops); err != nil {
		return err
	}
	after := measure()
	per := float64(what.ops)
	r.WallNs = float64(after.wall.Sub(before.wall)) / per
	r.CPUNs = float64(after.cpu-before.cpu) / per
	r.Bytes = float64(after.memory.TotalAlloc-before.memory.TotalAlloc) / per
	r.Allocs = float64(after.memory.Mallocs-before.memory.Mallocs) / per
	r.HeapKiB, r.CHeapKiB, r.PeakKiB = after.memory.HeapSys>>10, cHeap()>>10, after.peak
	return json.NewEncoder(os.Stdout).Encode(r)
}

type measurement struct {
	wall   time.Time
	cpu    time.Duration
	peak   int64
	memory runtime.MemStats
}

func measure() measurement {
	runtime.GC()
	var m measurement
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	runtime.ReadMemStats(&m.memory)
	m.cpu = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	m.peak = usage.Maxrss
	m.wall = time.Now()
	return m
}

func (o clientOptions) read(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(o.target, name))
}

func (o clientOptions) goConfig(resume bool) (*tls.Config, error) {
	ca, err := o.read("ca.pem")
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(ca)
	if resume {
		config.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	}
	if o.group == "X25519" {
		config.CurvePreferences = []tls.CurveID{tls.X25519}
	}
	return config, nil
}

func (o clientOptions) ownConfig(resume bool) *fipstls.Config {
	config := &fipstls.Config{
		CaFile: filepath.Join(o.target, "ca.pem"), SessionCacheDisabled: !resume, FIPSRequired: o.fips,
		NextProtos: []string{"http/1.1"},
	}
	if o.group != "" {
		config.Groups = []string{o.group}
	}
	return config
}

func (o clientOptions) httpCase(path, post string, keep, resume bool, r *row) (func(int) error, error) {
	base := &http.Transport{DisableKeepAlives: !keep, DisableCompression: true}
	var transport http.RoundTripper = base
	if o.client == "fipstls" {
		own, err := fipstls.TransportFrom(base, o.ownConfig(resume))
		if err != nil {
			return nil, err
		}
		transport = own
	} else {
		config, err := o.goConfig(resume)
		if err != nil {
			return nil, err
		}
		base.TLSClientConfig = config
	}
	address, err := o.read("http")
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: transport}
	server := "https://" + string(address)
	return func(n int) error {
		for i := range n {
			var response *http.Response
			var err error
			if post != "" && i%2 == 1 {
				response, err = client.Post(server+post, "text/plain", strings.NewReader("some data to post"))
			} else {
				response, err = client.Get(server + path)
			}
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, response.Body)
			response.Body.Close()
			if err != nil {
				return err
			}
			r.Group = response.TLS.CurveID.String()
			// The first connection of a run, and in TLS 1.3 a server that is slow with its ticket, can't resume.
			if resume && i > n/2 && !response.TLS.DidResume {
				return errors.New("the connection was not resumed")
			}
		}
		return nil
	}, nil
}

func (o clientOptions) grpcCase(streams, letters int, r *row) (func(int) error, error) {
	var creds credentials.TransportCredentials
	if o.client == "fipstls" {
		config := o.ownConfig(true)
		config.NextProtos = nil
		var err error
		if creds, err = fipsgrpc.NewClientCredentials(config); err != nil {
			return nil, err
		}
	} else {
		config, err := o.goConfig(true)
		if err != nil {
			return nil, err
		}
		creds = credentials.NewTLS(config)
	}
	address, err := o.read("grpc")
	if err != nil {
		return nil, err
	}
	return func(n int) error {
		conn, err := grpc.NewClient(string(address), grpc.WithTransportCredentials(creds))
		if err != nil {
			return err
		}
		defer conn.Close()
		client := testgrpc.NewTestServiceClient(conn)
		failures := make(chan error, streams)
		var wg sync.WaitGroup
		for range streams {
			wg.Add(1)
			go func() {
				defer wg.Done()
				if err := chat(client, letters); err != nil {
					failures <- err
				}
			}()
		}
		wg.Wait()
		close(failures)
		return <-failures
	}, nil
}

// chat sends messages both ways on one stream.
func chat(client testgrpc.TestServiceClient, letters int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	stream, err := client.FullDuplexCall(ctx)
	if err != nil {
		return err
	}
	request := &testgrpc.StreamingOutputCallRequest{
		ResponseType:       testgrpc.PayloadType_COMPRESSABLE,
		ResponseParameters: []*testgrpc.ResponseParameters{{Size: 16}},
		Payload:            &testgrpc.Payload{Type: testgrpc.PayloadType_COMPRESSABLE, Body: make([]byte, 16)},
	}
	for range letters {
		if err := stream.Send(request); err != nil {
			return err
		}
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if _, err := stream.Recv(); err != io.EOF {
		return fmt.Errorf("after the last message: %v", err)
	}
	return nil
}
