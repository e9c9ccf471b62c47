package faultproxy

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"
)

const (
	// remembered bounds what is kept of the beginning of a connection, and
	// asked what is kept of a request.
	remembered = 4 << 10
	asked      = 64 << 10
	// underWay bounds the chunks between the two sides; beyond it the sender
	// feels that nobody reads.
	underWay = 256
)

// Conn is a connection through the proxy.
type Conn struct {
	proxy          *Proxy
	id             int
	client, server net.Conn
	over           chan struct{} // closed when the connection ends
	once           sync.Once

	mu     sync.Mutex // one chunk at a time; guards the next four
	hook   Hook
	random *rand.Rand
	asked  []byte  // since the last answer
	due    *Action // what becomes of the next answer

	headMu sync.Mutex
	head   string // the beginning of what the client said, in small letters
}

func newConn(p *Proxy, id int, client, server net.Conn) *Conn {
	c := &Conn{
		proxy: p, id: id, client: client, server: server, over: make(chan struct{}),
		random: rand.New(rand.NewPCG(p.seed, uint64(id))),
	}
	if newHook := p.hook.Load(); newHook != nil {
		c.hook = (*newHook)(c)
	}
	return c
}

// ID counts the connections of a proxy, from 1.
func (c *Conn) ID() int { return c.id }

// Said reports whether the first 4 KiB of what the client sent contain a text,
// whatever its case. A connection that said psync or replconf is the link of a
// Redis replica.
func (c *Conn) Said(text string) bool {
	c.headMu.Lock()
	defer c.headMu.Unlock()
	return strings.Contains(c.head, strings.ToLower(text))
}

// end closes both sides; with hard they see a reset. It is false when that was
// done before.
func (c *Conn) end(hard bool) (first bool) {
	c.once.Do(func() {
		first = true
		close(c.over)
		for _, side := range []net.Conn{c.client, c.server} {
			if hard {
				reset(side)
			} else {
				_ = side.Close() // it may be gone already
			}
		}
	})
	return first
}

func (c *Conn) isOver() bool {
	select {
	case <-c.over:
		return true
	default:
		return false
	}
}

func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // it may be gone already
	}
	_ = conn.Close() // as above
}

// carry moves bytes in both directions until both have ended.
func (c *Conn) carry() {
	var streams sync.WaitGroup
	for _, s := range []*stream{
		{conn: c, way: ToTarget, from: c.client, to: c.server},
		{conn: c, way: ToClient, from: c.server, to: c.client},
	} {
		s.queue = make(chan piece, underWay)
		streams.Go(s.read)
		streams.Go(s.write)
	}
	streams.Wait()
	c.end(false)
}

// judge decides about a chunk.
func (c *Conn) judge(way Direction, chunk []byte) Action {
	c.remember(way, chunk)
	c.mu.Lock()
	defer c.mu.Unlock()
	if swallowed := c.swallow(way, chunk); swallowed != nil {
		c.proxy.swallowed.Add(1)
		return *swallowed
	}
	if c.hook == nil {
		return Pass
	}
	return c.hook(way, chunk)
}

func (c *Conn) remember(way Direction, chunk []byte) {
	if way == ToClient {
		return
	}
	c.headMu.Lock()
	defer c.headMu.Unlock()
	if room := remembered - len(c.head); room > 0 {
		c.head += string(bytes.ToLower(chunk[:min(room, len(chunk))]))
	}
}

// swallow matches requests, and returns what becomes of the answer to one that
// did.
func (c *Conn) swallow(way Direction, chunk []byte) *Action {
	s := c.proxy.swallow.Load()
	if way == ToClient {
		due := c.due
		c.asked, c.due = c.asked[:0], nil
		return due
	}
	if s == nil {
		return nil
	}
	c.asked = append(c.asked, chunk...)
	if over := len(c.asked) - asked; over > 0 {
		c.asked = append(c.asked[:0], c.asked[over:]...)
	}
	if c.due == nil && s.match(c.asked) {
		c.due = &s.action
	}
	return nil
}

// pieceSize is a random size of up to most bytes.
func (c *Conn) pieceSize(most int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return 1 + c.random.IntN(most)
}

// stream is one direction of a connection.
type stream struct {
	conn     *Conn
	way      Direction
	from, to net.Conn
	queue    chan piece
}

// piece is bytes on their way, and what comes after them.
type piece struct {
	bytes []byte
	due   time.Time
	then  ending
}

// read takes bytes from one side, until it or the connection ends.
func (s *stream) read() {
	defer close(s.queue)
	buffer := make([]byte, 64<<10)
	muted := false
	for {
		n, err := s.from.Read(buffer)
		switch {
		case n > 0 && muted:
			s.conn.proxy.lost.Add(int64(n))
		case n > 0:
			then, open := s.take(buffer[:n])
			if !open {
				return
			}
			muted = then == mutes
		}
		if err != nil {
			if !muted {
				s.put(nil, endOf(err))
			}
			return
		}
	}
}

// endOf is what the other side sees of the end of this one.
func endOf(err error) ending {
	if errors.Is(err, io.EOF) {
		return finishes
	}
	return resets
}

// take asks what becomes of a chunk, and sends what is left of it on its way.
// It is not open when nothing may follow.
func (s *stream) take(chunk []byte) (then ending, open bool) {
	action := s.conn.judge(s.way, chunk)
	counters := &s.conn.proxy.counters
	switch action.ending {
	case goesOn, finishes:
		return goesOn, s.put(chunk, goesOn)
	case mutes:
		counters.muted.Add(1)
	case closes:
		counters.closed.Add(1)
	case resets:
		counters.resets.Add(1)
	}
	keep := min(max(action.keep, 0), len(chunk))
	counters.lost.Add(int64(len(chunk) - keep))
	sent := s.put(chunk[:keep], action.ending)
	return action.ending, sent && action.ending == mutes
}

// put queues bytes; false when the connection is over.
func (s *stream) put(chunk []byte, then ending) bool {
	p := piece{bytes: bytes.Clone(chunk), then: then}
	if delay := time.Duration(s.conn.proxy.delay[s.way].Load()); delay > 0 {
		s.conn.proxy.late.Add(1)
		p.due = time.Now().Add(delay)
	}
	select {
	case s.queue <- p:
		return true
	case <-s.conn.over:
		return false
	}
}

// write gives bytes to the other side, as late and as torn as it should be.
func (s *stream) write() {
	for p := range s.queue {
		if !s.wait(p.due) || !s.thawed() {
			return
		}
		if err := s.send(p.bytes); err != nil {
			s.conn.end(true)
			return
		}
		switch p.then {
		case goesOn, mutes:
		case finishes:
			if tcp, ok := s.to.(*net.TCPConn); ok {
				_ = tcp.CloseWrite() // it may be gone already
			}
		case closes, resets:
			s.conn.end(p.then == resets)
		}
	}
}

// wait returns at an instant; false when the connection is over before.
func (s *stream) wait(due time.Time) bool {
	if due.IsZero() {
		return true
	}
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.conn.over:
		return false
	}
}

// thawed returns when the connection is not frozen; false when it is over
// before.
func (s *stream) thawed() bool {
	counted := false
	for {
		f := s.conn.proxy.frozen.Load()
		if f == nil || !f.where(s.conn) {
			return true
		}
		if !counted {
			s.conn.proxy.held.Add(1)
			counted = true
		}
		select {
		case <-f.over:
		case <-s.conn.over:
			return false
		}
	}
}

func (s *stream) send(chunk []byte) error {
	most := int(s.conn.proxy.split.Load())
	if most > 0 && len(chunk) > 1 {
		s.conn.proxy.torn.Add(1)
	}
	for len(chunk) > 0 {
		n := len(chunk)
		if most > 0 {
			n = min(n, s.conn.pieceSize(most))
		}
		if _, err := s.to.Write(chunk[:n]); err != nil {
			return err
		}
		chunk = chunk[n:]
	}
	return nil
}
