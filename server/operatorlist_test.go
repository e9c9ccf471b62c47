package server

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// listed is all that a listing gives, page by page.
func listed(t *testing.T, o *Operator, size int32) (ids map[string]int, pages int) {
	t.Helper()
	ids = map[string]int{}
	token := ""
	for {
		page, err := o.ListUnknown(t.Context(), &sidecallv1.ListUnknownRequest{PageSize: size, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.GetExecutions()) > int(size) || proto.Size(page) > maxPageBytes+4<<10 {
			t.Fatalf("a page of %d calls and %d bytes", len(page.GetExecutions()), proto.Size(page))
		}
		for _, e := range page.GetExecutions() {
			ids[e.GetToolUseId()]++
		}
		pages++
		if token = page.GetNextPageToken(); token == "" {
			return ids, pages
		}
	}
}

func TestListUnknownInPages(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.CutOff)))
	const calls = 250
	for i := range calls {
		s.Call(calltest.Request(fmt.Sprint("toolu_", i), "refund"))
	}
	foreign := calltest.Request("of another tenant", "refund")
	s.Execute(t.Context(), call.NewRequest("acme", foreign))
	one := &Operator{Executor: s.Executor}
	if page, err := one.ListUnknown(context.WithValue(t.Context(), tenantKey{}, ""), &sidecallv1.ListUnknownRequest{PageSize: 1000}); err != nil || len(page.GetExecutions()) != calls {
		t.Errorf("of one tenant: %d calls, %v", len(page.GetExecutions()), err)
	}
	for _, size := range []int32{1, 7, 100, 251, 1000} {
		ids, pages := listed(t, one, size)
		if len(ids) != calls+1 || pages != max(1, (calls+int(size))/int(size)) {
			t.Errorf("pages of %d: %d calls on %d pages", size, len(ids), pages)
		}
		for id, n := range ids {
			if n != 1 {
				t.Errorf("pages of %d: %s is listed %d times", size, id, n)
			}
		}
	}
}

// pagedStore lists what it is told to, a page of the store at a time, and may
// cut its pages differently the next time.
type pagedStore struct {
	dedupe.Store

	pages map[string]dedupe.Page
	asked int
}

func (s *pagedStore) ListOpen(_ context.Context, from string) (dedupe.Page, error) {
	s.asked++
	page, ok := s.pages[from]
	if !ok {
		return dedupe.Page{}, dedupe.ErrInvalid
	}
	page.Calls = append([]dedupe.Listed(nil), page.Calls...)
	return page, nil
}

// unknowns are the calls named by the letters of a word.
func unknowns(word string) []dedupe.Listed {
	var calls []dedupe.Listed
	for _, letter := range word {
		calls = append(calls, dedupe.Listed{Key: tool.CallID{ID: string(letter)}, Record: dedupe.Record{State: dedupe.Unknown, Tool: "refund"}})
	}
	return calls
}

func TestAListingFollowsTheStore(t *testing.T) {
	store := &pagedStore{Store: embedded.InMemory(embedded.Options{}), pages: map[string]dedupe.Page{
		"":  {Calls: unknowns("cab"), Next: "1"},
		"1": {Next: "2"},
		"2": {Calls: unknowns("ed"), Next: "3"},
		"3": {},
	}}
	s := calltest.NewOn(t, store)
	for size := range int32(7) {
		if ids, _ := listed(t, &Operator{Executor: s.Executor}, size+1); len(ids) != 5 {
			t.Errorf("pages of %d: %v", size+1, ids)
		}
	}
	// The store cuts its first page differently before the second is asked for:
	// rather twice than not at all.
	o := &Operator{Executor: s.Executor}
	first, err := o.ListUnknown(t.Context(), &sidecallv1.ListUnknownRequest{PageSize: 2})
	if err != nil {
		t.Fatal(err)
	}
	store.pages[""] = dedupe.Page{Calls: unknowns("cabAB"), Next: "2"}
	second, err := o.ListUnknown(t.Context(), &sidecallv1.ListUnknownRequest{PageSize: 100, PageToken: first.GetNextPageToken()})
	if err != nil || len(second.GetExecutions()) != 7 {
		t.Errorf("%v, %v: want all calls of the page that has changed", second, err)
	}
	// Few unknown calls among many others: a page ends with its work.
	many := map[string]dedupe.Page{}
	for i := range 100 {
		many[strings.Repeat("x", i)] = dedupe.Page{Next: strings.Repeat("x", i+1)}
	}
	store.pages, store.asked = many, 0
	page, err := o.ListUnknown(t.Context(), &sidecallv1.ListUnknownRequest{})
	if err != nil || store.asked != maxStorePages || page.GetNextPageToken() == "" || len(page.GetExecutions()) != 0 {
		t.Errorf("%d pages of the store for one: %v, %v", store.asked, page, err)
	}
}

// Long errors end a page early, so that it can be received.
func TestAPageOfLongErrorsIsShort(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Fails(1, calltest.CutOff)))
	s.Call(calltest.Request("toolu_1", "refund"))
	record, err := storetest.Lookup(t.Context(), s.Store, tool.CallID{Conversation: "c1", Turn: "t1", ID: "toolu_1"})
	if err != nil {
		t.Fatal(err)
	}
	long := &sidecallv1.ExecuteToolResponse{Error: &sidecallv1.ToolError{Received: strings.Repeat("x", 100<<10)}}
	if record.Result, err = proto.Marshal(long); err != nil {
		t.Fatal(err)
	}
	var calls []dedupe.Listed
	for i := range 40 {
		calls = append(calls, dedupe.Listed{Key: tool.CallID{ID: fmt.Sprint(i)}, Record: record})
	}
	s = calltest.NewOn(t, &pagedStore{Store: embedded.InMemory(embedded.Options{}), pages: map[string]dedupe.Page{"": {Calls: calls}}})
	ids, pages := listed(t, &Operator{Executor: s.Executor}, 1000)
	if len(ids) != 40 || pages != 4 {
		t.Errorf("%d calls on %d pages, want 40 on 4", len(ids), pages)
	}
}
