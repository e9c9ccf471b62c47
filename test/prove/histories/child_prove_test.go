//go:build prove

package histories

import (
	"bufio"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/store/redisstore"
)

func TestMain(m *testing.M) {
	text := os.Getenv(workerEnv)
	if text == "" {
		os.Exit(m.Run())
	}
	var j job
	err := json.Unmarshal([]byte(text), &j)
	if err == nil {
		err = work(j)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// teller sends messages to the test. What it has said, it has said, even when
// the process is killed the moment after.
type teller struct {
	mu      sync.Mutex
	buffer  *bufio.Writer
	encoder *gob.Encoder
	// hasty sends each message at once.
	hasty bool
}

func newTeller(to io.Writer, hasty bool) *teller {
	b := bufio.NewWriterSize(to, 64<<10)
	return &teller{buffer: b, encoder: gob.NewEncoder(b), hasty: hasty}
}

func (t *teller) tell(m message) {
	if err := t.send(m); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) // the test is gone
	}
}

func (t *teller) send(m message) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.encoder.Encode(m)
	if err == nil && (t.hasty || m.Op == nil) {
		err = t.buffer.Flush()
	}
	return err
}

// worker carries out orders on a store of its own.
type worker struct {
	job    job
	teller *teller
	store  dedupe.Store
	cutter *cutter
	orders sync.WaitGroup
}

// work is a worker's life: until the test closes its input.
func work(j job) error {
	w := &worker{job: j, teller: newTeller(os.Stdout, j.Path != "" || j.Calls)}
	if err := w.reopen(); err != nil {
		return err
	}
	if j.Calls {
		return w.makeCalls()
	}
	orders := gob.NewDecoder(bufio.NewReader(os.Stdin))
	for {
		var o Order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			w.orders.Wait()
			return w.store.Close()
		} else if err != nil {
			return err
		}
		if o.Reopen {
			if err := w.reopen(); err != nil {
				return err
			}
			continue
		}
		w.orders.Go(func() { w.carryOut(o) })
	}
}

// reopen opens the store, after closing it.
func (w *worker) reopen() (err error) {
	opened := Operation{Kind: Reopen, Client: 99, Heard: true}
	if w.store != nil {
		if err := w.store.Close(); err != nil {
			return err
		}
		w.orders.Wait()
	}
	opened.Call = monotonic()
	w.store, err = w.open()
	opened.Return = monotonic()
	w.teller.tell(message{Opened: &opened})
	return err
}

// unheardOf is a store's timeout that never comes to pass, were the machine to
// stand still: requests would be sent again, and nobody would count them.
const unheardOf = time.Minute

func (w *worker) open() (dedupe.Store, error) {
	if w.job.Path != "" {
		return embedded.Open(w.job.Path, embedded.Options{})
	}
	options := redisstore.Options{Addrs: []string{w.job.Redis}, Timeout: unheardOf}
	if w.job.Cut {
		w.cutter = &cutter{due: make(chan struct{}, 1)}
		w.cutter.left.Store(cutEvery)
		options.Dialer = w.cutter.dial
		go w.cutter.run() // ends with the process
	}
	return redisstore.New(options), nil
}

func (w *worker) carryOut(o Order) {
	base := Client{
		Now:   monotonic,
		Ended: func(op Operation) { w.teller.tell(message{Op: &op, Phase: o.Phase}) },
	}
	if w.teller.hasty {
		base.Begun = base.Ended
	}
	if w.cutter != nil {
		base.Resends = w.cutter.count.Load
		told := base.Ended
		base.Ended = func(op Operation) { told(op); w.cutter.ended() }
	}
	o.Perform(context.Background(), w.store, base)
	w.teller.tell(message{Done: &o})
}

// cutEvery is how many operations end between two cuts, about. Each cut leaves
// in doubt what is under way, and an order of too many doubts is never found.
const cutEvery = 400

// cutter cuts connections while requests are under way on them.
type cutter struct {
	count atomic.Uint64 // see Client.Resends
	left  atomic.Int64  // operations to end before the next cut
	due   chan struct{}
	mu    sync.Mutex
	conns []net.Conn
}

// ended counts an operation.
func (c *cutter) ended() {
	if c.left.Add(-1) == 0 {
		c.due <- struct{}{} // there is room, for left begins anew after the cut
	}
}

func (c *cutter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.conns = append(c.conns, conn)
	}
	return conn, err
}

func (c *cutter) run() {
	for range c.due {
		time.Sleep(rand.N(2 * time.Millisecond)) // random moments are the point
		c.mu.Lock()
		if n := len(c.conns); n > 0 {
			i := rand.IntN(n)
			conn := c.conns[i]
			c.conns[i] = c.conns[n-1]
			c.conns = c.conns[:n-1]
			c.count.Add(1)
			_ = conn.Close() // the store may have closed it already
			c.count.Add(1)
		}
		c.mu.Unlock()
		c.left.Store(1 + rand.Int64N(2*cutEvery))
	}
}
