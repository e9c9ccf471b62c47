package cases

import (
	"testing"
)

// The example that ships is met, all of it.
func TestTheExampleIsMet(t *testing.T) {
	suite, err := Load("../../docs/examples/shop.cases.yaml", "../../docs/examples/shop.yaml", Options{})
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	err = suite.Run(t.Context(), func(r Result) {
		told++
		t.Logf("%s: %v in %s", r.Name, r.Met, r.Took)
		for _, c := range r.Calls {
			if len(c.Unmet) > 0 {
				t.Errorf("%s, line %d: %+v\nseen: %+v", r.Name, c.Line, c.Unmet, c.Seen)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if told != suite.Len() || told < 4 {
		t.Errorf("%d of %d cases", told, suite.Len())
	}
}
