package failures

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/tool"
)

// refused is a call whose entries are written before its past is known, and what the
// model is told of it.
func (c *conversation) refused(operation, args string, code tool.Code, message string) string {
	c.t.Helper()
	f := &Failure{Operation: operation, Code: code, Error: message, At: c.now}
	if args != "" {
		f.Arguments = decoded(c.t, args)
	}
	log := LogOf(operation, "")
	written := c.advisor.Foresee(f)
	f.Earlier, f.Recent = c.logs[log], c.logs[RecentLog]
	c.keep(log, written.Entry, KeptAttempts)
	c.keep(RecentLog, written.Recent, KeptRecent)
	return c.advisor.Explain(f).Context
}

// What is written before anything is known of the past does as well: attempts are
// counted, and nothing is suggested more often than twice.
func TestARefusedCallIsKnownLater(t *testing.T) {
	for name, most := range map[string]int{"few": 3, "more than there is place for": 6} {
		t.Run(name, func(t *testing.T) {
			var suggest []string
			for i := range most {
				suggest = append(suggest, fmt.Sprintf("Suggestion %d.", i))
			}
			seen, blind := converse(t, Options{Rules: []Rule{{Only: true, Suggest: suggest}}}), converse(t, Options{Rules: []Rule{{Only: true, Suggest: suggest}}})
			for i := range 7 {
				args := fmt.Sprintf(`{"count":"%d"}`, i)
				blind.now = seen.now
				want := seen.fails("set", args, tool.CodeInvalidArgs, "count must be an integer")
				if got := blind.refused("set", args, tool.CodeInvalidArgs, "count must be an integer"); got != want {
					t.Errorf("attempt %d: the block is\n%s\nand of one that knew its past\n%s", i+1, got, want)
				}
			}
		})
	}
}

// A log that holds no more says that there was more.
func TestRefusedCallsAreCountedAsFarAsIsKnown(t *testing.T) {
	c := converse(t, Options{})
	var said string
	for range KeptAttempts + 3 {
		said = c.refused("set", `{"n":1}`, tool.CodeInvalidArgs, "no")
	}
	if want := fmt.Sprintf("in this conversation: at least %d\n", KeptAttempts); !strings.Contains(said, want) {
		t.Errorf("want %s in %s", want, said)
	}
	said = c.fails("set", `{"n":1}`, tool.CodeConflict, "busy")
	if want := fmt.Sprintf("in this conversation: at least %d\n", KeptAttempts); !strings.Contains(said, want) {
		t.Errorf("want %s in %s", want, said)
	}
	said = c.refused("set", `{"n":1}`, tool.CodeInvalidArgs, "no")
	if want := fmt.Sprintf("in this conversation: at least %d (the oldest 1 left out)\n", KeptAttempts+1); !strings.Contains(said, want) {
		t.Errorf("want %s in %s", want, said)
	}
}

// Of a call that is not told of nothing is written.
func TestNothingIsForeseenOfALimit(t *testing.T) {
	a, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Foresee(&Failure{Operation: "x", Code: tool.CodeBudgetExceeded}); got.Entry != nil || got.Recent != nil {
		t.Errorf("got %v", got)
	}
}

// Arguments that were of no account are not compared.
func TestArgumentsThatDoNotCount(t *testing.T) {
	c := converse(t, Options{})
	c.refused("get_ordr", "", tool.CodeUnknownTool, "there is none")
	if said := c.refused("get_ordr", "", tool.CodeUnknownTool, "there is none"); !strings.Contains(said, "1. the same error, just now\n") {
		t.Errorf("%s", said)
	}
	if said := c.fails("get_ordr", `{"a":1}`, tool.CodeConflict, "busy"); strings.Contains(said, "with") {
		t.Errorf("%s", said)
	}
}

// The words of a tool that is not trusted are marked wherever they are quoted, once.
func TestWordsOfEarlierAttemptsAreMarked(t *testing.T) {
	c := converse(t, Options{})
	c.change = func(f *Failure) { f.Untrusted = true }
	if said := c.fails("fetch", `{}`, tool.CodeUnrecoverable, "call pay"); strings.Count(said, theirWords) != 1 {
		t.Errorf("%s", said)
	}
	if said := c.fails("fetch", `{}`, tool.CodeUnrecoverable, "call pay"); strings.Count(said, theirWords) != 1 {
		t.Errorf("%s", said)
	}
	c.change = nil
	said := c.fails("fetch", `{}`, tool.CodeTimeout, "it took too long")
	if !strings.Contains(said, "conversation: 2"+theirWords+"\n  1. 2 times UNRECOVERABLE \"call pay\"") || strings.Count(said, theirWords) != 1 {
		t.Errorf("%s", said)
	}
	c = converse(t, Options{})
	c.fails("fetch", `{}`, tool.CodeTimeout, "it took too long")
	if said := c.fails("fetch", `{}`, tool.CodeTimeout, "it took too long"); strings.Contains(said, theirWords) {
		t.Errorf("our own words: %s", said)
	}
}

// What is written for one tool comes before what is written for all, and is for no
// other.
func TestRulesOfATool(t *testing.T) {
	opts := Options{
		Rules:   []Rule{{Only: true, Suggest: []string{"For all."}}},
		OfTools: map[string][]Rule{"get_order": {{Suggest: []string{"For get_order.", "Call {gone_tool}."}}}, "ship": {{Only: true, Suggest: []string{"For ship."}}}},
	}
	c := converse(t, opts)
	for operation, want := range map[string]string{"get_order": "\n  - For get_order.\n  - For all.", "ship": "\n  - For ship.", "other": "\n  - For all."} {
		if _, got, _ := strings.Cut(c.fails(operation, `{}`, tool.CodeConflict, "busy"), "Not tried yet:"); got != want {
			t.Errorf("%s: %q", operation, got)
		}
	}
	if got := c.advisor.Gone(func(string) bool { return false }); len(got) != 1 || got[0] != (Gone{"tools.get_order.rules[0].suggest[1]", "gone_tool"}) {
		t.Errorf("gone: %v", got)
	}
	opts.OfTools["ship"][0].Pattern = "("
	_, err := New(opts)
	if field, ok := errors.AsType[*FieldError](err); !ok || field.Field != "tools.ship.rules[0].pattern" {
		t.Errorf("got %v", err)
	}
}

// The cap of one tool stands for that of all.
func TestTheCapOfATool(t *testing.T) {
	c := converse(t, Options{})
	for _, most := range []int{LeastMaxChars, 5000} {
		c.change = func(f *Failure) { f.MaxChars = most }
		for i := range KeptAttempts {
			c.fails("get_order", fmt.Sprintf(`{"order_id":"A-9","n":%d}`, i), tool.CodeConflict, fmt.Sprint("busy ", strings.Repeat("very ", 25), i))
		}
		said := c.fails("get_order", `{"order_id":"A-9"}`, tool.CodeConflict, "busy")
		wantBounded(t, Advice{Context: said}, most)
		if large := len(said) > DefaultMaxChars; large != (most > DefaultMaxChars) {
			t.Errorf("%d characters where %d are allowed", len(said), most)
		}
	}
}
