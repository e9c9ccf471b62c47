//go:build prove

package overload

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// plant is an upstream of a known capacity. It serves as many requests at a
// time as it has workers; the others stand in line, first come, first served,
// and whoever has left by its turn is not served, unless the plant is blind.
type plant struct {
	URL string
	// service is how long a worker takes for a request, in nanoseconds.
	service atomic.Int64
	// answer, when set, answers instead of the plant; true when it has.
	answer atomic.Pointer[func(w http.ResponseWriter, req *http.Request) bool]
	// body is what a served request gets.
	body string
	// blind: the plant does not notice who has left, and works for nobody.
	blind bool

	workers  chan struct{}
	requests atomic.Int64
	present  atomic.Int64
	crowd    atomic.Int64 // the most that were present at a time

	mu       sync.Mutex
	executed map[string]int         // by id
	arrivals map[string][]time.Time // by id; nil: not noted
}

// startPlant starts a plant; it ends with the test.
func startPlant(t *testing.T, workers int, service time.Duration) *plant {
	t.Helper()
	p := &plant{workers: make(chan struct{}, workers), body: `{"done":true}`, executed: make(map[string]int)}
	p.service.Store(int64(service))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.URL = "http://" + listener.Addr().String()
	p.serve(t, listener)
	return p
}

// serve serves on a listener until the test ends.
func (p *plant) serve(t *testing.T, listener net.Listener) *http.Server {
	t.Helper()
	server := &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() { // ends with the server
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-served
	})
	return server
}

func (p *plant) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	p.requests.Add(1)
	for now := p.present.Add(1); ; {
		most := p.crowd.Load()
		if now <= most || p.crowd.CompareAndSwap(most, now) {
			break
		}
	}
	defer p.present.Add(-1)
	id := req.URL.Query().Get("id")
	p.note(id)
	// Only a server that has read the request notices that its client leaves.
	left := req.Context().Done()
	if p.blind {
		left = nil
	} else {
		_, _ = io.Copy(io.Discard, req.Body)
	}
	if answer := p.answer.Load(); answer != nil && (*answer)(w, req) {
		return
	}
	select {
	case p.workers <- struct{}{}:
		defer func() { <-p.workers }()
	case <-left:
		return
	}
	if !p.blind && req.Context().Err() != nil {
		return
	}
	p.execute(id)
	if service := time.Duration(p.service.Load()); service > 0 {
		time.Sleep(service) // a worker does not stop for a client that has left
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(p.body)))
	_, _ = w.Write([]byte(p.body)) // a client that left is not our concern
}

func (p *plant) execute(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.executed[id]++
}

// forget forgets what was executed, so that a plant can be used for long.
func (p *plant) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.executed = make(map[string]int)
}

func (p *plant) note(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.arrivals != nil {
		p.arrivals[id] = append(p.arrivals[id], time.Now())
	}
}

// noteArrivals begins to note when the requests of each id arrive.
func (p *plant) noteArrivals() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arrivals = make(map[string][]time.Time)
}

// arrived returns those of the ids of which a request has arrived since
// noteArrivals.
func (p *plant) arrived(ids []string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var some []string
	for _, id := range ids {
		if len(p.arrivals[id]) > 0 {
			some = append(some, id)
		}
	}
	return some
}

// answers makes the plant answer by other means; nil ends that.
func (p *plant) answers(f func(w http.ResponseWriter, req *http.Request) bool) {
	if f == nil {
		p.answer.Store(nil)
		return
	}
	p.answer.Store(&f)
}

// executions is how often something was done, and how many ids of those that
// the filter picks were done twice.
func (p *plant) executions(pick func(id string) bool) (total, twice int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, n := range p.executed {
		total += n
		if n > 1 && pick(id) {
			twice++
		}
	}
	return total, twice
}

// did returns those of the ids that were executed since forget.
func (p *plant) did(ids []string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var some []string
	for _, id := range ids {
		if p.executed[id] > 0 {
			some = append(some, id)
		}
	}
	return some
}

// early counts the requests that came sooner after the one before, for the same
// id, than it had to wait.
func (p *plant) early(wait time.Duration) (early, repeated int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, times := range p.arrivals {
		for i := 1; i < len(times); i++ {
			repeated++
			if times[i].Sub(times[i-1]) < wait {
				early++
			}
		}
	}
	return early, repeated
}

// starts reports whether an id begins so.
func starts(prefix string) func(string) bool {
	return func(id string) bool { return strings.HasPrefix(id, prefix) }
}

// perSecond is for figures.
func perSecond(rate float64) string { return fmt.Sprintf("%.0f/s", rate) }
