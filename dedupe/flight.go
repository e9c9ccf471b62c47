package dedupe

import "sync"

// flights is the table of the calls that this process is asking the store
// about, running, or waiting for. At most one request per key, the leader,
// deals with the store; the others follow it, so that a crowd of duplicates
// costs one round trip and never stampedes: when a flight ends without an
// answer for them, exactly one becomes the next leader.
//
// Its size is bounded by the requests in flight. The lock is held for a map
// access or two, never during I/O.
type flights struct {
	mu    sync.Mutex
	byKey map[Key]*flight
}

// flight is one entry. All but content is guarded by flights.mu.
type flight struct {
	content content // of the leader

	// known says that the store's record has the leader's content; record is
	// what the store last said.
	known  bool
	record Record

	landed  bool
	landing landing

	// changed is closed at the next change; made by the first follower, so
	// that a call without duplicates pays nothing for it.
	changed chan struct{}
}

// content is what must be the same under the same key.
type content struct {
	tool        string
	fingerprint [32]byte
}

// landing is how a flight ended. The zero value holds nothing that a follower
// could use: it has to ask for itself.
type landing struct {
	admission *Admission
	err       error
}

// join returns the flight of the request's key, and whether the request leads
// it. The leader must land it.
func (t *flights) join(req *Request) (f *flight, leads bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f, ok := t.byKey[req.Key]; ok {
		return f, false
	}
	f = &flight{content: content{req.Tool, req.Fingerprint}}
	t.byKey[req.Key] = f
	return f, true
}

// confirm notes a record of the leader's content.
func (t *flights) confirm(f *flight, record Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f.known, f.record = true, record
	f.wake()
}

// land ends a flight; a second landing changes nothing.
func (t *flights) land(key Key, f *flight, l landing) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f.landed {
		return
	}
	f.landed, f.landing = true, l
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

// sight is what a follower sees of a flight.
type sight struct {
	landed    bool
	decided   bool
	admission Admission
	err       error
	changed   <-chan struct{} // closed at the next change; nil once landed
}

// look tells a follower what the flight means for its own request.
func (t *flights) look(f *flight, req *Request) sight {
	t.mu.Lock()
	defer t.mu.Unlock()
	same := f.content == content{req.Tool, req.Fingerprint}
	switch {
	case f.landed:
		return f.landing.forFollower(req, same)
	case f.known && !same:
		return sight{decided: true, admission: Admission{Verdict: Mismatch, Record: f.record}}
	}
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return sight{changed: f.changed}
}

// forFollower says what a landing means for another request.
func (l landing) forFollower(req *Request, same bool) sight {
	s := sight{landed: true}
	switch {
	case l.err != nil:
		s.err = l.err
	case l.admission == nil:
	case l.admission.Record.State == Done || l.admission.Record.State == Unknown:
		// Time does not matter to these states.
		record, verdict, _ := l.admission.Record.Admit(*req, l.admission.Record.FinishedAt)
		s.decided, s.admission = true, Admission{Verdict: verdict, Record: record, Journaled: l.admission.Journaled}
	case l.admission.Verdict == Mismatch && same:
		s.decided, s.admission = true, *l.admission
	}
	return s
}

// record returns what the store last said about the flight's call.
func (t *flights) record(f *flight) Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	return f.record
}
