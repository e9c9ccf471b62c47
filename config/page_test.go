package config

import (
	"reflect"
	"strings"
	"testing"
)

// TestPage keeps docs/config.md equal to the types it is made from.
func TestPage(t *testing.T) {
	golden(t, "../docs/config.md", string(Page()))
}

// Every key is on the page with its default and its description, and every link
// leads to a heading.
func TestPageHasEveryKey(t *testing.T) {
	page := string(Page())
	for of, s := range allShapes() {
		for _, f := range s.fields {
			found := false
			for line := range strings.Lines(page) {
				found = found || strings.HasPrefix(line, "| `"+f.key+"` | ") &&
					strings.Contains(line, cell(f.doc)+" |") && strings.Contains(line, "| "+f.defaultWords()+" |")
			}
			if !found {
				t.Errorf("%s.%s is not on the page", of.Name(), f.key)
			}
		}
	}
	headings := map[string]bool{}
	for line := range strings.Lines(page) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			if at := anchor(strings.TrimSpace(heading)); headings[at] {
				t.Errorf("two headings at #%s", at)
			} else {
				headings[at] = true
			}
		}
	}
	for _, part := range strings.Split(page, "](#")[1:] {
		if at, _, _ := strings.Cut(part, ")"); !headings[at] {
			t.Errorf("no heading at #%s", at)
		}
	}
	if len(headings) < 20 {
		t.Errorf("%d headings", len(headings))
	}
}

// allShapes are those of every struct type that Config holds.
func allShapes() map[reflect.Type]*shape {
	all := map[reflect.Type]*shape{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		t = elem(t)
		if s := shapeOf(t); s != nil && all[t] == nil {
			all[t] = s
			for _, f := range s.fields {
				add(f.typ)
			}
		}
	}
	add(reflect.TypeFor[Config]())
	return all
}
