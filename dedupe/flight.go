package dedupe

import "sync"

// flights is the table of the calls that this process is about to ask the store
// for, running, or waiting for. At most one request per key, the leader,
// deals with the store; the others follow it, so that a crowd of duplicates
// costs one round trip and never stampedes: when a flight ends without an
// answer for them, exactly one becomes the next leader.
//
// It has one entry per call, from its first request's Join to the landing, and
// none for its duplicates. Its size is bounded by the requests in flight. The lock is held for a map
// access or two, never during I/O.
type flights struct {
	mu    sync.Mutex
	byKey map[Key]*flight
	// lost counts the calls that are still at work though their claims are lost.
	// New requests do not follow them: they ask the store.
	lost map[Key]int
}

// flight is one entry. All of it is guarded by flights.mu.
type flight struct {
	// known says that the store's record has the leader's content; record is
	// what the store last said.
	known   bool
	content content
	record  Record

	landed  bool
	landing landing
	lost    bool // landed without its claim, and still at work

	// changed is closed at the next change; made by the first follower, so
	// that a call without duplicates pays nothing for it.
	changed chan struct{}
}

// content is what must be the same under the same key.
type content struct {
	tool        string
	fingerprint [32]byte
}

func contentOf(req *Request) content { return content{req.Tool, req.Fingerprint} }

// landing is how a flight ended. The zero value holds nothing that a follower
// could use: it has to ask for itself.
type landing struct {
	admission *Admission
	content   content // of a request that got a Mismatch
	err       error
}

// join returns the flight of a key, which is fresh when there was none: whoever
// joined then leads it, and must land it.
func (t *flights) join(key Key, fresh *flight) (f *flight, leads bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f, ok := t.byKey[key]; ok {
		return f, false
	}
	t.byKey[key] = fresh
	return fresh, true
}

// confirm notes what the store has said about a call with the leader's content.
func (t *flights) confirm(f *flight, req *Request, record Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f.known, f.content, f.record = true, contentOf(req), record
	f.wake()
}

// land ends a flight; a second landing only ends the work of a lost one.
func (t *flights) land(key Key, f *flight, l landing) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !f.landed {
		t.end(key, f, l)
		return
	}
	if f.lost {
		f.lost = false
		if t.lost[key]--; t.lost[key] == 0 {
			delete(t.lost, key)
		}
	}
}

// lose ends a flight whose claim is lost, and remembers that the call is at work
// until it is landed.
func (t *flights) lose(key Key, f *flight) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f.landed {
		return
	}
	t.end(key, f, landing{})
	f.lost = true
	t.lost[key]++
}

func (t *flights) end(key Key, f *flight, l landing) {
	f.landed, f.landing = true, l
	if t.byKey[key] == f {
		delete(t.byKey, key)
	}
	f.wake()
}

// atWork reports whether there is a flight of a key, or was one whose call is
// still at work.
func (t *flights) atWork(key Key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.byKey[key]
	return ok || t.lost[key] > 0
}

// idle reports that no call is at work.
func (t *flights) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byKey) == 0 && len(t.lost) == 0
}

func (f *flight) wake() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// record returns what the store last said about the flight's call.
func (t *flights) record(f *flight) Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	return f.record
}

// sight is what a follower sees of a flight.
type sight struct {
	decided   bool
	admission Admission
	err       error
	record    Record          // what the store last said
	changed   <-chan struct{} // closed at the next change; nil when decided or landed
}

// look tells a follower what the flight means for its own request.
func (t *flights) look(f *flight, req *Request) sight {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case f.landed:
		return f.landing.forFollower(req)
	case f.known && f.content != contentOf(req):
		return sight{decided: true, admission: Admission{Verdict: Mismatch, Record: f.record}}
	}
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return sight{record: f.record, changed: f.changed}
}

// forFollower says what a landing means for another request.
func (l landing) forFollower(req *Request) sight {
	switch {
	case l.err != nil:
		return sight{err: l.err}
	case l.admission == nil:
		return sight{}
	case l.admission.Record.State == Done || l.admission.Record.State == Unknown:
		// Time does not matter to these states.
		record, verdict, _ := l.admission.Record.Admit(*req, l.admission.Record.FinishedAt)
		return sight{decided: true, admission: Admission{Verdict: verdict, Record: record, Journaled: l.admission.Journaled}}
	case l.admission.Verdict == Mismatch && l.content == contentOf(req):
		return sight{decided: true, admission: *l.admission}
	default:
		return sight{}
	}
}
