package mcp

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// after are the events of a stream behind an index.
func (e *events) after(t *testing.T, session, stream string, index int) (all []string, err error) {
	t.Helper()
	for data, err := range e.After(t.Context(), session, stream, index) {
		if err != nil {
			return nil, err
		}
		all = append(all, string(data))
	}
	return all, nil
}

func TestEventsAreReplayed(t *testing.T) {
	e := newEvents()
	for _, stream := range []string{"", "a"} {
		err := e.Open(t.Context(), "s", stream)
		for i := range 3 {
			err = errors.Join(err, e.Append(t.Context(), "s", stream, fmt.Append(nil, i)))
		}
		if err != nil {
			t.Fatal(err)
		}
		for index, want := range map[int][]string{-1: {"0", "1", "2"}, 1: {"2"}, 2: nil, 9: nil} {
			if got, err := e.after(t, "s", stream, index); err != nil || !slices.Equal(got, want) {
				t.Errorf("%q after %d: %q, %v", stream, index, got, err)
			}
		}
	}
	if _, err := e.after(t, "other", "a", -1); !errors.Is(err, sdk.ErrEventsPurged) {
		t.Errorf("of another session: %v", err)
	}
	if err := e.SessionClosed(t.Context(), "s"); err != nil || e.bytes != 0 || e.order.Len() != 0 || len(e.streams) != 0 {
		t.Errorf("at the end: %v, %d bytes, %d streams", err, e.bytes, e.order.Len())
	}
}

// A session that lasts held a kilobyte for each of its requests.
func TestASessionThatLastsHoldsLittle(t *testing.T) {
	e := newEvents()
	put := func(stream string, bytes int) {
		if err := errors.Join(e.Open(t.Context(), "s", stream), e.Append(t.Context(), "s", stream, make([]byte, bytes))); err != nil {
			t.Fatal(err)
		}
	}
	put("", 1)
	for i := range 3 * maxStreams {
		put(fmt.Sprint(i), 1)
		put("", 100)
	}
	if n := len(e.streams["s"]); n != maxStreams+1 || e.order.Len() != maxStreams || e.bytes > maxStreams+maxAside {
		t.Errorf("%d streams, %d bytes", n, e.bytes)
	}
	for i := range 30 {
		put(fmt.Sprint("large ", i), 1<<20)
	}
	if e.bytes > maxReplayed {
		t.Errorf("%d bytes", e.bytes)
	}
	if _, err := e.after(t, "s", "0", -1); !errors.Is(err, sdk.ErrEventsPurged) {
		t.Errorf("a stream that was forgotten: %v", err)
	}
	if got, err := e.after(t, "s", "", -1); err != nil || len(got) == 0 {
		t.Errorf("of what belongs to no request: %d, %v", len(got), err)
	}
	if got, err := e.after(t, "s", "", 5); err != nil || len(got) == 0 {
		t.Errorf("behind what is not kept any more: %d, %v", len(got), err)
	}
}

// The stream of a call that takes long is there for its answer, however many others come meanwhile.
func TestTheStreamOfALongCallIsKept(t *testing.T) {
	e := newEvents()
	put := func(stream string, data ...byte) {
		if err := errors.Join(e.Open(t.Context(), "s", stream), e.Append(t.Context(), "s", stream, data)); err != nil {
			t.Fatal(err)
		}
	}
	put("slow")
	put("told", 'p')
	for i := range maxStreams - 1 {
		put(fmt.Sprint(i), 1)
	}
	put("told", 'q')
	for i := range maxStreams - 2 {
		put(fmt.Sprint("more ", i), 1)
	}
	put("slow", 'a')
	put("told", 'a')
	for _, stream := range []string{"slow", "told"} {
		if got, err := e.after(t, "s", stream, 0); err != nil || len(got) == 0 || got[len(got)-1] != "a" {
			t.Errorf("%s: %q, %v", stream, got, err)
		}
	}
	for i := range 2 * maxStreams { // which are refused
		if err := e.Open(t.Context(), "s", fmt.Sprint("refused ", i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(e.streams["s"]); n > 2*maxStreams {
		t.Errorf("%d streams are kept", n)
	}
	if err := e.SessionClosed(t.Context(), "s"); err != nil || e.bytes != 0 || e.order.Len()+e.quiet.Len() != 0 {
		t.Errorf("at the end: %v, %d bytes, %d streams", err, e.bytes, e.order.Len()+e.quiet.Len())
	}
}
