package fipsgrpc_test

import (
	"fmt"
	"log"

	"gabion/fipstls"
	fipsgrpc "gabion/fipstls/grpc"

	"google.golang.org/grpc"
)

// A client that knows who it talks to, and with what algorithms.
func ExampleNewClientCredentials() {
	creds, err := fipsgrpc.NewClientCredentials(&fipstls.Config{MinTLSVersion: fipstls.Version13})
	if err != nil {
		log.Fatal(err) // libssl did not load, or the configuration is wrong
	}
	conn, err := grpc.NewClient("dns:///example.com:443", grpc.WithTransportCredentials(creds))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	fmt.Println(creds.Info().SecurityProtocol)
	// Output: tls
}
