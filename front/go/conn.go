package fipstls

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Conn is a TLS connection over any net.Conn. It is a [net.Conn]: any of its methods may be called from
// several goroutines at once. A deadline that passes leaves it usable: nothing that was read is lost,
// and what was written before is sent with the next write.
//
// Locks, in this order: handshaking; reading or writing; mu. mu protects libssl and is never held
// while bytes are moved to or from the net.Conn, so reading and writing don't wait for each other.
type Conn struct {
	conn   net.Conn
	config *Config
	server bool

	name       string // expected of the peer's certificate; empty for servers
	protos     []string
	sessionKey string

	handshaking sync.Mutex
	isDone      atomic.Bool
	failed      error // of the handshake, once and for all

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
	idle     sync.Cond // signalled when sending ends
	context  *sslContext
	native   nativeConn
	freed    bool // or not made yet
	cleanup  runtime.Cleanup
	isClosed bool
	sentEnd  bool   // close_notify was written
	out      []byte // what libssl wrote and the net.Conn has not taken yet
	outBuf   *buffer
	sending  bool // somebody is in conn.Write, and will send what is added to out meanwhile
	draining bool // and it is the background goroutine
	writeErr error
	reads    uint64 // steps of reading, for a Write that waits for them
	info     nativeInfo
	state    *tls.ConnectionState

	readDeadline  atomic.Int64
	writeDeadline atomic.Int64
}

var (
	errShutdown = errors.New("fipstls: write after CloseWrite")
	errStash    = errors.New("fipstls: the peer sends data and does not finish its renegotiation")
)

const (
	writeChunk  = 64 << 10 // plaintext of one step: four full records
	stashMax    = 1 << 20
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
	tlsConn.name = plainName(serverName)
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
	c := &Conn{conn: conn, config: config, server: server, freed: true}
	c.idle.L = &c.mu
	return c
}

// plainName leaves out what certificates don't have: brackets and zone of an IPv6 address, the root's
// dot of a name.
func plainName(name string) string {
	name = strings.TrimSuffix(name, ".")
	if strings.HasPrefix(name, "[") {
		name = strings.TrimSuffix(name[1:], "]")
	}
	if zone := strings.LastIndexByte(name, '%'); zone > 0 && net.ParseIP(name[:zone]) != nil {
		name = name[:zone]
	}
	return name
}

// --- handshake -------------------------------------------------------------------------------------

// Handshake performs the handshake if it is not done.
func (c *Conn) Handshake() error { return c.HandshakeContext(context.Background()) }

// HandshakeContext performs the handshake if it is not done. When ctx ends first the connection is
// closed and ctx's error returned. After a deadline of the connection it can be called again; every
// other failure is final.
func (c *Conn) HandshakeContext(ctx context.Context) error {
	if c.isDone.Load() {
		return nil
	}
	c.handshaking.Lock()
	defer c.handshaking.Unlock()
	if c.isDone.Load() {
		return nil
	}
	if c.failed != nil {
		return c.failed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	var stop func() bool
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, func() { c.conn.Close() })
	}
	err := c.handshake()
	if stop != nil && !stop() {
		// The connection is closed, whatever the handshake came to.
		err = context.Cause(ctx)
		c.isDone.Store(false)
	}
	if err != nil {
		if !isTimeout(err) || ctx.Err() != nil {
			c.failed = err
		}
		return err
	}
	c.isDone.Store(true)
	return nil
}

// begin makes the native half.
func (c *Conn) begin() error {
	if !c.freed {
		return nil
	}
	ctx, err := c.config.contextFor(c.server)
	if err != nil {
		return err
	}
	isIP := net.ParseIP(c.name) != nil
	if ctx.check && c.name == "" {
		return &ConfigError{"ServerName", errors.New("either ServerName or InsecureSkipVerify is needed")}
	}
	options := nativeConnOptions{server: c.server, name: c.name, isIP: isIP, check: ctx.check}
	if !c.server {
		if options.alpn, err = alpnWire(c.protos); err != nil {
			return &ConfigError{"NextProtos", err}
		}
		if ctx.sessions != nil {
			options.session = ctx.sessions.take(c.sessionKey)
		}
	}
	native, err := ctx.newConn(options)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.context, c.native, c.freed = ctx, native, false
	// The net under Close.
	c.cleanup = runtime.AddCleanup(c, func(native nativeConn) { native.free() }, c.native)
	if c.isClosed {
		c.freeLocked()
		return net.ErrClosed
	}
	return nil
}

func (c *Conn) handshake() error {
	if err := c.begin(); err != nil {
		return err
	}
	for {
		c.mu.Lock()
		for c.sending {
			c.idle.Wait()
		}
		if c.freed {
			c.mu.Unlock()
			return net.ErrClosed
		}
		status := c.step(opHandshake, c.unread(), nil)
		c.inFrom += c.native.inUsed()
		if status == statusOK {
			return c.finishLocked()
		}
		var failure error
		if status != statusWantRead {
			failure = c.failureLocked("handshake", status)
		}
		if err := c.flushLocked(); failure == nil && err != nil {
			return err
		}
		if failure != nil {
			c.giveBack()
			return failure
		}
		if err := c.fill(); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
}

// finishLocked ends a handshake that libssl is content with. mu is held, and released. The own last
// flight is sent after the callback: a peer that it refuses sees no Finished.
func (c *Conn) finishLocked() error {
	c.info = c.native.info()
	c.more = c.native.pending() || c.inFrom < c.inTo
	if offered := c.native.takeOffered(); offered != nil {
		freeSession(offered)
	}
	c.mu.Unlock()
	if verify := c.context.verify; verify != nil {
		if err := verify(c); err != nil {
			return err
		}
	}
	c.mu.Lock()
	if c.freed {
		c.mu.Unlock()
		return net.ErrClosed
	}
	c.isDone.Store(true)
	c.collect()
	for c.sending {
		c.idle.Wait()
	}
	err := c.flushLocked()
	if err != nil {
		c.isDone.Store(false)
	}
	c.giveBack()
	return err
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

// --- steps and buffers -----------------------------------------------------------------------------

// step runs one operation of libssl and keeps what it wrote in out. mu is held.
func (c *Conn) step(op stepOp, in, buf []byte) stepStatus {
	if c.out == nil {
		switch op {
		case opHandshake:
			c.outBuf = getBuffer(smallBuffer)
		case opWrite:
			c.outBuf = getBuffer(len(buf) + len(buf)/64 + 512)
		}
		if c.outBuf != nil {
			c.out = c.outBuf.bytes[:0]
		}
	}
	status := c.native.step(op, in, c.out[len(c.out):cap(c.out)], buf)
	c.out = c.out[:len(c.out)+c.native.outLen()]
	if c.native.spillLen() > 0 {
		c.out = append(c.out, c.native.takeSpill()...)
	}
	if len(c.out) == 0 {
		c.takeOut().release()
	}
	if c.native.hasEvents() {
		c.collect()
	}
	return status
}

// outgoing is what takeOut hands over.
type outgoing struct {
	bytes []byte
	buf   *buffer
}

func (o outgoing) release() {
	if o.buf != nil {
		o.buf.release()
	}
}

func (c *Conn) takeOut() outgoing {
	taken := outgoing{c.out, c.outBuf}
	c.out, c.outBuf = nil, nil
	return taken
}

// collect fetches what libssl's callbacks left. Sessions wait until the peer is accepted. mu is held.
func (c *Conn) collect() {
	if c.native.hasKeylog() {
		lines := c.native.takeKeylog()
		c.context.keylog.write(lines)
	}
	if c.native.hasSession() && c.isDone.Load() && c.context.sessions != nil {
		c.context.sessions.put(c.sessionKey, c.native.takeSession())
	}
}

// flushLocked sends what is in out, and what is added to it meanwhile. mu is held and sending is
// false; mu is released. What a deadline interrupts stays in out.
func (c *Conn) flushLocked() error {
	var err error
	if len(c.out) > 0 && c.writeErr == nil {
		c.sending = true
		for len(c.out) > 0 && err == nil {
			taken := c.takeOut()
			c.mu.Unlock()
			var n int
			n, err = c.conn.Write(taken.bytes)
			c.mu.Lock()
			if err != nil && n < len(taken.bytes) {
				later := c.takeOut()
				c.out = append(append([]byte{}, taken.bytes[n:]...), later.bytes...)
				later.release()
			}
			taken.release()
		}
		c.sending = false
		if err != nil && !isTimeout(err) {
			c.writeErr = err
		}
		c.idle.Broadcast()
	} else {
		err = c.writeErr
	}
	c.mu.Unlock()
	return err
}

// drain sends what a Read made libssl write (answers to KeyUpdate, alerts) without making the Read
// wait: two peers whose buffers are full would wait for each other. Started with sending set.
func (c *Conn) drain() {
	c.mu.Lock()
	c.sending = false
	c.flushLocked()
	c.mu.Lock()
	c.draining = false
	c.idle.Broadcast()
	c.mu.Unlock()
}

func (c *Conn) unread() []byte {
	if c.in == nil {
		return nil
	}
	return c.in.bytes[c.inFrom:c.inTo]
}

// fill reads from the net.Conn; what was there has been used up.
func (c *Conn) fill() error {
	if c.in == nil || c.full && len(c.in.bytes) < largeBuffer {
		c.giveBack()
		size := smallBuffer
		if c.full {
			size = largeBuffer
		}
		c.in = getBuffer(size)
	}
	n, err := c.conn.Read(c.in.bytes)
	c.inFrom, c.inTo = 0, max(n, 0)
	if n > 0 {
		c.full = n == len(c.in.bytes) || n > smallBuffer
		return nil
	}
	c.giveBack()
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// giveBack returns the input buffer to the pool when nothing is left in it.
func (c *Conn) giveBack() {
	if c.in != nil && c.inFrom >= c.inTo {
		c.in.release()
		c.in, c.inFrom, c.inTo = nil, 0, 0
	}
}

// --- reading ---------------------------------------------------------------------------------------

// Read reads decrypted data. io.EOF means that the peer said it is done; a connection that ends without
// saying so is io.ErrUnexpectedEOF.
func (c *Conn) Read(b []byte) (int, error) {
	if err := c.Handshake(); err != nil {
		return 0, err
	}
	if len(b) == 0 {
		return 0, nil
	}
	c.readers.Add(1)
	defer c.readers.Add(-1)
	c.reading.Lock()
	defer c.reading.Unlock()
	for {
		if isPast(&c.readDeadline) {
			return 0, os.ErrDeadlineExceeded
		}
		if len(c.stash) > 0 {
			n := copy(b, c.stash)
			if c.stash = c.stash[n:]; len(c.stash) == 0 {
				c.stash = nil
			}
			return n, nil
		}
		n, err := c.readSome(b)
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// readSome gives plaintext to libssl's b, or else reads from the net.Conn once. reading is held.
func (c *Conn) readSome(b []byte) (int, error) {
	if c.readErr != nil {
		return 0, c.readErr
	}
	if !c.more {
		err := c.fill()
		if err == io.EOF {
			err = io.ErrUnexpectedEOF // close_notify would have come first
		}
		if err != nil {
			if !isTimeout(err) {
				c.readErr = err
			}
			return 0, err
		}
	}
	c.mu.Lock()
	if c.freed {
		c.mu.Unlock()
		return 0, net.ErrClosed
	}
	status := c.step(opRead, c.unread(), b)
	n := c.native.done()
	c.inFrom += c.native.inUsed()
	c.more = c.native.pending() || c.inFrom < c.inTo
	c.reads++
	if status != statusOK && status != statusWantRead {
		c.readErr = c.failureLocked("read", status)
	}
	if len(c.out) > 0 && !c.sending && c.writeErr == nil {
		c.sending, c.draining = true, true
		go c.drain()
	}
	c.mu.Unlock()
	c.giveBack()
	if n > 0 {
		return n, nil // an error behind the data comes with the next call
	}
	return 0, c.readErr
}

// --- writing ---------------------------------------------------------------------------------------

// Write encrypts and sends b. After a deadline n counts what was encrypted; it is sent by the next write,
// so a caller goes on with b[n:].
func (c *Conn) Write(b []byte) (int, error) {
	if err := c.Handshake(); err != nil {
		return 0, err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	written := 0
	for written < len(b) {
		if isPast(&c.writeDeadline) {
			return written, os.ErrDeadlineExceeded
		}
		n, err := c.writeSome(b[written:])
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// writeSome encrypts and sends a chunk of b. writing is held.
func (c *Conn) writeSome(b []byte) (int, error) {
	c.mu.Lock()
	if err := c.writableLocked(); err != nil {
		c.mu.Unlock()
		return 0, err
	}
	if len(c.out) > 0 { // a deadline interrupted the last write
		return 0, c.flushLocked()
	}
	status := c.step(opWrite, nil, b[:min(len(b), writeChunk)])
	n, reads := c.native.done(), c.reads
	var failure error
	if status != statusOK && status != statusWantRead {
		failure = c.failureLocked("write", status)
	}
	err := c.flushLocked()
	if failure != nil {
		c.mu.Lock()
		c.writeErr = failure
		c.mu.Unlock()
		return n, failure
	}
	if err == nil && status == statusWantRead {
		err = c.awaitReading(reads)
	}
	return n, err
}

// writableLocked waits until nobody is sending and says why nothing can be written. mu is held.
func (c *Conn) writableLocked() error {
	for c.sending {
		c.idle.Wait()
	}
	switch {
	case c.isClosed || c.freed:
		return net.ErrClosed
	case c.writeErr != nil:
		return c.writeErr
	case c.sentEnd:
		return errShutdown
	}
	return nil
}

// awaitReading returns when something was read from the peer since `reads`. libssl writes nothing
// during a renegotiation that the peer has to go on with. Where no Read is running, the Write reads
// and keeps what it gets for the next Read.
func (c *Conn) awaitReading(reads uint64) error {
	for !isPast(&c.writeDeadline) {
		c.mu.Lock()
		isOver := c.reads != reads || c.freed
		c.mu.Unlock()
		if isOver {
			return nil
		}
		if c.readers.Load() > 0 || !c.reading.TryLock() {
			time.Sleep(renegotiate)
			continue
		}
		err := c.readIntoStash()
		c.reading.Unlock()
		if err != nil && !isTimeout(err) {
			return err
		}
		if err != nil {
			time.Sleep(renegotiate) // a reader's deadline is not the writer's
		}
	}
	return os.ErrDeadlineExceeded
}

func (c *Conn) readIntoStash() error {
	if len(c.stash) > stashMax {
		return errStash
	}
	piece := getBuffer(largeBuffer)
	defer piece.release()
	n, err := c.readSome(piece.bytes)
	c.stash = append(c.stash, piece.bytes[:n]...)
	return err
}

// --- ending ----------------------------------------------------------------------------------------

// CloseWrite tells the peer that nothing more comes (close_notify). Reading goes on.
func (c *Conn) CloseWrite() error {
	if !c.isDone.Load() {
		return errors.New("fipstls: CloseWrite before the handshake")
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	if err := c.writableLocked(); err != nil {
		c.mu.Unlock()
		if err == errShutdown {
			return nil
		}
		return err
	}
	c.sentEnd = true
	c.step(opShutdown, nil, nil)
	return c.flushLocked()
}

// Close ends the connection and wakes every Read and Write. The peer is told by close_notify, unless
// a Write is in progress.
func (c *Conn) Close() error {
	c.mu.Lock()
	if c.isClosed {
		c.mu.Unlock()
		return net.ErrClosed
	}
	c.isClosed = true
	if c.draining {
		// An alert or an answer is on its way.
		c.conn.SetWriteDeadline(time.Now().Add(closeWait))
		for c.draining {
			c.idle.Wait()
		}
	}
	reads := c.reads
	canTell := c.isDone.Load() && !c.freed && !c.sending && !c.sentEnd && c.writeErr == nil && len(c.out) == 0
	if canTell {
		c.sentEnd = true
		c.step(opShutdown, nil, nil)
		c.conn.SetWriteDeadline(time.Now().Add(closeWait))
		c.flushLocked()
	} else {
		c.mu.Unlock()
	}
	// A kernel that closes a socket with unread bytes in it resets the connection, and drops what is
	// still to be sent. The tickets of a TLS 1.3 server are such bytes where a client only writes.
	if canTell && !c.server && reads == 0 {
		dropUnread(c.conn)
	}
	err := c.conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.freeLocked()
	return err
}

// freeLocked frees the native half. mu is held, so no step is running.
func (c *Conn) freeLocked() {
	if c.freed {
		return
	}
	c.freed = true
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
	c.readDeadline.Store(inNanoseconds(t))
	c.writeDeadline.Store(inNanoseconds(t))
	return c.conn.SetDeadline(t)
}

// SetReadDeadline sets when a Read gives up, one that is waiting included.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.readDeadline.Store(inNanoseconds(t))
	return c.conn.SetReadDeadline(t)
}

// SetWriteDeadline sets when a Write gives up, one that is waiting included.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.writeDeadline.Store(inNanoseconds(t))
	return c.conn.SetWriteDeadline(t)
}

func inNanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(t.UnixNano(), 1)
}

func isPast(deadline *atomic.Int64) bool {
	at := deadline.Load()
	return at != 0 && time.Now().UnixNano() >= at
}

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
	if err := c.writableLocked(); err != nil {
		c.mu.Unlock()
		return err
	}
	if !c.native.keyUpdate(requestPeer) {
		c.mu.Unlock()
		return fmt.Errorf("%w: a key update, which only TLS 1.3 has", ErrUnsupported)
	}
	status := c.step(opHandshake, nil, nil)
	var failure error
	if status == statusFailed {
		failure = c.failureLocked("key update", status)
	}
	return errors.Join(failure, c.flushLocked())
}

// ExportKeyingMaterial derives bytes that only both ends know (RFC 5705, RFC 8446, section 7.5).
func (c *Conn) ExportKeyingMaterial(label string, context []byte, length int) ([]byte, error) {
	if !c.isDone.Load() {
		return nil, errors.New("fipstls: ExportKeyingMaterial before the handshake")
	}
	if length <= 0 {
		return nil, fmt.Errorf("fipstls: ExportKeyingMaterial of %d bytes; at least 1 is needed", length)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.freed {
		return nil, net.ErrClosed
	}
	out := make([]byte, length)
	if !c.native.export(out, label, context) {
		return nil, fmt.Errorf("fipstls: libssl exports no keying material for label %q", label)
	}
	return out, nil
}
