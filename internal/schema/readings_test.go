package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/schema"
)

func fingerprintOf(t testing.TB, args map[string]any) [32]byte {
	t.Helper()
	canonical, err := schema.Canonical(args)
	if err != nil {
		t.Fatal(err)
	}
	return schema.Fingerprint("pay", canonical)
}

func parsed(t testing.TB, raw string) map[string]any {
	t.Helper()
	args, violation := schema.ParseArgs("pay", raw)
	if violation != nil {
		t.Fatal(violation)
	}
	return args
}

// A call is the same when only what its schema made of its arguments has changed.
func TestACallIsTheSameUnderAnotherSchema(t *testing.T) {
	const many = `"i":[` + `{"n":null,"c":"5"},{"n":null,"c":"6"},{"n":null,"c":"7"},{"n":null,"c":"8"},{"n":null,"c":"9"},{"n":null,"c":"0"}` + `]`
	for name, test := range map[string]struct {
		then, now string
		same      bool
	}{
		"as it was":                  {`{"c":5}`, `{"c":5}`, true},
		"a null was left out":        {`{"c":5}`, `{"c":5,"n":null}`, true},
		"a null was kept":            {`{"c":5,"n":null}`, `{"c":5,"n":null}`, true},
		"one of two nulls":           {`{"n":null}`, `{"n":null,"m":null}`, true},
		"deep down":                  {`{"o":{"p":[{}]}}`, `{"o":{"p":[{"n":null}]}}`, true},
		"a number was spelled":       {`{"c":5}`, `{"c":"5"}`, true},
		"one of two":                 {`{"c":5,"d":"6"}`, `{"c":"5","d":"6"}`, true},
		"a text was a number":        {`{"c":"5"}`, `{"c":5}`, true},
		"a boolean":                  {`{"b":true}`, `{"b":"true"}`, true},
		"all of it":                  {`{"b":true,"c":5}`, `{"b":"true","c":"5","n":null}`, true},
		"items are read alike":       {`{"i":[{"c":5},{"c":6},{"c":7},{"c":8},{"c":9},{"c":0}]}`, `{` + many + `}`, true},
		"many places":                {`{}`, `{` + nulls(40) + `}`, true},
		"another number":             {`{"c":5}`, `{"c":"6"}`, false},
		"another name":               {`{"c":5}`, `{"d":5}`, false},
		"something left out":         {`{"c":5,"n":"x"}`, `{"c":5}`, false},
		"something more":             {`{"c":5}`, `{"c":5,"n":"x"}`, false},
		"a null in an array":         {`{"a":[]}`, `{"a":[null]}`, false},
		"a text that is no spelling": {`{"c":5}`, `{"c":"five"}`, false},
	} {
		then := fingerprintOf(t, parsed(t, test.then))
		args := parsed(t, test.now)
		if same := schema.SameCall("pay", args, then); same != test.same {
			t.Errorf("%s: %v", name, same)
		}
		if schema.SameCall("refund", args, then) {
			t.Errorf("%s: it is also another tool's", name)
		}
		if fingerprintOf(t, args) != fingerprintOf(t, parsed(t, test.now)) {
			t.Errorf("%s: the arguments were changed", name)
		}
	}
}

func nulls(n int) string {
	members := make([]string, n)
	for i := range members {
		members[i] = fmt.Sprintf(`"n%d":null`, i)
	}
	return strings.Join(members, ",")
}

// Large arguments with a great many values that can be read in two ways cost little
// more than small ones.
func TestReadingsAreFew(t *testing.T) {
	for _, n := range []int{10, 40_000} {
		args := parsed(t, `{`+nulls(n)+`,"x":["`+strings.Repeat("1", 30)+strings.Repeat(`","2`, n)+`"]}`)
		allocated := testing.AllocsPerRun(1, func() { schema.SameCall("pay", args, [32]byte{}) })
		if limit := float64(40 * (n + 10_000)); allocated > limit {
			t.Errorf("%d values: %.0f allocations, want at most %.0f", n, allocated, limit)
		}
	}
}
