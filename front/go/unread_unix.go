//go:build unix

package fipstls

import (
	"net"
	"syscall"
)

// dropUnread takes what has arrived out of a socket, without waiting for more.
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
	raw.Read(func(descriptor uintptr) bool {
		syscall.Read(int(descriptor), unread.bytes)
		return true
	})
}
