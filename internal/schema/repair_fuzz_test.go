package schema_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/sidecall/sidecall/test/testkit/repairs"
)

// mostTime is what one call and its repairs may take, on a busy machine.
const mostTime = 20 * time.Second

// FuzzRepair puts any JSON in the place of one argument of a valid call. A
// program that reads nothing but the violations has to arrive at a call that is
// accepted.
func FuzzRepair(f *testing.F) {
	var tools []repairs.Tool
	text, err := os.ReadFile("testdata/schemas.json")
	if err == nil {
		err = json.Unmarshal(text, &tools)
	}
	if err != nil {
		f.Fatal(err)
	}
	for i := range tools {
		for _, value := range []string{`null`, `"x"`, `-1`, `1e300`, `{"a":[1]}`, `[[]]`, `true`, `"\u0000"`} {
			f.Add(uint8(i), uint8(i), value)
		}
	}
	f.Fuzz(func(t *testing.T, which, member uint8, value string) {
		tl := tools[int(which)%len(tools)]
		if len(tl.Calls) == 0 {
			return
		}
		call, err := repairs.Local(tl)
		if err != nil {
			t.Fatal(err)
		}
		var put any
		if json.Unmarshal([]byte(value), &put) != nil {
			return
		}
		args := map[string]any{}
		var names []string
		for name, v := range tl.Calls[0] {
			args[name] = v
			names = append(names, name)
		}
		if len(names) == 0 {
			return
		}
		slices.Sort(names)
		args[names[int(member)%len(names)]] = put
		sent, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		defer time.AfterFunc(mostTime, func() { panic("it takes too long: " + string(sent)) }).Stop()
		for range 4 {
			violations, err := call(args)
			if err != nil {
				t.Fatal(err)
			}
			if len(violations) == 0 {
				return
			}
			args = repairs.Program(args, violations)
		}
		violations, _ := call(args)
		if len(violations) > 0 {
			t.Errorf("%s: sent %s, ended at %v with %+v", tl.Name, sent, args, violations)
		}
	})
}
