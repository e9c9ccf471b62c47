package main

import (
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// drawn is a room with some arrows.
func drawn(files []string, arrows ...arrow) *room {
	return &room{files: files, arrows: arrows}
}

func TestTheOrderWithTheFewestArrowsUpward(t *testing.T) {
	abcd := []string{"a", "b", "c", "d"}
	for name, test := range map[string]struct {
		arrows []arrow
		upward int
	}{
		"no arrows":           {},
		"a chain":             {[]arrow{{"d", "c"}, {"c", "b"}, {"b", "a"}}, 0},
		"all above all below": {[]arrow{{"d", "a"}, {"d", "b"}, {"c", "a"}, {"c", "b"}, {"a", "b"}}, 0},
		"a pair":              {[]arrow{{"a", "b"}, {"b", "a"}, {"c", "a"}}, 1},
		"a ring":              {[]arrow{{"a", "b"}, {"b", "c"}, {"c", "d"}, {"d", "a"}}, 1},
		"two rings in one":    {[]arrow{{"a", "b"}, {"b", "c"}, {"c", "a"}, {"c", "d"}, {"d", "b"}}, 1},
		"two pairs":           {[]arrow{{"a", "b"}, {"b", "a"}, {"c", "d"}, {"d", "c"}}, 2},
	} {
		o := drawn(abcd, test.arrows...).order()
		slices.Sort(o.files)
		if len(o.upward) != test.upward || !slices.Equal(o.files, abcd) {
			t.Errorf("%s: %v run upward among %v, want %d", name, o.upward, o.files, test.upward)
		}
	}
}

func TestWhatIsSaidOfARoom(t *testing.T) {
	for _, test := range []struct {
		upward, arrows int
		right          bool
	}{
		{0, 0, true}, {7, 100, true}, {8, 100, false}, {1, 1, false}, {1, 13, true},
	} {
		if said := judge(test.upward, test.arrows); (said == "") != test.right {
			t.Errorf("%d of %d: %q", test.upward, test.arrows, said)
		}
	}
}

func TestTypesWithTooManyMethods(t *testing.T) {
	methods := map[string]int{"Small": 25, "Large": 26, "huge": 50}
	for name, want := range map[string][]string{
		"dedupe": {"dedupe.Large has 26 methods", "dedupe.huge has 50 methods"}, "internal/store/redisstore": {"internal/store/redisstore.Large has 26", "internal/store/redisstore.huge has 50"},
		"internal/store/storetest": nil, "test/e2e": nil, "tools/house": nil, "proto/sidecall/v1": nil,
	} {
		said := crowded(&room{name: name, methods: methods})
		if !slices.EqualFunc(said, want, strings.HasPrefix) {
			t.Errorf("%s: %q, want %q", name, said, want)
		}
	}
}

func TestStructsWithTooManyFields(t *testing.T) {
	fields := map[string]int{"a.go:1": 10, "a.go:9": 11, "b.go:3": 27}
	for name, want := range map[string][]string{
		"internal/call":  {"internal/call/a.go:9: a struct has 11 fields", "internal/call/b.go:3: a struct has 27 fields"},
		"internal/rules": {"internal/rules/a.go:9: ", "internal/rules/b.go:3: "}, "internal/rules/loop/guard": {"internal/rules/loop/guard/a.go:9: ", "internal/rules/loop/guard/b.go:3: "},
		"internal/catalog": nil, "internal/callers": nil, "dedupe": nil, "test/e2e": nil,
	} {
		said := crowded(&room{name: name, fields: fields})
		if !slices.EqualFunc(said, want, strings.HasPrefix) {
			t.Errorf("%s: %q, want %q", name, said, want)
		}
	}
}

func TestTheFieldsOfAStruct(t *testing.T) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "dir/a.go", `package p
type none struct{}
type some struct {
	none; *other.Embedded
	a, b, _ string
	within struct {
		c, d int }
}
func f() { type local struct { a, b, c, d int } }
type alias = struct{ a int }
type generic[T any] struct{ a, b T }
`, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := room{fields: make(map[string]int)}
	r.count(set, file)
	if want := map[string]int{"a.go:2": 0, "a.go:3": 6, "a.go:6": 2, "a.go:9": 4, "a.go:10": 1, "a.go:11": 2}; !maps.Equal(r.fields, want) {
		t.Errorf("got %v, want %v", r.fields, want)
	}
}

// The arrows of this very room: what main needs of the others, and nothing back.
func TestTheArrowsOfThisRoom(t *testing.T) {
	t.Chdir("../..")
	all, err := rooms("./tools/house")
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	want := []arrow{{"crowded.go", "rooms.go"}, {"main.go", "crowded.go"}, {"main.go", "order.go"}, {"main.go", "rooms.go"}, {"main.go", "testless.go"}, {"order.go", "rooms.go"}}
	if r := all[0]; r.name != "tools/house" || !slices.Equal(r.arrows, want) || len(r.order().upward) != 0 {
		t.Errorf("%s has %v, want %v", r.name, r.arrows, want)
	}
	if uses := all[0].uses[want[4]]; !slices.Equal(uses, []string{"testless"}) {
		t.Errorf("main uses %v of testless.go", uses)
	}
	if n := all[0].methods["room"]; n != 2 {
		t.Errorf("room has %d methods, want those of its order and of counting", n)
	}
}

func TestTestFilesWithoutATest(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"with_test.go":              "package p\nfunc TestIt(t *testing.T) {}\n",
		"fuzz_test.go":              "//go:build e2e\n\npackage p\nfunc FuzzIt(f *testing.F) {}\n",
		"main_test.go":              "package p\nfunc TestMain(m *testing.M) {}\n",
		"export_test.go":            "package p\nvar It = it\n",
		"idle_test.go":              "package p\ntype world struct{}\nfunc (world) TestNothing() {}\n",
		"below/idle_test.go":        "//go:build prove\n\npackage p\nfunc help() {}\n",
		"below/plain.go":            "package p\n",
		"node_modules/idle_test.go": "package p\n",
		"below/testdata/a_test.go":  "no Go at all",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, err := testless(dir)
	if want := []string{filepath.Join(dir, "below/idle_test.go"), filepath.Join(dir, "idle_test.go")}; err != nil || !slices.Equal(found, want) {
		t.Errorf("found %q, %v; want %q", found, err, want)
	}
}
