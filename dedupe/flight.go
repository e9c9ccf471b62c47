package dedupe

import (
	"maps"
	"slices"
	"sync"

	"github.com/sidecall/sidecall/internal/tool"
)

// flights is the table of the calls that this process is about to ask the store for, running, or
// waiting for. At most one request per key, the leader, deals with the store; the others follow
// it. When a flight ends without an answer for them, exactly one becomes the next leader. The
// lock is never held during I/O.
type flights struct {
	mu    sync.Mutex
	byKey map[tool.CallID]*flight
	// lost are those whose claims are lost, and whose calls are still at work. New requests do
	// not follow them.
	lost map[*flight]tool.CallID
}

// flight is one call, from its first request's Join to the landing. It is guarded by flights.mu.
type flight struct {
	// record is what the store has said last of the call, or how it has ended; Absent when that
	// is no answer to anybody.
	record    Record
	journaled bool
	err       error
	landed    bool
	changed   chan struct{} // closed at the next change; made by the first follower
}

// join returns the flight of a key, which is fresh when there was none: whoever joined then leads
// it, and must land it.
func (t *flights) join(key tool.CallID, fresh *flight) (f *flight, leads bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f, ok := t.byKey[key]; ok {
		return f, false
	}
	t.byKey[key] = fresh
	return fresh, true
}

func (t *flights) say(f *flight, record *Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f.record = *record
	f.wake()
}

// land ends a flight with what those who follow may know: an answer, an error, or nothing. A
// second landing only ends the work of a lost one.
func (t *flights) land(key tool.CallID, f *flight, answer Admission, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.lost, f)
	t.end(key, f, answer, err)
}

// lose ends a flight whose claim is lost; its call is at work until it is landed.
func (t *flights) lose(key tool.CallID, f *flight) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !f.landed {
		t.lost[f] = key
		t.end(key, f, Admission{}, nil)
	}
}

func (t *flights) end(key tool.CallID, f *flight, answer Admission, err error) {
	if f.landed {
		return
	}
	f.record, f.journaled, f.err, f.landed = answer.Record, answer.Journaled, err, true
	if t.byKey[key] == f {
		delete(t.byKey, key)
	}
	f.wake()
}

func (f *flight) wake() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

func (t *flights) atWork(key tool.CallID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byKey[key] != nil || slices.Contains(slices.Collect(maps.Values(t.lost)), key)
}

func (t *flights) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byKey) == 0 && len(t.lost) == 0
}

// look tells a follower what the flight means for its own request: an answer or an error; InFlight,
// until changed is closed; or nothing, so that it has to ask for itself.
func (t *flights) look(f *flight, req *Request) (answer Admission, changed <-chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	answer, known := req.recall(f.record)
	switch {
	case f.err != nil:
		return Admission{}, nil, f.err
	case known && answer.Verdict != InFlight:
		answer.Journaled = f.journaled
		return answer, nil, nil
	case f.landed:
		return Admission{}, nil, nil
	case f.changed == nil:
		f.changed = make(chan struct{})
	}
	return Admission{Verdict: InFlight, Record: f.record}, f.changed, nil
}

// recall answers a request from a record alone, whatever the time is; false where something would
// be claimed, or changed.
func (req *Request) recall(r Record) (answer Admission, known bool) {
	record, verdict, changed := r.Admit(*req, r.StartedAt)
	return Admission{Verdict: verdict, Record: record}, !changed && verdict != MayRun
}
