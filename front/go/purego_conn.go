//go:build fipstls_purego && (linux || darwin)

package fipstls

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"unsafe"
)

// Numbers of SSL_ctrl and BIO_ctrl behind OpenSSL's macros, and others of its headers.
const (
	ctrlSetTlsextHostname   = 55
	ctrlGetPeerSignatureNid = 108
	ctrlGetPeerTmpKey       = 109
	ctrlGetNegotiatedGroup  = 134
	ctrlPending             = 10
	errorWantRead           = 2
	errorZeroReturn         = 6
	librarySSL              = 20
	reasonVerifyFailed      = 134
	alertOffset             = 1000
	nidECPublicKey          = 408
	nidRSAPSS               = 912
	nidRSA                  = 6
	onlyNames               = 0x4 | 0x20 // X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, _NEVER_CHECK_SUBJECT
)

// nativeConn is an SSL with its BIOs. Every use is under its owner's lock.
type nativeConn struct{ c *pureConn }

// pureConn moves bytes through two memory BIOs: a BIO of one's own would be Go functions that libssl
// calls, which costs ten times as much as a copy.
type pureConn struct {
	ssl, readBIO, writeBIO uintptr
	context                nativeContext

	// Results of the last step.
	status    stepStatus
	n         uintptr // plaintext bytes read or written
	moved     uintptr // by one call
	used      int     // of what came from the peer
	put       int     // into the buffer for it
	spill     int     // what did not fit there, which writeBIO holds
	isPending bool
	verify    int
	refused   bool
	code      uint64
	alert     int
	text      string

	session, offered uintptr // SSL_SESSION: newest that libssl gave out, and what this handshake tries to resume
	keylog           []byte
	checkName        string // for resumed handshakes, whose certificate libssl does not check again
	checkIP          bool
}

// connsByPointer finds a connection when libssl calls back.
var connsByPointer sync.Map

func connOf(ssl uintptr) *pureConn {
	if known, ok := connsByPointer.Load(ssl); ok {
		return known.(*pureConn)
	}
	return nil
}

// newSession is libssl's callback for a session that can be resumed; 1 keeps it.
func newSession(ssl, session uintptr) int32 {
	c := connOf(ssl)
	if c == nil {
		return 0
	}
	if c.session != 0 {
		freeSession(pointer(c.session))
	}
	c.session = session
	live.sessions.Add(1)
	return 1
}

func keylogLine(ssl, line uintptr) {
	if c := connOf(ssl); c != nil {
		c.keylog = append(append(c.keylog, cText(line)...), '\n')
	}
}

func newNativeConn(context nativeContext, o nativeConnOptions) (nativeConn, error) {
	defer onOneThread()()
	c := &pureConn{context: context, alert: -1, offered: uintptr(o.session)}
	context.c.references.Add(1)
	live.conns.Add(1)
	n := nativeConn{c}
	if !c.make(o) {
		n.free()
		return nativeConn{}, fmt.Errorf("fipstls: libssl makes no connection for server name %q", o.name)
	}
	return n, nil
}

func (c *pureConn) make(o nativeConnOptions) bool {
	if c.ssl = ossl.SSL_new.call(c.context.c.ctx); c.ssl == 0 {
		return false
	}
	connsByPointer.Store(c.ssl, c)
	read, write := ossl.BIO_new.call(ossl.BIO_s_mem.call()), ossl.BIO_new.call(ossl.BIO_s_mem.call())
	if read == 0 || write == 0 {
		for _, bio := range []uintptr{read, write} {
			if bio != 0 {
				ossl.BIO_free.call(bio)
			}
		}
		return false
	}
	ossl.SSL_set_bio.call(c.ssl, read, write)
	c.readBIO, c.writeBIO = read, write
	if o.server {
		ossl.SSL_set_accept_state.call(c.ssl)
		return true
	}
	ossl.SSL_set_connect_state.call(c.ssl)
	if o.name != "" && !c.setName(o) {
		return false
	}
	// 0 is success here.
	if len(o.alpn) > 0 && cInt(ossl.SSL_set_alpn_protos.call(c.ssl, uintptr(unsafe.Pointer(&o.alpn[0])), uintptr(len(o.alpn)))) != 0 {
		return false
	}
	if c.offered != 0 { // one that can't be used costs a full handshake, nothing else
		ossl.SSL_set_session.call(c.ssl, c.offered)
	}
	return true
}

// setName expects of the peer's certificate that it is for the name, and asks for it by SNI; never by
// SNI for an address (RFC 6066, section 3).
func (c *pureConn) setName(o nativeConnOptions) bool {
	name := inC(o.name)
	if !o.isIP && cInt(ossl.SSL_ctrl.call(c.ssl, ctrlSetTlsextHostname, 0, uintptr(unsafe.Pointer(&name[0])))) != 1 {
		return false
	}
	if !o.check {
		return true
	}
	c.checkName, c.checkIP = o.name, o.isIP
	parameters := ossl.SSL_get0_param.call(c.ssl)
	ossl.X509_VERIFY_PARAM_set_hostflags.call(parameters, onlyNames)
	if o.isIP {
		return cInt(ossl.X509_VERIFY_PARAM_set1_ip_asc.call(parameters, uintptr(unsafe.Pointer(&name[0])))) == 1
	}
	return cInt(ossl.SSL_set1_host.call(c.ssl, uintptr(unsafe.Pointer(&name[0])))) == 1
}

func (n nativeConn) free() {
	c := n.c
	if c.ssl != 0 {
		// A connection that is freed without close_notify would take its session out of use for all its
		// owners; these bytes go nowhere.
		ossl.SSL_shutdown.call(c.ssl)
		ossl.SSL_free.call(c.ssl)
		connsByPointer.Delete(c.ssl)
	}
	for _, session := range []uintptr{c.session, c.offered} {
		if session != 0 {
			freeSession(pointer(session))
		}
	}
	c.context.free()
	live.conns.Add(-1)
}

func freeSession(session unsafe.Pointer) {
	ossl.SSL_SESSION_free.call(uintptr(session))
	live.sessions.Add(-1)
}

// --- the step --------------------------------------------------------------------------------------

func (n nativeConn) step(op stepOp, in, out, buf []byte) stepStatus {
	c := n.c
	runtime.LockOSThread() // the error queue is the thread's
	defer runtime.UnlockOSThread()
	c.status, c.n, c.used = statusOK, 0, 0
	ossl.ERR_clear_error.call()
	if len(in) > 0 {
		c.used = max(cInt(ossl.BIO_write.call(c.readBIO, uintptr(unsafe.Pointer(&in[0])), uintptr(len(in)))), 0)
	}
	result := 1
	switch op {
	case opHandshake:
		result = c.handshake()
	case opRead:
		result = c.readRecords(buf)
	case opWrite:
		if c.readingComesFirst() {
			c.put = 0
			c.status = statusWantRead
			return c.status
		}
		result = c.writeRecords(buf)
	case opShutdown: // 0: sent, and the peer's is not here yet
		if cInt(ossl.SSL_shutdown.call(c.ssl)) < 0 {
			result = -1
		}
	}
	if result != 1 {
		switch cInt(ossl.SSL_get_error.call(c.ssl, uintptr(result))) {
		case errorWantRead:
			c.status = statusWantRead
		case errorZeroReturn:
			c.status = statusClosed
		default:
			c.describeFailure()
		}
	}
	c.isPending = cInt(ossl.SSL_pending.call(c.ssl)) > 0 || c.waiting(c.readBIO) > 0
	c.put = 0
	if c.spill = c.waiting(c.writeBIO); c.spill > 0 && len(out) > 0 {
		c.put = max(cInt(ossl.BIO_read.call(c.writeBIO, uintptr(unsafe.Pointer(&out[0])), uintptr(len(out)))), 0)
		c.spill -= c.put
	}
	return c.status
}

// waiting is how many bytes a memory BIO holds.
func (c *pureConn) waiting(bio uintptr) int { return cInt(ossl.BIO_ctrl.call(bio, ctrlPending, 0, 0)) }

func (c *pureConn) handshake() int {
	result := cInt(ossl.SSL_do_handshake.call(c.ssl))
	if result != 1 {
		return result
	}
	resumed := cInt(ossl.SSL_session_reused.call(c.ssl)) != 0
	// libssl announces no session of a TLS 1.2 handshake that resumed one, though it may carry a new ticket.
	if c.offered != 0 && resumed && cInt(ossl.SSL_version.call(c.ssl)) < Version13 {
		if session := ossl.SSL_get1_session.call(c.ssl); session != 0 && newSession(c.ssl, session) == 0 {
			ossl.SSL_SESSION_free.call(session)
		}
	}
	// A resumed handshake carries no certificate; the one in the session still has to be for the name.
	if resumed && c.checkName != "" && !c.resumedNameMatches() {
		c.status, c.refused, c.verify = statusFailed, true, verifyHostname
		if c.checkIP {
			c.verify = verifyIPAddress
		}
		c.text = "the resumed session's certificate is for another name"
	}
	return result
}

func (c *pureConn) resumedNameMatches() bool {
	cert := c.peerCertificate()
	if cert == 0 {
		return false
	}
	defer ossl.X509_free.call(cert)
	name := inC(c.checkName)
	if c.checkIP {
		return cInt(ossl.X509_check_ip_asc.call(cert, uintptr(unsafe.Pointer(&name[0])), 0)) == 1
	}
	return cInt(ossl.X509_check_host.call(cert, uintptr(unsafe.Pointer(&name[0])), 0, onlyNames, 0)) == 1
}

func (c *pureConn) peerCertificate() uintptr {
	if ossl.SSL_get1_peer_certificate != 0 {
		return ossl.SSL_get1_peer_certificate.call(c.ssl)
	}
	return ossl.SSL_get_peer_certificate.call(c.ssl)
}

// readRecords reads as many records as are there and buf takes.
func (c *pureConn) readRecords(buf []byte) int {
	for int(c.n) < len(buf) {
		rest := buf[c.n:]
		result := cInt(ossl.SSL_read_ex.call(c.ssl, uintptr(unsafe.Pointer(&rest[0])), uintptr(len(rest)), uintptr(unsafe.Pointer(&c.moved))))
		if result != 1 {
			return result
		}
		c.n += c.moved
		// Asking for more than there is costs as much as a small record does.
		if cInt(ossl.SSL_pending.call(c.ssl)) == 0 && c.waiting(c.readBIO) == 0 {
			break
		}
	}
	return 1
}

// readingComesFirst is explained in libssl_conn.c; here the input's memory BIO counts too.
func (c *pureConn) readingComesFirst() bool {
	return c.isPending && c.isRenegotiating()
}

func (c *pureConn) isRenegotiating() bool {
	return cInt(ossl.SSL_in_init.call(c.ssl)) != 0 || cInt(ossl.SSL_renegotiate_pending.call(c.ssl)) != 0
}

func (c *pureConn) writeRecords(buf []byte) int {
	for int(c.n) < len(buf) {
		rest := buf[c.n:]
		result := cInt(ossl.SSL_write_ex.call(c.ssl, uintptr(unsafe.Pointer(&rest[0])), uintptr(len(rest)), uintptr(unsafe.Pointer(&c.moved))))
		if result != 1 {
			return result
		}
		c.n += c.moved
	}
	return 1
}

func (c *pureConn) describeFailure() {
	c.status = statusFailed
	c.code, c.text = drainErrors()
	library, reason := c.code>>23&0xFF, c.code&0x7FFFFF
	if uint64(ossl.OpenSSL_version_num.call()) < 0x30000000 {
		library, reason = c.code>>24&0xFF, c.code&0xFFF
	}
	if library == librarySSL && reason >= alertOffset && reason < alertOffset+256 {
		c.alert = int(reason - alertOffset)
	}
	c.verify = cInt(ossl.SSL_get_verify_result.call(c.ssl))
	c.refused = library == librarySSL && reason == reasonVerifyFailed
	if c.text == "" {
		c.text = "libssl gives no reason"
	}
}

func (n nativeConn) done() int             { return int(n.c.n) }
func (n nativeConn) inUsed() int           { return n.c.used }
func (n nativeConn) outLen() int           { return n.c.put }
func (n nativeConn) spillLen() int         { return n.c.spill }
func (n nativeConn) pending() bool         { return n.c.isPending }
func (n nativeConn) verify() int           { return n.c.verify }
func (n nativeConn) code() uint64          { return n.c.code }
func (n nativeConn) alert() int            { return n.c.alert }
func (n nativeConn) isVerifyFailure() bool { return n.c.refused }
func (n nativeConn) reason() string        { return n.c.text }
func (n nativeConn) hasEvents() bool       { return n.hasSession() || n.hasKeylog() }
func (n nativeConn) hasSession() bool      { return n.c.session != 0 }
func (n nativeConn) hasKeylog() bool       { return len(n.c.keylog) > 0 }

func (n nativeConn) takeSpill() []byte {
	spill := make([]byte, n.c.spill)
	got := cInt(ossl.BIO_read.call(n.c.writeBIO, uintptr(unsafe.Pointer(unsafe.SliceData(spill))), uintptr(len(spill))))
	n.c.spill = 0
	return spill[:max(got, 0)]
}

func (n nativeConn) takeSession() unsafe.Pointer {
	session := n.c.session
	n.c.session = 0
	return pointer(session)
}

// takeOffered returns the session that was offered to the server, or nil.
func (n nativeConn) takeOffered() unsafe.Pointer {
	session := n.c.offered
	n.c.offered = 0
	return pointer(session)
}

func (n nativeConn) takeKeylog() []byte {
	lines := n.c.keylog
	n.c.keylog = nil
	return lines
}

// --- what was negotiated ---------------------------------------------------------------------------

func (n nativeConn) info() nativeInfo {
	defer onOneThread()()
	ssl := n.c.ssl
	info := nativeInfo{
		version:    uint16(ossl.SSL_version.call(ssl)),
		resumed:    cInt(ossl.SSL_session_reused.call(ssl)) != 0,
		group:      n.c.group(),
		serverName: interned(cText(ossl.SSL_get_servername.call(ssl, 0))),
	}
	if cipher := ossl.SSL_get_current_cipher.call(ssl); cipher != 0 {
		info.cipherID = uint16(ossl.SSL_CIPHER_get_protocol_id.call(cipher))
		info.cipher = interned(cText(ossl.SSL_CIPHER_get_name.call(cipher)))
	}
	if !info.resumed {
		info.signature = n.c.signature()
	}
	var protocol uintptr
	var length uint32
	ossl.SSL_get0_alpn_selected.call(ssl, uintptr(unsafe.Pointer(&protocol)), uintptr(unsafe.Pointer(&length)))
	info.alpn = interned(cBytes(protocol, int(length)))
	ossl.ERR_clear_error.call()
	return info
}

func (c *pureConn) group() string {
	var name uintptr
	if ossl.SSL_get0_group_name != 0 {
		name = ossl.SSL_get0_group_name.call(c.ssl)
	} else if ossl.SSL_group_to_name != 0 {
		if id := cInt(ossl.SSL_ctrl.call(c.ssl, ctrlGetNegotiatedGroup, 0, 0)); id > 0 {
			name = ossl.SSL_group_to_name.call(c.ssl, uintptr(id))
		}
	}
	if name != 0 {
		return interned(cText(name))
	}
	// 1.1.1 names no group; what is left is the kind and size of the peer's key.
	id := ossl.EVP_PKEY_get_id
	if id == 0 {
		id = ossl.EVP_PKEY_id
	}
	var key uintptr
	if id == 0 || cInt(ossl.SSL_ctrl.call(c.ssl, ctrlGetPeerTmpKey, 0, uintptr(unsafe.Pointer(&key)))) != 1 || key == 0 {
		return ""
	}
	defer ossl.EVP_PKEY_free.call(key)
	kind := cInt(id.call(key))
	if kind == nidECPublicKey && ossl.EVP_PKEY_bits != 0 {
		return fmt.Sprintf("P-%d", cInt(ossl.EVP_PKEY_bits.call(key)))
	}
	return interned(cText(ossl.OBJ_nid2sn.call(uintptr(kind))))
}

func (c *pureConn) signature() string {
	var name uintptr
	if ossl.SSL_get0_peer_signature_name != 0 &&
		cInt(ossl.SSL_get0_peer_signature_name.call(c.ssl, uintptr(unsafe.Pointer(&name)))) == 1 {
		return interned(cText(name))
	}
	var kind, digest int32
	if cInt(ossl.SSL_get_peer_signature_type_nid.call(c.ssl, uintptr(unsafe.Pointer(&kind)))) != 1 {
		return ""
	}
	text := goString(ossl.OBJ_nid2sn.call(uintptr(kind)))
	if level, ok := strings.CutPrefix(text, "id-ml-dsa-"); ok { // the name in TLS is mldsa65
		return "mldsa" + level
	}
	switch kind {
	case nidECPublicKey:
		text = "ecdsa"
	case nidRSAPSS:
		text = "rsa_pss_rsae"
	case nidRSA:
		text = "rsa_pkcs1"
	}
	if cInt(ossl.SSL_ctrl.call(c.ssl, ctrlGetPeerSignatureNid, 0, uintptr(unsafe.Pointer(&digest)))) == 1 && digest != 0 {
		return text + "_" + goString(ossl.OBJ_nid2sn.call(uintptr(digest)))
	}
	return text
}

// encoded is a certificate as DER.
func encoded(cert uintptr) []byte {
	var der uintptr
	length := cInt(ossl.i2d_X509.call(cert, uintptr(unsafe.Pointer(&der))))
	if der == 0 {
		return nil
	}
	defer ossl.CRYPTO_free.call(der, 0, 0)
	return bytes.Clone(cBytes(der, length))
}

// chain returns the peer's certificates as DER, or those of the chain that was verified.
func (n nativeConn) chain(verified bool) [][]byte {
	defer onOneThread()()
	defer ossl.ERR_clear_error.call()
	var stack uintptr
	if verified {
		stack = ossl.SSL_get0_verified_chain.call(n.c.ssl)
	} else {
		stack = ossl.SSL_get_peer_cert_chain.call(n.c.ssl)
	}
	var chain [][]byte
	for i := 0; stack != 0 && i < cInt(ossl.OPENSSL_sk_num.call(stack)); i++ {
		chain = append(chain, encoded(ossl.OPENSSL_sk_value.call(stack, uintptr(i))))
	}
	// What a server sees as the chain leaves the client's own certificate out, and so does a resumed session.
	if leaf := n.c.peerCertificate(); leaf != 0 {
		defer ossl.X509_free.call(leaf)
		if der := encoded(leaf); !verified && len(der) > 0 && (len(chain) == 0 || !bytes.Equal(der, chain[0])) {
			chain = append([][]byte{der}, chain...)
		}
	}
	return chain
}

func (n nativeConn) export(out []byte, label string, context []byte) bool {
	defer onOneThread()()
	defer ossl.ERR_clear_error.call()
	name := inC(label)
	var use uintptr
	if context != nil {
		use = 1
	}
	return cInt(ossl.SSL_export_keying_material.call(n.c.ssl, uintptr(unsafe.Pointer(&out[0])), uintptr(len(out)),
		uintptr(unsafe.Pointer(&name[0])), uintptr(len(label)),
		uintptr(unsafe.Pointer(unsafe.SliceData(context))), uintptr(len(context)), use)) == 1
}

func (n nativeConn) keyUpdate(request bool) bool {
	defer onOneThread()()
	defer ossl.ERR_clear_error.call()
	var kind uintptr // SSL_KEY_UPDATE_NOT_REQUESTED, _REQUESTED
	if request {
		kind = 1
	}
	return cInt(ossl.SSL_version.call(n.c.ssl)) == Version13 && cInt(ossl.SSL_key_update.call(n.c.ssl, kind)) == 1
}

func (n nativeConn) renegotiate() bool {
	defer onOneThread()()
	defer ossl.ERR_clear_error.call()
	return cInt(ossl.SSL_version.call(n.c.ssl)) < Version13 && !n.c.isRenegotiating() &&
		cInt(ossl.SSL_renegotiate.call(n.c.ssl)) == 1
}
