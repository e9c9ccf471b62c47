package cases

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/sidecall/sidecall/internal/config"
)

// kind is a kind of fault.
type kind struct {
	// effect: the work is done all the same.
	effect bool
	// status is what is answered; 0 where there is another way to fail.
	status int
	// http, stdio and exec are the transports that can have it.
	http, stdio, exec bool
}

// The faults, by the names that cases have for them. A status is one too.
var kinds = map[string]kind{
	answers:             {effect: true, http: true, stdio: true, exec: true},
	timesOut:            {http: true, stdio: true, exec: true},
	losesAcknowledgment: {effect: true, http: true, stdio: true, exec: true},
	closesBefore:        {http: true, stdio: true, exec: true},
	denied:              {status: http.StatusForbidden, http: true},
	malformed:           {effect: true, http: true, exec: true},
	empty:               {effect: true, http: true, stdio: true, exec: true},
	partial:             {effect: true, status: http.StatusMultiStatus, http: true},
	huge:                {effect: true, http: true, stdio: true, exec: true},
	toolError:           {http: true, stdio: true, exec: true},
}

const (
	answers             = "ok"
	timesOut            = "timeout"
	losesAcknowledgment = "lost_acknowledgement"
	closesBefore        = "connection_lost"
	denied              = "denied"
	malformed           = "malformed"
	empty               = "empty"
	partial             = "partial"
	huge                = "huge"
	toolError           = "tool_error"
)

// fault is what one request meets.
type fault struct {
	kind   string // of kinds; empty for a status
	status int
	effect bool // the work is done
	// retryAfter is what the upstream asks for; 0 for nothing.
	retryAfter time.Duration
	exit       int     // of a command; 0 for 1
	body       *answer // nil: what goes with the kind
}

// plan is what the requests of a call meet: every one the last of faults, when
// always; else one after the other, and then nothing.
type plan struct {
	faults []fault
	always bool
}

// at is what request n meets, counted from 0; nil for nothing.
func (p plan) at(n int) *fault {
	switch {
	case n < len(p.faults):
		return &p.faults[n]
	case p.always && len(p.faults) > 0:
		return &p.faults[len(p.faults)-1]
	default:
		return nil
	}
}

// least is how many requests have to come for all faults to be met.
func (p plan) least() int {
	if p.always {
		return min(len(p.faults), 1)
	}
	return len(p.faults)
}

// all reports whether every request meets a fault that holds.
func (p plan) all(holds func(fault) bool) bool {
	return p.always && !slices.ContainsFunc(p.faults, func(f fault) bool { return !holds(f) })
}

// maxFaults bounds the requests that a plan speaks of.
const maxFaults = 1000

// readPlan reads the faults of a call.
func readPlan(text config.Value) (plan, error) {
	if text = config.Value(bytes.TrimSpace(text)); len(text) == 0 || string(text) == "null" {
		return plan{}, nil
	}
	if text[0] != '[' {
		f, times, err := readFault(json.RawMessage(text))
		if err != nil {
			return plan{}, err
		}
		return plan{slices.Repeat([]fault{f}, max(times, 1)), times == 0}, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil {
		return plan{}, err
	}
	var p plan
	for i, one := range list {
		f, times, err := readFault(one)
		if err != nil {
			return plan{}, fmt.Errorf("item %d: %w", i+1, err)
		}
		p.faults = append(p.faults, slices.Repeat([]fault{f}, max(times, 1))...)
		if len(p.faults) > maxFaults {
			return plan{}, fmt.Errorf("more than %d faults", maxFaults)
		}
	}
	return p, nil
}

// readFault reads one: a name, a status, or a mapping with more about it.
func readFault(text json.RawMessage) (f fault, times int, err error) {
	if text[0] != '{' {
		if f, err = simple(text); err == nil {
			err = f.wrong()
		}
		return f, 0, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return f, 0, err
	}
	if members["kind"] == nil {
		return f, 0, errors.New("kind is missing: a fault, or a status such as 503")
	}
	if f, err = simple(members["kind"]); err != nil {
		return f, 0, err
	}
	body := answer{Status: http.StatusOK}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		read, known := faultKeys[key]
		if !known {
			return f, 0, fmt.Errorf("unknown key %q%s", key, config.Suggestion(key, slices.Sorted(maps.Keys(faultKeys))))
		}
		if err := read(members[key], &f, &body, &times); err != nil {
			return f, 0, fmt.Errorf("%s: %w", key, err)
		}
	}
	if body.JSON != nil || body.Text != "" {
		f.body = &body
	}
	return f, times, f.wrong()
}

// faultKeys read what may stand in the mapping of a fault.
var faultKeys = map[string]func(text json.RawMessage, f *fault, body *answer, times *int) error{
	"kind":   func(json.RawMessage, *fault, *answer, *int) error { return nil },
	"effect": func(text json.RawMessage, f *fault, _ *answer, _ *int) error { return json.Unmarshal(text, &f.effect) },
	"json": func(text json.RawMessage, _ *fault, body *answer, _ *int) error {
		body.JSON = config.Value(text)
		return nil
	},
	"text": func(text json.RawMessage, _ *fault, body *answer, _ *int) error {
		return json.Unmarshal(text, &body.Text)
	},
	"exit_code": func(text json.RawMessage, f *fault, _ *answer, _ *int) error {
		if err := json.Unmarshal(text, &f.exit); err != nil || f.exit < 1 || f.exit > 255 {
			return errors.New("want a number from 1 to 255")
		}
		return nil
	},
	"times": func(text json.RawMessage, _ *fault, _ *answer, times *int) error {
		if err := json.Unmarshal(text, times); err != nil || *times < 1 || *times > maxFaults {
			return fmt.Errorf("want a number from 1 to %d", maxFaults)
		}
		return nil
	},
	"retry_after": func(text json.RawMessage, f *fault, _ *answer, _ *int) (err error) {
		var written string
		if json.Unmarshal(text, &written) == nil {
			f.retryAfter, err = time.ParseDuration(written)
		}
		if err != nil || f.retryAfter <= 0 {
			return errors.New("want a duration such as 30s")
		}
		return nil
	},
}

// simple is the fault that a name or a status stands for.
func simple(text json.RawMessage) (fault, error) {
	if status, err := strconv.Atoi(string(text)); err == nil {
		if status < 400 || status > 599 {
			return fault{}, fmt.Errorf("status %d is no fault: want 400 to 599", status)
		}
		return fault{status: status}, nil
	}
	var name string
	if err := json.Unmarshal(text, &name); err != nil {
		return fault{}, fmt.Errorf("want a status such as 503, or one of %s", nameList())
	}
	k, ok := kinds[name]
	if !ok {
		return fault{}, fmt.Errorf("there is no fault %q%s", name, config.Suggestion(name, slices.Sorted(maps.Keys(kinds))))
	}
	return fault{kind: name, status: k.status, effect: k.effect}, nil
}

// wrong says why a fault cannot be.
func (f fault) wrong() error {
	switch {
	case f.retryAfter > 0 && f.status < 400:
		return fmt.Errorf("retry_after: %s answers no status that could carry it", f.name())
	case f.exit > 0 && f.kind != toolError:
		return fmt.Errorf("exit_code: %s is no command that ends with one: want kind: %s", f.name(), toolError)
	case f.kind == partial && f.body == nil:
		return errors.New("partial: want json, the reply in which the tool tells its items")
	case f.body != nil && (f.kind == timesOut || f.kind == losesAcknowledgment || f.kind == closesBefore || f.kind == empty || f.kind == huge):
		return fmt.Errorf("%s answers nothing, or its own: it takes no json and no text", f.name())
	}
	return nil
}

// words are those of a tool that says itself that it has failed.
func (f fault) words() string {
	if f.body != nil && f.body.Text != "" {
		return f.body.Text
	}
	return "the tool has failed"
}

// name is how cases call it.
func (f fault) name() string { return cmp.Or(f.kind, strconv.Itoa(f.status)) }

func nameList() string { return fmt.Sprint(slices.Sorted(maps.Keys(kinds))) }
