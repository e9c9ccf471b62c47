package schema_test

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/repairs"
)

const ticket = `{"type":"object","properties":{
	"title":{"type":"string"},
	"priority":{"enum":["low","medium","high","urgent"]},
	"count":{"type":"integer","minimum":1},
	"labels":{"type":"array","items":{"type":"string"}},
	"sizes":{"type":"array","items":{"type":"integer"}},
	"due":{"type":"string","format":"date"},
	"parent":{"type":["integer","null"]},
	"either":{"type":["integer","boolean"]},
	"loose":{"type":["string","array"]},
	"point":{"type":"object","properties":{"lat":{"type":"number"},"lon":{"type":"number"}},"required":["lat","lon"],"additionalProperties":false},
	"confirm":{"const":true},
	"lang":{"enum":["C","Java"]},
	"step":{"enum":["-1","0"]},
	"sort":{"enum":["created_at","updated_at"]},
	"include":{"type":"array","items":{"type":"string"}},
	"only_path":{"type":"string"},
	"code":{"type":"string","pattern":"^[A-Z]-[0-9]+$"}
},"additionalProperties":false}`

func TestSuggestCorrectsWhatIsDetermined(t *testing.T) {
	s := mustCompile(t, ticket, schema.Options{})
	const none = ""
	for _, c := range []struct{ name, sent, want string }{
		{"what fits stays", `{"title":"x","count":1.50e1}`, `{"count":1.50e1,"title":"x"}`},
		{"a misspelt name", `{"cuont":5}`, `{"count":5}`},
		{"another convention", `{"onlyPath":"a"}`, `{"only_path":"a"}`},
		{"a misspelt name and a string", `{"cuont":"5"}`, `{"count":5}`},
		{"a number sent as a string", `{"count":" 5 "}`, `{"count":5}`},
		{"a string sent as a number", `{"title":007}`, none}, // no JSON
		{"a number for a string", `{"title":7}`, `{"title":"7"}`},
		{"a near value", `{"priority":"hihg"}`, `{"priority":"high"}`},
		{"a value in another case", `{"priority":"URGENT "}`, `{"priority":"urgent"}`},
		{"a value with other separators", `{"sort":"Created At"}`, `{"sort":"created_at"}`},
		{"an array where one item is expected", `{"title":["x"]}`, `{"title":"x"}`},
		{"an array of a number where one is expected", `{"count":["3"]}`, `{"count":3}`},
		{"an array for a value of a list", `{"priority":["low"]}`, `{"priority":"low"}`},
		{"one item where an array is expected", `{"labels":"x"}`, `{"labels":["x"]}`},
		{"a number where strings are expected", `{"labels":5}`, `{"labels":["5"]}`},
		{"digits where numbers are expected", `{"sizes":"5"}`, `{"sizes":[5]}`},
		{"JSON in a string", `{"point":"{\"lat\":1,\"lon\":\"2.5\"}","sizes":"[1,2]"}`, `{"point":{"lat":1,"lon":2.5},"sizes":[1,2]}`},
		{"a null that means nothing", `{"count":null,"title":"x"}`, `{"title":"x"}`},
		{"a null under a name that nobody knows", `{"x":null,"cuont":2}`, `{"count":2}`},
		{"a null in words", `{"parent":"null"}`, `{"parent":null}`},
		{"a day in another form", `{"due":"2026/1/2"}`, `{"due":"2026-01-02"}`},
		{"a day with the month's name", `{"due":"Jan 2, 2026"}`, `{"due":"2026-01-02"}`},
		{"blanks around a code", `{"code":" A-1\n"}`, `{"code":"A-1"}`},
		{"nested", `{"point":{"lat":"1","lno":2}}`, none}, // lno is too short to be sure of
		{"characters as they are", `{"titel":"<b> & \u2028 日本"}`, "{\"title\":\"<b> & \u2028 日本\"}"},

		{"a guess: two values are near", `{"sort":"_at"}`, none},
		{"a guess: a value of another kind", `{"priority":"P1"}`, none},
		{"a guess: an abbreviation", `{"priority":"med"}`, none},
		{"a guess: of two types", `{"either":"x"}`, none},
		{"a guess: a string or the array of one", `{"loose":5}`, none},
		{"a guess: one text or several", `{"labels":"a,b"}`, none},
		{"a guess: which of several", `{"title":["a","b"]}`, none},
		{"a guess: day or month", `{"due":"01/02/2026"}`, none},
		{"a guess: too small", `{"count":0}`, none},
		{"a guess: out of form", `{"code":"a-1"}`, none},
		{"consent is not given for anybody", `{"confirm":false}`, none},
		{"nor is a word taken for it", `{"confirm":"yes"}`, none},
		{"a sign is no slip", `{"lang":"C#"}`, none},
		{"a sign is not added", `{"step":"1"}`, none},
		{"what was meant is not left out", `{"title":"x","dry_run":true}`, none},
		{"an opposite is no slip", `{"exclude":["a"]}`, none},
		{"nor is what says more", `{"exclude_only_path":"a"}`, none},
		{"one is certain, the other is not", `{"cuont":1,"priority":"P1"}`, none},
		{"two names for one", `{"cuont":1,"coutn":2}`, none},
		{"the right name is there too", `{"count":1,"cuont":2}`, none},
	} {
		t.Run(c.name, func(t *testing.T) {
			args, violation := s.ParseArgs(c.sent)
			if violation != nil {
				return
			}
			before, _ := schema.Canonical(args)
			if got := s.Suggest(t.Context(), args, len(c.sent)); got != c.want {
				t.Errorf("%s: got %s, want %s", c.sent, got, c.want)
			}
			if after, _ := schema.Canonical(args); string(after) != string(before) {
				t.Errorf("the arguments were changed to %s", after)
			}
		})
	}
}

func TestSuggestMovesAValueToTheNameThatMustBeThere(t *testing.T) {
	const source = `{"type":"object","properties":{"timezone":{"type":"string"},"file_path":{"type":"string"},"start_date":{"type":"string"},"end_date":{"type":"string"}},"required":["timezone","file_path"],"additionalProperties":%s}`
	for _, c := range []struct{ name, others, sent, want string }{
		{"short forms", "false", `{"tz":"UTC","path":"a"}`, `{"file_path":"a","timezone":"UTC"}`},
		{"a slip", "false", `{"time_zone":"UTC","filepath":"a"}`, `{"file_path":"a","timezone":"UTC"}`},
		{"more words than the name", "false", `{"timezone":"UTC","old_file_path":"a"}`, ""},
		{"short for something else too", "false", `{"timezone":"UTC","file_path":"a","date":"x"}`, ""},
		{"a stranger that is allowed, but for a slip", "true", `{"timezne":"UTC","file_path":"a","x":1}`, `{"file_path":"a","timezone":"UTC","x":1}`},
		{"a stranger that is allowed keeps its name", "true", `{"timezone":"UTC","path":"a"}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := mustCompile(t, strings.Replace(source, "%s", c.others, 1), schema.Options{})
			args, _ := s.ParseArgs(c.sent)
			if got := s.Suggest(t.Context(), args, len(c.sent)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestSuggestShowsNoSecret(t *testing.T) {
	s := mustCompile(t, `{"properties":{"password":{"type":"string","format":"password"},"count":{"type":"integer"},"note":{"type":"string"}},"additionalProperties":false}`, schema.Options{})
	for _, sent := range []string{
		`{"password":"hunter2","count":"5"}`, `{"pasword":"hunter2"}`, `{"password":["hunter2"]}`, `{"password":5,"count":"5"}`,
		`{"count":"5","note":"password=hunter2"}`,
	} {
		args, _ := s.ParseArgs(sent)
		if got := s.Suggest(t.Context(), args, len(sent)); got != "" {
			t.Errorf("%s: %s", sent, got)
		}
	}
	args, _ := s.ParseArgs(`{"count":"5"}`)
	if got := s.Suggest(t.Context(), args, 12); got != `{"count":5}` {
		t.Errorf("without a secret: %q", got)
	}
}

func TestSuggestIsBounded(t *testing.T) {
	s := mustCompile(t, ticket, schema.Options{})
	for _, c := range []struct {
		chars int
		want  bool
	}{{1000, true}, {16 << 10, false}, {1 << 20, false}} {
		args := map[string]any{"titel": strings.Repeat("x", c.chars)}
		if got := s.Suggest(t.Context(), args, c.chars); (got != "") != c.want || len(got) > 16<<10 {
			t.Errorf("%d characters: %d", c.chars, len(got))
		}
	}
	slow := mustCompile(t, `{"properties":{"a":{"type":"string","pattern":"^([a-z]{1,900})+$"},"count":{"type":"integer"}},"additionalProperties":false}`, schema.Options{})
	args := map[string]any{"a": strings.Repeat("a", 15<<10), "cuont": json.Number("1")}
	if got := slow.Suggest(t.Context(), args, 15<<10); got != "" {
		t.Errorf("a pattern that costs too much: %d characters", len(got))
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if got := slow.Suggest(gone, args, 15<<10); got != "" {
		t.Errorf("nobody waits for it: %d characters", len(got))
	}
	var broken *schema.Schema
	if got := broken.Suggest(t.Context(), args, 1); got != "" {
		t.Errorf("no schema: %s", got)
	}
}

// Whatever is broken in the calls of the corpus: what is suggested fits, and says
// nothing that was not sent.
func TestSuggestionsFitAndAddNothing(t *testing.T) {
	made := map[string]repairs.Tally{}
	for _, tl := range corpus(t) {
		s, err := schema.Compile(tl.Name, tl.InputSchema, schema.Options{Closed: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, valid := range tl.Calls {
			for _, m := range repairs.Mutations(valid) {
				text, _ := json.Marshal(m.Args)
				args, violation := s.ParseArgs(string(text))
				if violation != nil {
					continue
				}
				if _, _, violations := s.Check(args); len(violations) == 0 {
					continue
				}
				got := s.Suggest(t.Context(), args, len(text))
				tally := made[m.Kind]
				tally.Broken++
				if got != "" {
					tally.Repaired++
					wantHonest(t, s, args, got)
				}
				made[m.Kind] = tally
			}
		}
	}
	for kind, tally := range made {
		t.Logf("%-20s %5d of %5d", kind, tally.Repaired, tally.Broken)
	}
	for kind, least := range map[string]float64{"string for number": 0.9, "array for scalar": 0.45, "misspelt": 0.8, "JSON in a string": 0.9} {
		if share := made[kind].Share(); share < least {
			t.Errorf("%s: %.2f are corrected, want %.2f", kind, share, least)
		}
	}
	for _, kind := range []string{"missing", "out of range", "too long", "too many items"} {
		if tally := made[kind]; tally.Repaired > 0 {
			t.Errorf("%s: %d of %d are corrected, though nobody can know how", kind, tally.Repaired, tally.Broken)
		}
	}
}

// wantHonest checks a suggestion against what was sent.
func wantHonest(t *testing.T, s *schema.Schema, sent map[string]any, suggested string) {
	t.Helper()
	args, violation := s.ParseArgs(suggested)
	if violation != nil {
		t.Fatalf("%s: %+v", suggested, violation)
	}
	if _, notes, violations := s.Check(args); len(violations)+len(notes) > 0 {
		t.Errorf("%s does not fit: %v %+v", suggested, notes, violations)
	}
	had, has := leaves(sent, nil), leaves(args, nil)
	if len(had) != len(has) {
		t.Errorf("%d values were sent, %d are suggested: %v, %s", len(had), len(has), sent, suggested)
	}
	// What was sent as it is first: a 1 must not stand for a 10.
	var meant []string
	for _, v := range has {
		if i := slices.Index(had, v); i >= 0 {
			had = slices.Delete(had, i, i+1)
		} else {
			meant = append(meant, v)
		}
	}
	for _, v := range meant {
		i := slices.IndexFunc(had, func(w string) bool { return plain(v) == plain(w) })
		if i < 0 {
			i = slices.IndexFunc(had, func(w string) bool {
				return tool.EditDistance([]rune(plain(v)), []rune(plain(w))) <= 1
			})
		}
		if i < 0 {
			t.Errorf("%q was not sent: %v, %s", v, sent, suggested)
			continue
		}
		had = slices.Delete(had, i, i+1)
	}
}

func plain(s string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(s))
}

// leaves lists the values in v but for nulls and empty arrays and objects, those of
// JSON in a string too.
func leaves(v any, out []string) []string {
	switch v := v.(type) {
	case nil:
	case map[string]any:
		for _, one := range v {
			out = leaves(one, out)
		}
	case []any:
		for _, one := range v {
			out = leaves(one, out)
		}
	case string:
		var inside any
		if json.Unmarshal([]byte(v), &inside) == nil && strings.ContainsAny(v, "{[") {
			return leaves(inside, out)
		}
		if day, err := time.Parse("Jan 2, 2006", v); err == nil {
			v = day.Format(time.DateOnly)
		}
		out = append(out, v)
	default:
		text, _ := json.Marshal(v)
		out = append(out, string(text))
	}
	return out
}

// FuzzSuggest puts any JSON in the place of one argument, under its name or
// another: what is suggested fits, and adds nothing.
func FuzzSuggest(f *testing.F) {
	s, err := schema.Compile("create_ticket", []byte(ticket), schema.Options{})
	if err != nil {
		f.Fatal(err)
	}
	for _, value := range []string{`null`, `"x"`, `-1`, `"[1]"`, `["low"]`, `{"a":[1]}`, `"HIGH"`, `"2026/1/2"`, `[[]]`} {
		f.Add("count", value)
		f.Add("prioritty", value)
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		key, _ := json.Marshal(name)
		text := `{"title":"a",` + string(key) + `:` + value + `}`
		args, violation := s.ParseArgs(text)
		if violation != nil {
			return
		}
		got := s.Suggest(t.Context(), args, len(text))
		if got == "" {
			return
		}
		mended, violation := s.ParseArgs(got)
		if violation != nil {
			t.Fatalf("%s: %+v", got, violation)
		}
		if _, notes, violations := s.Check(mended); len(violations)+len(notes) > 0 {
			t.Errorf("%s became %s, which does not fit: %v %+v", text, got, notes, violations)
		}
		if had, has := leaves(args, nil), leaves(mended, nil); len(has) > len(had) {
			t.Errorf("%s became %s: something was added", text, got)
		}
	})
}

func TestRedactedHoldsNoSecret(t *testing.T) {
	s := mustCompile(t, `{"properties":{"password":{"type":"string","format":"password"},"user":{"type":"object"},"count":{"type":"integer"}}}`, schema.Options{Sensitive: []string{"token"}})
	const sent = `{"count":5,"list":[{"b":1,"token":{"a":"hunter2"}},"token=hunter2"],"password":"hunter2","pasword":"hunter2","user":{"name":"ada","token":4711}}`
	args, _ := s.ParseArgs(sent)
	got, _ := schema.Canonical(s.Redacted(args))
	const want = `{"count":5,"list":[{"b":1,"token":"(redacted)"},"(redacted)"],"password":"(redacted)","pasword":"(redacted)","user":{"name":"ada","token":"(redacted)"}}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if after, _ := schema.Canonical(args); string(after) != sent {
		t.Errorf("the arguments were changed to %s", after)
	}
	var gone *schema.Schema
	if got := gone.Redacted(map[string]any{"a": "hunter2"})["a"]; got != tool.ReceivedRedacted {
		t.Errorf("without a schema: %v", got)
	}
	plain, _ := s.ParseArgs(`{"count":5}`)
	if same := s.Redacted(plain); reflect.ValueOf(same).Pointer() != reflect.ValueOf(plain).Pointer() || s.Redacted(nil) != nil {
		t.Error("a copy is made where there is no secret")
	}
}
