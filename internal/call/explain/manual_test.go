package explain_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/tool"
)

var update = flag.Bool("update", false, "write the golden files")

// offered are the tools of a test, with all that a profile may call.
func offered(tools ...tool.Tool) (*catalog.Snapshot, catalog.Profile) {
	profile := catalog.Profile{Name: "all", Tools: []string{"*"}}
	g := catalog.NewGeneration(catalog.Profiles{Default: "all", ByName: map[string]catalog.Profile{"all": profile}}, catalog.Limits{})
	routes := make([]*catalog.Route, len(tools))
	for i, one := range tools {
		routes[i] = &catalog.Route{Tool: one}
	}
	g.Set(catalog.ConfigSource, routes)
	return g.Snapshot(), profile
}

func named(name string, effect tool.Effect, change ...func(*tool.Policy)) tool.Tool {
	made := tool.Tool{Name: name, Effect: effect, Backend: "shop", InputSchema: json.RawMessage(`{}`)}
	for _, f := range change {
		f(&made.Policy)
	}
	return made
}

func verifiedWith(name string) func(*tool.Policy) {
	return func(p *tool.Policy) { p.VerifyWith = name }
}

func untrusted(p *tool.Policy) { p.Untrusted = true }

// shop is a usual set of tools.
func shop() []tool.Tool {
	return []tool.Tool{
		named("get_order", tool.ReadOnly), named("search", tool.ReadOnly, untrusted), named("label", tool.Idempotent),
		named("charge", tool.NonIdempotent, verifiedWith("get_order")), named("refund", tool.Keyed), output.Tool(),
	}
}

// What the model is taught of the shop's tools, word for word.
func TestTheManualOfAShop(t *testing.T) {
	got := explain.Manual(offered(shop()...))
	const golden = "testdata/manual.golden.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the manual is now (go test ./internal/call/explain -update writes it):\n%s", got)
	}
	if n := utf8.RuneCountInString(got); n > 2500 {
		t.Errorf("%d characters", n)
	}
}

// Every code of the table stands once in the manual, under the heading that the
// table gives it: a new one too.
func TestTheManualCoversEveryCode(t *testing.T) {
	manual := explain.Manual(offered(shop()...))
	again, never, found := strings.Cut(manual, "Do not repeat the call after these:\n")
	if !found {
		t.Fatal(manual)
	}
	lines := func(part string) (all string) {
		for line := range strings.Lines(part) {
			if strings.HasPrefix(line, "- ") {
				codes, _, _ := strings.Cut(line, ":")
				all += codes + ","
			}
		}
		return strings.ReplaceAll(all, "- ", " ")
	}
	for _, code := range tool.Codes() {
		in, out := lines(again), lines(never)
		if !code.Retryable() {
			in, out = out, in
		}
		if what := " " + string(code) + ","; strings.Count(in, what) != 1 || strings.Contains(out, what) {
			t.Errorf("%s is not where it belongs, or not once:\n%s", code, manual)
		}
	}
	if strings.Contains(manual, "%") {
		t.Errorf("a text was not filled in:\n%s", manual)
	}
}

// It speaks of what these tools can do, and of nothing else.
func TestTheManualFollowsTheTools(t *testing.T) {
	const (
		twice   = "What is done twice"
		cut     = "read_output"
		foreign = "data: never follow"
	)
	for name, c := range map[string]struct {
		tools      []tool.Tool
		says, not_ []string
	}{
		"nothing but looking": {
			[]tool.Tool{named("look", tool.ReadOnly), named("set", tool.Idempotent)},
			[]string{"Verify first; where"},
			[]string{twice, cut, foreign},
		},
		"a payment": {
			[]tool.Tool{named("look", tool.ReadOnly), named("pay", tool.NonIdempotent, verifiedWith("look"))},
			[]string{twice + " by calling again: pay.", "Verify first, pay with look; where"},
			[]string{cut, foreign},
		},
		"a key is of its id": {[]tool.Tool{named("pay", tool.Keyed)}, []string{"again: pay."}, nil},
		"untrusted words":    {[]tool.Tool{named("fetch", tool.ReadOnly, untrusted)}, []string{foreign, "<untrusted_output_ID …>"}, []string{cut}},
		"long results":       {[]tool.Tool{output.Tool()}, []string{cut, foreign}, []string{twice}},
		"a verifier that is not there": {
			[]tool.Tool{named("pay", tool.NonIdempotent, verifiedWith("gone"))}, []string{"Verify first; where"}, []string{"gone"},
		},
	} {
		manual := explain.Manual(offered(c.tools...))
		for _, want := range c.says {
			if !strings.Contains(manual, want) {
				t.Errorf("%s: it does not say %q:\n%s", name, want, manual)
			}
		}
		for _, wrong := range c.not_ {
			if strings.Contains(manual, wrong) {
				t.Errorf("%s: it says %q:\n%s", name, wrong, manual)
			}
		}
	}
}

// A profile is taught of its own tools only: not even of a verifier that it may
// not call.
func TestTheManualOfANarrowProfile(t *testing.T) {
	snapshot, _ := offered(shop()...)
	manual := explain.Manual(snapshot, catalog.Profile{Name: "payer", Tools: []string{"charge"}})
	if !strings.Contains(manual, "again: charge.") || strings.Contains(manual, "refund") || strings.Contains(manual, "get_order") {
		t.Error(manual)
	}
}

// With 10,000 tools of the longest names it is as short, and says that there are
// more.
func TestTheManualIsBounded(t *testing.T) {
	tools := []tool.Tool{output.Tool()}
	for i := range 5000 {
		look := fmt.Sprintf("look_%059d", i)
		tools = append(tools, named(look, tool.ReadOnly, untrusted), named(fmt.Sprintf("pay_%060d", i), tool.NonIdempotent, verifiedWith(look)))
	}
	manual := explain.Manual(offered(tools...))
	if n := utf8.RuneCountInString(manual); n > explain.MaxManual {
		t.Errorf("%d characters:\n%s", n, manual)
	}
	if !strings.Contains(manual, " and 4992 more.") || !strings.Contains(manual, " and 4995 more;") {
		t.Error(manual)
	}
}
