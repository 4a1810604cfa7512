//go:build !unix

package fipstls

import "net"

// dropUnread is for sockets of unix systems.
func dropUnread(net.Conn) {}
