package interpret

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/sidecall/sidecall/internal/pattern"
	"github.com/sidecall/sidecall/internal/tool"
)

// evaluate is the value of an expression over a reply; with what it allocated
// and the steps of its patterns.
func evaluate(t *testing.T, text string, reply *tool.Reply) (value any, allocated uint64, steps int64, err error) {
	t.Helper()
	c := compiler{}
	e := c.compile(text, replyScope, nil, "test")
	if len(c.errs) > 0 {
		t.Fatal(c.errs)
	}
	v := &view{reply: reply, meter: pattern.NewMeter(t.Context(), maxSteps)}
	v.ResolveName("body")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := e.value(v)
	runtime.ReadMemStats(&after)
	if err == nil {
		value = got.Value()
	}
	return value, after.TotalAlloc - before.TotalAlloc, v.meter.Spent(), err
}

func jsonReply(t *testing.T, v any) *tool.Reply {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return &tool.Reply{Text: text, JSON: true}
}

// Each of these took minutes, or memory without end, for one call of a function,
// which CEL's own limit looks at when it is over.
func TestOneCallOfAFunctionIsBounded(t *testing.T) {
	mega := func(s string) string { return strings.Repeat(s, 5<<20/len(s)) }
	for text, body := range map[string]any{
		`text.matches("(?:(?:a{1,10}){1,10}){1,10}b")`:           mega("a"),
		`text.matches(body.p)`:                                   map[string]any{"p": `(?:(?:a{1,10}){1,10}){1,10}b`, "t": mega("a")},
		`body.t.matches(body.p)`:                                 map[string]any{"p": `(((a{1000})))` + strings.Repeat(`a{1000}`, 2000), "t": "a"},
		`matches(body.t, "(?:x?){900}y")`:                        map[string]any{"t": mega("x")},
		`[1, 2, 3, 4].all(i, !text.matches("(?:[a-z]?){900}!"))`: mega("a"),
		`body.t.indexOf(body.n) < 0`:                             map[string]any{"t": mega("a"), "n": mega("a") + "b"},
		`body.t.lastIndexOf(body.n) < 0`:                         map[string]any{"t": mega("a"), "n": "b" + mega("a")},
		`body.t.replace(body.n, body.v)`:                         map[string]any{"t": mega("a"), "n": "a", "v": mega("b")},
		`body.t.replace("", body.v)`:                             map[string]any{"t": mega("a"), "v": mega("b")},
		`body.t.split("")`:                                       map[string]any{"t": mega("a")},
		`body.t.split(",").join(body.v)`:                         map[string]any{"t": strings.Repeat(",", 1<<19), "v": mega("b")},
		`body.t.split(",").map(x, body.v).join()`:                map[string]any{"t": strings.Repeat(",", 1<<15), "v": mega("b")},
		`"%s %s".format([body.f.format([1.5]), "x"])`:            map[string]any{"f": "%.999999999f"},
		`body.l.all(i, size(text) > i)`:                          map[string]any{"l": make([]int, 1<<19), "t": mega("a")},
		// Those whose arguments have a type only when they are called count as one unit in CEL.
		`body.l.all(i, size(body.t) > i)`:                   map[string]any{"l": make([]int, 50), "t": mega("a")},
		`body.l.all(i, body.t.size() > i)`:                  map[string]any{"l": make([]int, 50), "t": mega("a")},
		`size(body.l.map(i, body.t + body.u)) > 0`:          map[string]any{"l": make([]int, 50), "t": mega("a"), "u": "b"},
		`size(body.l.map(i, bytes(body.t))) > 0`:            map[string]any{"l": make([]int, 50), "t": mega("a")},
		`body.l.all(i, string(body.t) != "")`:               map[string]any{"l": make([]int, 50), "t": mega("a")},
		`body.l.all(i, body.t < body.v)`:                    map[string]any{"l": make([]int, 50), "t": mega("a"), "v": mega("a") + "b"},
		`body.l.all(i, body.m == body.n)`:                   map[string]any{"l": make([]int, 50), "m": [][]int{make([]int, 1<<17)}, "n": [][]int{make([]int, 1<<17)}},
		`body.l.all(i, body.o != {"a": body.m})`:            map[string]any{"l": make([]int, 50), "m": make([]int, 1<<17), "o": map[string]any{"a": append(make([]int, 1<<17-1), 1)}},
		`body.l.all(i, !(body.x in body.m))`:                map[string]any{"l": make([]int, 50), "x": append(make([]int, 1<<10-1), 1), "m": [128][1 << 10]int{}},
		`body.l.all(i, !(1 in body.m))`:                     map[string]any{"l": make([]int, 50), "m": make([]int, 1<<17)},
		`body.l.all(i, type(int(body.t)) == int || i == 0)`: map[string]any{"l": make([]int, 50), "t": mega("1")},
	} {
		_, allocated, steps, err := evaluate(t, text, jsonReply(t, body))
		if err == nil || allocated > 128<<20 || steps > maxSteps+4*pattern.MaxInstructions {
			t.Errorf("%s: %v, %d MiB, %d steps", text, err, allocated>>20, steps)
		}
	}
}

// Of an item that costs too much to judge nobody knows whether it was done: whoever is told that it was not
// has it done twice.
func TestAnItemThatCostsTooMuchIsNotSaidToBeLeftUndone(t *testing.T) {
	mega := strings.Repeat("a", 1<<20)
	costly, err := Compile(Config{Partial: &PartialRule{Items: "body.items.filter(i, body.t.indexOf(body.n) >= 0)", OK: "item.ok"}})
	if err != nil {
		t.Fatal(err)
	}
	if reading := costly.Interpret(*jsonReply(t, map[string]any{"t": mega, "n": mega, "items": []int{1}}), nil, nil); !reading.Unread {
		t.Errorf("%v of items that are not known", reading.Outcome)
	}
	for ok, body := range map[string]any{
		`item.ok && body.t.indexOf(body.n) < 0`:                     map[string]any{"t": mega, "n": mega},
		`item.ok && !text.matches("(?:(?:a{1,10}){1,10}){1,10}b")`:  map[string]any{"t": mega},
		`item.ok && body.l.all(i, body.t + body.u != "x")`:          map[string]any{"t": mega, "u": "b", "l": make([]int, 50)},
		`item.ok && body.l.all(i, body.l.all(j, body.l != [i, j]))`: map[string]any{"l": make([]int, 1000)},
	} {
		program, err := Compile(Config{Partial: &PartialRule{Items: "body.items", OK: ok}})
		if err != nil {
			t.Fatal(err)
		}
		body.(map[string]any)["items"] = []map[string]bool{{"ok": false}, {"ok": true}}
		reading := program.Interpret(*jsonReply(t, body), nil, nil)
		if reading.Outcome != OK || !reading.Unread || reading.Items != nil || reading.Failure != nil {
			t.Errorf("%s: %v, %d items, %v", ok, reading.Outcome, len(reading.Items), reading.Failure)
		}
	}
}

// Of a reply that costs too much to judge nobody knows whether it is a success.
func TestASuccessThatCostsTooMuchIsNoDefiniteFailure(t *testing.T) {
	mega := strings.Repeat("a", 1<<20)
	program, err := Compile(Config{Success: `body.ok && body.t.indexOf(body.n) == 0`})
	if err != nil {
		t.Fatal(err)
	}
	for ok, want := range map[bool]tool.Evidence{true: tool.Ambiguous, false: tool.Definite} {
		reading := program.Interpret(*jsonReply(t, map[string]any{"t": mega, "n": mega, "ok": ok}), nil, nil)
		if reading.Failure == nil || reading.Failure.Evidence != want {
			t.Errorf("%v: %v", ok, reading.Failure)
		}
	}
}

// What it costs to compare is what both have: it is not counted by counting through the longer one.
func TestAComparisonWithALongTextIsCheap(t *testing.T) {
	body := map[string]any{"l": make([]int, 1000), "t": strings.Repeat("a", 5<<20), "m": make([]int, 1<<19)}
	for _, text := range []string{`body.l.all(i, text != "x")`, `body.l.all(i, body.t != "x" && "x" > body.t)`, `body.l.all(i, body.m != [i])`, `body.l.all(i, !(i in {"a": body.m}))`} {
		if got, _, _, err := evaluate(t, text, jsonReply(t, body)); got != true {
			t.Errorf("%s is %v: %v", text, got, err)
		}
	}
	if got, _, _, err := evaluate(t, `size(body.l.map(i, "%s".format([body.t]))) > 0`, jsonReply(t, body)); err == nil {
		t.Errorf("%v texts of 5 MiB were made", got)
	}
	text, one := types.String(strings.Repeat("a", 5<<20)), types.String("x")
	for _, function := range []string{operators.Equals, operators.NotEquals, operators.Less, operators.GreaterEquals} {
		if units := (counted{}).CallCost(function, overloads.Equals, []ref.Val{text, one}, types.True); units == nil || *units > 2 {
			t.Errorf("%s: %v units", function, units)
		}
	}
}

func TestFunctionsDoWhatTheyDid(t *testing.T) {
	body := map[string]any{"t": "one, two, two", "n": "two", "p": "^one.*o$", "l": []string{"a", "b"}, "z": "größe"}
	for text, want := range map[string]any{
		`body.t.indexOf("two")`: int64(5), `body.t.indexOf(body.n, 6)`: int64(10), `body.t.lastIndexOf("two")`: int64(10), `body.t.lastIndexOf("two", 9)`: int64(5), `body.t.replace("two", "2")`: "one, 2, 2",
		`body.t.replace(body.n, "2", 1)`: "one, 2, two", `body.t.split(", ")[2]`: "two", `body.t.split(", ", 2)[1]`: "two, two", `body.l.join()`: "ab", `body.l.join(body.n)`: "atwob", `"%d of %s".format([3, body.n])`: "3 of two",
		`"%.2f".format([1.5])`: "1.50", `body.t.matches(body.p)`: true, `body.t.matches("^two")`: false, `matches(body.t, "t.o")`: true, `size(body.z)`: int64(5), `body.z.size()`: int64(5), `body.z.matches("^gr.ße$")`: true,
		`body.t.upperAscii()`: "ONE, TWO, TWO", `["a", "b"].join("-")`: "a-b", `"abc".matches("b")`: true, `"abc".replace("b", "")`: "ac",
	} {
		if got, _, _, err := evaluate(t, text, jsonReply(t, body)); got != want {
			t.Errorf("%s is %v, not %v: %v", text, got, want, err)
		}
	}
	for _, text := range []string{`body.l.matches("a")`, `body.t.indexOf(body.l)`, `body.t.matches(body.l)`, `body.t.matches("a" + "(")`, `body.none.matches("a")`, `body.none.split(",")`} {
		if got, _, _, err := evaluate(t, text, jsonReply(t, body)); err == nil {
			t.Errorf("%s is %v", text, got)
		}
	}
}

// A pattern that every reply would be held against is refused at start.
func TestAPatternThatMultipliesIsNoExpression(t *testing.T) {
	_, err := Compile(Config{Success: `text.matches("` + strings.Repeat("a{1000}", 200) + `")`})
	if err == nil || !strings.Contains(err.Error(), "instructions") {
		t.Error(err)
	}
}

// What all items cost together is bounded, not only what one does.
func TestManyItemsAreBounded(t *testing.T) {
	program, err := Compile(Config{Partial: &PartialRule{Items: "body", OK: `!text.contains("needle")`}})
	if err != nil {
		t.Fatal(err)
	}
	items := make([]string, 1<<19)
	for i := range items {
		items[i] = "item"
	}
	reading := program.Interpret(*jsonReply(t, items), nil, nil)
	if reading.Outcome != OK || reading.Items != nil || reading.Failure != nil {
		t.Errorf("%v, %d items, %v", reading.Outcome, len(reading.Items), reading.Failure)
	}
}
