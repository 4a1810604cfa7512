// A client of gRPC as it is written for github.com/aristanetworks/go-openssl-fips at its last commit, whose
// README calls the function another name.
package main

import (
	"log"

	"github.com/aristanetworks/go-openssl-fips/fipstls"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func main() {
	if err := fipstls.Init(""); err != nil {
		log.Fatal(err)
	}
	dial := fipstls.NewDialContext(&fipstls.Config{CaFile: "/path/to/cert.pem"}, fipstls.WithNetwork("tcp4"))
	conn, err := grpc.NewClient("your-grpc-server-address:port",
		grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	// ... use the gRPC connection ...
}
