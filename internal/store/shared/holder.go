package shared

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/rpc"
	"os"
	"sync"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// holder serves the store of this process to the others.
type holder struct {
	store    dedupe.Store
	listener net.Listener

	shut    context.CancelFunc // sends the guests away
	serving sync.WaitGroup
}

// hold listens for the others. What is left of an earlier holder's socket leads to nobody: the
// lock of the file is this one's.
func hold(store dedupe.Store, socket string) (*holder, error) {
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
	open, shut := context.WithCancel(context.Background())
	h := &holder{store: store, listener: listener, shut: shut}
	server := rpc.NewServer()
	if err := server.RegisterName(service, h); err != nil {
		panic(err) // only a type without such methods can fail
	}
	h.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // it is closed
			}
			h.serving.Go(func() {
				defer context.AfterFunc(open, func() { _ = conn.Close() })() // which is how a guest hears of it
				server.ServeConn(conn)
			})
		}
	})
	return h, nil
}

// Ask answers a request of another process, as net/rpc wants it. It does not end with that process, but
// when nobody there waits for it any more.
func (h *holder) Ask(q Question, a *Answer) (err error) {
	within := cmp.Or(q.For, patience) + time.Second // of which the guest's own end comes first, and says more
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	*a, err = q.do(ctx, h.store)
	a.Failed = failureOf(err)
	return nil
}

// close sends the guests away before it lets go of the file: the socket is then the next one's. What they
// have asked ends with the store.
func (h *holder) close() error {
	err := h.listener.Close()
	h.shut()
	err = errors.Join(err, h.store.Close())
	h.serving.Wait()
	return err
}
