package shared

import (
	"errors"
	"net"
	"os"
	"sync"

	"github.com/sidecall/sidecall/internal/store/embedded"
)

// holder serves the store of this process to the others.
type holder struct {
	store    *embedded.Store
	listener net.Listener

	mu      sync.Mutex
	guests  map[net.Conn]bool // nil once closed
	serving sync.WaitGroup
}

// hold listens for the others. What is left of an earlier holder's socket leads to nobody: the
// lock of the file is this one's.
func hold(store *embedded.Store, socket string) (*holder, error) {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	h := &holder{store: store, listener: listener, guests: map[net.Conn]bool{}}
	server := newServer(store)
	h.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // it is closed
			}
			h.serving.Go(func() {
				if h.enter(conn) {
					server.ServeConn(conn)
				}
				h.leave(conn)
			})
		}
	})
	return h, nil
}

func (h *holder) enter(conn net.Conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.guests == nil {
		return false
	}
	h.guests[conn] = true
	return true
}

func (h *holder) leave(conn net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.guests, conn)
	_ = conn.Close() // it may be closed
}

// close sends the guests away before it lets go of the file: the socket is then the next one's.
func (h *holder) close() error {
	err := h.listener.Close()
	h.mu.Lock()
	for conn := range h.guests {
		_ = conn.Close() // which is how they hear of it
	}
	h.guests = nil
	h.mu.Unlock()
	h.serving.Wait()
	return errors.Join(err, h.store.Close())
}
