package fipstls

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Conn is a TLS connection over any net.Conn. It is a [net.Conn]: any of its methods may be called from
// several goroutines at once. A deadline that passes leaves it usable: nothing that was read is lost,
// and what was written before is sent with the next write.
//
// Its life is a state, which nobody moves but who is named here, and under mu (see move):
//
//	state        meaning                                            moved there by   from
//	handshaking  only the handshaker has libssl and the buffers     newConn          -
//	open         the own last flight is sent; readers and writers   the handshaker   handshaking
//	closing      nothing new begins, libssl is still there          the first Close  handshaking, open
//	closed       libssl is freed                                    the same Close   closing
//
// A handshake that fails leaves handshaking only by Close. Who acts on a connection, and what is theirs:
//
//	handshaker  holds handshaking and reading, hence all that is a reader's, until the state is open
//	reader      holds reading: in, more, stash and readErr are its own, and it alone reads the net.Conn
//	writer      holds writing; during a renegotiation it may become the reader, if nobody is
//	sender      a handshaker, writer, closer or drain that has set sending: it alone writes to the net.Conn
//	closer      wakes the others by closing the net.Conn, and waits for none of them but a drain
//	timer       the end of a context or closeWait: closes the net.Conn and touches nothing else
//
// Locks, in this order: handshaking; writing; reading; mu. mu protects libssl and is never held
// while bytes are moved to or from the net.Conn, so reading and writing don't wait for each other.
type Conn struct {
	conn   net.Conn
	config *Config
	server bool

	name       string // expected of the peer's certificate; empty for servers
	isIP       bool
	nameErr    error // it can be no certificate's
	protos     []string
	sessionKey string

	handshaking sync.Mutex
	opened      atomic.Bool // the state is open, or was before Close
	failed      error       // of the handshake, once and for all
	start       [5]byte     // of what a client sent, whatever it is
	started     int
	offered     []*x509.Certificate // the chain of the session that is offered

	readers atomic.Int32 // in Read, so that a Write does not read in their place
	reading sync.Mutex
	in      *buffer
	inFrom  int
	inTo    int
	more    bool   // libssl can give plaintext without more bytes from the peer
	full    bool   // the last read filled its buffer: take a large one next
	stash   []byte // plaintext that a Write had to read during a renegotiation
	readErr error

	writing sync.Mutex

	mu       sync.Mutex
	state    connState
	idle     sync.Cond // signalled when sending ends
	context  *sslContext
	native   nativeConn
	hasSSL   bool // native is made and not freed yet
	cleanup  runtime.Cleanup
	accepted bool   // the peer, by VerifyConnection too: its sessions may be kept
	sentEnd  bool   // close_notify was written
	out      []byte // what libssl wrote and the net.Conn has not taken yet
	outBuf   *buffer
	keylines []byte // for the key log, which unlock writes
	sending  bool   // somebody is in conn.Write, and will send what is added to out meanwhile
	draining bool   // and it is the background goroutine
	writeErr error
	reads    uint64 // steps of reading, for a Write that waits for them
	info     nativeInfo
	verified []*x509.Certificate // the chain, where a session has to remember it
	reported *tls.ConnectionState

	deadlines deadlines
}

// connState is where a connection is in its life; see [Conn].
type connState uint8

const (
	stateHandshaking connState = iota
	stateOpen
	stateClosing
	stateClosed
)

// moves are the states that a state can be entered from.
var moves = map[connState][]connState{
	stateOpen:    {stateHandshaking},
	stateClosing: {stateHandshaking, stateOpen},
	stateClosed:  {stateClosing},
}

// move enters a state, or tells that it can't be entered from here. mu is held.
func (c *Conn) move(to connState) bool {
	if !slices.Contains(moves[to], c.state) {
		return false
	}
	c.state = to
	if to == stateOpen {
		c.opened.Store(true)
	}
	return true
}

var (
	errShutdown = errors.New("fipstls: write after CloseWrite")
	errAnswers  = errors.New("fipstls: the peer asks for answers and does not take them")
	errStash    = errors.New("fipstls: the peer sends data and does not finish its renegotiation")
)

const (
	writeChunk  = 64 << 10 // plaintext of one step: four full records
	stashMax    = 1 << 20
	stashWait   = time.Second     // for a Read that takes some of it
	outMax      = 128 << 10       // what a Write leaves at a deadline, and thousands of answers
	closeWait   = 5 * time.Second // for close_notify, as crypto/tls waits
	renegotiate = 5 * time.Millisecond
)

// Client returns a client's connection over conn. Mistakes in the configuration show at the handshake,
// which the first Read or Write performs where Handshake is not called. config must have a ServerName
// or InsecureSkipVerify.
func Client(conn net.Conn, config *Config) *Conn {
	if config == nil {
		config = &defaultConfig
	}
	return config.ClientConn(conn, config.ServerName, config.NextProtos)
}

// ClientConn is Client with another server name and other protocols than the configuration's, whose
// SSL_CTX and sessions it shares.
func (c *Config) ClientConn(conn net.Conn, serverName string, nextProtos []string) *Conn {
	tlsConn := newConn(conn, c, false)
	tlsConn.name, tlsConn.isIP, tlsConn.nameErr = hostName(serverName)
	tlsConn.protos = nextProtos
	tlsConn.sessionKey = tlsConn.name + "\x00" + strings.Join(nextProtos, "\x00")
	return tlsConn
}

// Server returns a server's connection over conn; config must have a certificate and its key.
func Server(conn net.Conn, config *Config) *Conn { return newConn(conn, config, true) }

func newConn(conn net.Conn, config *Config, server bool) *Conn {
	if config == nil {
		config = &defaultConfig
	}
	c := &Conn{conn: conn, config: config, server: server}
	c.idle.L = &c.mu
	return c
}

// --- handshake -------------------------------------------------------------------------------------

// Handshake performs the handshake if it is not done.
func (c *Conn) Handshake() error { return c.HandshakeContext(context.Background()) }

// HandshakeContext performs the handshake if it is not done. When ctx ends first the connection is
// closed and ctx's error returned. After a deadline of the connection it can be called again; every
// other failure is final.
func (c *Conn) HandshakeContext(ctx context.Context) error {
	if c.opened.Load() {
		return nil
	}
	c.handshaking.Lock()
	defer c.handshaking.Unlock()
	if c.opened.Load() {
		return nil
	}
	if c.failed != nil {
		return c.failed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.handshakeUntil(ctx)
}

// handshakeUntil performs the handshake, and closes the connection when ctx ends first. handshaking is held.
func (c *Conn) handshakeUntil(ctx context.Context) (err error) {
	stop := func() bool { return true }
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, func() { closeGuarded(c.conn) })
	}
	hasReturned := false
	defer func() {
		isInTime := stop()
		if !hasReturned { // The caller may recover, and find the connection in no state to go on with.
			c.failed = errCallback
			return
		}
		if !isInTime {
			// The net.Conn is closed, whatever the handshake came to.
			err = context.Cause(ctx)
		}
		if err == nil {
			err = c.open()
		}
		if err != nil && (!isInTime || !isTimeout(err)) {
			c.failed = err
		}
	}()
	err = c.handshake()
	hasReturned = true
	return err
}

// open ends the handshake, unless Close came first. Nothing of the handshaker's is in use any more.
func (c *Conn) open() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.move(stateOpen) {
		return net.ErrClosed
	}
	return nil
}

// begin makes the native half.
func (c *Conn) begin() error {
	c.mu.Lock()
	state, isMade := c.state, c.hasSSL
	c.mu.Unlock()
	if state != stateHandshaking {
		return net.ErrClosed
	}
	if isMade {
		return nil
	}
	ctx, err := c.config.contextFor(c.server)
	if err != nil {
		return err
	}
	if c.nameErr != nil {
		return &ConfigError{"ServerName", c.nameErr}
	}
	if ctx.check && c.name == "" {
		return &ConfigError{"ServerName", errors.New("either ServerName or InsecureSkipVerify is needed")}
	}
	options := nativeConnOptions{server: c.server, name: c.name, isIP: c.isIP, check: ctx.check}
	if !c.server {
		if options.alpn, err = alpnWire(c.protos); err != nil {
			return &ConfigError{"NextProtos", err}
		}
		if ctx.sessions != nil {
			options.session = ctx.sessions.take(c.sessionKey)
			c.offered = options.session.chain
		}
	}
	native, err := ctx.newConn(options)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != stateHandshaking {
		native.free()
		return net.ErrClosed
	}
	c.context, c.native, c.hasSSL = ctx, native, true
	// The net under Close.
	c.cleanup = runtime.AddCleanup(c, func(native nativeConn) { native.free() }, c.native)
	return nil
}

// handshake runs libssl's until its last flight is sent. handshaking is held.
func (c *Conn) handshake() error {
	if err := c.begin(); err != nil {
		return err
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	for {
		isDone, err := c.handshakeStep()
		if isDone {
			return c.finish()
		}
		if err != nil {
			return err
		}
		if err := c.fill(); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		if c.server && c.started < len(c.start) {
			if c.started += copy(c.start[c.started:], c.unread()); looksLikeHTTP(c.start[:]) {
				return errPlainHTTP // and no alert, which would stand before Serve's answer
			}
		}
	}
}

// handshakeStep gives libssl what was read and sends what it answers, until it is content. The own last flight waits for finish.
func (c *Conn) handshakeStep() (isDone bool, err error) {
	c.mu.Lock()
	defer c.unlock()
	if !c.hasSSL {
		return false, net.ErrClosed
	}
	status := c.step(opHandshake, c.unread(), nil)
	c.inFrom += c.native.inUsed()
	if status == statusOK {
		c.info = c.native.info()
		if c.info.resumed {
			c.verified = c.offered
		}
		c.more = c.native.pending() || c.inFrom < c.inTo
		if offered := c.native.takeOffered(); offered != nil {
			freeSession(offered)
		}
		return true, nil
	}
	var failure error
	if status != statusWantRead {
		failure = c.failureLocked("handshake", status)
		defer c.giveBack()
	}
	err = c.sendLocked()
	if failure != nil {
		err = failure
	}
	return false, err
}

// finish ends a handshake that libssl is content with. The own last flight is sent after the callback: a peer
// that it refuses sees no Finished.
func (c *Conn) finish() error {
	if verify := c.context.verify; verify != nil && !c.accepted {
		if err := verify(c); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.unlock()
	if !c.hasSSL {
		return net.ErrClosed
	}
	c.accepted = true
	c.collect()
	defer c.giveBack()
	return c.sendLocked()
}

// failureLocked turns a step that failed into an error. mu is held.
func (c *Conn) failureLocked(op string, status stepStatus) error {
	if status == statusClosed {
		if op == "write" {
			return &Error{Op: op, Reason: "the peer has ended the connection", alert: -1}
		}
		return io.EOF
	}
	code := c.native.verify()
	if op == "handshake" && c.context.verifies() && code != verifyOK && c.native.alert() < 0 && c.native.isVerifyFailure() {
		chain := c.context.certs.parse(c.native.chain(false))
		if len(chain) == 0 { // 1.1.1 keeps only what it tried to verify
			chain = c.context.certs.parse(c.native.chain(true))
		}
		return newVerificationError(code, verifyText(code), c.name, chain)
	}
	return &Error{Op: op, Code: c.native.code(), Reason: c.native.reason(), alert: c.native.alert()}
}

// --- ending ----------------------------------------------------------------------------------------

// CloseWrite tells the peer that nothing more comes (close_notify). Reading goes on.
func (c *Conn) CloseWrite() error {
	if !c.opened.Load() {
		return errors.New("fipstls: CloseWrite before the handshake")
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.writableLocked(); err == errShutdown {
		return nil
	} else if err != nil {
		return err
	}
	c.sentEnd = true
	c.step(opShutdown, nil, nil)
	return c.sendLocked()
}

// Close ends the connection and wakes every Read and Write. The peer is told by close_notify, unless
// a Write is in progress. It takes no longer than five seconds, which a peer that does not read may use
// up, as with crypto/tls; a net.Conn that keeps no deadlines is closed then.
func (c *Conn) Close() (err error) {
	wasOpen, err := c.startClosing()
	if err != nil {
		return err
	}
	defer c.finishClosing()
	defer func() { err = c.conn.Close() }()
	if wasOpen {
		c.tell()
	}
	return nil
}

func (c *Conn) startClosing() (wasOpen bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wasOpen = c.state == stateOpen
	if !c.move(stateClosing) {
		return false, net.ErrClosed
	}
	return wasOpen, nil
}

func (c *Conn) finishClosing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.move(stateClosed)
	c.freeLocked()
}

// tell sends close_notify where it can be sent.
func (c *Conn) tell() {
	timer := time.AfterFunc(closeWait, func() { closeGuarded(c.conn) })
	defer timer.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining { // an alert or an answer is on its way
		c.conn.SetWriteDeadline(time.Now().Add(closeWait))
		for c.draining {
			c.idle.Wait()
		}
	}
	if c.sending || c.sentEnd || c.writeErr != nil || len(c.out) > 0 {
		return
	}
	reads := c.reads
	c.sentEnd = true
	c.step(opShutdown, nil, nil)
	c.conn.SetWriteDeadline(time.Now().Add(closeWait))
	c.sendLocked()
	// A kernel that closes a socket with unread bytes in it resets the connection, and drops what is
	// still to be sent. The tickets of a TLS 1.3 server are such bytes where a client only writes.
	if !c.server && reads == 0 {
		dropUnread(c.conn)
	}
}

// freeLocked frees the native half. mu is held, so no step is running.
func (c *Conn) freeLocked() {
	if !c.hasSSL {
		return
	}
	c.hasSSL = false
	c.cleanup.Stop()
	c.native.free()
	c.native = nativeConn{}
	if !c.sending {
		c.takeOut().release()
	}
}

// --- the rest of net.Conn --------------------------------------------------------------------------

// NetConn returns the connection below. Reading from it or writing to it corrupts this one.
func (c *Conn) NetConn() net.Conn { return c.conn }

// LocalAddr returns the local address.
func (c *Conn) LocalAddr() net.Addr { return c.conn.LocalAddr() }

// RemoteAddr returns the peer's address.
func (c *Conn) RemoteAddr() net.Addr { return c.conn.RemoteAddr() }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline sets when a Read gives up, one that is waiting included.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.deadlines.setRead(c.conn, t) }

// SetWriteDeadline sets when a Write gives up, one that is waiting included.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.deadlines.setWrite(c.conn, t) }

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// KeyUpdate makes new keys for what is sent from now on (RFC 8446, section 4.6.3), and asks the peer
// to do the same where requestPeer is set. TLS 1.3 only; libssl does it by itself when a key has
// protected all that it may.
func (c *Conn) KeyUpdate(requestPeer bool) error {
	if err := c.Handshake(); err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	defer c.unlock()
	if err := c.writableLocked(); err != nil {
		return err
	}
	if !c.native.keyUpdate(requestPeer) {
		return fmt.Errorf("%w: a key update, which only TLS 1.3 has", ErrUnsupported)
	}
	status := c.step(opHandshake, nil, nil)
	var failure error
	if status == statusFailed {
		failure = c.failureLocked("key update", status)
	}
	return errors.Join(failure, c.sendLocked())
}

// ExportKeyingMaterial derives bytes that only both ends know (RFC 5705, RFC 8446, section 7.5).
func (c *Conn) ExportKeyingMaterial(label string, context []byte, length int) ([]byte, error) {
	if !c.opened.Load() {
		return nil, errors.New("fipstls: ExportKeyingMaterial before the handshake")
	}
	if length <= 0 {
		return nil, fmt.Errorf("fipstls: ExportKeyingMaterial of %d bytes; at least 1 is needed", length)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.hasSSL {
		return nil, net.ErrClosed
	}
	out := make([]byte, length)
	if !c.native.export(out, label, context) {
		return nil, fmt.Errorf("fipstls: libssl exports no keying material for label %q", label)
	}
	return out, nil
}
