package cases

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// The page for who writes cases knows every key and every fault.
func TestThePageIsComplete(t *testing.T) {
	text, err := os.ReadFile("../../docs/cases.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for name := range kinds {
		if !strings.Contains(page, "| `"+name+"` |") {
			t.Errorf("it does not have the fault %s", name)
		}
	}
	for key := range faultKeys {
		if !strings.Contains(page, "`"+key+"`") && !strings.Contains(page, "{"+key+": ") {
			t.Errorf("it does not have the key %s of a fault", key)
		}
	}
	for _, of := range []reflect.Type{reflect.TypeFor[oneCase](), reflect.TypeFor[call](), reflect.TypeFor[answer](), reflect.TypeFor[expectation]()} {
		for _, field := range reflect.VisibleFields(of) {
			if key := field.Tag.Get("yaml"); key != "" && key[0] != ',' && !strings.Contains(page, "`"+key+"`") {
				t.Errorf("it does not have the key %s", key)
			}
		}
	}
}
