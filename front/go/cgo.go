//go:build cgo && unix

package fipstls

/*
#cgo CFLAGS: -O2 -Wall -Wextra
#cgo linux LDFLAGS: -ldl
#include <stdlib.h>
#include <string.h>
#include "libssl.h"

#cgo noescape fip_step
#cgo nocallback fip_step
#cgo nocallback fip_conn_new
#cgo nocallback fip_conn_free
#cgo nocallback fip_conn_info
#cgo nocallback fip_conn_chain
#cgo nocallback fip_session_free
*/
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"
)

// The whole border to C is this file: it turns Go's values into C's and back, and decides nothing.

const textLen = 512

// inC holds a Go string as C text, an empty one as null; call free when done, which leaves nothing of it
// in memory: some are passphrases. C would end a text with a NUL there, so it is no text.
func inC(text string) (*C.char, func(), error) {
	if text == "" {
		return nil, func() {}, nil
	}
	if strings.Contains(text, "\x00") {
		return nil, func() {}, errNUL
	}
	c := C.CString(text)
	return c, func() {
		C.memset(unsafe.Pointer(c), 0, C.size_t(len(text)))
		C.free(unsafe.Pointer(c))
	}, nil
}

// inCs is inC for several; free frees all.
func inCs(texts ...string) (cs []*C.char, free func(), err error) {
	var frees []func()
	free = func() {
		for _, f := range frees {
			f()
		}
	}
	for _, text := range texts {
		c, f, textErr := inC(text)
		cs, frees = append(cs, c), append(frees, f)
		err = errors.Join(err, textErr)
	}
	return cs, free, err
}

// explained runs a call that says in words why it failed.
func explained(call func(text *C.char, size C.size_t) C.int) error {
	var text [textLen]C.char
	if call(&text[0], textLen) == 1 {
		return nil
	}
	return errors.New(C.GoString(&text[0]))
}

func loadLibrary(ssl, crypto, wanted string) error {
	texts, free, err := inCs(ssl, crypto, wanted)
	defer free()
	if err != nil {
		return fmt.Errorf("%q: %w", ssl, err)
	}
	return explained(func(text *C.char, size C.size_t) C.int {
		return C.fip_load(texts[0], texts[1], texts[2], text, size)
	})
}

// loadedLibrary may be called only when a library is loaded.
func loadedLibrary() Library {
	const pathLen = 1024
	var ssl, crypto [pathLen]C.char
	C.fip_paths(&ssl[0], &crypto[0], pathLen)
	can := C.fip_capabilities()
	return Library{
		Version:    C.GoString(C.fip_version_text()),
		Number:     uint64(C.fip_version_number()),
		LibSsl:     C.GoString(&ssl[0]),
		LibCrypto:  C.GoString(&crypto[0]),
		Directory:  directoryIn(C.GoString(C.fip_directory())),
		Providers:  providersOf(nil),
		Groups:     can&C.FIP_CAN_GROUP_NAME != 0,
		Signatures: can&C.FIP_CAN_SIGNATURE_NAME != 0,
		Store:      can&C.FIP_CAN_STORE != 0,
		OwnContext: can&C.FIP_CAN_LIBRARY_CONTEXT != 0,
	}
}

func providersOf(library unsafe.Pointer) []string {
	var names [textLen]C.char
	C.fip_providers(library, &names[0], textLen)
	return strings.Fields(C.GoString(&names[0]))
}

func isPrivileged() bool { return C.fip_is_privileged() != 0 }

func defaultCertFile() string { return C.GoString(C.fip_default_cert_file()) }

func defaultCertDir() string { return C.GoString(C.fip_default_cert_dir()) }

func verifyText(code int) string { return C.GoString(C.fip_verify_text(C.long(code))) }

// fipsLibrary makes a library context in which only approved algorithms are found. An empty config
// loads the provider without one.
func fipsLibrary(config string) (unsafe.Pointer, error) {
	cConfig, free, err := inC(config)
	defer free()
	if err != nil {
		return nil, err
	}
	var text [textLen]C.char
	library := C.fip_fips_library(cConfig, &text[0], textLen)
	if library == nil {
		return nil, errors.New(C.GoString(&text[0]))
	}
	return library, nil
}

// fipsProven asks a library context, nil being the process's own, whether it is in FIPS mode.
func fipsProven(library unsafe.Pointer) error {
	return explained(func(text *C.char, size C.size_t) C.int {
		return C.fip_fips_proven(library, text, size)
	})
}

// counters reports how many connections, contexts and sessions exist in C.
func counters() (conns, contexts, sessions int64) {
	var c [3]C.int64_t
	C.fip_counters(&c[0], &c[1], &c[2])
	return int64(c[0]), int64(c[1]), int64(c[2])
}

// --- contexts --------------------------------------------------------------------------------------

// nativeContext is an SSL_CTX with its references.
type nativeContext struct{ c *C.fip_context }

type contextText C.int

const (
	textCiphers12  contextText = C.FIP_CIPHERS_12
	textCiphers13  contextText = C.FIP_CIPHERS_13
	textGroups     contextText = C.FIP_GROUPS
	textSignatures contextText = C.FIP_SIGNATURES
	textCaFile     contextText = C.FIP_CA_FILE
	textCaPath     contextText = C.FIP_CA_PATH
)

type contextAdd C.int

const (
	addTrust       contextAdd = C.FIP_TRUST
	addTrustAux    contextAdd = C.FIP_TRUST_AUX
	addCRL         contextAdd = C.FIP_CRL
	addCertificate contextAdd = C.FIP_CERTIFICATE
	addChain       contextAdd = C.FIP_CHAIN
	addClientCA    contextAdd = C.FIP_CLIENT_CA
)

func newNativeContext(library unsafe.Pointer, fips, server bool) (nativeContext, error) {
	var text [textLen]C.char
	var cFips, cServer C.int
	if fips {
		cFips = 1
	}
	if server {
		cServer = 1
	}
	c := C.fip_context_new(library, cFips, cServer, &text[0], textLen)
	if c == nil {
		return nativeContext{}, errors.New(C.GoString(&text[0]))
	}
	return nativeContext{c}, nil
}

func (n nativeContext) free() { C.fip_context_free(n.c) }

func (n nativeContext) versions(min, max uint16) bool {
	return C.fip_context_versions(n.c, C.int(min), C.int(max)) == 1
}

func (n nativeContext) options(options uint64) bool {
	return C.fip_context_options(n.c, C.uint64_t(options)) == 1
}

func (n nativeContext) set(what contextText, value string) error {
	cValue, free, err := inC(value)
	defer free()
	if err != nil {
		return err
	}
	return explained(func(text *C.char, size C.size_t) C.int {
		return C.fip_context_text(n.c, C.int(what), cValue, text, size)
	})
}

func (n nativeContext) approvedCiphers() error {
	return explained(func(text *C.char, size C.size_t) C.int {
		return C.fip_context_approved_ciphers(n.c, text, size)
	})
}

func (n nativeContext) defaultTrust() error {
	return explained(func(text *C.char, size C.size_t) C.int {
		return C.fip_context_default_trust(n.c, text, size)
	})
}

func (n nativeContext) add(what contextAdd, der []byte) error {
	return explained(func(text *C.char, size C.size_t) C.int {
		return C.fip_context_add(n.c, C.int(what), uchars(der), C.size_t(len(der)), text, size)
	})
}

func (n nativeContext) key(key []byte, isPEM bool, passphrase string) error {
	cPassphrase, free, err := inC(passphrase)
	defer free()
	if err != nil {
		return err
	}
	var cPEM C.int
	if isPEM {
		cPEM = 1
	}
	return explained(func(text *C.char, size C.size_t) C.int {
		return C.fip_context_key(n.c, uchars(key), C.size_t(len(key)), cPEM, cPassphrase, text, size)
	})
}

func (n nativeContext) store(uri string, wantKey bool, passphrase string) error {
	texts, free, err := inCs(uri, passphrase)
	defer free()
	if err != nil {
		return err
	}
	var cWant C.int
	if wantKey {
		cWant = 1
	}
	return explained(func(text *C.char, size C.size_t) C.int {
		return C.fip_context_store(n.c, texts[0], cWant, texts[1], text, size)
	})
}

func (n nativeContext) checkKey() error {
	return explained(func(text *C.char, size C.size_t) C.int {
		return C.fip_context_check_key(n.c, text, size)
	})
}

func (n nativeContext) verify(mode int) { C.fip_context_verify(n.c, C.int(mode)) }

func (n nativeContext) storeFlags(flags uint64) { C.fip_context_store_flags(n.c, C.ulong(flags)) }

func (n nativeContext) sessions(client, server bool) {
	var c, s C.int
	if client {
		c = 1
	}
	if server {
		s = 1
	}
	C.fip_context_sessions(n.c, c, s)
}

func (n nativeContext) keylog() { C.fip_context_keylog(n.c) }

func (n nativeContext) alpn(wire []byte) bool {
	return C.fip_context_alpn(n.c, uchars(wire), C.size_t(len(wire))) == 1
}

// uchars points at a slice's bytes; nil for an empty one.
func uchars(b []byte) *C.uchar {
	if len(b) == 0 {
		return nil
	}
	return (*C.uchar)(unsafe.Pointer(unsafe.SliceData(b)))
}

// --- connections -----------------------------------------------------------------------------------

type stepOp C.int

const (
	opHandshake stepOp = C.FIP_HANDSHAKE
	opRead      stepOp = C.FIP_READ
	opWrite     stepOp = C.FIP_WRITE
	opShutdown  stepOp = C.FIP_SHUTDOWN
)

type stepStatus int32

const (
	statusOK       stepStatus = C.FIP_OK
	statusWantRead stepStatus = C.FIP_WANT_READ
	statusClosed   stepStatus = C.FIP_CLOSED
	statusFailed   stepStatus = C.FIP_FAILED
)

// nativeConn is an SSL with its BIO. Every use is under its owner's lock.
type nativeConn struct{ c *C.fip_conn }

func newNativeConn(context nativeContext, o nativeConnOptions) (nativeConn, error) {
	name, free, err := inC(o.name)
	defer free()
	if err != nil {
		o.session.free()
		return nativeConn{}, &ConfigError{"ServerName", err}
	}
	var server, isIP, check C.int
	if o.server {
		server = 1
	}
	if o.isIP {
		isIP = 1
	}
	if o.check {
		check = 1
	}
	c := C.fip_conn_new(context.c, server, name, isIP, check, uchars(o.alpn), C.size_t(len(o.alpn)), o.session.native, C.int64_t(o.session.expires))
	if c == nil {
		return nativeConn{}, fmt.Errorf("fipstls: libssl makes no connection for server name %q", o.name)
	}
	return nativeConn{c}, nil
}

func (n nativeConn) free() { C.fip_conn_free(n.c) }

// step runs one operation of libssl. in is what came from the peer, out takes what goes there, buf is
// the plaintext. The results are in the fields below until the next step.
func (n nativeConn) step(op stepOp, in, out, buf []byte) stepStatus {
	return stepStatus(C.fip_step(n.c, C.int(op), uchars(in), C.size_t(len(in)),
		uchars(out), C.size_t(len(out)), uchars(buf), C.size_t(len(buf))))
}

func (n nativeConn) done() int     { return int(n.c.n) }
func (n nativeConn) inUsed() int   { return int(n.c.in_used) }
func (n nativeConn) outLen() int   { return int(n.c.out_len) }
func (n nativeConn) spillLen() int { return int(n.c.spill_len) }
func (n nativeConn) pending() bool { return n.c.pending != 0 }
func (n nativeConn) verify() int   { return int(n.c.verify) }
func (n nativeConn) code() uint64  { return uint64(n.c.code) }
func (n nativeConn) alert() int    { return int(n.c.alert) }

// isVerifyFailure tells an own verdict on the peer's certificate from other failures after it.
func (n nativeConn) isVerifyFailure() bool { return n.c.refused != 0 }
func (n nativeConn) reason() string        { return C.GoString(&n.c.text[0]) }

func (n nativeConn) hasEvents() bool  { return n.c.events != 0 }
func (n nativeConn) hasSession() bool { return n.c.events&C.FIP_NEW_SESSION != 0 }
func (n nativeConn) hasKeylog() bool  { return n.c.events&C.FIP_KEYLOG != 0 }

func (n nativeConn) takeSpill() []byte {
	spill := make([]byte, n.spillLen())
	C.fip_conn_spill(n.c, uchars(spill))
	return spill
}

func (n nativeConn) takeSession() unsafe.Pointer { return C.fip_conn_session(n.c) }

// expires is when a session of this connection stops standing for the peer's certificate.
func (n nativeConn) expires() int64 { return int64(n.c.expires) }

// takeOffered returns the session that was offered to the server, or nil.
func (n nativeConn) takeOffered() unsafe.Pointer {
	session := n.c.offered
	n.c.offered = nil
	return session
}

func (n nativeConn) takeKeylog() []byte {
	lines := make([]byte, int(n.c.keylog_len))
	C.fip_conn_keylog(n.c, (*C.char)(unsafe.Pointer(unsafe.SliceData(lines))))
	return lines
}

func freeSession(session unsafe.Pointer) { C.fip_session_free(session) }

func (n nativeConn) info() nativeInfo {
	var info C.fip_info
	C.fip_conn_info(n.c, &info)
	return nativeInfo{
		version:    uint16(info.version),
		cipherID:   uint16(info.cipher_id),
		resumed:    info.resumed != 0,
		retried:    info.retried != 0,
		cipher:     interned(cText(&info.cipher[0])),
		group:      interned(cText(&info.group[0])),
		signature:  interned(cText(&info.signature[0])),
		alpn:       interned(unsafe.Slice((*byte)(unsafe.Pointer(&info.alpn[0])), int(info.alpn_len))),
		serverName: interned(cText(&info.server_name[0])),
	}
}

// cText is C text as bytes that are C's.
func cText(c *C.char) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(c)), C.strlen(c))
}

// chain returns the peer's certificates as DER, or those of the chain that was verified.
func (n nativeConn) chain(verified bool) [][]byte {
	var cVerified C.int
	if verified {
		cVerified = 1
	}
	buf := make([]byte, 4096)
	total := int(C.fip_conn_chain(n.c, cVerified, uchars(buf), C.size_t(len(buf))))
	if total > len(buf) {
		buf = make([]byte, total)
		total = int(C.fip_conn_chain(n.c, cVerified, uchars(buf), C.size_t(len(buf))))
	}
	var chain [][]byte
	for rest := buf[:total]; len(rest) > 4; {
		size := int(rest[0])<<24 | int(rest[1])<<16 | int(rest[2])<<8 | int(rest[3])
		chain = append(chain, rest[4:4+size:4+size])
		rest = rest[4+size:]
	}
	return chain
}

func (n nativeConn) export(out []byte, label string, context []byte) bool {
	var use C.int
	if context != nil {
		use = 1
	}
	return C.fip_conn_export(n.c, uchars(out), C.size_t(len(out)),
		(*C.char)(unsafe.Pointer(uchars([]byte(label)))), C.size_t(len(label)),
		uchars(context), C.size_t(len(context)), use) == 1
}

func (n nativeConn) keyUpdate(request bool) bool {
	var cRequest C.int
	if request {
		cRequest = 1
	}
	return C.fip_conn_key_update(n.c, cRequest) == 1
}

func (n nativeConn) renegotiate() bool { return C.fip_conn_renegotiate(n.c) == 1 }
