package dedupe

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/tool"
)

// everything is a store that knows all the fields.
var everything = Knowledge{Store: "this store", Fields: ^Fields(0)}

func TestValidate(t *testing.T) {
	t.Parallel()
	request := func(change func(*Request)) error {
		r := asks("alice", tool.ReadOnly)
		change(&r)
		return r.Validate(everything)
	}
	settlement := func(change func(*Settlement)) error {
		s := settles("alice", 1, Done)
		s.Output = &Output{Ref: "ref", TTL: time.Hour}
		change(&s)
		return s.Validate(everything)
	}
	long := strings.Repeat("x", MaxKeyBytes+1)
	for name, err := range map[string]error{
		"no id":                  request(func(r *Request) { r.Key.ID = "" }),
		"a key too long":         request(func(r *Request) { r.Key.Turn = long }),
		"no owner":               request(func(r *Request) { r.Owner = "" }),
		"a tool name too long":   request(func(r *Request) { r.Tool = long }),
		"no lease":               request(func(r *Request) { r.Lease = 0 }),
		"amnesia before the end": request(func(r *Request) { r.Retention = r.Lease - 1 }),
		"too many charges":       request(func(r *Request) { r.Charges = make([]Charge, MaxCharges+1) }),
		"a charge of nothing":    request(func(r *Request) { r.Charges = []Charge{{Counter: "c"}} }),
		"a charge to nobody":     request(func(r *Request) { r.Charges = []Charge{{Amount: 1}} }),
		"a counter's long name":  request(func(r *Request) { r.Charges = []Charge{{Counter: long, Amount: 1}} }),
		"a counter twice":        request(func(r *Request) { r.Charges = []Charge{{"c", 1}, {"d", 1}, {"c", 2}} }),
		"settled as claimed":     settlement(func(s *Settlement) { s.State = Claimed }),
		"settled as absent":      settlement(func(s *Settlement) { s.State = Absent }),
		"no epoch":               settlement(func(s *Settlement) { s.Epoch = 0 }),
		"no settling owner":      settlement(func(s *Settlement) { s.Owner = "" }),
		"no settled id":          settlement(func(s *Settlement) { s.Key.ID = "" }),
		"negative attempts":      settlement(func(s *Settlement) { s.Attempts = -1 }),
		"no retention":           settlement(func(s *Settlement) { s.Retention = 0 }),
		"no output reference":    settlement(func(s *Settlement) { s.Output.Ref = "" }),
		"an output for no time":  settlement(func(s *Settlement) { s.Output.TTL = 0 }),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
	if err := request(func(r *Request) { r.Charges = []Charge{{"c", 1}, {"d", 1 << 62}} }); err != nil {
		t.Error(err)
	}
	if err := settlement(func(*Settlement) {}); err != nil {
		t.Error(err)
	}
}
