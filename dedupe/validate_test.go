package dedupe

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

var inAConversation = tool.CallID{Conversation: "c-1", ID: "call_0"}

func TestValidate(t *testing.T) {
	t.Parallel()
	request := func(change func(*Request)) error {
		r := asks("alice", tool.ReadOnly)
		r.Key = inAConversation
		change(&r)
		return r.Validate()
	}
	settlement := func(change func(*Settlement)) error {
		s := settles("alice", 1, Done)
		s.Key, s.Output = inAConversation, &Output{Ref: "ref", TTL: time.Hour}
		change(&s)
		return s.Validate()
	}
	long := strings.Repeat("x", MaxKeyBytes+1)
	for name, err := range map[string]error{
		"no id":                     request(func(r *Request) { r.Key.ID = "" }),
		"a key too long":            request(func(r *Request) { r.Key.Turn = long }),
		"no owner":                  request(func(r *Request) { r.Owner = "" }),
		"a tool name too long":      request(func(r *Request) { r.Tool = long }),
		"no lease":                  request(func(r *Request) { r.Lease = 0 }),
		"amnesia before the end":    request(func(r *Request) { r.Retention = r.Lease - 1 }),
		"a ceiling of nobody":       request(func(r *Request) { r.Draw = Draw{MaxCalls: 1} }),
		"a counter too long":        request(func(r *Request) { r.Draw = Draw{Counter: long} }),
		"negative tokens":           request(func(r *Request) { r.Draw = Draw{Counter: "c", Tokens: -1} }),
		"too many tokens":           request(func(r *Request) { r.Draw = Draw{Counter: "c", Tokens: MaxTokens + 1} }),
		"a draw in no conversation": request(func(r *Request) { r.Key, r.Draw = tool.CallID{ID: "x"}, Draw{Counter: "c"} }),
		"too many logs":             request(func(r *Request) { r.Logs = make([]string, MaxLogs+1) }),
		"a log without a name":      request(func(r *Request) { r.Logs = []string{""} }),
		"a log's long name":         request(func(r *Request) { r.Logs = []string{long} }),
		"spent less than nothing":   settlement(func(s *Settlement) { s.Tokens = -1 }),
		"too much spent":            settlement(func(s *Settlement) { s.Tokens = MaxTokens + 1 }),
		"an empty entry":            settlement(func(s *Settlement) { s.Appends = []Append{{Log: "l", Keep: 1}} }),
		"an entry too long":         settlement(func(s *Settlement) { s.Appends = []Append{{"l", make([]byte, MaxEntryBytes+1), 1}} }),
		"a log that keeps none":     settlement(func(s *Settlement) { s.Appends = []Append{{"l", []byte("x"), 0}} }),
		"a log that keeps all":      settlement(func(s *Settlement) { s.Appends = []Append{{"l", []byte("x"), MaxLogEntries + 1}} }),
		"entries for many logs":     settlement(func(s *Settlement) { s.Appends = make([]Append, MaxLogs+1) }),
		"a note in no conversation": (&Note{Key: tool.CallID{ID: "x"}, Counter: "p", Retention: 1e9}).Validate(),
		"a note for no time":        (&Note{Key: inAConversation, Appends: []Append{{Log: "l", Entry: []byte{1}, Keep: 1}}}).Validate(),
		"settled as claimed":        settlement(func(s *Settlement) { s.State = Claimed }),
		"settled as absent":         settlement(func(s *Settlement) { s.State = Absent }),
		"no epoch":                  settlement(func(s *Settlement) { s.Epoch = 0 }),
		"no settling owner":         settlement(func(s *Settlement) { s.Owner = "" }),
		"no settled id":             settlement(func(s *Settlement) { s.Key.ID = "" }),
		"negative attempts":         settlement(func(s *Settlement) { s.Attempts = -1 }),
		"no retention":              settlement(func(s *Settlement) { s.Retention = 0 }),
		"no output reference":       settlement(func(s *Settlement) { s.Output.Ref = "" }),
		"an output for no time":     settlement(func(s *Settlement) { s.Output.TTL = 0 }),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
	if err := request(func(r *Request) { r.Draw = Draw{Counter: "c", Tokens: MaxTokens} }); err != nil {
		t.Error(err)
	}
	if err := settlement(func(*Settlement) {}); err != nil {
		t.Error(err)
	}
}
