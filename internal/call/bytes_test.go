package call_test

import (
	"context"
	"slices"
	"testing"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// A sidecar whose memory is taken begins nothing new: nothing is sent. What was
// done before is answered all the same, and what ends gives its room back.
func TestACallForWhichThereIsNoMemoryIsNotSent(t *testing.T) {
	grown, let := make(chan bool, 10), make(chan struct{})
	b := &calltest.Backend{Do: func(_ context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
		if in.Tool == "reads" {
			grown <- backend.Fits(in.Memory, 0, 300)
			grown <- backend.Fits(in.Memory, 0, backend.Uncounted+250)
			grown <- backend.Fits(in.Memory, backend.Uncounted+250, backend.Uncounted+400)
			<-let
		}
		return tool.Reply{Text: []byte("ok")}, nil
	}}
	s := calltest.New(t, calltest.NewRoute(t, "reads", tool.ReadOnly, b), calltest.NewRoute(t, "acts", tool.NonIdempotent, b))
	s.With(func(p *call.Parts) { p.Bytes = limit.NewBytes(800) })
	before := s.Call(calltest.Request("before", "acts"))
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Execute(context.Background(), call.NewRequest("", calltest.Request("large", "reads")))
	}()
	if took := []bool{<-grown, <-grown, <-grown}; !slices.Equal(took, []bool{true, true, false}) {
		t.Errorf("the reply got room three times: %v", took)
	}
	if got := s.Call(calltest.Request("new", "acts")); calltest.Code(got) != tool.CodeOverloaded || b.Calls.Load() != 2 {
		t.Errorf("%+v", got)
	}
	if again := s.Call(calltest.Request("before", "acts")); !again.GetReplayed() || again.GetContent() != before.GetContent() {
		t.Errorf("%+v", again)
	}
	close(let)
	<-done
	if held := s.Bytes.Held(); held != 0 {
		t.Errorf("%d bytes are held by nobody", held)
	}
	if got := s.Call(calltest.Request("new", "acts")); got.GetIsError() {
		t.Errorf("%+v", got)
	}
}

// What a request has takes room until the last of its calls has ended, however the others end.
func TestARefusedCallGivesBackItsOwnShare(t *testing.T) {
	begun, let := make(chan struct{}), make(chan struct{})
	b := &calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
		close(begun)
		<-let
		return tool.Reply{Text: []byte("ok")}, nil
	}}
	s := calltest.New(t, calltest.NewRoute(t, "reads", tool.ReadOnly, b))
	s.With(func(p *call.Parts) { p.Bytes = limit.NewBytes(800) })
	var load limit.Load
	load.Of(s.Bytes)
	if !load.Take(300) {
		t.Fatal("there is no room")
	}
	of := func(id, toolName string) call.Request {
		req := call.NewRequest("", calltest.Request(id, toolName))
		req.Load = &load
		return req
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Execute(context.Background(), of("long", "reads"))
	}()
	<-begun
	for _, id := range []string{"a", "b"} {
		s.Execute(context.Background(), of(id, "nobody"))
	}
	load.Release() // as who has read the request does
	if held := s.Bytes.Held(); held != 300 {
		t.Errorf("while a call of it is made, %d bytes are held", held)
	}
	close(let)
	<-done
	if held := s.Bytes.Held(); held != 0 {
		t.Errorf("%d bytes are held by nobody", held)
	}
}

// An attempt that failed holds nothing any more when the next one is made.
func TestEachAttemptHoldsItsOwnReply(t *testing.T) {
	b := &calltest.Backend{}
	b.Do = func(_ context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
		if !backend.Fits(in.Memory, 0, backend.Uncounted+200) {
			t.Errorf("attempt %d has no room", in.Attempt)
		}
		if in.Attempt < 3 {
			failure := calltest.Refused
			return tool.Reply{}, &failure
		}
		return tool.Reply{Text: []byte("ok")}, nil
	}
	s := calltest.New(t, calltest.NewRoute(t, "reads", tool.ReadOnly, b))
	s.With(func(p *call.Parts) { p.Bytes = limit.NewBytes(900) })
	if got := s.Call(calltest.Request("toolu_1", "reads")); got.GetIsError() || s.Bytes.Held() != 0 {
		t.Errorf("%+v, %d bytes are held", got, s.Bytes.Held())
	}
}
