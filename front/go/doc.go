// Package fipstls is libssl's own TLS from a stock Go toolchain: clients and servers whose handshakes,
// records, certificates and keys are OpenSSL's, under net/http, gRPC or any net.Conn. It is for
// programs that have to use OpenSSL's FIPS provider, a system's crypto policy, keys in a token
// (PKCS#11), or groups and signatures that libssl has. Where a validated module is all that is asked
// for, Go's own (GOFIPS140) is the simpler choice.
//
// libssl is loaded at run time: 1.1.1, 3.x or 4.x, found by [Init]. Nothing of OpenSSL is needed to
// build, cgo is.
//
// Nothing falls back: when libssl does not load, or FIPS is required and not proven, the error says so
// and no connection is made.
//
// # Ownership
//
// A [Config] builds one SSL_CTX and shares it among its connections; Close frees it early, the garbage
// collector late. A [Conn] owns its part of libssl until Close; the garbage collector frees that of
// one that nobody closed.
package fipstls
