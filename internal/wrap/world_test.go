package wrap_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/app"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/process"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/wrap"
	"github.com/sidecall/sidecall/internal/wrap/observed"
)

// patience bounds every wait of a test for what has to come.
const patience = 30 * time.Second

// world is a client, a wrapper and a stub.
type world struct {
	*testing.T
	in     *io.PipeWriter
	heard  chan string
	missed []string // what was heard and not awaited yet
	ledger string
	log    *logged
	served chan error
	end    func() // what a signal does
}

type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

const settings = `
identity: {require: []}
store: {memory: {}}
defaults: {max_output_chars: 500, retry: {max_attempts: 3, base: 1ms, max: 2ms}}
default_profile: wrap
profiles: {wrap: {loop_guard: {off: true}}}
backends: {server: {mcp: {command: [sh], trust_annotations: true}, trust: trusted}}
`

// start begins a session, as far as the handshake where greeted.
func start(t *testing.T, kind string, greeted bool) *world {
	t.Helper()
	return startObserved(t, kind, greeted, nil)
}

// startObserved is start of a wrapper that may only observe.
func startObserved(t *testing.T, kind string, greeted bool, observe *observed.Log) *world {
	t.Helper()
	w := &world{T: t, ledger: filepath.Join(t.TempDir(), "ledger"), log: &logged{}, heard: make(chan string, 1000), served: make(chan error, 1)}
	in, toRelay := io.Pipe()
	fromRelay, out := io.Pipe()
	w.in = toRelay
	log := slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelInfo})
	relay := wrap.New(wrap.Options{
		Name: "server", Tenant: "wrap", In: in, Out: out, Log: slog.New(log), Observe: observe, Shown: 500,
		Server: process.Spec{Argv: []string{os.Args[0]}, Env: append(os.Environ(), stubEnv+"="+kind, ledgerEnv+"="+w.ledger)},
	})
	cfg, err := config.Parse("test", []byte(settings), config.System())
	if err != nil {
		t.Fatal(err)
	}
	inner, err := app.StartInner(t.Context(), cfg, app.Options{Log: log, Brought: app.Brought{Backends: map[string]backend.Backend{"server": relay}}})
	if err != nil {
		t.Fatal(err)
	}
	life, end := context.WithCancel(context.Background())
	w.end = end
	t.Cleanup(end)
	leave := 100 * time.Millisecond
	if kind == "patient" {
		leave = patience
	}
	go func() {
		w.served <- relay.Serve(life, inner, leave)
		_ = out.Close()
	}()
	go func() {
		defer close(w.heard)
		lines := bufio.NewReaderSize(fromRelay, 1<<20)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			w.heard <- strings.TrimSuffix(line, "\n")
		}
	}()
	t.Cleanup(func() {
		_ = w.in.Close()
		for range w.heard { // to its end
		}
		if err := inner.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(w.log)
		}
	})
	if greeted {
		w.say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
		w.await(`"serverInfo"`)
		w.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return w
}

func (w *world) say(line string) {
	w.Helper()
	if _, err := io.WriteString(w.in, line+"\n"); err != nil {
		w.Fatal(err)
	}
}

// await returns the first message that has a text in it, of those that were not awaited yet.
func (w *world) await(part string) string {
	w.Helper()
	if i := slices.IndexFunc(w.missed, func(line string) bool { return strings.Contains(line, part) }); i >= 0 {
		line := w.missed[i]
		w.missed = slices.Delete(w.missed, i, i+1)
		return line
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case line, ok := <-w.heard:
			if !ok {
				w.Fatalf("the wrapper has ended before %s came", part)
			}
			if strings.Contains(line, part) {
				return line
			}
			w.missed = append(w.missed, line)
		case <-timer.C:
			w.Fatalf("nothing with %s comes", part)
		}
	}
}

// ask sends a request and returns its answer.
func (w *world) ask(id, method, params string) string {
	w.Helper()
	w.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`)
	return w.answer(id)
}

// answer returns the answer to a request.
func (w *world) answer(id string) string {
	w.Helper()
	if i := slices.IndexFunc(w.missed, func(line string) bool { return isAnswer(line, id) }); i >= 0 {
		line := w.missed[i]
		w.missed = slices.Delete(w.missed, i, i+1)
		return line
	}
	for {
		if line := w.await(`"id":` + id); isAnswer(line, id) {
			return line
		}
	}
}

func isAnswer(line, id string) bool {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	return json.Unmarshal([]byte(line), &m) == nil && m.Method == "" && string(m.ID) == id
}

// call calls a tool under a tool use id.
func (w *world) call(id, name, use string) string {
	w.Helper()
	return w.ask(id, "tools/call", `{"name":"`+name+`","arguments":{},"_meta":{"dev.sidecall/toolUseId":"`+use+`"}}`)
}

// entries counts what stands in the ledger.
func (w *world) entries(what string) int {
	w.Helper()
	text, err := os.ReadFile(w.ledger)
	if err != nil && !os.IsNotExist(err) {
		w.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		if line == what+"\n" {
			n++
		}
	}
	return n
}

// until waits for a condition.
func (w *world) until(what string, condition func() bool) {
	w.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("it is not so: %s", what)
		}
	}
}
