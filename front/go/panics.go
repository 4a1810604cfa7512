package fipstls

import (
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"runtime"
)

// A caller's code (callbacks, listeners, connections, dial functions, loggers) may panic or call
// runtime.Goexit. Where it runs in a goroutine of the caller, the panic goes on to the caller, and locks are
// released by defer. Where it runs in a goroutine of this package, the panic is logged as net/http logs that of a
// handler, and ends nothing but its connection or dial.

// errCallback is the failure of a connection whose callback did not return.
var errCallback = errors.New("fipstls: a callback or the connection below panicked or ended its goroutine; this connection cannot be used any more")

// recovered is deferred in goroutines of this package, around a caller's code for conn. doing is what net/http
// would say, such as "serving".
func recovered(logf func(format string, values ...any), doing string, conn net.Conn) {
	if value := recover(); value != nil {
		reportPanic(logf, doing+" "+addressOf(conn), value)
	}
}

// guardedDial turns a panic of a dial function or callback into a failure of its dial.
func guardedDial(address string, connect func() (*Conn, error)) (conn *Conn, err error) {
	defer func() {
		if value := recover(); value != nil {
			conn, err = nil, fmt.Errorf("fipstls: dialling %s: panic: %v", address, value)
			reportPanic(log.Printf, "dialling "+address, value)
		}
	}()
	return connect()
}

// reportPanic logs a panic. It has to return, so a logger that panics as well is replaced by the standard one.
func reportPanic(logf func(format string, values ...any), doing string, value any) {
	if value == http.ErrAbortHandler {
		return
	}
	stack := make([]byte, 64<<10)
	stack = stack[:runtime.Stack(stack, false)]
	defer func() { _ = recover() }()
	defer func() {
		if recover() != nil {
			log.Printf("http: panic %s: %v\n%s", doing, value, stack)
		}
	}()
	logf("http: panic %s: %v\n%s", doing, value, stack)
}

// addressOf is the peer's address, if the connection can say it.
func addressOf(conn net.Conn) (address string) {
	defer func() {
		if recover() != nil {
			address = "an unknown address"
		}
	}()
	return conn.RemoteAddr().String()
}

// closeGuarded closes a connection in a goroutine of this package, a timer's above all.
func closeGuarded(conn net.Conn) {
	defer recovered(log.Printf, "closing a connection with", conn)
	conn.Close()
}
