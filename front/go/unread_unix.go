//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package fipstls

import (
	"net"
	"syscall"
)

// dropUnread takes what has arrived out of a socket, and waits for nothing: neither for more, nor for a
// Read of the same socket, whose lock RawConn.Read would take.
func dropUnread(conn net.Conn) {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return
	}
	unread := getBuffer(smallBuffer)
	defer unread.release()
	raw.Control(func(descriptor uintptr) {
		syscall.Recvfrom(int(descriptor), unread.bytes, syscall.MSG_DONTWAIT)
	})
}
