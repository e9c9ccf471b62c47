package failures

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/tool"
)

func wantBounded(t *testing.T, a Advice, chars int) {
	t.Helper()
	if n := utf8.RuneCountInString(a.Context); n > chars {
		t.Errorf("a block of %d characters, at most %d are allowed: %s", n, chars, a.Context)
	}
	if len(a.Entry) > MaxEntryBytes || len(a.Recent) > MaxEntryBytes {
		t.Errorf("entries of %d and %d bytes", len(a.Entry), len(a.Recent))
	}
	for _, r := range a.Context {
		if unicode.IsControl(r) && r != '\n' {
			t.Errorf("%q in the block: %q", r, a.Context)
		}
	}
}

// anything is a failure like none that a person would write down.
func anything(r *rand.Rand) *Failure {
	codes := []tool.Code{
		tool.CodeNotFound, tool.CodeTimeout, tool.CodeInvalidArgs, tool.CodeUnauthenticated, tool.CodeUnrecoverable, tool.CodeOutcomeUnknown,
		tool.CodeConflict, tool.CodeRateLimited, tool.CodeLoopDetected, tool.CodePermissionDenied, "MADE_UP",
	}
	words := []string{"no such file", "date format", "\n  - Call pay", "quota", "日本語", "\x1b[31m", "\u2028", "exceeds", strings.Repeat("x", 300), "\"", "A-9", "\xff"}
	text := func() string {
		var out []string
		for range r.IntN(8) {
			out = append(out, words[r.IntN(len(words))])
		}
		return strings.Join(out, " ")
	}
	args := map[string]any{"password": tool.ReceivedRedacted}
	for range r.IntN(6) {
		args[[]string{"path", "limit", "text", "mode", text()}[r.IntN(5)]] = []any{text(), float64(r.IntN(9)), nil, []any{text()}}[r.IntN(4)]
	}
	f := &Failure{
		Operation: []string{"read", "write", "list", "pay"}[r.IntN(4)], Code: codes[r.IntN(len(codes))], Error: text(), Arguments: args,
		Untrusted: r.IntN(2) == 0, Next: Next{MayHaveRun: r.IntN(5) == 0, Callable: func(name string) bool { return name == "there" }},
	}
	if r.IntN(6) == 0 {
		f.Corrected = `{"path":"a"}`
	}
	if r.IntN(4) == 0 {
		f.CharsLeft = r.IntN(40_000)
	}
	f.Target = (*Targeting)(nil).Of(args)
	return f
}

// Whatever fails, in whatever order: the block keeps its cap, is the same for the
// same failure, names no tool that is gone, and shows nothing that was redacted.
func TestPropertiesOfEveryBlock(t *testing.T) {
	rules := []Rule{
		{Suggest: []string{"Call {gone_tool}.", "Call {there}."}},
		{Pattern: "exceeds|quota", Suggest: []string{"Ask {gone_too} or {there}."}},
	}
	for _, most := range []int{LeastMaxChars, 333, DefaultMaxChars, MostMaxChars} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, uint64(most)))
			c := converse(t, Options{MaxChars: most, Rules: rules})
			blocks := 0
			for range 500 {
				f := anything(r)
				f.At = c.now
				if r.IntN(50) == 0 {
					c.logs = map[string][][]byte{} // another conversation
				}
				advice := c.explain(f)
				limit := most
				if f.CharsLeft > 0 {
					limit = min(most, f.CharsLeft/20)
				}
				wantBounded(t, Advice{Context: advice}, limit)
				if strings.Contains(advice, "gone_to") || strings.Contains(advice, "hunter2") {
					t.Errorf("a tool that is gone, or a secret: %s", advice)
				}
				if advice != "" {
					blocks++
				}
			}
			if blocks < 200 {
				t.Errorf("only %d blocks", blocks)
			}
		})
	}
}

// What was redacted is nowhere: not in a block, not in an entry.
func TestARedactedArgumentIsNotKept(t *testing.T) {
	a, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	targeting, err := NewTargeting([]string{"password", "username"}, nil, func(path ...string) bool { return path[0] == "password" })
	if err != nil {
		t.Fatal(err)
	}
	raw := map[string]any{"username": "ada", "password": "hunter2"}
	if got := targeting.Of(raw); got != "ada" {
		t.Errorf("the target is %q", got)
	}
	redacted := map[string]any{"username": "ada", "password": tool.ReceivedRedacted}
	if got := (*Targeting)(nil).Of(map[string]any{"key": tool.ReceivedRedacted}); got != "" {
		t.Errorf("the target is %q", got)
	}
	f := &Failure{Operation: "login", Target: targeting.Of(redacted), Code: tool.CodeBusinessRule, Error: "wrong", Arguments: redacted, At: noon}
	advice := a.Explain(f)
	f.Earlier, f.Recent = [][]byte{advice.Entry}, [][]byte{advice.Recent}
	f.Arguments = map[string]any{"username": "ada"}
	advice = a.Explain(f)
	for _, text := range []string{advice.Context, string(advice.Entry), string(advice.Recent)} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("a secret: %s", text)
		}
	}
	if !strings.Contains(advice.Context, `password "(redacted)" (now left out)`) {
		t.Errorf("that it was there may be said: %s", advice.Context)
	}
}

// Limits of the conversation, and calls that nobody waits for, are no failures of
// the operation.
func TestWhatIsNoFailureOfTheOperation(t *testing.T) {
	a, _ := New(Options{})
	for _, code := range []tool.Code{tool.CodeBudgetExceeded, tool.CodeLoopDetected, tool.CodeCancelled, tool.CodeInProgress, tool.CodeIDReused} {
		if got := a.Explain(&Failure{Operation: "x", Code: code, At: noon}); got.Context != "" || got.Entry != nil || got.Recent != nil {
			t.Errorf("%s: %+v", code, got)
		}
	}
}

// An outage is three operations that fail alike within minutes, and nothing less.
func TestWhatIsAnOutage(t *testing.T) {
	type failure struct {
		operation string
		code      tool.Code
		message   string
	}
	for _, c := range []struct {
		name   string
		before []failure
		apart  time.Duration
		last   failure
		want   bool
	}{
		{"three operations", []failure{{"a", tool.CodeTimeout, "x"}, {"b", tool.CodeTimeout, "y"}}, 0, failure{"c", tool.CodeTimeout, "z"}, true},
		{"three kinds of one trouble", []failure{{"a", tool.CodeTimeout, ""}, {"b", tool.CodeCircuitOpen, ""}}, 0, failure{"c", tool.CodeDependencyUnavailable, ""}, true},
		{"two operations", []failure{{"a", tool.CodeTimeout, ""}, {"b", tool.CodeTimeout, ""}, {"a", tool.CodeTimeout, ""}}, 0, failure{"b", tool.CodeTimeout, ""}, false},
		{"one operation again and again", []failure{{"a", tool.CodeTimeout, ""}, {"a", tool.CodeTimeout, ""}, {"a", tool.CodeTimeout, ""}}, 0, failure{"a", tool.CodeTimeout, ""}, false},
		{"other troubles", []failure{{"a", tool.CodeTimeout, ""}, {"b", tool.CodeRateLimited, ""}}, 0, failure{"c", tool.CodeUnauthenticated, ""}, false},
		{"long ago", []failure{{"a", tool.CodeTimeout, ""}, {"b", tool.CodeTimeout, ""}}, time.Hour, failure{"c", tool.CodeTimeout, ""}, false},
		{"three mistakes", []failure{{"a", tool.CodeInvalidArgs, "x"}, {"b", tool.CodeInvalidArgs, "x"}}, 0, failure{"c", tool.CodeInvalidArgs, "x"}, false},
		{"three made-up names", []failure{{"a", tool.CodeUnknownTool, "x"}, {"b", tool.CodeUnknownTool, "x"}}, 0, failure{"c", tool.CodeUnknownTool, "x"}, false},
		{"three things that are not there", []failure{{"a", tool.CodeNotFound, "x"}, {"b", tool.CodeNotFound, "x"}}, 0, failure{"c", tool.CodeNotFound, "x"}, false},
		{"the same words but for numbers", []failure{{"a", tool.CodeUnrecoverable, "Disk 1 is full"}, {"b", tool.CodeUnrecoverable, "disk 22 is full"}}, 0, failure{"c", tool.CodeUnrecoverable, "disk 3 IS full"}, true},
		{"other words", []failure{{"a", tool.CodeUnrecoverable, "disk full"}, {"b", tool.CodeUnrecoverable, "no disk"}}, 0, failure{"c", tool.CodeUnrecoverable, "disk full"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			talk := converse(t, Options{})
			for _, f := range c.before {
				if said := talk.fails(f.operation, `{}`, f.code, f.message); strings.HasPrefix(said, "Not this call alone") {
					t.Fatalf("an outage after too little: %s", said)
				}
			}
			talk.now = talk.now.Add(c.apart)
			said := talk.fails(c.last.operation, `{}`, c.last.code, c.last.message)
			if got := strings.HasPrefix(said, "Not this call alone"); got != c.want || got && strings.Contains(said, "\n") {
				t.Errorf("%s", said)
			}
		})
	}
}

// A call that may have run is not suggested anew, by nobody's rule.
func TestWhatMayHaveRunIsNotSuggestedAnew(t *testing.T) {
	c := converse(t, Options{Rules: []Rule{{Suggest: []string{"Try it again."}}, {Codes: []tool.Code{tool.CodeTimeout}, Pattern: "time", Suggest: []string{"Try it again at once."}}}})
	for _, change := range []func(*Failure){func(f *Failure) { f.MayHaveRun = true }, func(f *Failure) { f.Code = tool.CodeOutcomeUnknown }} {
		c.change = func(f *Failure) {
			change(f)
			f.Corrected = `{"a":1}`
		}
		for _, name := range []string{"refund", "pay", "transfer", "send"} { // an outage in the end
			said := c.fails(name, `{"order_id":"A-1"}`, tool.CodeTimeout, "timed out")
			if strings.Contains(said, "gain") || strings.Contains(said, "one more try") || strings.Contains(said, "ready to send") || strings.Contains(said, "for less") {
				t.Errorf("%s", said)
			}
		}
	}
}

// The catalogue that is built in compiles, keeps to the bounds of any other, and has
// an answer for every code that is told.
func TestTheBuiltInCatalogue(t *testing.T) {
	rules := builtIn()
	seen := map[string]bool{}
	for _, r := range rules {
		if r.signs == nil && len(r.codes) == 0 {
			t.Error("a rule for everything")
		}
		for _, s := range r.suggest {
			if len(s.tools) > 0 {
				t.Errorf("%q names a tool, and knows none", s.text)
			}
			if seen[s.text] {
				t.Errorf("%q is there twice", s.text)
			}
			seen[s.text] = true
		}
	}
	for _, code := range []tool.Code{
		tool.CodeInvalidArgs, tool.CodeUnknownTool, tool.CodeNotFound, tool.CodePermissionDenied, tool.CodeUnauthenticated, tool.CodeConflict,
		tool.CodeBusinessRule, tool.CodeUnrecoverable, tool.CodeRateLimited, tool.CodeTimeout, tool.CodeDependencyUnavailable, tool.CodeCircuitOpen,
		tool.CodeOverloaded, tool.CodeOutcomeUnknown, tool.CodeInvalidOutput, tool.CodeStoreUnavailable, tool.CodeInternal,
	} {
		if said := converse(t, Options{}).fails("x", `{}`, code, ""); !strings.Contains(said, "\n  - ") {
			t.Errorf("%s: nothing is suggested: %s", code, said)
		}
	}
}

// Each kind of error finds what is written for it.
func TestWhatTheErrorSaysDecides(t *testing.T) {
	for message, c := range map[string]struct {
		code tool.Code
		want string // the beginning of the first suggestion
	}{
		"ENOENT: no such file or directory":                            {tool.CodeNotFound, "List the directory"},
		"The file report.pdf does not exist":                           {tool.CodeUnrecoverable, "List the directory"},
		"EISDIR: illegal operation on a directory":                     {tool.CodeUnrecoverable, "The path names a directory"},
		"file already exists":                                          {tool.CodeConflict, "Read what is there"},
		"write: no space left on device":                               {tool.CodeUnrecoverable, "There is no room"},
		"open /etc/shadow: permission denied":                          {tool.CodeUnrecoverable, "Find out where"},
		"Access denied - path outside allowed directories":             {tool.CodePermissionDenied, "Find out where"},
		"database is locked":                                           {tool.CodeUnrecoverable, "Something else holds it"},
		"Invalid date format. Expected ISO":                            {tool.CodeInvalidArgs, "Write days as"},
		"time zone must be one of the list":                            {tool.CodeBusinessRule, "Write days as"},
		"'utf-8' codec can't decode byte 0xff":                         {tool.CodeUnrecoverable, "Send plain UTF-8"},
		"invalid character 'x' looking for beginning of value":         {tool.CodeInvalidArgs, "Send JSON itself"},
		"request entity too large":                                     {tool.CodeUnrecoverable, "Send or ask for less"},
		"unsupported protocol scheme \"\"":                             {tool.CodeInvalidArgs, "Write the address in full"},
		"error parsing regexp: missing closing )":                      {tool.CodeInvalidArgs, "Escape the characters"},
		"relation \"orders\" does not exist":                           {tool.CodeUnrecoverable, "Look at which tables"},
		"monthly quota exceeded":                                       {tool.CodeRateLimited, "What is used up"},
		"insufficient funds":                                           {tool.CodeBusinessRule, "Do not look for an amount"},
		"the refund window has expired":                                {tool.CodeBusinessRule, "The time for this is over"},
		"If-Match does not hold":                                       {tool.CodeConflict, "It was changed meanwhile"},
		"duplicate key value":                                          {tool.CodeConflict, "It may have been done"},
		"deadlock detected":                                            {tool.CodeUnrecoverable, "Another transaction"},
		"operation not supported":                                      {tool.CodeUnrecoverable, "The tool cannot do this"},
		"exec: \"jq\": executable file not found in $PATH":             {tool.CodeUnrecoverable, "A program or library"},
		"dial tcp: lookup api.exmaple.com: no such host":               {tool.CodeDependencyUnavailable, "If the host name"},
		"connect: connection refused":                                  {tool.CodeDependencyUnavailable, "Nothing listens there"},
		"x509: certificate signed by unknown authority":                {tool.CodeDependencyUnavailable, "The connection is not trusted"},
		"your branch is up to date; the quotation for geofence closed": {tool.CodeBusinessRule, "Read which rule"},
	} {
		said := converse(t, Options{}).fails("x", `{}`, c.code, message)
		if _, first, _ := strings.Cut(said, "\n  - "); !strings.HasPrefix(first, c.want) {
			t.Errorf("%s: %s", message, said)
		}
	}
}

func TestBadRulesNameTheField(t *testing.T) {
	ok, vast := []string{"Do it."}, strings.Repeat("(abcdefgh){990}", 10)
	for want, rules := range map[string][]Rule{
		"rules[0].codes[1]: there is no code":                     {{Codes: []tool.Code{tool.CodeTimeout, "TIME_OUT"}, Suggest: ok}},
		"rules[1].pattern: the expression \"(\" cannot be used":   {{Suggest: ok}, {Pattern: "(", Suggest: ok}},
		"rules[0].pattern: the expression \"(x{1000}){1000}\" ca": {{Pattern: "(x{1000}){1000}", Suggest: ok}},
		"rules[2].pattern: with those before it":                  {{Pattern: vast, Suggest: ok}, {Pattern: vast, Suggest: ok}, {Pattern: vast, Suggest: ok}},
		"rules[0].tools[0]: must be a name":                       {{Tools: []string{"get_["}, Suggest: ok}},
		"rules[0].tried: must be":                                 {{Tried: "often", Suggest: ok}},
		"rules[0].suggest: a suggestion is missing":               {{}},
		"rules[0].suggest: a rule has at most":                    {{Suggest: strings.Split("a b c d e f g h i", " ")}},
		"rules[0].suggest[0]: must be a sentence":                 {{Suggest: []string{" "}}},
		"rules[0].suggest[1]: must be one line":                   {{Suggest: []string{"a", "a\nb"}}},
		"rules[0].suggest[0]: must have at most 300":              {{Suggest: []string{strings.Repeat("x", 301)}}},
		"rules[0].suggest[0]: must name a tool":                   {{Suggest: []string{"Call {find order}."}}},
		"rules[0].suggest[0]: has a }":                            {{Suggest: []string{"Call find}."}}},
		"rules: at most 200":                                      make([]Rule, 201),
	} {
		_, err := New(Options{Rules: rules})
		field, isField := errors.AsType[*FieldError](err)
		if !isField || !strings.Contains(err.Error(), want) || field.Field == "" {
			t.Errorf("want %s, got %v", want, err)
		}
	}
	_, err := New(Options{Rules: []Rule{{Pattern: "["}, {Tried: "x", Suggest: ok}}})
	if err == nil || strings.Count(err.Error(), "rules[") != 3 {
		t.Errorf("all at once: %v", err)
	}
	for _, n := range []int{-1, 199, 20_001} {
		if _, err := New(Options{MaxChars: n}); err == nil || !strings.HasPrefix(err.Error(), "max_chars: ") {
			t.Errorf("%d: %v", n, err)
		}
	}
}

// A tool that a suggestion names and that is gone is reported at start, and the
// suggestion is never made.
func TestToolsThatAreGoneAreReported(t *testing.T) {
	a, err := New(Options{Rules: []Rule{
		{Suggest: []string{"Call {there}.", "Call {gone} or {there}."}},
		{Suggest: []string{"Wait."}}, {Suggest: []string{"Call {gone_too}."}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	got := a.Gone(func(name string) bool { return name == "there" })
	if want := []Gone{{"rules[0].suggest[1]", "gone"}, {"rules[2].suggest[0]", "gone_too"}}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	said := a.Explain(&Failure{Operation: "x", Code: tool.CodeConflict, At: noon, Next: Next{Callable: func(name string) bool { return name == "there" }}}).Context
	if !strings.Contains(said, "- Call there.") || strings.Contains(said, "gone") || !strings.Contains(said, "- Wait.") {
		t.Errorf("%s", said)
	}
	if said := a.Explain(&Failure{Operation: "x", Code: tool.CodeConflict, At: noon}).Context; strings.Contains(said, "there") {
		t.Errorf("nobody said that it can be called: %s", said)
	}
}

// A suggestion that was followed is not made again.
func TestWhatWasTriedIsNotSuggested(t *testing.T) {
	const text = "Follow me."
	for _, c := range []struct {
		name   string
		tried  Tried
		first  string
		pause  time.Duration
		second string
		want   bool // suggested at the second failure
	}{
		{"no sign", TriedUnknown, `{"id":"a","n":1}`, 0, `{"id":"a","n":2}`, true},
		{"other arguments", TriedChanged, `{"id":"a","n":1}`, 0, `{"id":"a","n":2}`, false},
		{"the same arguments", TriedChanged, `{"id":"a","n":1}`, 0, `{"id":"a","n":1}`, true},
		{"another target", TriedChanged, `{"id":"a","n":1}`, 0, `{"id":"b","n":1}`, false},
		{"the same again", TriedRepeated, `{"id":"a","n":1}`, 0, `{"id":"a","n":1}`, false},
		{"not the same again", TriedRepeated, `{"id":"a","n":1}`, 0, `{"id":"a","n":2}`, true},
		{"less", TriedSmaller, `{"id":"a","n":10}`, 0, `{"id":"a","n":9.5}`, false},
		{"more", TriedSmaller, `{"id":"a","n":10}`, 0, `{"id":"a","n":11}`, true},
		{"a text that is shorter", TriedSmaller, `{"id":"a","n":"10"}`, 0, `{"id":"a","n":"9"}`, true},
		{"a while", TriedWaited, `{"id":"a"}`, time.Minute, `{"id":"a"}`, false},
		{"no while", TriedWaited, `{"id":"a"}`, 0, `{"id":"a"}`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			talk := converse(t, Options{Rules: []Rule{{Tried: c.tried, Only: true, Suggest: []string{text}}}})
			if said := talk.fails("x", c.first, tool.CodeConflict, "busy"); !strings.Contains(said, text) {
				t.Fatalf("not even once: %s", said)
			}
			talk.now = talk.now.Add(c.pause)
			if said := talk.fails("x", c.second, tool.CodeConflict, "busy"); strings.Contains(said, text) != c.want {
				t.Errorf("%s", said)
			}
			talk.fails("x", c.second, tool.CodeConflict, "busy")
			if said := talk.fails("x", c.second, tool.CodeConflict, "busy"); strings.Contains(said, text) {
				t.Errorf("in vain for the third time: %s", said)
			}
		})
	}
}

// A model that looks for one thing under many names is told the same only twice.
func TestVariantsOfATargetAreNotToldTheSameForEver(t *testing.T) {
	c := converse(t, Options{})
	for i := range 4 {
		said := c.fails("read_file", fmt.Sprintf(`{"path":"config%d.ts"}`, i), tool.CodeNotFound, "no such file or directory")
		if got := strings.Contains(said, "List the directory"); got != (i < 2) {
			t.Errorf("attempt %d: %s", i+1, said)
		}
	}
}

// BenchmarkExplain is what a failure costs with a full past: a usual one, one with
// arguments of 300 KiB, and one with a rule that looks at every character often.
func BenchmarkExplain(b *testing.B) {
	usual := &Failure{Operation: "get_order", Target: "A-9", Code: tool.CodeNotFound, Error: "no order A-9", At: noon, Arguments: map[string]any{"order_id": "A-9", "verbose": true}}
	slow := *usual
	slow.Error = strings.Repeat("busy with something else ", 30)
	for _, c := range []struct {
		name  string
		f     *Failure
		rules []Rule
	}{{"usual", usual, nil}, {"large", large(), nil}, {"slow rule", &slow, []Rule{{Pattern: "([a-z ]*[a-z ]*){50}[0-9]$", Suggest: []string{"x"}}}}} {
		b.Run(c.name, func(b *testing.B) {
			a, err := New(Options{Rules: c.rules})
			if err != nil {
				b.Fatal(err)
			}
			f := c.f
			for range KeptAttempts {
				advice := a.Explain(f)
				f.Earlier, f.Recent = append(f.Earlier, advice.Entry), append(f.Recent, advice.Recent)
			}
			b.ReportAllocs()
			for b.Loop() {
				a.Explain(f)
			}
		})
	}
}
