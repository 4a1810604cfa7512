package fipstls

import (
	"container/list"
	"crypto/x509"
	"sync"
	"time"
	"unsafe"
)

const (
	sessionsKept    = 256 // of one configuration, by default
	sessionsPerName = 4   // TLS 1.3 servers send several, each for one use
)

// sessionCache keeps a client's sessions by server name and ALPN offer; the context is the third part
// of the key, since each has a cache of its own. A session is taken out when it is used: TLS 1.3
// recommends single use (RFC 8446, appendix C.4), and 1.2 gives it again in each handshake.
type sessionCache struct {
	mu     sync.Mutex
	max    int
	names  map[string]*list.Element // of *namedSessions
	recent *list.List               // most recently used first
	count  int
	closed bool
}

// session is a session with what it stands for: resuming sends no certificates and verifies none.
type session struct {
	native  unsafe.Pointer // SSL_SESSION
	expires int64          // when the first certificate of the chain ends, in seconds since 1970; 0 is never
	chain   []*x509.Certificate
}

func (s session) isExpired() bool { return s.expires != 0 && s.expires < time.Now().Unix() }

func (s session) free() {
	if s.native != nil {
		freeSession(s.native)
	}
}

type namedSessions struct {
	name     string
	sessions []session // newest last
}

func newSessionCache(max int) *sessionCache {
	if max <= 0 {
		max = sessionsKept
	}
	return &sessionCache{max: max, names: make(map[string]*list.Element), recent: list.New()}
}

// take returns the newest session for a name, which the caller frees, or none.
func (s *sessionCache) take(name string) session {
	s.mu.Lock()
	defer s.mu.Unlock()
	for element := s.names[name]; element != nil; element = s.names[name] {
		newest := s.takeFrom(element)
		if !newest.isExpired() {
			return newest
		}
		newest.free() // a full handshake has its say
	}
	return session{}
}

// takeFrom takes the newest session of a name out. mu is held.
func (s *sessionCache) takeFrom(element *list.Element) session {
	named := element.Value.(*namedSessions)
	last := len(named.sessions) - 1
	newest := named.sessions[last]
	named.sessions = named.sessions[:last]
	s.count--
	if last == 0 {
		s.recent.Remove(element)
		delete(s.names, named.name)
	}
	return newest
}

// put keeps a session, which now belongs to the cache, and drops the oldest ones of its name and of
// the name that was not used for longest.
func (s *sessionCache) put(name string, session session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		session.free()
		return
	}
	element := s.names[name]
	if element == nil {
		element = s.recent.PushFront(&namedSessions{name: name})
		s.names[name] = element
	} else {
		s.recent.MoveToFront(element)
	}
	named := element.Value.(*namedSessions)
	named.sessions = append(named.sessions, session)
	s.count++
	if len(named.sessions) > sessionsPerName {
		s.dropOldest(element)
	}
	for s.count > s.max {
		s.dropOldest(s.recent.Back())
	}
}

func (s *sessionCache) dropOldest(element *list.Element) {
	named := element.Value.(*namedSessions)
	named.sessions[0].free()
	named.sessions = append(named.sessions[:0], named.sessions[1:]...)
	s.count--
	if len(named.sessions) == 0 {
		s.recent.Remove(element)
		delete(s.names, named.name)
	}
}

// clear frees everything; what comes later is freed at once.
func (s *sessionCache) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for s.count > 0 {
		s.dropOldest(s.recent.Back())
	}
}
