// Package faultproxy is a TCP proxy that does to connections what networks do:
// it cuts, refuses, freezes and delays them, tears their packets apart, and
// loses what one side said after the other has acted on it.
//
//	p := faultproxy.Start(t, server.Addr)
//	p.Swallow(faultproxy.Contains("evalsha"), faultproxy.Close)
//	... // a client of p.Addr() never hears what its scripts answered
//
// All faults may be switched while connections are open, from any goroutine.
// A fault that never came about proves nothing: Counts tells how often each
// did.
package faultproxy

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sidecall/sidecall/test/testkit/harness"
)

// dialTimeout bounds the connection to the target.
const dialTimeout = 5 * time.Second

// Proxy is a proxy that runs until the end of its test.
type Proxy struct {
	tb   testing.TB
	addr string
	seed uint64

	mu       sync.Mutex
	target   string
	listener net.Listener // nil while connections are refused
	conns    map[*Conn]struct{}
	closed   bool
	lastID   int

	delay   [2]atomic.Int64 // by direction
	split   atomic.Int64
	frozen  atomic.Pointer[freeze]
	hook    atomic.Pointer[func(*Conn) Hook]
	swallow atomic.Pointer[swallow]

	counters
	running sync.WaitGroup
}

// freeze is a time in which nothing moves on some connections.
type freeze struct {
	where func(*Conn) bool
	over  chan struct{}
}

// Start starts a proxy before target, a host:port that need not answer yet. It
// listens on a loopback port of its own. At the end of the test all its
// connections are closed and all its goroutines have ended.
func Start(tb testing.TB, target string) *Proxy {
	tb.Helper()
	p := &Proxy{tb: tb, seed: 1, target: target, conns: map[*Conn]struct{}{}}
	p.listen(harness.FreePort(tb))
	tb.Cleanup(p.close)
	return p
}

// listen takes new connections from now on.
func (p *Proxy) listen(addr string) {
	p.tb.Helper()
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", addr)
	if err != nil {
		p.tb.Fatalf("the proxy cannot listen: %v", err)
	}
	p.mu.Lock()
	p.addr, p.listener = addr, listener
	p.mu.Unlock()
	p.running.Go(func() { p.accept(listener) }) // ends when the listener is closed
}

// Addr is the host:port of the proxy, the same for all its life.
func (p *Proxy) Addr() string { return p.addr }

// Target sends the connections that come from now on to another host:port.
func (p *Proxy) Target(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = addr
}

// Refuse refuses new connections, as a port does where nobody listens, or takes
// them again; open ones stay. It fails the test when the port is gone meanwhile.
func (p *Proxy) Refuse(refuse bool) {
	p.tb.Helper()
	p.mu.Lock()
	listener := p.listener
	if refuse {
		p.listener = nil
	}
	p.mu.Unlock()
	switch {
	case refuse && listener != nil:
		p.refusals.Add(1)
		if err := listener.Close(); err != nil {
			p.tb.Error(err)
		}
	case !refuse && listener == nil:
		p.listen(p.addr)
	}
}

// Cut closes all connections now, and returns how many.
func (p *Proxy) Cut() int { return p.CutWhere(func(*Conn) bool { return true }) }

// CutWhere closes the connections that a test picks, and returns how many.
func (p *Proxy) CutWhere(where func(*Conn) bool) int {
	cut := 0
	for _, c := range p.Conns() {
		if where(c) && c.end(false) {
			cut++
		}
	}
	p.cuts.Add(int64(cut))
	return cut
}

// Conns are the connections that are open now.
func (p *Proxy) Conns() []*Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	conns := make([]*Conn, 0, len(p.conns))
	for c := range p.conns {
		if !c.isOver() {
			conns = append(conns, c)
		}
	}
	return conns
}

// Freeze holds all bytes, in both directions, until Thaw: a partition in which
// no connection learns that it is broken. New connections are still accepted,
// by the system, and frozen likewise.
func (p *Proxy) Freeze() { p.FreezeWhere(func(*Conn) bool { return true }) }

// FreezeWhere freezes the connections that a test picks, now or later: each is
// asked for again before each of its packets. where must not block.
func (p *Proxy) FreezeWhere(where func(*Conn) bool) {
	p.thaw(p.frozen.Swap(&freeze{where: where, over: make(chan struct{})}))
}

// Thaw lets the bytes that were held go on, in order, none lost.
func (p *Proxy) Thaw() { p.thaw(p.frozen.Swap(nil)) }

func (p *Proxy) thaw(f *freeze) {
	if f != nil {
		close(f.over)
	}
}

// Delay makes bytes take so much longer in each direction, without limiting
// how many are under way.
func (p *Proxy) Delay(toTarget, toClient time.Duration) {
	p.delay[ToTarget].Store(int64(toTarget))
	p.delay[ToClient].Store(int64(toClient))
}

// Split writes everything in pieces of 1 to most bytes, so that readers see
// messages torn at any place. 0 ends it.
func (p *Proxy) Split(most int) { p.split.Store(int64(most)) }

// Hook calls newHook for each connection that comes from now on, and its hook
// for each chunk of bytes as it is read. nil ends it, for new connections.
func (p *Proxy) Hook(newHook func(*Conn) Hook) {
	if newHook == nil {
		p.hook.Store(nil)
		return
	}
	p.hook.Store(&newHook)
}

// Swallow loses the answer to each request that matches, after the target has
// begun to give it, in the way of end: with Close or Reset the connection ends
// with it, with Mute the client waits for ever. match sees the bytes that the
// client has sent since the last answer, at most 64 KiB; it is made for
// protocols with one request at a time on a connection. nil ends it.
func (p *Proxy) Swallow(match func(request []byte) bool, end func(keep int) Action) {
	if match == nil {
		p.swallow.Store(nil)
		return
	}
	p.swallow.Store(&swallow{match: match, action: end(0)})
}

// swallow is which answers are lost, and how.
type swallow struct {
	match  func([]byte) bool
	action Action
}

// accept carries connections until the listener is closed.
func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.carry(client) }) // ends with the connection
	}
}

// carry connects a client to the target, and carries until the end of both.
func (p *Proxy) carry(client net.Conn) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	dialer := net.Dialer{Timeout: dialTimeout}
	server, err := dialer.DialContext(context.Background(), "tcp", target)
	if err != nil {
		p.unreachable.Add(1)
		reset(client) // what a dead server looks like
		return
	}
	c := p.connect(client, server)
	if c == nil {
		return
	}
	p.connections.Add(1)
	c.carry()
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
}

// connect registers a connection; nil when the proxy is closed already.
func (p *Proxy) connect(client, server net.Conn) *Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastID++
	c := newConn(p, p.lastID, client, server)
	if p.closed {
		c.end(false)
		return nil
	}
	p.conns[c] = struct{}{}
	return c
}

// close ends everything.
func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	listener := p.listener
	p.listener = nil
	p.mu.Unlock()
	if listener != nil {
		if err := listener.Close(); err != nil {
			p.tb.Error(err)
		}
	}
	for _, c := range p.Conns() {
		c.end(false)
	}
	p.running.Wait()
}

// Counts is how often each fault came about so far.
func (p *Proxy) Counts() Counts {
	return Counts{
		Connections: int(p.connections.Load()), Unreachable: int(p.unreachable.Load()), Refusals: int(p.refusals.Load()),
		Cut: int(p.cuts.Load()), Closed: int(p.counters.closed.Load()), Reset: int(p.resets.Load()), Muted: int(p.muted.Load()),
		Swallowed: int(p.swallowed.Load()), LostBytes: int(p.lost.Load()), Frozen: int(p.held.Load()),
		Delayed: int(p.late.Load()), Torn: int(p.torn.Load()),
	}
}
