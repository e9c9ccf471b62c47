package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
)

// kept is what a model has under a name: until when, and what.
type kept struct {
	body    string
	expires time.Time
	keep    time.Duration
}

// The bodies of calls that are not done.
const claimed, unknown = "claimed", "unknown"

// model is what a store has to have: a plain map.
type model map[string]kept

// disk is one that may be full at any write, and lose its power at any sync.
type disk struct {
	random  *rand.Rand
	full    int // of so many writes one meets a full disk; 0: none
	synced  []byte
	pending []written
	crash   []byte // what a loss of power at the last sync would have left
}

const sector = 512

type written struct {
	at int64
	b  []byte
}

// under puts a store on the disk.
func (d *disk) under(t *testing.T, s *Store) {
	d.synced, d.pending, d.crash = s.read(t), nil, nil
	s.file.write = func(b []byte, at int64) (n int, err error) {
		if d.full > 0 && d.random.IntN(d.full) == 0 {
			end := (at + d.random.Int64N(int64(len(b)))) / sector * sector // a sector is written or not
			b, err = b[:max(end-at, 0)], syscall.ENOSPC
		}
		n, wrong := s.file.WriteAt(b, at)
		d.pending = append(d.pending, written{at, bytes.Clone(b)})
		return n, errors.Join(err, wrong)
	}
	s.file.sync = func() error {
		d.crash = d.lose()
		d.synced, d.pending = apply(d.synced, d.pending, func() bool { return true }), nil
		return nil
	}
}

// lose is the file when of what was not synced any sectors are written, and not the others.
func (d *disk) lose() []byte {
	odds := 1 << d.random.IntN(10)
	return apply(bytes.Clone(d.synced), d.pending, func() bool { return d.random.IntN(odds) > 0 })
}

func apply(b []byte, writes []written, lasts func() bool) []byte {
	for _, w := range writes {
		for at := w.at; at < w.at+int64(len(w.b)); {
			end := min(at/sector*sector+sector, w.at+int64(len(w.b)))
			if lasts() {
				b = append(b, make([]byte, max(0, int(end)-len(b)))...)
				copy(b[at:end], w.b[at-w.at:])
			}
			at = end
		}
	}
	return b
}

// modelled is a store beside its model.
type modelled struct {
	*Store
	t      *testing.T
	random *rand.Rand
	disk   disk
	model  model
}

const (
	modelBound = 3 << 20
	modelNames = 12
)

// Whatever is asked of a store, at whatever time, with a disk that is full now and then: it has
// what a plain map has, before and after a restart, and after a loss of power that map or the
// one of a step later. It stays within its bound, and is full only when it is.
func TestAStoreIsAMap(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	for round := range uint64(4) {
		t.Run(fmt.Sprint(seed+round), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed+round, 0))
				m := &modelled{t: t, random: random, disk: disk{random: rand.New(rand.NewPCG(seed+round, 1))}, model: model{}}
				m.on(filepath.Join(t.TempDir(), "store.db"), m.model)
				for range 150 {
					m.step()
					if t.Failed() {
						return
					}
				}
			})
		})
	}
}

// on opens the store at a path, which has to be as a model says.
func (m *modelled) on(path string, models ...model) {
	m.t.Helper()
	m.Store = open(m.t, path, Options{MaxBytes: modelBound})
	m.still(func() { m.disk.under(m.t, m.Store) })
	var wrong []error
	for _, maybe := range models {
		for name, k := range maybe { // claims are decided, and kept for longer, if there is room
			if k.body == claimed && k.expires.After(m.clock.now()) && m.decided(name) {
				maybe[name] = kept{unknown, m.clock.now().Add(k.keep), k.keep}
			}
		}
	}
	for _, maybe := range models {
		err := m.differs(maybe)
		if err == nil {
			m.model = maybe
			return
		}
		wrong = append(wrong, err)
	}
	m.t.Errorf("opened again: %v", errors.Join(wrong...))
}

func (m *modelled) decided(name string) bool {
	stored, err := read(m.t.Context(), m.Store, func(t *txn) dedupe.Stored {
		return t.Call(request(strings.TrimPrefix(name, "call "), 0).Key)
	})
	return err == nil && stored.State == dedupe.Unknown
}

// step does something at random.
func (m *modelled) step() {
	switch m.random.IntN(12) {
	case 0:
		time.Sleep(time.Duration(m.random.Int64N(int64(20 * time.Minute))))
		synctest.Wait()
	case 1:
		m.still(func() { m.disk.full = []int{0, 0, 3, 10}[m.random.IntN(4)] })
	case 2:
		m.mustClose(m.t)
		m.on(m.file.path, m.model)
	default:
		before := maps.Clone(m.model)
		m.still(func() { m.disk.crash = nil })
		m.change()
		m.check()
		var crash []byte
		if m.still(func() { crash = m.disk.crash }); crash != nil && m.random.IntN(3) == 0 {
			m.mustClose(m.t)
			path := filepath.Join(m.t.TempDir(), "crash.db")
			if err := os.WriteFile(path, crash, 0o600); err != nil {
				m.t.Fatal(err)
			}
			m.on(path, before, m.model)
		}
	}
}

// change changes one thing.
func (m *modelled) change() {
	name := fmt.Sprint(m.random.IntN(modelNames))
	size := 1 << m.random.IntN(16)
	if m.random.IntN(12) == 0 {
		size = m.random.IntN(500_000)
	}
	body := string(bytes.Repeat([]byte{byte('a' + m.random.IntN(26))}, size))
	keep := time.Duration(1+m.random.IntN(90)) * time.Minute
	switch m.random.IntN(4) {
	case 0:
		m.put("sheet "+name, body, size, keep, m.do(m.t.Context(), own(dedupe.Frees, size, func(t *txn) {
			t.SetValue(tallied(name), body, keep)
		})))
	case 1:
		m.admit(name, keep)
	case 2:
		m.settle(name, body, keep)
	case 3:
		m.converse(name, body, keep)
	}
}

// put notes what was stored, if it was.
func (m *modelled) put(name, body string, size int, keep time.Duration, err error) {
	m.t.Helper()
	if err == nil {
		m.model[name] = kept{body, m.clock.now().Add(keep), keep}
		return
	}
	m.t.Logf("%s, %d bytes: %v", name, size, err)
	if !errors.Is(err, dedupe.ErrFull) {
		m.t.Errorf("%s: %v", name, err)
	}
	if room := modelBound - 2*m.index.live.bytes - 2*partsOf(m.file.largest)*segmentSize; m.disk.full == 0 && room > slack+4*segmentSize+int64(2*size) {
		m.t.Errorf("%s of %d bytes: %v, and %d bytes are live", name, size, err, m.index.live.bytes)
	}
}

func (m *modelled) admit(id string, keep time.Duration) {
	req := request(id, tool.NonIdempotent)
	req.Retention, req.Terms = keep, []dedupe.Term{{'a'}, termOf(id)}
	a, err := m.Admit(m.t.Context(), req)
	if has, there := m.has("call " + id); err == nil && a.Verdict != dedupe.Won && (a.Verdict == dedupe.Mismatch || !there) {
		m.t.Errorf("call %s, which is %q: %v", id, has, a.Verdict)
	} else if err != nil || a.Verdict == dedupe.Won {
		if err == nil && there && has != claimed {
			m.t.Errorf("call %s runs again, and is %.9q", id, has)
		}
		m.put("call "+id, claimed, 0, keep, err)
		if err == nil {
			longer := dedupe.IndexKeep(keep)
			m.model["found "+id] = kept{id, m.clock.now().Add(longer), longer}
		}
	}
}

// termOf is the term of one call.
func termOf(id string) dedupe.Term { return dedupe.Term([]byte(fmt.Sprintf("%16s", id))) }

// found is the call that is found by its own term, and by the one that all have.
func (m *modelled) found(name string) (string, error) {
	own, err := m.Find(m.t.Context(), dedupe.Search{Tenant: "acme", Term: termOf(name), Most: 10})
	all, wrong := m.Find(m.t.Context(), dedupe.Search{Tenant: "acme", Term: dedupe.Term{'a'}, Most: 1000})
	if err = errors.Join(err, wrong); err != nil {
		return "", err
	}
	others := slices.DeleteFunc(all.Calls, func(call dedupe.Listed) bool { return call.Key.ID != name })
	if !slices.EqualFunc(own.Calls, others, func(a, b dedupe.Listed) bool { return a.Key == b.Key }) || len(others) > 1 {
		return "", fmt.Errorf("found by its own term %v, by the other %v", own.Calls, others)
	}
	if len(others) == 0 {
		return "", nil
	}
	return others[0].Key.ID, nil
}

// postings reports postings that are not those of the rows of the log.
func (m *modelled) postings() error {
	var want []posting
	err := m.file.scan(m.file.tail, m.file.end, func(f frame) (bool, error) {
		if f.kind != indexRow || m.index.rows[m.index.digest(f.kind, f.key)].place != f.place {
			return true, nil
		}
		want = append(want, m.index.postings(f)...)
		return true, nil
	})
	slices.SortFunc(want, posting.compare)
	if got := slices.Concat(m.index.terms.chunks...); err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("the postings are %v, want %v", got, want)
	}
	return err
}

func (m *modelled) settle(id, body string, keep time.Duration) {
	end := settlement(id, body)
	end.Retention = keep
	has, there := m.has("call " + id)
	v, err := m.Settle(m.t.Context(), end)
	if changes := there && (has == claimed || has == unknown); err == nil && changes != (v == dedupe.Settled) && has != body {
		m.t.Errorf("call %s, which is %.9q, is settled: %v", id, has, v)
	} else if changes || err != nil {
		m.put("call "+id, body, len(body), keep, err)
	}
}

// converse goes on with a conversation, of which the model has the head: how many messages
// there are, and what each is.
func (m *modelled) converse(id, body string, keep time.Duration) {
	has, _ := m.has("talk " + id)
	w := conversation.Write{Key: transcriptKey(id), After: int64(len(has)), TTL: keep}
	if has != "" {
		w.Was = []byte(has)
	}
	for range 1 + m.random.IntN(3) {
		has += body[:1]
		w.Messages = append(w.Messages, []byte(body))
	}
	w.Head = []byte(has)
	written, err := m.WriteConversation(m.t.Context(), w)
	if err == nil && !written {
		m.t.Errorf("talk %s is not %q", id, w.Was)
	}
	m.put("talk "+id, has, len(w.Messages)*len(body), keep, err)
}

// has is what the model has now.
func (m *modelled) has(name string) (body string, there bool) {
	k := m.model[name]
	if !k.expires.After(m.clock.now()) {
		return "", false
	}
	return k.body, true
}

// check compares the store with its model, and looks at its books.
func (m *modelled) check() {
	m.t.Helper()
	if err := m.differs(m.model); err != nil {
		m.t.Error(err)
	}
	m.still(func() {
		if err := errors.Join(m.file.disjoint(), m.postings()); err != nil {
			m.t.Error(err)
		}
		if got := m.fileBytes(m.t); got > modelBound {
			m.t.Errorf("the file has %d bytes", got)
		}
		if got, want := m.index.live.bytes, m.live(); got != want {
			m.t.Errorf("%d bytes are said to be live, and %d are", got, want)
		}
	})
}

// live counts what is live.
func (m *modelled) live() (n int64) {
	add := func(size, expires int64) {
		if expires/aMinute >= m.index.live.now {
			n += size
		}
	}
	for _, r := range m.index.rows {
		add(int64(r.size), r.expires)
	}
	return n
}

// differs reports what a store has that a model has not, or the other way round.
func (m *modelled) differs(want model) error {
	for i := range modelNames {
		name := fmt.Sprint(i)
		for kind, has := range map[string]func(string) (string, error){"sheet ": m.sheet, "call ": m.call, "talk ": m.talk, "found ": m.found} {
			k := want[kind+name]
			if !k.expires.After(m.clock.now()) {
				k.body = ""
			}
			if k.body == claimed { // or its lease is out
				k.body = unknown
			}
			got, err := has(name)
			if err != nil || got != k.body || got != "" && m.expires(kind, name) != dedupe.Millis(k.expires) {
				return fmt.Errorf("%s is %d bytes %.9q until %d, %v; want %d bytes %.9q until %v", //nolint:errorlint // mostly nil
					kind+name, len(got), got, m.expires(kind, name), err, len(k.body), k.body, dedupe.Millis(k.expires))
			}
		}
	}
	return nil
}

// expires is when a row does.
func (m *modelled) expires(kind, name string) (ms int64) {
	m.still(func() {
		switch kind {
		case "sheet ":
			ms = m.index.rows[m.index.digest(dedupe.TallyValue, valueKey(tallied(name)))].expires
		case "call ":
			ms = m.index.rows[m.index.digest(recordRow, encodeKey(request(name, 0).Key))].expires
		case "found ":
			ms = m.index.rows[m.index.digest(indexRow, encodeKey(request(name, 0).Key))].expires
		default:
			ms = m.index.rows[m.index.digest(conversationRow, conversationKey(transcriptKey(name)))].expires
		}
	})
	return ms
}

func tallied(name string) dedupe.ValueKey {
	return dedupe.ValueKey{Kind: dedupe.TallyValue, Name: name}
}

func (m *modelled) sheet(name string) (string, error) {
	return read(m.t.Context(), m.Store, func(t *txn) string {
		return t.Value(tallied(name))
	})
}

func (m *modelled) call(name string) (string, error) {
	r, err := storetest.Lookup(m.t.Context(), m, request(name, 0).Key)
	if r.State == dedupe.Claimed || r.State == dedupe.Unknown {
		return unknown, err
	}
	return string(r.Result), err
}

func (m *modelled) talk(name string) (string, error) {
	got, err := m.ReadConversation(m.t.Context(), transcriptKey(name), 0, 1<<30)
	if len(got.Head) != len(got.Messages) {
		return "", fmt.Errorf("%q has %d messages", got.Head, len(got.Messages))
	}
	for i, message := range got.Messages {
		if message[0] != got.Head[i] {
			return "", fmt.Errorf("%q has %.9q", got.Head, message)
		}
	}
	return string(got.Head), err
}
