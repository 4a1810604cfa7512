package fipstls

import (
	"context"
	"errors"
	"net"
	"slices"
)

// host is what a Transport knows of a server. pools.mu protects it.
type host struct {
	protocol string                    // of the newest connection; "" before the first one
	changed  chan struct{}             // closed when protocol changes
	dials    map[*pendingDial]struct{} // with MaxConnsPerHost: all that no http.Transport has taken yet
}

// learn notes the protocol of a new connection and wakes the requests that wait in the other
// http.Transport. pools.mu is held.
func (h *host) learn(protocol string) {
	if h.protocol != protocol {
		h.protocol = protocol
		close(h.changed)
		h.changed = make(chan struct{})
	}
}

// pendingDial is a connection that a request is making, in a goroutine of its own. It does not belong to the
// http.Transport that asked for it until that has taken it: when another connection shows first that the
// server speaks the other protocol, the request goes on to the other http.Transport, which takes this one
// when it is ready. pools.mu protects owner, wanted and isAwaited; conn and err are set when done is closed.
type pendingDial struct {
	maker     *attempt // the request that began it
	owner     *attempt // the request that it is for now; nil when it is not needed any more
	wanted    string   // the protocol of the http.Transport in whose MaxConnsPerHost it counts
	isAwaited bool     // by a call of dial
	cancel    context.CancelFunc
	done      chan struct{}
	conn      *Conn
	err       error
}

func (d *pendingDial) isDone() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// hostsKept bounds what is remembered; a host that was forgotten is asked again.
const hostsKept = 10_000

// hostAt returns what is known of a server.
func (p *pools) hostAt(key string) *host {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hosts[key]
	if h == nil {
		for old := range p.hosts {
			if len(p.hosts) < hostsKept {
				break
			}
			delete(p.hosts, old)
		}
		h = &host{changed: make(chan struct{}), dials: make(map[*pendingDial]struct{})}
		p.hosts[key] = h
	}
	return h
}

func protocolName(conn *Conn) string {
	if conn.Negotiated().Protocol == "h2" {
		return "h2"
	}
	return "http/1.1"
}

// dial is how an http.Transport gets a connection: the one that its request is making already, or a new one.
// It fails with otherProtocol when the request has to go on in the other http.Transport.
func (p *pools) dial(ctx context.Context, network, address, wanted string) (net.Conn, error) {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return nil, errors.New("fipstls: net/http dials " + address + " without a request")
	}
	for {
		d, changed, err := p.await(ctx, network, a, wanted)
		if err != nil {
			return nil, err
		}
		select {
		case <-d.done:
		case <-changed:
		case <-ctx.Done():
			p.abandon(d, a) // CloseIdleConnections, when the request is over
			return nil, context.Cause(ctx)
		}
		conn, isOver, err := p.collect(d, a, wanted)
		if !isOver {
			continue
		}
		if err != nil {
			p.leave(a)
			return nil, err
		}
		return conn, nil
	}
}

// await returns the connection to wait for, which is made from now on if there is none, and a channel that is
// closed when the server's protocol changes; nil for a request that goes nowhere else.
func (p *pools) await(ctx context.Context, network string, a *attempt, wanted string) (*pendingDial, <-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.hasEnded { // another connection has served the request
		return nil, nil, context.Canceled
	}
	h := a.host
	d := p.claim(a, wanted)
	canMove := !a.hasMoved && !a.onlyHTTP1
	if d == nil && canMove && h.protocol != "" && h.protocol != wanted {
		return nil, nil, a.move(h.protocol)
	}
	if d == nil {
		d = p.begin(ctx, network, a)
	}
	d.wanted, d.isAwaited = wanted, true
	if canMove {
		return d, h.changed, nil
	}
	return d, nil, nil
}

// claim finds a connection that is there or being made: one that the request left, or, so that
// MaxConnsPerHost bounds both protocols together, one whose request has to leave the other http.Transport. mu is held.
func (p *pools) claim(a *attempt, wanted string) *pendingDial {
	for _, d := range a.dials {
		if !d.isAwaited {
			return d
		}
	}
	if a.onlyHTTP1 || p.base.MaxConnsPerHost <= 0 || a.host.protocol != wanted {
		return nil
	}
	var found *pendingDial
	for d := range a.host.dials {
		isLeft := !d.isAwaited || d.wanted != wanted && !d.owner.hasMoved
		isUsable := !d.isDone() || d.err == nil && protocolName(d.conn) == wanted
		if isLeft && isUsable && !d.owner.onlyHTTP1 && (found == nil || d.isDone()) {
			found = d
		}
	}
	if found != nil {
		found.owner.dials = without(found.owner.dials, found)
		found.owner.claimed++
		found.owner = a
		a.dials = append(a.dials, found)
	}
	return found
}

// begin starts to make a connection. mu is held.
func (p *pools) begin(ctx context.Context, network string, a *attempt) *pendingDial {
	// It may outlive this call of dial. The context has the request's values, httptrace's hooks among them.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	d := &pendingDial{maker: a, owner: a, cancel: cancel, done: make(chan struct{})}
	a.dials = append(a.dials, d)
	if p.base.MaxConnsPerHost > 0 {
		a.host.dials[d] = struct{}{}
	}
	go func() {
		defer cancel()
		p.settle(d, func() (*Conn, error) { return p.connect(ctx, network, a, p.offerFor(a)) })
	}()
	return d
}

func (p *pools) offerFor(a *attempt) []string {
	if a.onlyHTTP1 {
		return []string{"http/1.1"}
	}
	return p.offer
}

// settle makes a connection and says what came of it, also if a callback panics or ends the goroutine.
func (p *pools) settle(d *pendingDial, connect func() (*Conn, error)) {
	conn, err := (*Conn)(nil), errCallback
	defer func() {
		p.mu.Lock()
		if err == nil && !d.maker.onlyHTTP1 {
			d.maker.host.learn(protocolName(conn))
		}
		isNeeded := d.owner != nil
		d.conn, d.err = conn, err
		close(d.done)
		p.mu.Unlock()
		if !isNeeded && conn != nil {
			closeGuarded(conn)
		}
	}()
	conn, err = guardedDial(d.maker.address, connect)
}

// collect decides what a call of dial does that was woken: it returns, or waits again.
func (p *pools) collect(d *pendingDial, a *attempt, wanted string) (conn *Conn, isOver bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case d.owner != a && a.hasEnded:
		return nil, true, context.Canceled
	case d.owner != a && a.hasMoved: // claimed by another request
		return nil, false, nil
	case d.owner != a:
		return nil, true, a.move(a.host.protocol)
	case !d.isDone():
		d.isAwaited = false
		if a.host.protocol == wanted {
			return nil, false, nil
		}
		return nil, true, a.move(a.host.protocol)
	case d.err != nil: // of another request's dial, it says nothing about this one
		p.forget(d)
		return nil, d.maker == a, d.err
	case protocolName(d.conn) == wanted:
		p.forget(d)
		return d.conn, true, nil
	}
	d.isAwaited = false
	return nil, true, &otherProtocol{protocolName(d.conn)}
}

// move sends a request on to the other http.Transport, which happens once: servers that choose another
// protocol with each connection would send it to and fro. pools.mu is held.
func (a *attempt) move(protocol string) error {
	a.hasMoved = true
	return &otherProtocol{protocol}
}

// forget takes a connection off the lists: it has an owner elsewhere, or there is none. mu is held.
func (p *pools) forget(d *pendingDial) {
	d.owner.dials = without(d.owner.dials, d)
	delete(d.maker.host.dials, d)
}

func without(dials []*pendingDial, d *pendingDial) []*pendingDial {
	return slices.DeleteFunc(dials, func(other *pendingDial) bool { return other == d })
}

// giveUp ends a dial that its request needs no more. mu is held. It returns a connection that is to be closed.
func (p *pools) giveUp(d *pendingDial) *Conn {
	p.forget(d)
	d.owner = nil
	d.cancel()
	if d.isDone() {
		return d.conn
	}
	return nil
}

// abandon gives up the dial that a request awaits, if it is still its own.
func (p *pools) abandon(d *pendingDial, a *attempt) {
	p.mu.Lock()
	var surplus *Conn
	if d.owner == a {
		surplus = p.giveUp(d)
	}
	p.mu.Unlock()
	if surplus != nil {
		surplus.Close()
	}
}

// end gives up what a request was dialling: if it failed, all; else what no call of dial awaits, and the
// http.Transport keeps what comes of the others, as net/http keeps it.
func (p *pools) end(a *attempt, failed bool) {
	p.mu.Lock()
	var surplus []*Conn
	a.hasEnded = true
	for _, d := range slices.Clone(a.dials) {
		if failed || !d.isAwaited {
			surplus = append(surplus, p.giveUp(d))
		}
	}
	p.mu.Unlock()
	for _, conn := range surplus {
		if conn != nil {
			conn.Close()
		}
	}
}

// leave gives up what a call of dial leaves behind when its request has ended before.
func (p *pools) leave(a *attempt) {
	p.mu.Lock()
	hasEnded := a.hasEnded
	p.mu.Unlock()
	if hasEnded {
		p.end(a, false)
	}
}
