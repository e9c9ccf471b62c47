package interpret

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestApproval(t *testing.T) {
	t.Parallel()
	args := map[string]any{
		"cents": json.Number("100001"), "order_id": "A-1", "tags": []any{"vip"}, "long": strings.Repeat("a", 1<<20),
	}
	for _, c := range []struct {
		when    string
		asks    bool
		unknown bool
	}{
		{"always", true, false},
		{"args.cents > 100000", true, false},
		{"args.cents > 100001", false, false},
		{`args.order_id.startsWith("B-")`, false, false},
		{`"vip" in args.tags`, true, false},
		{`has(args.reason) && args.reason == ""`, false, false},
		{`args.reason == ""`, true, true}, // it is not there
		{`args.order_id`, true, true},     // neither true nor false
		{`args.cents`, true, true},
		{`args.long.matches("(a*)*(a*)*b")`, false, false},
		{`args.long.indexOf(args.long + "b") == 0`, true, true}, // it costs too much
	} {
		compiled, err := CompileApproval(c.when)
		if err != nil {
			t.Errorf("%s: %v", c.when, err)
			continue
		}
		asks, why := compiled.Asks(args)
		if asks != c.asks || (why != nil) != c.unknown {
			t.Errorf("%s: asks %v, %v", c.when, asks, why)
		}
		if compiled.String() != c.when {
			t.Errorf("%s: written %s", c.when, compiled)
		}
	}
}

func TestAnApprovalThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for when, want := range map[string]string{
		"args.cents >":      "column 13",
		"arg.cents > 5":     `did you mean "args"?`,
		"status == 200":     "the variables are args",
		"size(args)":        "want a condition that is true or false",
		"Always":            "undeclared reference",
		"args.cents\n  > ]": "line 2, column 5",
	} {
		if _, err := CompileApproval(when); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want something with %q", when, err, want)
		}
	}
}
