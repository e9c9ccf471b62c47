package catalog_test

import (
	"slices"
	"testing"

	"github.com/sidecall/sidecall/internal/catalog"
)

// A source whose tools are still to come is not forgotten, and stands for the names
// that they may have, until it has been seen once: being down later is another thing.
func TestToolsThatAreStillToCome(t *testing.T) {
	g := catalog.NewGeneration(catalog.Profiles{}, catalog.Limits{})
	g.Expect("files", catalog.Undiscovered{Prefix: "files_"})
	g.Expect("web", catalog.Undiscovered{Prefix: "web_", Optional: true})
	if s := g.Snapshot(); s.Discovered() || s.Undiscovered()["files"].Why() != "it is being connected" {
		t.Errorf("at the start: %v", s.Undiscovered())
	}
	g.SetDown("files", "it exits")
	s := g.Snapshot()
	if s.Discovered() || s.Undiscovered()["files"].Why() != "it exits" || s.Down()["files"] != "it exits" {
		t.Errorf("one that cannot be reached: %v, %v", s.Undiscovered(), s.Down())
	}
	for name, want := range map[string][]string{"files_read": {"files"}, "web_get": {"web"}, "refund": {}, "files": {}} {
		if got := s.MayHave(name); !slices.Equal(got, want) {
			t.Errorf("%s may be of %v, want %v", name, got, want)
		}
	}
	g.Expect("any", catalog.Undiscovered{})
	if got := g.Snapshot().MayHave("web_get"); !slices.Equal(got, []string{"any", "web"}) {
		t.Errorf("without a prefix it may be called anything: %v", got)
	}
	g.Set("any", nil)
	g.Set("files", []*catalog.Route{route("files", "files_read")})
	if s := g.Snapshot(); !s.Discovered() || len(s.Undiscovered()) != 1 || len(s.MayHave("files_gone")) > 0 {
		t.Errorf("what is left is optional: %v", s.Undiscovered())
	}
	g.SetDown("files", "it exits")
	if s := g.Snapshot(); !s.Discovered() || s.Down()["files"] == "" {
		t.Error("one that was there and is down counts as not discovered")
	}
}
