package catalog_test

import (
	"slices"
	"testing"

	"github.com/sidecall/sidecall/internal/catalog"
)

func routes(backend string, names ...string) []*catalog.Route {
	all := make([]*catalog.Route, len(names))
	for i, name := range names {
		all[i] = route(backend, name)
	}
	return all
}

// owns says which backend a name calls; empty for none.
func owns(g *catalog.Generation, name string) string {
	if r, ok := g.Snapshot().Lookup(name); ok {
		return r.Tool.Backend
	}
	return ""
}

// backends announces backends by name and prefix.
func backends(g *catalog.Generation, prefixes map[string]string) *catalog.Generation {
	for name, prefix := range prefixes {
		g.Expect(name, catalog.Undiscovered{Prefix: prefix})
	}
	return g
}

// Who serves a name keeps it, however the others are called and whenever they come:
// also when it is away for a while, and when it says again what it has. From when it has
// the tool no more, the next one has it.
func TestWhoServesANameKeepsIt(t *testing.T) {
	for _, order := range [][2]string{{"aaa", "zzz"}, {"zzz", "aaa"}} {
		first, second := order[0], order[1]
		g := backends(generation(), map[string]string{"aaa": "", "zzz": ""})
		g.Set(first, routes(first, "refund", "only_"+first))
		want := []catalog.Collision{{Name: "refund", Kept: first, Dropped: second}}
		if got := g.Set(second, routes(second, "refund", "only_"+second)); !slices.Equal(got, want) || !slices.Equal(g.Snapshot().Collisions(), want) {
			t.Errorf("%v: collisions %v", order, got)
		}
		if names := g.Snapshot().Names(); !slices.Equal(names, []string{"only_aaa", "only_zzz", "refund"}) {
			t.Errorf("%v: names %v", order, names)
		}
		for what, change := range map[string]func(){
			"it is away":      func() { g.SetDown(first, "it hangs") },
			"it says so":      func() { g.Set(first, routes(first, "refund")) },
			"the other does":  func() { g.Set(second, routes(second, "refund")) },
			"another advice":  func() { g.Advise(catalog.Advice{}) },
			"one that is new": func() { g.Set("a", routes("a", "refund")) },
		} {
			if change(); owns(g, "refund") != first {
				t.Errorf("%v: %s: it is %s's", order, what, owns(g, "refund"))
			}
		}
		g.Set("a", nil)
		if g.Set(first, nil); owns(g, "refund") != second {
			t.Errorf("%v: then it is %s's", order, owns(g, "refund"))
		}
		if g.Set(first, routes(first, "refund")); owns(g, "refund") != second {
			t.Errorf("%v: who gave it up has taken it back", order)
		}
	}
}

// What the config says of a name does not depend on who comes first.
func TestWhoseANameIsByTheConfig(t *testing.T) {
	announced := map[string]catalog.Undiscovered{
		"aaa": {}, "files": {Prefix: "files_"}, "ro": {Prefix: "files_ro_"}, "twin": {Prefix: "files_"},
		"bank": {Mentioned: []string{"pay", "files_x"}}, "till": {Mentioned: []string{"pay", "count"}},
	}
	const nobody = ""
	for _, test := range []struct {
		name string
		has  []string // in the order in which they come
		want string
	}{
		{"search", []string{"aaa"}, "aaa"},
		{"files_x", []string{"aaa"}, nobody}, // whose prefix it has is still away
		{"files_x", []string{"bank"}, nobody},
		{"files_x", []string{"aaa", "files"}, "files"},
		{"files_x", []string{"twin", "files"}, "twin"}, // of one prefix, who comes first
		{"files_x", []string{"files", "twin"}, "files"},
		{"files_ro_x", []string{"files"}, nobody},
		{"files_ro_x", []string{"files", "ro"}, "ro"},
		{"files", []string{"aaa"}, "aaa"}, // not under it
		{"pay", []string{"aaa"}, nobody},
		{"pay", []string{"aaa", "till"}, nobody}, // bank has not said yet that it has none
		{"pay", []string{"till", "bank"}, "bank"},
		{"count", []string{"aaa", "till"}, "till"},
		{"stated", []string{"aaa", "files"}, "shop"},
		{"files_stated", []string{"files", "aaa"}, "shop"},
	} {
		g := generation(route("shop", "stated"), route("shop", "files_stated"))
		for name, u := range announced {
			g.Expect(name, u)
		}
		for _, backend := range test.has {
			g.Set(backend, routes(backend, test.name))
		}
		if got := owns(g, test.name); got != test.want {
			t.Errorf("%s of %v is %q's, want %q", test.name, test.has, got, test.want)
		}
		if refused := g.Snapshot().Collisions(); test.want == nobody && len(refused) != len(test.has) {
			t.Errorf("%s of %v: told %v", test.name, test.has, refused)
		}
	}
}

// A name that the config mentions of a backend which turns out to have no such tool is
// anybody's; one under a prefix is not.
func TestNamesThatTheirOwnerDoesNotHave(t *testing.T) {
	g := generation()
	g.Expect("bank", catalog.Undiscovered{Mentioned: []string{"pay"}})
	backends(g, map[string]string{"files": "files_", "aaa": ""})
	g.Set("aaa", routes("aaa", "pay", "files_x"))
	for _, backend := range []string{"bank", "files"} {
		g.SetDown(backend, "it hangs")
		if owns(g, "pay")+owns(g, "files_x") != "" {
			t.Errorf("%s is away: %v", backend, g.Snapshot().Names())
		}
	}
	g.Set("bank", nil)
	g.Set("files", nil)
	if owns(g, "pay") != "aaa" || owns(g, "files_x") != "" {
		t.Errorf("there are %v", g.Snapshot().Names())
	}
	want := `tool "files_x" of backend "aaa" is not registered: backend "files" has the names that begin with files_; set a prefix on one of them`
	if told := g.Snapshot().Collisions(); len(told) != 1 || told[0].String() != want {
		t.Errorf("told %v", told)
	}
}

// Before a tool is there it can be asked whether it may have its name.
func TestWhetherANameIsTaken(t *testing.T) {
	g := backends(generation(route("shop", "refund"), route(catalog.BuiltIn, "read_output")), map[string]string{"workers": "", "files": "files_", "web": ""})
	g.Set("web", routes("web", "search"))
	for name, want := range map[string]*catalog.Collision{
		"free": nil, "files": nil,
		"search":      {Name: "search", Kept: "web", Dropped: "workers"},
		"files_x":     {Name: "files_x", Kept: "files", Dropped: "workers", Prefix: "files_"},
		"refund":      {Name: "refund", Kept: "shop", Dropped: "workers"},
		"read_output": {Name: "read_output", Kept: catalog.BuiltIn, Dropped: "workers"},
	} {
		got := g.Taken(name, "workers")
		if (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	g.Set("workers", routes("workers", "free"))
	if g.Taken("free", "workers") != nil || g.Taken("free", "web") == nil {
		t.Error("its own is not its own")
	}
}

// A worker asks for each of its names: for none of them all lists are gone through.
func TestWhetherANameIsTakenCostsLittle(t *testing.T) {
	g := backends(generation(), map[string]string{"local": "", "remote": ""})
	g.Set("remote", routes("remote", "a", "b", "c"))
	if n := testing.AllocsPerRun(10, func() { g.Taken("add", "local") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// A config that takes over leaves the names whose they were: a backend that it has and
// that has not been heard of keeps them from one that was faster. What the new config
// says counts more.
func TestNamesOverAConfig(t *testing.T) {
	before := backends(generation(), map[string]string{"workers": "", "old": ""})
	before.Set("workers", routes("workers", "refund", "pay", "stated"))
	before.Set("old", routes("old", "gone"))
	g := backends(generation(route("shop", "stated")), map[string]string{"workers": "", "aaa": ""})
	g.Expect("bank", catalog.Undiscovered{Mentioned: []string{"pay"}})
	g.Set("aaa", routes("aaa", "refund", "gone", "pay"))
	g.Inherit(before)
	if owns(g, "refund") != "" || owns(g, "gone") != "aaa" || owns(g, "stated") != "shop" {
		t.Errorf("before they are heard of: %v", g.Snapshot().Names())
	}
	g.Set("bank", routes("bank", "pay"))
	g.Set("workers", routes("workers", "refund", "pay"))
	for name, want := range map[string]string{"refund": "workers", "gone": "aaa", "pay": "bank", "stated": "shop"} {
		if got := owns(g, name); got != want {
			t.Errorf("%s is %q's, want %q", name, got, want)
		}
	}
}

// Of two tools of one backend that come to have one name, the first is kept.
func TestANameTwiceInOneList(t *testing.T) {
	g := backends(generation(), map[string]string{"files": "files_"})
	if got := g.Set("files", routes("files", "files_a", "files_a")); len(got) != 1 || got[0].Kept != "files" || owns(g, "files_a") != "files" {
		t.Errorf("got %v", got)
	}
}
