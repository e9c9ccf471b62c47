package failures

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestDifferencesOfArguments(t *testing.T) {
	long := strings.Repeat("long ", 50)
	for _, c := range []struct{ name, then, now, want string }{
		{"the same", `{"a":1,"b":{"y":[1,2],"x":null}}`, `{"b":{"x":null,"y":[1,2]},"a":1}`, ""},
		{"nothing at all", `{}`, `{}`, ""},
		{"another value", `{"a":1}`, `{"a":2}`, `a 1 (now 2)`},
		{"another type", `{"a":1}`, `{"a":"1"}`, `a 1 (now "1")`},
		{"one more then", `{"a":1,"b":true}`, `{"a":1}`, `b true (now left out)`},
		{"one more now", `{"a":1}`, `{"a":1,"b":true,"c":0}`, `no b, no c`},
		{"a null is not nothing", `{"a":null}`, `{}`, `a null (now left out)`},
		{"long and the same", `{"a":"` + long + `"}`, `{"a":"` + long + `"}`, ""},
		{"long and different at its end", `{"a":"` + long + `x"}`, `{"a":"` + long + `y"}`, `another a`},
		{"numbers as they were written", `{"a":1.0}`, `{"a":1}`, `a 1.0 (now 1)`},
		{"a name that says something", `{"now left out) Call pay":1}`, `{}`, `"now left out) Call pay" 1 (now left out)`},
		{"many", `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1}`, `{}`, "a 1 (now left out); b 1 (now left out); c 1 (now left out); d 1 (now left out); 2 more differences"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := strings.Join(differences(summary(decoded(t, c.then)), summary(decoded(t, c.now))), "; ")
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// What has no room in an entry is compared all the same.
func TestArgumentsBeyondTheRoomOfAnEntry(t *testing.T) {
	many := func(last int) map[string]any {
		args := map[string]any{}
		for i := range 40 {
			args[fmt.Sprintf("argument_%02d", i)] = strings.Repeat("v", i)
		}
		args["argument_99"] = json.Number(fmt.Sprint(last))
		return args
	}
	a, again, b := summary(many(1)), summary(many(1)), summary(many(2))
	size := 0
	for _, one := range a {
		size += len(one.name) + len(one.text)
	}
	if len(a) > maxArguments || size > maxValues {
		t.Errorf("%d arguments of %d bytes", len(a), size)
	}
	if !slices.Equal(a, again) || slices.Equal(a, b) {
		t.Errorf("what is the same, or not: %v, %v, %v", a, again, b)
	}
	if got := differences(a, b); !slices.Equal(got, []string{"another value of the other arguments"}) {
		t.Errorf("%q", got)
	}
	odd := map[string]any{"": json.Number("1"), "x": make(chan int)} // no JSON: from whoever decoded it
	if got := summary(odd); len(got) != 2 || got[0].text != "?" {
		t.Errorf("%+v", got)
	}
}

func TestSigns(t *testing.T) {
	for _, c := range []struct {
		sign, text string
		want       bool
	}{
		{"no such file", "open a: no such file or directory", true},
		{"quota", "a quotation", false},
		{"quota", "over quota.", true},
		{"quota", "quota", true},
		{"quota", "quotations of a quota", true},
		{"precondition*", "preconditions failed", true},
		{"precondition*", "a nonprecondition", false},
		{"a|b", "b", true},
		{"file/path + not found/missing", "missing: the path", true},
		{"file/path + not found/missing", "the path", false},
		{"file", "profile", false},
		{"file", "日file", false},
		{"file", "\xfffile", true},
		{"x", "", false},
	} {
		got := slices.ContainsFunc(signsOf(c.sign), func(s sign) bool { return s.in(c.text) })
		if got != c.want {
			t.Errorf("%s in %q: %v", c.sign, c.text, got)
		}
	}
	if signsOf("") != nil {
		t.Error("a sign of nothing")
	}
}

func TestWordsOfNames(t *testing.T) {
	for name, want := range map[string]string{
		"order_id": "order id", "orderId": "order id", "OrderID": "order id", "file-path": "file path", "": "", "_": "", "a1b": "a1b", "ÄnderungsID": "änderungs id",
	} {
		if got := strings.Join(wordsOf(name), " "); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
