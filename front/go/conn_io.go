package fipstls

import (
	"io"
	"log"
	"net"
	"os"
	"time"
)

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

// unlock releases mu, and then gives the key log what steps left for it. A writer may block for as long as
// it likes: Close takes mu, and frees what the next step finds to be gone.
func (c *Conn) unlock() {
	lines := c.keylines
	if lines == nil {
		c.mu.Unlock()
		return
	}
	c.keylines = nil
	log := c.context.keylog
	c.mu.Unlock()
	log.write(lines)
}

// collect fetches what libssl's callbacks left. Sessions wait until the peer is accepted, and lines of the
// key log for unlock. mu is held.
func (c *Conn) collect() {
	if c.native.hasKeylog() {
		c.keylines = append(c.keylines, c.native.takeKeylog()...)
	}
	if c.native.hasSession() && c.accepted && c.context.sessions != nil {
		if c.verified == nil && c.context.verifies() {
			c.verified = c.context.certs.parse(c.native.chain(true))
		}
		c.context.sessions.put(c.sessionKey, session{c.native.takeSession(), c.native.expires(), c.verified})
	}
}

// sendLocked sends what is in out, and what is added to it meanwhile, when nobody else sends any more.
// mu is held, and released while bytes move. What a deadline interrupts stays in out.
func (c *Conn) sendLocked() error {
	for c.sending {
		c.idle.Wait()
	}
	if len(c.out) == 0 || c.writeErr != nil {
		return c.writeErr
	}
	c.sending = true
	err := errCallback // unless Write returns
	defer func() {
		c.sending = false
		if err != nil && !isTimeout(err) {
			c.writeErr = err
		}
		c.idle.Broadcast()
	}()
	for {
		taken := c.takeOut()
		var n int
		n, err = c.writeBelow(taken.bytes)
		if err != nil && n < len(taken.bytes) {
			later := c.takeOut()
			c.out = append(append([]byte{}, taken.bytes[n:]...), later.bytes...)
			later.release()
		}
		taken.release()
		if len(c.out) == 0 || err != nil {
			return err
		}
		err = errCallback
	}
}

// writeBelow writes to the net.Conn. mu is held, and released meanwhile.
func (c *Conn) writeBelow(bytes []byte) (int, error) {
	c.mu.Unlock()
	defer c.mu.Lock()
	return c.conn.Write(bytes)
}

// drain sends what a Read made libssl write (answers to KeyUpdate, alerts) without making the Read
// wait: two peers whose buffers are full would wait for each other. Started with draining set; mu is
// not released between the end of sending and that of draining, so there is one at a time.
func (c *Conn) drain() {
	defer recovered(log.Printf, "answering", c.conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() {
		c.draining = false
		c.idle.Broadcast()
	}()
	c.sendLocked()
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
	if isPast(&c.deadlines.read) {
		return 0, os.ErrDeadlineExceeded // a Write that reads may hold reading
	}
	c.readers.Add(1)
	defer c.readers.Add(-1)
	c.reading.Lock()
	defer c.reading.Unlock()
	for {
		if isPast(&c.deadlines.read) {
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
	if c.state != stateOpen {
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
	if len(c.out) > outMax && c.readErr == nil {
		c.readErr = errAnswers
	}
	if len(c.out) > 0 && !c.sending && !c.draining && c.writeErr == nil {
		c.draining = true
		go c.drain()
	}
	c.unlock()
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
		if isPast(&c.deadlines.write) {
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
	n, reads, isWaiting, err := c.writeStep(b)
	if err == nil && isWaiting {
		err = c.awaitReading(reads)
	}
	return n, err
}

// writeStep is writeSome but for the waiting: isWaiting tells that libssl has to read first.
func (c *Conn) writeStep(b []byte) (n int, reads uint64, isWaiting bool, err error) {
	c.mu.Lock()
	defer c.unlock()
	if err := c.writableLocked(); err != nil {
		return 0, 0, false, err
	}
	if len(c.out) > 0 { // a deadline interrupted the last write
		return 0, 0, false, c.sendLocked()
	}
	status := c.step(opWrite, nil, b[:min(len(b), writeChunk)])
	n, reads = c.native.done(), c.reads
	var failure error
	if status != statusOK && status != statusWantRead {
		failure = c.failureLocked("write", status)
	}
	err = c.sendLocked()
	if failure != nil {
		c.writeErr = failure
		return n, reads, false, failure
	}
	return n, reads, status == statusWantRead, err
}

// writableLocked waits until nobody is sending and says why nothing can be written. mu is held.
func (c *Conn) writableLocked() error {
	for c.sending {
		c.idle.Wait()
	}
	switch {
	case c.state != stateOpen:
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
// and keeps what it gets for the next Read. A processor may be busy with it for longer than a peer needs
// to send as much as is kept: then a Read gets a while to come.
func (c *Conn) awaitReading(reads uint64) error {
	var full time.Time // since when as much is kept as may be
	for !isPast(&c.deadlines.write) {
		c.mu.Lock()
		isOver := c.reads != reads || c.state != stateOpen
		c.mu.Unlock()
		if isOver {
			return nil
		}
		if c.readers.Load() > 0 || !c.reading.TryLock() {
			time.Sleep(renegotiate)
			continue
		}
		if len(c.stash) > stashMax {
			c.reading.Unlock()
			if full.IsZero() {
				full = time.Now()
			} else if time.Since(full) > stashWait {
				return errStash
			}
			time.Sleep(renegotiate)
			continue
		}
		full = time.Time{}
		err := c.readIntoStash()
		if err != nil && !isTimeout(err) {
			return err
		}
	}
	return os.ErrDeadlineExceeded
}

// readIntoStash reads in the place of a Read. reading is held, and released.
func (c *Conn) readIntoStash() error {
	defer c.reading.Unlock()
	defer c.deadlines.takeBack(c.conn)
	c.deadlines.lend(c.conn)
	piece := getBuffer(largeBuffer)
	defer piece.release()
	n, err := c.readSome(piece.bytes)
	c.stash = append(c.stash, piece.bytes[:n]...)
	return err
}
