//go:build !go1.26

package fipstls

import "crypto/tls"

// setHelloRetryRequest does nothing: before 1.26, Go has no such field.
func setHelloRetryRequest(*tls.ConnectionState, bool) {}
