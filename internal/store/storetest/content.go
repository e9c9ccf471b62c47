package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// every is a string of all bytes that there are.
var every = func() string {
	var b strings.Builder
	for i := range 256 {
		b.WriteByte(byte(i))
	}
	return b.String()
}()

// distinctKeys: components may hold any bytes, and no two keys share a record.
func distinctKeys(s *suite) {
	components := []string{"", "a", "b", "a/b", "/", "{", "}", "{a}", "%", "%2F", ":", "\x00", "\x00\x01", "\xff", "a\x00", "é", every}
	var keys []tool.CallID
	for i, a := range components {
		for _, b := range components {
			c := components[(i+3)%len(components)]
			keys = append(keys,
				tool.CallID{Tenant: a, Conversation: b, Turn: c, ID: "id"},
				tool.CallID{Tenant: "t", Conversation: a, Turn: b, ID: "id" + c},
				tool.CallID{Tenant: c, Turn: a, ID: "id" + b},
				tool.CallID{Conversation: c, Turn: a, ID: "id" + b})
		}
	}
	owners := map[tool.CallID]string{}
	for i, k := range keys {
		if owners[k] != "" {
			continue
		}
		req := request("", fmt.Sprintf("owner-%d", i), tool.NonIdempotent, long)
		req.Key, owners[k] = k, req.Owner
		if got := s.admit(req); got.Verdict != dedupe.Won {
			s.Fatalf("%q is taken for another: %v of %s", k, got.Verdict, got.Record.Owner)
		}
	}
	for k, owner := range owners {
		if got := s.lookup(k); got.State != dedupe.Claimed || got.Owner != owner {
			s.Errorf("%q: %v of %s, want claimed by %s", k, got.State, got.Owner, owner)
		}
	}
}

func exactResults(s *suite) {
	results := map[string][]byte{
		"nothing":     nil,
		"empty":       {},
		"text":        []byte("refunded 12 €"),
		"every byte":  []byte(every),
		"newlines":    []byte("\r\n$5\r\n"),
		"a page":      bytes.Repeat([]byte("x"), 4096),
		"two MiB":     bytes.Repeat([]byte(every), 8<<10),
		"looks like1": []byte("1"),
	}
	for name, result := range results {
		req := request(name, every, tool.Keyed, long)
		req.Tool, req.Fingerprint = every, [32]byte{0, 255, '\n'}
		s.wantVerdict(s.admit(req), dedupe.Won)
		end := settlement(name, every, 1, dedupe.Done)
		end.Result, end.Attempts = result, 1<<30
		if got := s.settle(end); got != dedupe.Settled {
			s.Fatalf("%s: got %v", name, got)
		}
		replay := s.admit(req)
		s.wantVerdict(replay, dedupe.Replay)
		for _, got := range []dedupe.Record{replay.Record, s.lookup(key(name))} {
			if !bytes.Equal(got.Result, result) || got.Attempts != 1<<30 {
				s.Errorf("%s: came back as %d bytes, %d attempts", name, len(got.Result), got.Attempts)
			}
			if got.Owner != every || got.Tool != every || got.Fingerprint != req.Fingerprint || got.Effect != tool.Keyed {
				s.Errorf("%s: the record differs: %q %q %v %v", name, got.Owner, got.Tool, got.Fingerprint, got.Effect)
			}
		}
	}
}

// keep runs a call and settles it with an output.
func (s *suite) keep(id string, output dedupe.Output) dedupe.SettleVerdict {
	s.Helper()
	s.wantVerdict(s.admit(request(id, "alice", tool.ReadOnly, long)), dedupe.Won)
	end := settlement(id, "alice", 1, dedupe.Done)
	end.Output = &output
	s.settle(end)
	return s.settle(end) // the first answer was not heard
}

func outputs(s *suite) {
	for ref, want := range map[string]dedupe.Output{
		"whole": {Ref: "whole", Data: []byte(every), Complete: true, TTL: time.Hour},
		"cut":   {Ref: "cut", Data: bytes.Repeat([]byte(every), 4<<10), TTL: time.Hour},
		"empty": {Ref: "empty", Data: nil, Complete: true, TTL: time.Hour},
		every:   {Ref: every, Data: []byte("x"), TTL: time.Hour},
	} {
		if got := s.keep(ref, want); got != dedupe.Settled {
			s.Fatalf("got %v", got)
		}
		got, err := s.store.Output(s.Context(), "acme", ref)
		if err != nil || !bytes.Equal(got.Data, want.Data) || got.Complete != want.Complete || got.Ref != ref {
			s.Errorf("%q: came back as %d bytes, complete %v, ref %q: %v", ref, len(got.Data), got.Complete, got.Ref, err)
		}
		if got.TTL <= 0 || got.TTL > time.Hour {
			s.Errorf("%q is kept for %v, want at most an hour", ref, got.TTL)
		}
	}
	s.keep("brief", dedupe.Output{Ref: "brief", Data: []byte("x"), TTL: s.lease})
	s.await("the output expires", func() bool {
		_, err := s.store.Output(s.Context(), "acme", "brief")
		return errors.Is(err, dedupe.ErrNoOutput)
	})
	if got := s.lookup(key("brief")); got.State != dedupe.Done {
		s.Errorf("its call went with it: %v", got.State)
	}
	if _, err := s.store.Output(s.Context(), "acme", "never was"); !errors.Is(err, dedupe.ErrNoOutput) {
		s.Errorf("got %v, want ErrNoOutput", err)
	}
}

func outputTenants(s *suite) {
	s.keep("x", dedupe.Output{Ref: "ref", Data: []byte("secret of acme"), TTL: time.Hour})
	for _, tenant := range []string{"", "globex", "acme/", "acm", "acme\x00"} {
		if _, err := s.store.Output(s.Context(), tenant, "ref"); !errors.Is(err, dedupe.ErrNoOutput) {
			s.Errorf("tenant %q: got %v, want ErrNoOutput", tenant, err)
		}
	}
}

func outputOfTheSuperseded(s *suite) {
	s.wantVerdict(s.admit(request("x", "alice", tool.ReadOnly, long)), dedupe.Won)
	end := settlement("x", "bob", 1, dedupe.Done)
	end.Output = &dedupe.Output{Ref: "ref", Data: []byte("x"), TTL: time.Hour}
	if got := s.settle(end); got != dedupe.Superseded {
		s.Fatalf("got %v", got)
	}
	if _, err := s.store.Output(s.Context(), "acme", "ref"); !errors.Is(err, dedupe.ErrNoOutput) {
		s.Errorf("got %v, want ErrNoOutput", err)
	}
}
