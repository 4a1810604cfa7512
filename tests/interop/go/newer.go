//go:build go1.27

package main

import "crypto/tls"

// What Go 1.26 lacks.
func init() { known["MLKEM1024"] = tls.MLKEM1024 }
