package fipstls

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// deadlines are those of a connection, in nanoseconds since 1970; 0 is none.
type deadlines struct {
	read  atomic.Int64
	write atomic.Int64

	mu   sync.Mutex // orders what the net.Conn is told
	lent bool       // a Write reads: the write deadline ends that, too
}

func (d *deadlines) setRead(conn net.Conn, t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.read.Store(inNanoseconds(t))
	if d.lent && !isPast(&d.read) {
		t = d.earlier()
	}
	return conn.SetReadDeadline(t)
}

func (d *deadlines) setWrite(conn net.Conn, t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.write.Store(inNanoseconds(t))
	if d.lent {
		conn.SetReadDeadline(d.earlier())
	}
	return conn.SetWriteDeadline(t)
}

// lend makes reading end with the write deadline. A read deadline that has passed is a Read's, and
// holds up no Write; one that is to come lets a Read have its turn.
func (d *deadlines) lend(conn net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lent = true
	conn.SetReadDeadline(d.earlier())
}

func (d *deadlines) takeBack(conn net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lent = false
	conn.SetReadDeadline(timeOf(d.read.Load()))
}

// earlier is the next of the two that is to come. mu is held.
func (d *deadlines) earlier() time.Time {
	read, write := d.read.Load(), d.write.Load()
	if read == 0 || isPast(&d.read) || write != 0 && write < read {
		return timeOf(write)
	}
	return timeOf(read)
}

func timeOf(nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds)
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
