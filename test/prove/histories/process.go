//go:build prove

package histories

import (
	"bufio"
	"context"
	"encoding/gob"
	"encoding/json"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// workerEnv holds what a process of this test binary shall do when it is not to
// run tests: a job, as JSON.
const workerEnv = "SIDECALL_PROVE_WORKER"

// job is the store that a worker opens.
type job struct {
	// Path is the file of an embedded store, Redis the address of a server.
	Path, Redis string
	// Cut has connections to the server cut at random moments.
	Cut bool
	// Calls has it carry out calls through a dedupe.Dedupe, see calls_prove_test.go.
	Calls bool
	// Instance is whose next incarnation the worker is, see incarnations_prove_test.go.
	Instance string
}

// message is what a worker tells: one of its fields.
type message struct {
	Op    *Operation
	Phase int
	// Done is an order that is carried out.
	Done *Order
	// Opened tells that the store is open, and what closing and opening it was.
	Opened *Operation
	Call   *callEvent
	Error  string
}

// callEvent is something that a caller has seen or done.
type callEvent struct {
	History, Client int
	// Instance and PID are of the process, where processes are incarnations.
	Instance string
	PID      int
	Kind     callKind
	Epoch    int64
	// Begun and At are CLOCK_MONOTONIC: when the caller asked, and now.
	Begun, At int64
	Result    string
	// Until is the end of the lease that the store can have granted at most.
	Until int64
}

type callKind string

// process is a worker as the test sees it.
type process struct {
	cmd    *exec.Cmd
	gone   chan struct{} // closed when nothing more will be heard of it
	killed atomic.Bool   // set before it is
	opened chan Operation

	mu     sync.Mutex
	input  *gob.Encoder
	closer func() error
	done   map[[2]int]chan struct{} // by history and phase
}

// start starts a worker, which is killed at the end of the test, and waits until
// its store is open. heard gets each message about an operation or a call.
func start(t *testing.T, j job, heard func(message)) (p *process, opened Operation) {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	p = &process{gone: make(chan struct{}), opened: make(chan Operation, 1), done: map[[2]int]chan struct{}{}}
	p.cmd = exec.CommandContext(context.Background(), os.Args[0])
	p.cmd.Env = append(os.Environ(), workerEnv+"="+string(text), "GOMAXPROCS=2")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.input, p.closer = gob.NewEncoder(in), in.Close
	go p.listen(gob.NewDecoder(bufio.NewReader(out)), heard) // ends with the process
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil { // the test ends before its time
			p.kill(t)
		}
	})
	return p, p.awaitOpen(t)
}

func (p *process) listen(from *gob.Decoder, heard func(message)) {
	defer close(p.gone)
	for {
		var m message
		if from.Decode(&m) != nil {
			return // it has ended, perhaps in the middle of a word
		}
		switch {
		case m.Opened != nil:
			p.opened <- *m.Opened
		case m.Done != nil:
			p.mu.Lock()
			close(p.done[[2]int{m.Done.History, m.Done.Phase}])
			p.mu.Unlock()
		default:
			heard(m)
		}
	}
}

// awaitOpen waits until the store is open.
func (p *process) awaitOpen(t *testing.T) Operation {
	t.Helper()
	select {
	case op := <-p.opened:
		return op
	case <-p.gone:
		t.Fatal("a worker died before its store was open")
	case <-time.After(time.Minute):
		t.Fatal("a worker does not open its store")
	}
	return Operation{}
}

// order gives an order and returns a channel that is closed when it is carried
// out; it never is when the process dies.
func (p *process) order(o Order) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	done := make(chan struct{})
	p.done[[2]int{o.History, o.Phase}] = done
	_ = p.input.Encode(o) // a process that is gone is noticed by its silence
	return done
}

// wait waits until an order is carried out; false when the process is gone.
func (p *process) wait(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-p.gone:
		return false
	}
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Error(err)
	}
}

// kill is kill -9. When it returns, nothing of the process is left. The test
// fails when the process had ended by itself before.
func (p *process) kill(t *testing.T) {
	t.Helper()
	p.killed.Store(true)
	p.signal(t, syscall.SIGKILL) // which one that has ended, and was not waited for, takes too
	<-p.gone
	_ = p.cmd.Wait() // its state says how it ended
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Errorf("a worker that was to be killed had ended by itself: %v", p.cmd.ProcessState)
	}
}

// died reports whether the process has ended and nobody has killed it.
func (p *process) died() bool {
	select {
	case <-p.gone:
		return !p.killed.Load()
	default:
		return false
	}
}

// end lets the process close its store and end; the test fails when it does
// not end well.
func (p *process) end(t *testing.T) {
	t.Helper()
	if err := p.closer(); err != nil {
		t.Error(err)
	}
	<-p.gone
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("a worker ended with %v", err)
	}
}
