package call_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/server"
	"github.com/sidecall/sidecall/test/testkit/calltest"

	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/store/journal"
	"github.com/sidecall/sidecall/internal/tool"
)

// away is a store that can be out of reach.
type away struct {
	dedupe.Store
	is atomic.Bool
}

var errAway = errors.New("connection refused")

func (s *away) Admit(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	if s.is.Load() {
		return dedupe.Admission{}, errAway
	}
	return s.Store.Admit(ctx, req)
}

func (s *away) Settle(ctx context.Context, settlement dedupe.Settlement) (dedupe.SettleVerdict, error) {
	if s.is.Load() {
		return 0, errAway
	}
	return s.Store.Settle(ctx, settlement)
}

func (s *away) Ping(ctx context.Context) error {
	if s.is.Load() {
		return errAway
	}
	return s.Store.Ping(ctx)
}

// journals lets a sidecar settle with a store, and with a journal beside it.
func journals(s *calltest.Sidecar, t *testing.T, store dedupe.Store) {
	t.Helper()
	j, err := journal.Open(filepath.Join(t.TempDir(), "j"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s.With(func(p *call.Parts) { p.Dedupe = dedupe.New(store, dedupe.Options{Journal: j}) })
	t.Cleanup(func() {
		if err := s.Dedupe.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// A verification that has found out what became of a call is written down, also
// when its settlement waits in the journal.
func TestAResolutionThatWaitsInTheJournalIsWrittenDown(t *testing.T) {
	var log bytes.Buffer
	up := &shop{happens: true}
	refund, look := up.routes(t)
	store := &away{Store: embedded.InMemory(embedded.Options{})}
	refund.Backend = awayAfter{refund.Backend, store}
	s := calltest.NewOn(t, embedded.InMemory(embedded.Options{}), refund, look)
	logged(s, t, slog.NewTextHandler(&log, nil))
	journals(s, t, store)
	res := s.Call(calltest.Request("t1", "refund"))
	if res.GetIsError() || res.GetRecorded() || res.GetResolution() == nil {
		t.Fatalf("got %v", res)
	}
	if n := strings.Count(log.String(), "msg=resolve"); n != 1 {
		t.Errorf("%d lines of it in the log: %s", n, log.String())
	}
}

// The effect has happened when the store is found to be away: the caller gets
// its result all the same, duplicates get it from the journal, and once the
// store is back from there.
func TestTheStoreIsAwayAtSettle(t *testing.T) {
	store := &away{Store: embedded.InMemory(embedded.Options{})}
	b := calltest.Answers(`{"paid":true}`)
	route := calltest.NewRoute(t, "refund", tool.NonIdempotent, b)
	s := calltest.NewOn(t, embedded.InMemory(embedded.Options{}), route)
	journals(s, t, store)
	route.Backend = awayAfter{b, store}

	first := s.Call(calltest.Request("t1", "refund"))
	if first.GetIsError() || first.GetRecorded() || first.GetReplayed() {
		t.Fatalf("the caller got %v", first)
	}
	again := s.Call(calltest.Request("t1", "refund"))
	if !again.GetReplayed() || again.GetRecorded() || again.GetContent() != first.GetContent() {
		t.Errorf("the duplicate got %v", again)
	}
	admin := &server.Admin{Metrics: http.NotFoundHandler(), Dedupe: s.Dedupe, Catalog: s.Catalog, Drain: server.NewDrain(), Mask: strings.Clone}
	if code, body := readyNow(t, admin); code != http.StatusServiceUnavailable || body.Journal == nil ||
		body.Journal.Detail != "1 settlement waits in the journal" {
		t.Errorf("/readyz = %d %+v", code, body)
	}
	store.is.Store(false)
	deadline := time.Now().Add(time.Minute)
	for s.Dedupe.Late().Waiting > 0 {
		if time.Now().After(deadline) {
			t.Fatal("the store did not get it")
		}
		time.Sleep(time.Millisecond) // between two looks
	}
	if code, body := readyNow(t, admin); code != http.StatusOK || body.Journal != nil {
		t.Errorf("/readyz = %d %+v", code, body)
	}
	again = s.Call(calltest.Request("t1", "refund"))
	if !again.GetReplayed() || !again.GetRecorded() {
		t.Errorf("with the store back the duplicate got %v", again)
	}
	again.Replayed, again.Recorded = false, false
	want, _ := proto.MarshalOptions{Deterministic: true}.Marshal(first)
	got, _ := proto.MarshalOptions{Deterministic: true}.Marshal(again)
	if !bytes.Equal(want, got) || b.Calls.Load() != 1 {
		t.Errorf("%d executions; first\n%v\nthen\n%v", b.Calls.Load(), first, again)
	}
}

// awayAfter loses the store when the effect has happened.
type awayAfter struct {
	backend.Backend
	store *away
}

func (b awayAfter) Invoke(ctx context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
	defer b.store.is.Store(true)
	return b.Backend.Invoke(ctx, in)
}

func readyNow(t *testing.T, admin *server.Admin) (code int, body server.Readiness) {
	t.Helper()
	w := httptest.NewRecorder()
	admin.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatal(err)
	}
	return w.Code, body
}
