// Package share makes the launched sidecars of one store one sidecar.
//
// The embedded store is of one process. Of the sidecars that programs launch on it, the
// first is the host: it holds a lock beside the file of the store for as long as it lives,
// whose file names a socket of its own. The others are guests: they ask there, are told
// where the host serves, and keep the connection for as long as their program lives. So
// the host knows when the last program has gone. A host that is going takes no guest:
// whoever comes then waits for the lock, which is let go after the store is.
package share

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Answer is what a program is told that has launched a sidecar.
type Answer struct {
	// Listen is where it serves.
	Listen string `json:"listen"`
	// Missing are the backends, each with the reason, whose tools are not known although
	// they are waited for.
	Missing map[string]string `json:"missing,omitempty"`
}

const (
	// lookAgain is how long whoever waits for a host leaves it alone between two looks.
	lookAgain = 20 * time.Millisecond
	// saying is how long a guest may take to say which config it has.
	saying = 5 * time.Second
	// longest bounds what either side says, in bytes.
	longest = 1 << 20
)

// question is what a guest says to a host, in a line.
type question struct {
	// Config is what it has.
	Config string `json:"config"`
	// Patience is how long it waits for the answer, in milliseconds; 0 is without an end.
	Patience int64 `json:"patience"`
}

// reply is what a host says to a guest.
type reply struct {
	Answer *Answer `json:"answer,omitempty"`
	// Other: the host has another config, of which Why says more. Going: it takes nobody in
	// any more.
	Other bool   `json:"other,omitempty"`
	Why   string `json:"why,omitempty"`
	Going bool   `json:"going,omitempty"`
}

// Enter makes this process the host of a store, or a guest of the host that there is. A
// host listens in dir, a directory of its own. config tells configs from each other. When
// ctx ends before there is a place the error says what was waited for.
//
// Neither host nor guest, and no error: there is no place for the lock, and the store is
// the one to say why.
func Enter(ctx context.Context, store, dir, config string, waits func(why error)) (*Host, *Guest, error) {
	lock, err := os.OpenFile(store+".lock", os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, nil, nil //nolint:nilerr // as is said above
	}
	for last := error(nil); ; {
		if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			// What the host before has left there leads to nobody, or to somebody else.
			if err := errors.Join(owned(lock, 0), lock.Chmod(0o600), lock.Truncate(0)); err != nil {
				return nil, nil, errors.Join(err, lock.Close())
			}
			host, err := newHost(lock, dir)
			return host, nil, err
		}
		if err := owned(lock, 0o022); err != nil {
			return nil, nil, errors.Join(err, lock.Close())
		}
		guest, why := visit(ctx, lock, config)
		if guest != nil {
			return nil, guest, lock.Close()
		}
		if !errors.Is(why, last) {
			waits(why)
			last = why
		}
		again := time.NewTimer(lookAgain)
		select {
		case <-again.C:
			if !errors.Is(why, ErrOther) {
				continue
			}
		case <-ctx.Done():
			again.Stop()
		}
		return nil, nil, errors.Join(fmt.Errorf("the store %s: %w", store, why), lock.Close())
	}
}

// owned refuses a lock of another user, or one that others could write by its mode: whoever
// can, says who answers in the sidecar's place.
func owned(lock *os.File, others int) error {
	var found unix.Stat_t
	if err := unix.Fstat(int(lock.Fd()), &found); err != nil {
		return fmt.Errorf("the lock %s: %w", lock.Name(), err)
	}
	if int(found.Uid) != os.Geteuid() || int(found.Mode)&others != 0 {
		return fmt.Errorf("the lock %s is of the user %d, with mode %#o, and may lead to a sidecar that is not yours: remove it, or keep the store in a directory of your own",
			lock.Name(), found.Uid, found.Mode&0o777)
	}
	return nil
}

var (
	// ErrOther is that a host has another config.
	ErrOther = errors.New("a sidecar that another program has launched serves it with another config, with other values of its ${env:…} and ${file:…}, or in another version: " +
		"launch both with the same, or give each a store of its own (store.embedded.path)")
	// ErrGoing is that a host takes nobody in any more.
	ErrGoing = errors.New("the sidecar that an earlier program has launched lets its last calls end, and has not ended yet: launch again; what it has recorded is found then")
	errMute  = errors.New("a sidecar that another program has launched holds it, and does not answer: " +
		"if it runs in another container or as another user, connect to it at an address that both can reach")
)

// visit asks the host whose lock it is.
func visit(ctx context.Context, lock *os.File, config string) (*Guest, error) {
	address := make([]byte, 4<<10)
	n, err := lock.ReadAt(address, 0)
	if n == 0 || err != nil && !errors.Is(err, io.EOF) {
		return nil, errMute // it has just begun
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", string(address[:n]))
	if err != nil {
		return nil, errMute
	}
	inTime := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	var said reply
	asked := question{Config: config}
	if until, ok := ctx.Deadline(); ok { // less what the answer needs for its way
		asked.Patience = max(1, time.Until(until).Milliseconds()*9/10)
	}
	if err = json.NewEncoder(conn).Encode(asked); err == nil {
		err = json.NewDecoder(io.LimitReader(conn, longest)).Decode(&said)
	}
	switch {
	case !inTime() || err != nil:
		err = errMute
	case said.Other && said.Why != "":
		err = fmt.Errorf("%w (%s)", ErrOther, said.Why)
	case said.Other:
		err = ErrOther
	case said.Going || said.Answer == nil:
		err = ErrGoing
	default:
		return &Guest{Answer: *said.Answer, conn: conn}, nil
	}
	_ = conn.Close() // there was nothing to be lost on it
	return nil, err
}

// Guest is a process whose program is served by the host.
type Guest struct {
	Answer Answer

	conn net.Conn
}

// ErrHostGone is that the host has ended.
var ErrHostGone = errors.New("the sidecar that this program shared with others has ended: launch again")

// Stay holds the connection until ctx ends; ErrHostGone when the host has ended before.
func (g *Guest) Stay(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { _ = g.conn.Close() })()
	_, _ = io.Copy(io.Discard, g.conn) // it ends with either
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(ErrHostGone, g.conn.Close())
}

// Host is the process that has the store.
type Host struct {
	lock     *os.File
	listener net.Listener

	mu sync.Mutex
	// guests have been taken in and have not gone; going is that no more are.
	guests int
	going  bool
	// released: the host's own program has gone. alone is closed when the last one has.
	released bool
	alone    chan struct{}
}

func newHost(lock *os.File, dir string) (*Host, error) {
	path := filepath.Join(dir, "join.sock")
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	if _, err = lock.WriteAt([]byte(path), 0); err != nil {
		return nil, errors.Join(err, listener.Close(), lock.Close())
	}
	return &Host{lock: lock, listener: listener, alone: make(chan struct{})}, nil
}

// Receive takes guests in, until the process ends. answer says where the host serves whoever
// has a config, or why it does not: ErrGoing, ErrOther, or what is to be said of its own. Its context
// ends when the guest does not wait any more.
func (h *Host) Receive(answer func(ctx context.Context, config string) (Answer, error)) {
	for {
		conn, err := h.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // no descriptor is left, perhaps: whoever waits is taken in later
			time.Sleep(lookAgain)
			continue
		}
		go h.receive(conn, answer)
	}
}

func (h *Host) receive(conn net.Conn, answer func(ctx context.Context, config string) (Answer, error)) {
	defer func() { _ = conn.Close() }()          // nothing more is said on it
	_ = conn.SetDeadline(time.Now().Add(saying)) // a connection without one is read until it ends
	lines := bufio.NewReader(io.LimitReader(conn, longest))
	var asked question
	line, err := lines.ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &asked) != nil {
		return
	}
	_ = conn.SetDeadline(time.Time{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if asked.Patience > 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(asked.Patience)*time.Millisecond)
		defer cancel()
	}
	gone := make(chan struct{})
	go func() { // until its program is gone, or nothing more is said to it
		defer close(gone)
		defer cancel()
		_, _ = io.Copy(io.Discard, conn)
	}()
	said := h.reply(ctx, asked.Config, answer)
	if said.Answer != nil {
		defer h.leave()
	}
	if err := json.NewEncoder(conn).Encode(said); err == nil && said.Answer != nil {
		<-gone
	}
}

// reply is what a guest is told. It has entered when that is an answer.
func (h *Host) reply(ctx context.Context, config string, answer func(ctx context.Context, config string) (Answer, error)) (said reply) {
	if !h.enter() { // also to one with another config: it is waited for
		return reply{Going: true}
	}
	told, err := answer(ctx, config)
	if err == nil {
		return reply{Answer: &told}
	}
	h.leave()
	switch {
	case errors.Is(err, ErrGoing):
		return reply{Going: true}
	case errors.Is(err, ErrOther):
		return reply{Other: true}
	default:
		return reply{Other: true, Why: err.Error()}
	}
}

func (h *Host) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.going {
		return false
	}
	h.guests++
	return true
}

func (h *Host) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.guests--
	h.goIfAlone()
}

// Release says that the host's own program has gone. What it returns is closed when the
// last guest has, too; nobody is taken in from then on.
func (h *Host) Release() (alone <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.released = true
	h.goIfAlone()
	return h.alone
}

func (h *Host) goIfAlone() {
	if h.released && h.guests == 0 && !h.going {
		h.going = true
		close(h.alone)
	}
}

// Go takes nobody in any more, whoever is there.
func (h *Host) Go() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.going {
		h.going = true
		close(h.alone)
	}
}
