package conn

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// socket reads from a connection, and tells at any moment whether anything has
// arrived on it. With net.Conn alone that cannot be said for the moment in which
// bytes have left the kernel, and nobody was told yet.
type socket struct {
	raw  syscall.RawConn // nil: the connection is none of the kernel's
	c    *Conn
	take func(fd uintptr) bool
	look func(fd uintptr)

	// into, n and err are those of the read under way, of which there is one.
	into []byte
	n    int
	err  error
	// one and quiet are those of a look, of which there is one too.
	one   [1]byte
	quiet bool
}

// on is called once, before the connection is used.
func (s *socket) on(c *Conn) {
	s.c = c
	conn, ok := c.Conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	s.raw, s.take, s.look = raw, s.takeFrom, s.lookAt
}

// read is the Read of the connection.
func (s *socket) read(b []byte) (int, error) {
	if s.raw == nil || len(b) == 0 {
		n, err := s.c.Conn.Read(b)
		s.c.received.Add(int64(n))
		return n, err
	}
	s.into = b
	err := s.raw.Read(s.take)
	s.into = nil
	switch {
	case err != nil:
		if op, ok := errors.AsType[*net.OpError](err); ok {
			op.Op = "read" // raw-read
		}
		return 0, err
	case s.err != nil:
		return 0, &net.OpError{
			Op: "read", Net: "tcp", Source: s.c.LocalAddr(), Addr: s.c.RemoteAddr(), Err: os.NewSyscallError("read", s.err),
		}
	case s.n == 0:
		return 0, io.EOF
	default:
		return s.n, nil
	}
}

// takeFrom reads what there is, and counts it before anybody can think that
// there was nothing.
func (s *socket) takeFrom(fd uintptr) bool {
	for {
		s.c.taking.Store(true)
		s.n, s.err = syscall.Read(int(fd), s.into)
		if s.n > 0 {
			s.c.received.Add(int64(s.n))
		}
		s.c.taking.Store(false)
		switch {
		case errors.Is(s.err, syscall.EINTR):
		case errors.Is(s.err, syscall.EAGAIN):
			return false // wait for more
		default:
			s.n = max(s.n, 0)
			return true
		}
	}
}

// silent reports that nothing waits in the kernel: no bytes, no end, no error.
func (s *socket) silent() bool {
	if s.raw == nil {
		return true
	}
	s.quiet = false
	return s.raw.Control(s.look) == nil && s.quiet
}

func (s *socket) lookAt(fd uintptr) {
	_, _, err := syscall.Recvfrom(int(fd), s.one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	s.quiet = errors.Is(err, syscall.EAGAIN)
}
