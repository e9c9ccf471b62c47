package server

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// forging is a store that somebody has written to.
type forging struct {
	*embedded.Store

	forge func(*dedupe.Chain)
	down  error
}

func (s *forging) Note(ctx context.Context, n dedupe.Note) (dedupe.Known, error) {
	known, err := s.Store.Note(ctx, n)
	if !n.Receipts {
		return known, err
	}
	if s.forge != nil {
		s.forge(&known.Chain)
	}
	return known, errors.Join(err, s.down)
}

// leaving is a sidecar whose settlements leave receipts, of a store that can be forged.
func leaving(t *testing.T) (*calltest.Sidecar, *forging, *Operator) {
	t.Helper()
	store := &forging{Store: embedded.InMemory(embedded.Options{})}
	s := calltest.NewOn(t, embedded.InMemory(embedded.Options{}), calltest.NewRoute(t, "pay", tool.NonIdempotent, calltest.Answers("paid")))
	s.With(func(p *call.Parts) {
		p.Dedupe = dedupe.New(store, dedupe.Options{Receipts: true})
		p.Book = &conversation.Book{Store: store, Limits: conversation.Limits{TTL: time.Hour, Messages: 100, Bytes: 1 << 20}}
	})
	t.Cleanup(func() {
		if err := s.Dedupe.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s, store, &Operator{Executor: s.Executor}
}

// What a conversation has done is receipted, and a receipt that somebody has changed is found.
func TestReceiptsAreVerified(t *testing.T) {
	s, store, o := leaving(t)
	verify := func(noted string) *sidecallv1.VerifyReceiptsResponse {
		t.Helper()
		res, err := o.VerifyReceipts(t.Context(), &sidecallv1.VerifyReceiptsRequest{ConversationId: "c1", NotedHead: noted})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	nothing := &sidecallv1.VerifyReceiptsRequest{ConversationId: "c1"}
	if res, err := o.VerifyReceipts(t.Context(), nothing); status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "there is no such conversation") {
		t.Errorf("of a conversation that there is not: %v, %v", res, err)
	}
	said := conversation.Append{Key: conversation.Key{Tenant: tenant(t.Context()), ID: "c1"}, Provider: provider.Anthropic, Messages: []string{`{"role":"user","content":"Hi"}`}}
	if _, err := s.Book.Append(t.Context(), said); err != nil {
		t.Fatal(err)
	}
	if res := verify(""); res.GetReceipts() != 0 || res.GetHead() != "" || !res.GetEnabled() || len(res.GetProblems()) != 0 {
		t.Errorf("of nothing: %v", res)
	}
	s.Call(calltest.Request("a", "pay"))
	first := verify("")
	for _, id := range []string{"b", "c", "b"} { // one of them again, which is a replay
		s.Call(calltest.Request(id, "pay"))
	}
	res := verify(first.GetHead())
	if res.GetReceipts() != 3 || res.GetChecked() != 3 || res.GetForgotten() != 0 || res.GetSince() == nil || len(res.GetProblems()) != 0 || !strings.HasPrefix(res.GetHead(), "3:") {
		t.Errorf("%v", res)
	}
	other := "1:" + strings.Repeat("0", 64)
	if res := verify(other); len(res.GetProblems()) != 1 || !strings.Contains(res.GetProblems()[0], "receipt 1 has another hash than was noted") {
		t.Errorf("another head: %v", res)
	}
	store.forge = func(c *dedupe.Chain) { c.Lines[1].Body = strings.Replace(c.Lines[1].Body, "done", "unknown", 1) }
	if res := verify(""); len(res.GetProblems()) != 2 || !strings.Contains(res.GetProblems()[0], "receipt 2 is not the one") {
		t.Errorf("a receipt that was changed: %v", res)
	}
	store.forge = func(c *dedupe.Chain) {
		for range 200 {
			c.Lines = append(c.Lines, dedupe.Line{N: 7, Body: strings.Repeat("x", 9000)})
		}
	}
	if res := verify(""); len(res.GetProblems()) != 100 || res.GetProblemsLeft() < 100 {
		t.Errorf("very many problems: %d, and %d more", len(res.GetProblems()), res.GetProblemsLeft())
	}
}

func TestReceiptsThatCannotBeVerified(t *testing.T) {
	_, store, o := leaving(t)
	for says, req := range map[string]*sidecallv1.VerifyReceiptsRequest{
		"conversation_id: is missing":             {},
		`noted_head: "12": want a head as it was`: {ConversationId: "c1", NotedHead: "12"},
	} {
		if _, err := o.VerifyReceipts(t.Context(), req); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), says) {
			t.Errorf("%v", err)
		}
	}
	store.down = errors.New("refused")
	if _, err := o.VerifyReceipts(t.Context(), &sidecallv1.VerifyReceiptsRequest{ConversationId: "c1"}); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
}
