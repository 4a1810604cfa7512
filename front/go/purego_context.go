//go:build fipstls_purego && (linux || darwin)

package fipstls

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Numbers of SSL_CTX_ctrl behind OpenSSL's macros.
const (
	ctrlMode               = 33
	ctrlSessionCacheMode   = 44
	ctrlChainCert          = 89
	ctrlSetGroupsList      = 92
	ctrlSetSigalgsList     = 98
	ctrlSetDhAuto          = 118
	ctrlSetMinProtoVersion = 123
	ctrlSetMaxProtoVersion = 124
	ctrlGetMinProtoVersion = 130
)

// pureContext is an SSL_CTX; the configuration and each connection have a reference.
type pureContext struct {
	ctx        uintptr
	library    uintptr // 0 is the process's own
	properties []byte  // C text, or empty
	references atomic.Int64
	alpn       []byte // what a server chooses from
}

// nativeContext is an SSL_CTX with its references.
type nativeContext struct{ c *pureContext }

// contextsByPointer finds a server's context when libssl calls back to choose a protocol.
var contextsByPointer sync.Map

// callbacks are C functions made of Go functions, once: they are never freed.
var callbacks = sync.OnceValue(func() (c struct{ session, keylog, alpn, passphrase uintptr }) {
	c.session = purego.NewCallback(newSession)
	c.keylog = purego.NewCallback(keylogLine)
	c.alpn = purego.NewCallback(chooseProtocol)
	c.passphrase = purego.NewCallback(givePassphrase)
	return c
})

// refused is a failure in libssl's words.
func refused(what string) error {
	if _, why := drainErrors(); why != "" {
		return fmt.Errorf("%s: %s", what, why)
	}
	return errors.New(what)
}

func newNativeContext(library unsafe.Pointer, fips, server bool) (nativeContext, error) {
	defer onOneThread()()
	c := &pureContext{library: uintptr(library)}
	if fips && library != nil {
		c.properties = inC("fips=yes")
	}
	if library != nil {
		c.ctx = ossl.SSL_CTX_new_ex.call(c.library, uintptr(unsafe.Pointer(unsafe.SliceData(c.properties))), ossl.TLS_method.call())
	} else {
		c.ctx = ossl.SSL_CTX_new.call(ossl.TLS_method.call())
	}
	if c.ctx == 0 {
		return nativeContext{}, refused("SSL_CTX_new")
	}
	c.references.Store(1)
	live.contexts.Add(1)
	mode := uintptr(0x1 | 0x2 | 0x8) // see libssl_context.c
	if server {
		mode |= 0x10
	}
	ossl.SSL_CTX_ctrl.call(c.ctx, ctrlMode, mode, 0)
	ossl.SSL_CTX_ctrl.call(c.ctx, ctrlSetDhAuto, 1, 0)
	id := []byte("fipstls")
	ossl.SSL_CTX_set_session_id_context.call(c.ctx, uintptr(unsafe.Pointer(&id[0])), uintptr(len(id)))
	return nativeContext{c}, nil
}

func (n nativeContext) free() {
	if n.c.references.Add(-1) > 0 {
		return
	}
	contextsByPointer.Delete(n.c.ctx)
	ossl.SSL_CTX_free.call(n.c.ctx)
	live.contexts.Add(-1)
}

func (n nativeContext) versions(min, max uint16) bool {
	if min == 0 { // TLS 1.2, or what the system's policy in openssl.cnf sets above it
		min = uint16(Version12)
		if set := cInt(ossl.SSL_CTX_ctrl.call(n.c.ctx, ctrlGetMinProtoVersion, 0, 0)); set > Version12 {
			min = uint16(set)
		}
	}
	return cInt(ossl.SSL_CTX_ctrl.call(n.c.ctx, ctrlSetMinProtoVersion, uintptr(min), 0)) == 1 &&
		(max == 0 || cInt(ossl.SSL_CTX_ctrl.call(n.c.ctx, ctrlSetMaxProtoVersion, uintptr(max), 0)) == 1)
}

func (n nativeContext) options(options uint64) bool {
	return uint64(ossl.SSL_CTX_set_options.call(n.c.ctx, uintptr(options)))&options == options
}

func (n nativeContext) set(what contextText, value string) error {
	defer onOneThread()()
	c, text := n.c.ctx, inC(value)
	var result uintptr
	switch what {
	case textCiphers12:
		result = ossl.SSL_CTX_set_cipher_list.call(c, uintptr(unsafe.Pointer(&text[0])))
	case textCiphers13:
		result = ossl.SSL_CTX_set_ciphersuites.call(c, uintptr(unsafe.Pointer(&text[0])))
	case textGroups:
		result = ossl.SSL_CTX_ctrl.call(c, ctrlSetGroupsList, 0, uintptr(unsafe.Pointer(&text[0])))
	case textSignatures:
		result = ossl.SSL_CTX_ctrl.call(c, ctrlSetSigalgsList, 0, uintptr(unsafe.Pointer(&text[0])))
	case textCaFile:
		result = ossl.SSL_CTX_load_verify_locations.call(c, uintptr(unsafe.Pointer(&text[0])), 0)
	case textCaPath:
		result = ossl.SSL_CTX_load_verify_locations.call(c, 0, uintptr(unsafe.Pointer(&text[0])))
	}
	if cInt(result) != 1 {
		return refused("libssl refuses it")
	}
	return nil
}

func (n nativeContext) defaultTrust() error {
	defer onOneThread()()
	if cInt(ossl.SSL_CTX_set_default_verify_paths.call(n.c.ctx)) != 1 {
		return refused("SSL_CTX_set_default_verify_paths")
	}
	return nil
}

// decode runs a d2i function over der, into an object of the context's library where it has one.
func (c *pureContext) decode(d2i, make symbol, der []byte) uintptr {
	if len(der) == 0 {
		return 0
	}
	var pin runtime.Pinner
	pin.Pin(unsafe.SliceData(der))
	defer pin.Unpin()
	at := uintptr(unsafe.Pointer(unsafe.SliceData(der)))
	if c.library == 0 {
		return d2i.call(0, uintptr(unsafe.Pointer(&at)), uintptr(len(der)))
	}
	fresh := make.call(c.library, uintptr(unsafe.Pointer(unsafe.SliceData(c.properties))))
	if fresh == 0 {
		return 0
	}
	return d2i.call(uintptr(unsafe.Pointer(&fresh)), uintptr(unsafe.Pointer(&at)), uintptr(len(der))) // which frees it on failure
}

func (n nativeContext) add(what contextAdd, der []byte) error {
	defer onOneThread()()
	c := n.c
	if what == addCRL {
		crl := c.decode(ossl.d2i_X509_CRL, ossl.X509_CRL_new_ex, der)
		if crl == 0 {
			return refused("CRL")
		}
		defer ossl.X509_CRL_free.call(crl)
		if cInt(ossl.X509_STORE_add_crl.call(ossl.SSL_CTX_get_cert_store.call(c.ctx), crl)) != 1 {
			return refused("CRL")
		}
		return nil
	}
	cert := c.decode(ossl.d2i_X509, ossl.X509_new_ex, der)
	if cert == 0 {
		return refused("certificate")
	}
	defer ossl.X509_free.call(cert)
	var result uintptr
	switch what {
	case addTrust:
		result = ossl.X509_STORE_add_cert.call(ossl.SSL_CTX_get_cert_store.call(c.ctx), cert)
	case addCertificate:
		result = ossl.SSL_CTX_use_certificate.call(c.ctx, cert)
	case addChain: // 1: the context takes a reference of its own
		result = ossl.SSL_CTX_ctrl.call(c.ctx, ctrlChainCert, 1, cert)
	case addClientCA:
		result = ossl.SSL_CTX_add_client_CA.call(c.ctx, cert)
	}
	if cInt(result) != 1 {
		return refused("certificate")
	}
	return nil
}

func (c *pureContext) useKey(key uintptr) error {
	if key == 0 {
		return refused("private key")
	}
	defer ossl.EVP_PKEY_free.call(key)
	if cInt(ossl.SSL_CTX_use_PrivateKey.call(c.ctx, key)) != 1 {
		return refused("private key")
	}
	return nil
}

func (n nativeContext) key(key []byte, isPEM bool, passphrase string) error {
	defer onOneThread()()
	c := n.c
	properties := uintptr(unsafe.Pointer(unsafe.SliceData(c.properties)))
	defer runtime.KeepAlive(c) // and with it the properties, which are on the heap
	if !isPEM {
		if len(key) == 0 {
			return refused("private key")
		}
		var pin runtime.Pinner
		pin.Pin(unsafe.SliceData(key))
		defer pin.Unpin()
		at := uintptr(unsafe.Pointer(unsafe.SliceData(key)))
		if c.library == 0 {
			return c.useKey(ossl.d2i_AutoPrivateKey.call(0, uintptr(unsafe.Pointer(&at)), uintptr(len(key))))
		}
		return c.useKey(ossl.d2i_AutoPrivateKey_ex.call(0, uintptr(unsafe.Pointer(&at)), uintptr(len(key)), c.library, properties))
	}
	bio, done := readingBIO(key)
	defer done()
	if bio == 0 {
		return refused("private key")
	}
	// Without a callback the last argument is the passphrase; never null, which would ask the terminal.
	phrase := inC(passphrase)
	defer clear(phrase)
	if c.library == 0 {
		return c.useKey(ossl.PEM_read_bio_PrivateKey.call(bio, 0, 0, uintptr(unsafe.Pointer(&phrase[0]))))
	}
	return c.useKey(ossl.PEM_read_bio_PrivateKey_ex.call(bio, 0, 0, uintptr(unsafe.Pointer(&phrase[0])), c.library, properties))
}

// givePassphrase is a pem_password_cb whose last argument is the passphrase as C text.
func givePassphrase(buf uintptr, size, _ int32, passphrase uintptr) int32 {
	text := cText(passphrase)
	if len(text) > int(size) {
		return -1
	}
	return int32(copy(cBytes(buf, int(size)), text))
}

func (n nativeContext) store(uri string, wantKey bool, passphrase string) error {
	const infoKey, infoCert = 4, 5 // OSSL_STORE_INFO_PKEY, _CERT
	if !hasStore() {
		return fmt.Errorf("%s has no OSSL_STORE for URIs; 3.0 or newer has", goString(ossl.OpenSSL_version.call(0)))
	}
	defer onOneThread()()
	name, phrase := inC(uri), inC(passphrase)
	var pin runtime.Pinner // the store keeps the passphrase until it is closed
	pin.Pin(&phrase[0])
	defer pin.Unpin()
	defer clear(phrase)
	ui := ossl.UI_UTIL_wrap_read_pem_callback.call(callbacks().passphrase, 0)
	if ui != 0 {
		defer ossl.UI_destroy_method.call(ui)
	}
	// No property query: a key in a token lives in its own provider, not in fips.
	store := ossl.OSSL_STORE_open_ex.call(uintptr(unsafe.Pointer(&name[0])), n.c.library, 0, ui,
		uintptr(unsafe.Pointer(&phrase[0])), 0, 0, 0)
	defer ossl.ERR_clear_error.call()
	if store != 0 {
		defer ossl.OSSL_STORE_close.call(store)
	}
	for store != 0 && cInt(ossl.OSSL_STORE_eof.call(store)) == 0 && cInt(ossl.OSSL_STORE_error.call(store)) == 0 {
		info := ossl.OSSL_STORE_load.call(store)
		if info == 0 {
			continue
		}
		kind := cInt(ossl.OSSL_STORE_INFO_get_type.call(info))
		var err error
		switch {
		case wantKey && kind == infoKey:
			err = n.c.useKey(ossl.OSSL_STORE_INFO_get1_PKEY.call(info))
		case !wantKey && kind == infoCert:
			cert := ossl.OSSL_STORE_INFO_get1_CERT.call(info)
			if cert == 0 || cInt(ossl.SSL_CTX_use_certificate.call(n.c.ctx, cert)) != 1 {
				err = refused("certificate")
			}
			ossl.X509_free.call(cert)
		default:
			ossl.OSSL_STORE_INFO_free.call(info)
			continue
		}
		ossl.OSSL_STORE_INFO_free.call(info)
		return err
	}
	if wantKey {
		return refused("no private key is found there")
	}
	return refused("no certificate is found there")
}

func (n nativeContext) checkKey() error {
	defer onOneThread()()
	if cInt(ossl.SSL_CTX_check_private_key.call(n.c.ctx)) != 1 {
		return refused("the private key does not go with the certificate")
	}
	return nil
}

func (n nativeContext) verify(mode int) { ossl.SSL_CTX_set_verify.call(n.c.ctx, uintptr(mode), 0) }

func (n nativeContext) storeFlags(flags uint64) {
	ossl.X509_STORE_set_flags.call(ossl.SSL_CTX_get_cert_store.call(n.c.ctx), uintptr(flags))
}

// sessions of clients are kept in Go, where they are found by name; those of servers in libssl or in tickets.
func (n nativeContext) sessions(client, server bool) {
	const forClients, forServers, noInternalStore = 1, 2, 0x200
	var mode uintptr
	if client {
		mode |= forClients | noInternalStore
	}
	if server {
		mode |= forServers
	}
	ossl.SSL_CTX_ctrl.call(n.c.ctx, ctrlSessionCacheMode, mode, 0)
	if client {
		ossl.SSL_CTX_sess_set_new_cb.call(n.c.ctx, callbacks().session)
	}
	// Without this a TLS 1.3 server sends tickets that name a session in its cache.
	if !client && !server {
		ossl.SSL_CTX_set_num_tickets.call(n.c.ctx, 0)
	}
}

func (n nativeContext) keylog() {
	ossl.SSL_CTX_set_keylog_callback.call(n.c.ctx, callbacks().keylog)
}

func (n nativeContext) alpn(wire []byte) bool {
	n.c.alpn = wire
	contextsByPointer.Store(n.c.ctx, n.c)
	ossl.SSL_CTX_set_alpn_select_cb.call(n.c.ctx, callbacks().alpn, n.c.ctx)
	return true
}

// chooseProtocol takes the first of the server's protocols that the client offers. None in common ends
// the handshake with the alert no_application_protocol (RFC 7301, section 3.2).
func chooseProtocol(_, out, outLen, offered uintptr, offeredLen uint32, argument uintptr) int32 {
	const taken, fatal = 0, 2 // SSL_TLSEXT_ERR_OK, _ALERT_FATAL
	known, ok := contextsByPointer.Load(argument)
	if !ok {
		return fatal
	}
	theirs := cBytes(offered, int(offeredLen))
	for ours := known.(*pureContext).alpn; len(ours) > 0; {
		wanted := string(ours[1 : 1+int(ours[0])])
		ours = ours[1+len(wanted):]
		for i := 0; i < len(theirs); i += 1 + int(theirs[i]) {
			if end := i + 1 + int(theirs[i]); end <= len(theirs) && string(theirs[i+1:end]) == wanted {
				*(*uintptr)(pointer(out)) = offered + uintptr(i) + 1
				*(*byte)(pointer(outLen)) = theirs[i]
				return taken
			}
		}
	}
	return fatal
}
