package fipstls

import "sync"

const (
	// An idle connection that somebody reads from holds a small one.
	smallBuffer = 8 << 10
	largeBuffer = 66 << 10 // four full records and what TLS adds to them
)

// buffer comes from a pool and goes back there.
type buffer struct{ bytes []byte }

var (
	smallBuffers = sync.Pool{New: func() any { return &buffer{make([]byte, smallBuffer)} }}
	largeBuffers = sync.Pool{New: func() any { return &buffer{make([]byte, largeBuffer)} }}
)

// getBuffer returns a buffer of at least size bytes, up to largeBuffer.
func getBuffer(size int) *buffer {
	if size <= smallBuffer {
		return smallBuffers.Get().(*buffer)
	}
	return largeBuffers.Get().(*buffer)
}

func (b *buffer) release() {
	if len(b.bytes) == smallBuffer {
		smallBuffers.Put(b)
	} else {
		largeBuffers.Put(b)
	}
}
