//go:build go1.26

package fipstls

import "crypto/tls"

// setHelloRetryRequest sets the field that Go has from 1.26 on.
func setHelloRetryRequest(state *tls.ConnectionState, retried bool) {
	state.HelloRetryRequest = retried
}
