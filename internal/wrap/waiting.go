package wrap

import (
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/mcptool"
)

// waiting is what a server has not answered yet, and what its client has not.
type waiting struct {
	mu sync.Mutex
	// waits are the requests of the relay, passed those of the client, asks the server's own ids by those
	// under which the client knows them, each until it is answered. The latter two are nil when it has ended.
	waits  map[string]chan<- mcptool.Relayed
	passed map[string]passing
	asks   map[string]string
	// beats hear of progress, by its token.
	beats map[string]func()
}

// await has the answer to a request of the relay come to a channel; forget takes that back.
func (w *waiting) await(id string) (answer <-chan mcptool.Relayed, forget func()) {
	waits := make(chan mcptool.Relayed, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waits[id] = waits
	return waits, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waits, id)
	}
}

// deliver hands an answer to who waits for it; one that comes late is nobody's.
func (w *waiting) deliver(id string, a mcptool.Relayed) {
	w.mu.Lock()
	to := w.waits[id]
	delete(w.waits, id)
	w.mu.Unlock()
	if to != nil {
		to <- a
	}
}

// take returns the request of the client that is answered now; empty when there is none.
func (w *waiting) take(id jsontext.Value) passing {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.passed[string(id)]
	delete(w.passed, string(id))
	return of
}

// asked and has report whether the server waits for an answer, and has a request, of the client.
func (w *waiting) asked(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, asked := w.asks[id]
	return asked
}

func (w *waiting) has(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, has := w.passed[id]
	return has
}

// listen has the progress of a call, whose token its client has chosen, heard until stop.
func (w *waiting) listen(meta jsontext.Value, beat func(backend.Sign)) (stop func()) {
	says, err := readObject(meta)
	token := string(says.get("progressToken"))
	if err != nil || token == "" || beat == nil {
		return func() {}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.beats[token] = func() { beat(backend.Sign{}) }
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.beats, token)
	}
}
