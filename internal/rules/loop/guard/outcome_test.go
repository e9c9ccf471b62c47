package guard_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/rules/loop/guard"
	"github.com/sidecall/sidecall/internal/tool"
)

// failed is the outcome of a call with these arguments and this error.
func failed(t *testing.T, code tool.Code, args, said string) guard.Hash {
	t.Helper()
	var decoded any
	dec := json.NewDecoder(strings.NewReader(args))
	dec.UseNumber()
	if err := dec.Decode(&decoded); err != nil {
		t.Fatal(err)
	}
	return guard.Failure(tool.Error{Code: code, Constraint: "the upstream refused", Received: said, Hint: args + said}, decoded)
}

func TestFailure(t *testing.T) {
	type one struct{ args, said string }
	for name, c := range map[string]struct {
		code tool.Code
		a, b one
		same bool
	}{
		"the same": {tool.CodeNotFound, one{`{"id":"x"}`, "there is nothing"}, one{`{"id":"y"}`, "there is nothing"}, true},
		"another":  {tool.CodeNotFound, one{`{"id":"x"}`, "there is nothing"}, one{`{"id":"y"}`, "there is no access"}, false},

		"repeats a text":             {tool.CodeNotFound, one{`{"id":"A-17"}`, "order A-17 not found"}, one{`{"id":"B-1"}`, "order B-1 not found"}, true},
		"repeats a number":           {tool.CodeBusinessRule, one{`{"cents":255}`, "the total is 305, but paid 255"}, one{`{"cents":300}`, "the total is 305, but paid 300"}, true},
		"repeats a double":           {tool.CodeBusinessRule, one{`{"sum":2.5}`, "the total is 305, but paid 2.5"}, one{`{"sum":3}`, "the total is 305, but paid 3"}, true},
		"repeats nested arguments":   {tool.CodeNotFound, one{`{"of":{"ids":["x1","x2"]}}`, "neither x1 nor x2 exists"}, one{`{"of":{"ids":["y1","y2"]}}`, "neither y1 nor y2 exists"}, true},
		"repeats one within another": {tool.CodeNotFound, one{`{"a":"new","b":"new york"}`, "new york is no new town"}, one{`{"a":"old","b":"old ham"}`, "old ham is no old town"}, true},
		"says another number":        {tool.CodeBusinessRule, one{`{"cents":255}`, "the total is 305, but paid 255"}, one{`{"cents":300}`, "the total is 310, but paid 300"}, false},
		"names another argument":     {tool.CodeNotFound, one{`{"from":"abc","to":"xyz"}`, "airport abc is unknown"}, one{`{"from":"abc","to":"xyz"}`, "airport xyz is unknown"}, false},
		"only joined to something":   {tool.CodeConflict, one{`{"n":7}`, "version 17 is stale"}, one{`{"n":8}`, "version 18 is stale"}, false},
		"says nothing else":          {tool.CodeUnrecoverable, one{`{"say":"the first"}`, "the first"}, one{`{"say":"the second"}`, "the second"}, false},
		"says hardly anything else":  {tool.CodeUnrecoverable, one{`{"say":"first"}`, "Error: first"}, one{`{"say":"second"}`, "Error: second"}, false},
		"fewer failures are news":    {tool.CodeUnrecoverable, one{`{"try":"a"}`, "3 tests have failed"}, one{`{"try":"b"}`, "2 tests have failed"}, false},
		"truth is no word":           {tool.CodeBusinessRule, one{`{"x":true}`, "true is expected here"}, one{`{"x":null}`, "true is expected here"}, true},

		"a request id":      {tool.CodeUnrecoverable, one{`{}`, "something broke (req_8f14e45fceea167a)"}, one{`{}`, "something broke (req_0cc175b9c0f1b6a8)"}, true},
		"a uuid":            {tool.CodeUnrecoverable, one{`{}`, "trace 123e4567-e89b-12d3-a456-426614174000 has failed"}, one{`{}`, "trace 9e107d9d-372b-4b68-a1d9-3542a419d6aa has failed"}, true},
		"the time of day":   {tool.CodeUnrecoverable, one{`{}`, "has failed at 2026-11-23T07:07:51Z"}, one{`{}`, "has failed at 2026-11-23T07:09:02Z"}, true},
		"milliseconds":      {tool.CodeUnrecoverable, one{`{}`, "has failed at 1732345678901"}, one{`{}`, "has failed at 1732345679999"}, true},
		"an ordinary name":  {tool.CodeUnrecoverable, one{`{}`, "no seats on flight HAT139"}, one{`{}`, "no seats on flight HAT140"}, false},
		"an ordinary count": {tool.CodeUnrecoverable, one{`{}`, "expected 10000 lines"}, one{`{}`, "expected 10001 lines"}, false},

		"unknown":            {tool.CodeOutcomeUnknown, one{`{"a":1}`, "reset"}, one{`{"a":1}`, "end of file"}, true},
		"another unknown":    {tool.CodeOutcomeUnknown, one{`{"a":1}`, "reset"}, one{`{"a":2}`, "reset"}, false},
		"marks of its own":   {tool.CodeUnrecoverable, one{`{"id":"x"}`, "this is broken \x01 and open x"}, one{`{"id":"y"}`, "this is broken \x01 and open y"}, true},
		"a text without end": {tool.CodeUnrecoverable, one{`{"id":"x"}`, strings.Repeat("x ", 1<<20) + "a"}, one{`{"id":"x"}`, strings.Repeat("x ", 1<<20) + "b"}, true},
	} {
		if same := failed(t, c.code, c.a.args, c.a.said) == failed(t, c.code, c.b.args, c.b.said); same != c.same {
			t.Errorf("%s: the same error: %t, want %t", name, same, c.same)
		}
	}
}

// The code and the field are part of an error, its hint is not.
func TestFailureIsOfCodeAndField(t *testing.T) {
	of := func(e tool.Error) guard.Hash { return guard.Failure(e, nil) }
	e := tool.Error{Code: tool.CodeConflict, Field: "a", Constraint: "it has changed", Hint: "read it"}
	for name, c := range map[string]struct {
		other tool.Error
		same  bool
	}{
		"hint":       {tool.Error{Code: e.Code, Field: e.Field, Constraint: e.Constraint, Hint: "look"}, true},
		"code":       {tool.Error{Code: tool.CodeNotFound, Field: e.Field, Constraint: e.Constraint}, false},
		"field":      {tool.Error{Code: e.Code, Field: "b", Constraint: e.Constraint}, false},
		"constraint": {tool.Error{Code: e.Code, Field: e.Field, Constraint: "it is gone"}, false},
	} {
		if same := of(e) == of(c.other); same != c.same {
			t.Errorf("%s: the same error: %t, want %t", name, same, c.same)
		}
	}
}

// Arguments without end cost no more than some.
func TestFailureOfManyArguments(t *testing.T) {
	var deep any = "x"
	for range 10_000 {
		deep = []any{deep, map[string]any{"a": deep}}[:1]
	}
	many := map[string]any{}
	for i := range 100_000 {
		many[strings.Repeat("k", i%50)+string(rune('a'+i%26))] = "value"
	}
	for _, args := range []any{deep, many, []any{1, "x", 2.5, nil, true}, strings.Repeat("x", 1<<20)} {
		if guard.Failure(tool.Error{Code: tool.CodeConflict, Received: strings.Repeat("x value ", 1<<10)}, args) == 0 {
			t.Error("no hash")
		}
	}
}
