package cases

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

// standInArgument makes the test binary the program that stands in for commands.
const standInArgument = "stand-in"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == standInArgument {
		os.Exit(Command(os.Args[2], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func standInProgram(t *testing.T) []string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{program, standInArgument}
}

// played runs cases on the config shop and returns the results by name.
func played(t *testing.T, cases string) map[string]Result {
	t.Helper()
	file, cfg := of(t, shop, cases)
	suite, err := Load(file, cfg, Options{Program: standInProgram(t)})
	if err != nil {
		t.Fatal(err)
	}
	results, order := map[string]Result{}, []string{}
	if err := suite.Run(t.Context(), func(r Result) { results[r.Name], order = r, append(order, r.Name) }); err != nil {
		t.Fatal(err)
	}
	for i, name := range order {
		if suite.doc.Value.Cases[i].Name != name {
			t.Errorf("told in the order %q", order)
			break
		}
	}
	return results
}

// met checks that every case of a file is met.
func met(t *testing.T, cases string) {
	t.Helper()
	for name, r := range played(t, cases) {
		for _, c := range r.Calls {
			if len(c.Unmet) > 0 {
				t.Errorf("%s, line %d: %+v\nseen: %+v", name, c.Line, c.Unmet, c.Seen)
			}
		}
	}
}

// Every fault over HTTP brings what that failure brings in life; backends, store,
// secrets and addresses of the config are not needed for it.
func TestEveryFaultOverHTTP(t *testing.T) {
	met(t, `cases:
- {case: nothing, call: &look {tool: look, arguments: {id: a}}, expect: {outcome: ok, content: '"ok":true', attempts: 1, effects: 0}}
- {case: two blips, call: *look, fault: [503, 500], answer: {text: found}, expect: {outcome: ok, content: ^found$, attempts: 3}}
- {case: three are one too many, call: *look, fault: [503, 503, 503], expect: {code: DEPENDENCY_UNAVAILABLE, retries_exhausted: true, attempts: 3}}
- {case: a blip at a payment, call: &pay {tool: pay, arguments: {id: a}}, fault: 503, expect: {code: OUTCOME_UNKNOWN, class: UNKNOWN, attempts: 1, effects: 0}}
- {case: a blip that proves itself, call: {tool: pay_politely, arguments: {id: a}}, fault: [503, 429], expect: {outcome: ok, attempts: 3, effects: 1}}
- {case: executed and failed all the same, call: *pay, fault: {kind: 500, effect: true}, expect: {code: OUTCOME_UNKNOWN, effects: 1}}
- {case: asked to wait for long, call: *look, fault: {kind: 429, retry_after: 10m}, expect: {code: RATE_LIMITED, retry_after: 10m, hint: after 10m, attempts: 1}}
- {case: asked to wait for a moment, call: *look, fault: [{kind: 429, retry_after: 20s}], expect: {outcome: ok, attempts: 2}}
- {case: a timeout, call: *look, fault: [timeout], expect: {outcome: ok, attempts: 2}}
- {case: a timeout of a payment, call: *pay, fault: timeout, expect: {code: OUTCOME_UNKNOWN, hint: call look with, attempts: 1, effects: 0}}
- {case: a payment that was slow, call: *pay, fault: {kind: timeout, effect: true}, expect: {code: OUTCOME_UNKNOWN, attempts: 1, effects: 1}}
- {case: no deadline is left for a third, call: *look, fault: timeout, expect: {code: TIMEOUT, retryable: true, attempts: 2}}
- {case: a lost acknowledgement, call: *pay, fault: lost_acknowledgement, expect: {code: OUTCOME_UNKNOWN, attempts: 1, effects: 1}}
- {case: a lost connection, call: *pay, fault: connection_lost, expect: {code: OUTCOME_UNKNOWN, attempts: 1, effects: 0}}
- {case: both lost with a key, call: {tool: pay_by_key, arguments: {id: a}}, fault: [lost_acknowledgement, connection_lost], expect: {outcome: ok, attempts: 3, effects: 1}}
- {case: put twice, call: {tool: put, arguments: {id: a}}, fault: [lost_acknowledgement], expect: {outcome: ok, attempts: 2, effects: 1}}
- {case: denied, call: *pay, fault: denied, expect: {code: PERMISSION_DENIED, class: HARD, retryable: false, attempts: 1, effects: 0}}
- {case: not found, call: *look, fault: {kind: 404, json: {message: no such order}}, expect: {code: NOT_FOUND, content: no such order}}
- {case: conflict, call: *pay, fault: 409, expect: {code: CONFLICT, retryable: true}}
- {case: malformed, call: *look, fault: malformed, expect: {outcome: ok, content: tru}}
- {case: malformed in its own way, call: *look, fault: {kind: malformed, text: "[1,"}, expect: {outcome: ok, content: '^\[1,$'}}
- {case: two answers, call: *look, fault: [503, {kind: ok, json: {state: paid}}], expect: {outcome: ok, content: paid, attempts: 2}}
- {case: empty, call: *look, fault: empty, expect: {outcome: empty}}
- {case: huge, call: *look, fault: huge, expect: {outcome: ok, truncated: true}}
- {case: partial, call: {tool: batch, arguments: {id: a}}, fault: {kind: partial, json: {items: [{ok: true}, {ok: false, error: no stock}]}}, expect: {outcome: partial, content: no stock, effects: 1}}
- {case: no JSON, call: {tool: look, arguments: '{"id": '}, expect: {code: INVALID_ARGS, constraint: line, attempts: 0}}
- {case: an argument too many, call: {tool: look, arguments: {id: a, of: b}}, expect: {code: INVALID_ARGS, field: of, attempts: 0}}
- {case: not this one, profile: reader, call: *pay, expect: {code: PERMISSION_DENIED, field: "", attempts: 0, effects: 0}}
`)
}

// What a verification asks is answered too, and decides.
func TestAVerificationAsksAStandIn(t *testing.T) {
	met(t, `cases:
- case: it was paid
  call: &call {tool: pay_surely, arguments: {id: a}}
  fault: lost_acknowledgement
  answers: {look: {json: {paid: true}}}
  expect: {outcome: ok, attempts: 1, effects: 1}
- case: it may still come
  call: *call
  fault: connection_lost
  answers: {look: {json: {paid: false}}}
  expect: {code: OUTCOME_UNKNOWN, attempts: 1, effects: 0}
- case: nobody can tell
  call: *call
  fault: timeout
  answers: {look: {text: what}}
  expect: {code: OUTCOME_UNKNOWN, attempts: 1, effects: 0}
`)
}

// Servers of MCP are stood in for by one of the official SDK: with the tools that
// the config, or a case, names.
func TestEveryFaultOfAnMCPServer(t *testing.T) {
	met(t, `cases:
- {case: a tool that is read, call: &read {tool: files_read, arguments: {path: a}}, answer: {text: found}, expect: {outcome: ok, content: found, attempts: 1, effects: 0}}
- {case: a tool that is declared, call: {tool: files_stat, arguments: {id: a}}, answer: {json: {size: 7}}, expect: {outcome: ok, content: '"size":7', attempts: 1}}
- {case: and its schema holds, call: {tool: files_stat}, expect: {code: INVALID_ARGS, field: id, attempts: 0}}
- {case: a tool that only the case knows, call: &write {tool: files_write, arguments: {path: a}}, expect: {outcome: ok, attempts: 1, effects: 1}}
- {case: it fails by its own word, call: *write, fault: {kind: tool_error, text: the disk is full}, expect: {code: OUTCOME_UNKNOWN, content: the disk is full, effects: 0}}
- {case: nothing in it, call: *read, fault: empty, expect: {outcome: empty}}
- {case: much in it, call: *read, fault: huge, expect: {truncated: true}}
- {case: a timeout, call: *write, fault: timeout, expect: {code: OUTCOME_UNKNOWN, attempts: 1, effects: 0}}
- {case: a lost acknowledgement, call: *write, fault: lost_acknowledgement, expect: {code: OUTCOME_UNKNOWN, attempts: 1, effects: 1}}
- {case: read again, call: *read, fault: [connection_lost], expect: {outcome: ok, attempts: 2}}
- {case: a status of a server over HTTP, call: {tool: docs_search}, fault: denied, expect: {code: PERMISSION_DENIED, attempts: 1, effects: 0}}
`)
}

// Commands are stood in for by a program that is told how to end: with nothing of
// their environment, and nowhere near their directory.
func TestEveryFaultOfACommand(t *testing.T) {
	met(t, `cases:
- {case: it works, call: &run {tool: run, arguments: {id: a}}, answer: {text: found}, expect: {outcome: ok, content: ^found$, attempts: 1, effects: 0}}
- {case: it does something, call: &write {tool: write, arguments: {id: a}}, expect: {outcome: ok, attempts: 1, effects: 1}}
- {case: a code that means something, call: *run, fault: {kind: tool_error, exit_code: 4, text: no such id}, expect: {code: NOT_FOUND, content: no such id, attempts: 1}}
- {case: one that means nothing, call: *write, fault: tool_error, expect: {code: OUTCOME_UNKNOWN, effects: 0}}
- {case: empty, call: *run, fault: empty, expect: {outcome: empty}}
- {case: malformed, call: *run, fault: malformed, expect: {outcome: ok, content: tru}}
- {case: huge, call: *run, fault: huge, expect: {truncated: true}}
- {case: a timeout, call: *write, fault: timeout, expect: {code: OUTCOME_UNKNOWN, attempts: 1, effects: 0}}
- {case: killed when it was done, call: *write, fault: lost_acknowledgement, expect: {code: OUTCOME_UNKNOWN, attempts: 1, effects: 1}}
- {case: killed before, call: *write, fault: connection_lost, expect: {code: OUTCOME_UNKNOWN, attempts: 1, effects: 0}}
- case: again with the same key
  steps:
  - {call: {tool: write_by_key, arguments: {id: a}, id: a}, fault: [timeout], expect: {outcome: ok, attempts: 2, effects: 1}}
  - {call: {tool: write_by_key, arguments: {id: a}, id: b}, expect: {outcome: ok, attempts: 1, effects: 2}}
- {case: verified with a command, call: {tool: pay_oddly, arguments: {id: a}}, fault: connection_lost, answers: {run: {json: {paid: true}}}, expect: {outcome: ok, attempts: 1}}
`)
}

// A case that is not met says what was seen instead, and where it stands.
func TestWhatIsNotMetIsTold(t *testing.T) {
	results := played(t, `cases:
- case: all of it
  call: {tool: look, arguments: {id: a}}
  fault: {kind: 429, retry_after: 10m}
  expect: {content: found, truncated: true, replayed: false, attempts: 2, effects: 0}
- case: of an error
  steps:
  - call: {tool: look, arguments: {id: a}}
    expect: {code: NOT_FOUND, class: HARD}
  - call: {tool: look, arguments: {id: a}}
    fault: denied
    expect: {code: NOT_FOUND, retryable: false, retries_exhausted: true, retry_after: 1s, allowed_alternatives: [pay], field: id, suggested_arguments: {id: b}, constraint: "404", hint: nothing}
- {case: a fault that never comes, call: {tool: pay, arguments: {id: a}}, fault: [503, 429], expect: {code: OUTCOME_UNKNOWN}}
- {case: nobody is asked, call: {tool: pay, arguments: {}}, fault: 503, expect: {code: INVALID_ARGS}}
`)
	for name, want := range map[string]Unmet{"a fault that never comes": {"fault", "2 requests", "1"}, "nobody is asked": {"fault", "1 request", "0"}} {
		if calls := results[name].Calls; len(calls) != 1 || !slices.Equal(calls[0].Unmet, []Unmet{want}) {
			t.Errorf("%s: %+v", name, calls)
		}
	}
	keys := func(c CallResult) (all []string) {
		for _, u := range c.Unmet {
			all = append(all, u.Key)
		}
		return all
	}
	first, second := results["all of it"], results["of an error"]
	if first.Met || first.Line != 2 || !slices.Equal(keys(first.Calls[0]), []string{"content", "truncated", "attempts"}) {
		t.Errorf("%+v", first)
	}
	if second.Met || second.Line != 6 || len(second.Calls) != 2 || second.Calls[1].Line != 10 ||
		!slices.Equal(keys(second.Calls[0]), []string{"code", "class"}) ||
		!slices.Equal(keys(second.Calls[1]), []string{"code", "retries_exhausted", "retry_after", "allowed_alternatives", "suggested_arguments", "field", "constraint", "hint"}) {
		t.Errorf("%+v", second)
	}
	want := Unmet{"constraint", "/404/", `"the upstream answers 403 Forbidden"`}
	if !slices.Contains(second.Calls[1].Unmet, want) || second.Calls[0].Unmet[0] != (Unmet{"code", "NOT_FOUND", "none"}) {
		t.Errorf("%+v", second.Calls)
	}
}

// Nothing is left behind by a run, and nothing of the config was opened.
func TestARunLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	cases, cfg := of(t, strings.ReplaceAll(strings.ReplaceAll(shop, "/nobody/may/open", here), "/nobody/may/write", here),
		head+"call: {tool: pay, arguments: {id: a}}\n  expect: {outcome: ok}")
	suite, err := Load(cases, cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := suite.Run(t.Context(), func(Result) {}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{here + "/this.db", here + "/this.pins", here + "/sidecall.journal"} {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
	left, err := os.ReadDir(dir)
	for _, one := range left {
		if strings.HasPrefix(one.Name(), "sidecall-test-") {
			t.Errorf("%s is left", one.Name())
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// Who does not want to wait any more need not.
func TestARunThatIsCalledOff(t *testing.T) {
	suite, err := load(t, shop, head+"call: {tool: look, arguments: {id: a}}\n  fault: timeout\n  expect: {outcome: error}")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := suite.Run(ctx, func(Result) { t.Error("a result") }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// Cases are chosen by their names.
func TestOnlySomeCases(t *testing.T) {
	suite, err := load(t, shop, head+"call: {tool: look}\n  expect: {outcome: ok}\n- case: b\n  call: {tool: look}\n  expect: {outcome: error}")
	if err != nil {
		t.Fatal(err)
	}
	some := suite.Only(func(name string) bool { return name == "b" })
	if suite.Len() != 2 || some.Len() != 1 {
		t.Errorf("%d and %d", suite.Len(), some.Len())
	}
	if err := some.Run(t.Context(), func(r Result) {
		if r.Name != "b" || !r.Met {
			t.Errorf("%+v", r)
		}
	}); err != nil {
		t.Error(err)
	}
}
