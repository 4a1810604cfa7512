// Calls the service by one of Go's other clients for Vault or OpenBao, and prints a line for each call: its name, a tab, and `ok`,
// `refused` (the service says `unsupported`) or `failed`.
//
//	others NAME
//
// VAULT_ADDR, VAULT_TOKEN and VAULT_CACERT say where. Exits 1 if a call failed.
package main

import (
	"fmt"
	"os"

	. "gabion/interop/kms/clients/report"
)

// clients are the programs, by the name of the client's column.
var clients = map[string]func() error{
	"openbao-api":     openbaoAPI,
	"vault-client-go": vaultClientGo,
	"tink":            tinkAEAD,
	"gocloud":         gocloudKeeper,
	"go-kms-wrapping": transitWrapper,
}

func main() {
	if len(os.Args) != 2 || clients[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "error: expected the name of a client")
		os.Exit(2)
	}
	Exit(clients[os.Args[1]]())
}
