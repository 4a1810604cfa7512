//go:build !(cgo && unix)

package fipstls

import (
	"errors"
	"unsafe"
)

// A build without cgo, or for Windows, has no way to libssl. Init says so; nothing below runs, since everything asks
// whether a library is loaded first.

func loadLibrary(ssl, crypto, wanted string) error {
	return errors.New("this program was built without cgo (CGO_ENABLED=0) or not for a Unix; there is no other way to libssl")
}

func loadedLibrary() Library                      { return Library{} }
func isPrivileged() bool                          { return true }
func defaultCertFile() string                     { return "" }
func defaultCertDir() string                      { return "" }
func verifyText(int) string                       { return "" }
func fipsLibrary(string) (unsafe.Pointer, error)  { return nil, ErrLoadLibSslFailed }
func fipsProven(unsafe.Pointer) error             { return ErrLoadLibSslFailed }
func counters() (conns, contexts, sessions int64) { return 0, 0, 0 }
func freeSession(unsafe.Pointer)                  {}

type (
	nativeContext struct{}
	nativeConn    struct{}
)

func newNativeContext(unsafe.Pointer, bool, bool) (nativeContext, error) {
	return nativeContext{}, ErrLoadLibSslFailed
}

func (nativeContext) free()                            {}
func (nativeContext) versions(min, max uint16) bool    { return false }
func (nativeContext) options(uint64) bool              { return false }
func (nativeContext) set(contextText, string) error    { return ErrLoadLibSslFailed }
func (nativeContext) defaultTrust() error              { return ErrLoadLibSslFailed }
func (nativeContext) approvedCiphers() error           { return ErrLoadLibSslFailed }
func (nativeContext) add(contextAdd, []byte) error     { return ErrLoadLibSslFailed }
func (nativeContext) key([]byte, bool, string) error   { return ErrLoadLibSslFailed }
func (nativeContext) store(string, bool, string) error { return ErrLoadLibSslFailed }
func (nativeContext) checkKey() error                  { return ErrLoadLibSslFailed }
func (nativeContext) verify(int)                       {}
func (nativeContext) storeFlags(uint64)                {}
func (nativeContext) sessions(client, server bool)     {}
func (nativeContext) keylog()                          {}
func (nativeContext) alpn([]byte) bool                 { return false }

func newNativeConn(nativeContext, nativeConnOptions) (nativeConn, error) {
	return nativeConn{}, ErrLoadLibSslFailed
}

func (nativeConn) free()                                          {}
func (nativeConn) step(stepOp, []byte, []byte, []byte) stepStatus { return statusFailed }
func (nativeConn) done() int                                      { return 0 }
func (nativeConn) inUsed() int                                    { return 0 }
func (nativeConn) outLen() int                                    { return 0 }
func (nativeConn) spillLen() int                                  { return 0 }
func (nativeConn) pending() bool                                  { return false }
func (nativeConn) verify() int                                    { return verifyUnspecified }
func (nativeConn) code() uint64                                   { return 0 }
func (nativeConn) alert() int                                     { return -1 }
func (nativeConn) isVerifyFailure() bool                          { return false }
func (nativeConn) reason() string                                 { return "" }
func (nativeConn) hasEvents() bool                                { return false }
func (nativeConn) hasSession() bool                               { return false }
func (nativeConn) hasKeylog() bool                                { return false }
func (nativeConn) takeSpill() []byte                              { return nil }
func (nativeConn) takeSession() unsafe.Pointer                    { return nil }
func (nativeConn) expires() int64                                 { return 0 }
func (nativeConn) takeOffered() unsafe.Pointer                    { return nil }
func (nativeConn) takeKeylog() []byte                             { return nil }
func (nativeConn) info() nativeInfo                               { return nativeInfo{} }
func (nativeConn) chain(bool) [][]byte                            { return nil }
func (nativeConn) export([]byte, string, []byte) bool             { return false }
func (nativeConn) keyUpdate(bool) bool                            { return false }
func (nativeConn) renegotiate() bool                              { return false }
