package fipstls

import (
	"strings"
	"sync"
)

// The border to libssl is a nativeContext for each configuration and a nativeConn for each connection,
// which is driven by step: one operation of libssl with the bytes that it takes and gives. Two files
// have it: cgo.go, over the C files here; nocgo.go, for builds without cgo, which refuses.

type nativeConnOptions struct {
	server  bool
	name    string // expected of the peer's certificate, and asked for by SNI
	isIP    bool
	check   bool
	alpn    []byte
	session session // to offer; the connection frees it
}

type nativeInfo struct {
	version    uint16
	cipherID   uint16
	resumed    bool
	retried    bool
	cipher     string
	group      string
	signature  string
	alpn       string
	serverName string
}

// names are the few texts that handshakes repeat, so that they are not allocated each time.
var names struct {
	sync.RWMutex
	known map[string]string
}

const namesKept = 1024

func interned(bytes []byte) string {
	if len(bytes) == 0 {
		return ""
	}
	names.RLock()
	name, ok := names.known[string(bytes)]
	names.RUnlock()
	if ok {
		return name
	}
	name = string(bytes)
	names.Lock()
	defer names.Unlock()
	if names.known == nil || len(names.known) >= namesKept {
		names.known = make(map[string]string)
	}
	names.known[name] = name
	return name
}

// directoryIn takes the folder out of what libcrypto says: OPENSSLDIR: "/etc/ssl".
func directoryIn(text string) string {
	if _, quoted, ok := strings.Cut(text, `"`); ok {
		text, _, _ = strings.Cut(quoted, `"`)
	}
	return text
}
