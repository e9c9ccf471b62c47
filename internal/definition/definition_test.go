package definition_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/definition"
	"github.com/sidecall/sidecall/internal/redact"
	"github.com/sidecall/sidecall/internal/tool"
)

const unseen = "\u202e\u200b\U000e0041\x1b[31m\x07"

// Whatever part of a definition hides something or tells a secret: it is not shown.
func TestDefinitionsAreCleaned(t *testing.T) {
	dirty := func(text string) string {
		return text + unseen + ` s3cr3t-of-config`
	}
	schema, err := json.Marshal(map[string]any{
		"type": "object", "title": dirty("t"), "description": dirty("d"),
		"properties": map[string]any{"a" + unseen: map[string]any{
			"description": dirty("x"), "enum": []string{dirty("one")}, "examples": []string{dirty("e")}, "default": dirty("f"), "pattern": "^" + dirty("p"),
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := definition.Cleaner{Secrets: redact.New("s3cr3t-of-config")}
	d, err := c.Clean(tool.Discovered{
		Name: "x", Description: dirty("says"), InputSchema: schema, OutputSchema: schema, Annotations: map[string]string{"title": dirty("T\nT")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := `says (redacted)`; d.Description != want || d.Annotations["title"] != strings.Replace(want, "says", "T T", 1) {
		t.Errorf("description %q, title %q", d.Description, d.Annotations["title"])
	}
	for _, text := range []json.RawMessage{d.InputSchema, d.OutputSchema} {
		var read map[string]any
		if err := json.Unmarshal(text, &read); err != nil {
			t.Fatal(err)
		}
		plain, _ := json.Marshal(read)
		for _, bad := range []string{"\u202e", "\u200b", "\U000e0041", `\u001b`, `\u0007`, "s3cr3t"} {
			if strings.Contains(string(plain), bad) {
				t.Errorf("%q is in %s", bad, plain)
			}
		}
		property, _ := read["properties"].(map[string]any)["a"].(map[string]any)
		if property["enum"].([]any)[0] != `one (redacted)` {
			t.Errorf("enum: %v", property)
		}
	}
}

// Each text, each tool and each backend has a bound.
func TestDefinitionsAreCapped(t *testing.T) {
	var c definition.Cleaner
	long := strings.Repeat("word ", 20_000)
	properties := map[string]any{"description": map[string]any{"type": "string", "description": long, "default": long, "examples": []string{long}}}
	schema, _ := json.Marshal(map[string]any{"type": "object", "description": long, "properties": properties, "required": []string{"description"}})
	d, err := c.Clean(tool.Discovered{Name: "x", Description: long, InputSchema: schema, Annotations: map[string]string{"title": long}})
	if err != nil {
		t.Fatal(err)
	}
	if len([]rune(d.Description)) > definition.MaxDescription || len(d.InputSchema) > 5*definition.MaxText || len(d.Annotations["title"]) > 1000 {
		t.Errorf("%d, %d, %d are left", len(d.Description), len(d.InputSchema), len(d.Annotations["title"]))
	}
	var read struct {
		Properties map[string]struct{ Type, Description string }
		Required   []string
	}
	if err := json.Unmarshal(d.InputSchema, &read); err != nil || read.Properties["description"].Type != "string" || len(read.Required) != 1 {
		t.Errorf("what it demands is lost: %s, %v", d.InputSchema, err)
	}
	short := json.RawMessage(`{ "type": "object",  "properties": {"n": {"maximum": 1.50}} }`)
	if d, err := c.Clean(tool.Discovered{Name: "x", InputSchema: short}); err != nil || string(d.InputSchema) != string(short) {
		t.Errorf("a short schema is written anew: %s, %v", d.InputSchema, err)
	}

	many := map[string]any{}
	for i := range 400 {
		many[strings.Repeat("n", i+1)] = map[string]any{"type": "string", "description": strings.Repeat("d", 1900)}
	}
	schema, _ = json.Marshal(map[string]any{"type": "object", "properties": many})
	if d, err = c.Clean(tool.Discovered{Name: "x", InputSchema: schema}); err != nil || strings.Contains(string(d.InputSchema), "description") || !strings.Contains(string(d.InputSchema), `"nnn":{"type":"string"}`) {
		t.Errorf("a tool that is too large: %.200s, %v", d.InputSchema, err)
	}
	enum, _ := json.Marshal(map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"enum": []string{strings.Repeat("e", definition.MaxTool)}}}})
	if _, err = c.Clean(tool.Discovered{Name: "x", InputSchema: enum}); err == nil {
		t.Error("there is no bound for a tool")
	}
	var all definition.Cleaner
	for n := 0; ; n++ {
		if n > definition.MaxBackend/definition.MaxDescription+1 {
			t.Fatal("there is no bound for a backend")
		}
		if _, err := all.Clean(tool.Discovered{Name: "x", Description: long[:definition.MaxDescription]}); err != nil {
			break
		}
	}
}

// The hash is of what is said, not of how JSON is written.
func TestTheHashOfADefinition(t *testing.T) {
	base := tool.Discovered{Name: "x", Description: "d", InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"maximum":1}}}`), Annotations: map[string]string{"title": "T", "readOnlyHint": "true"}}
	pin := definition.Of(&base)
	same := base
	same.InputSchema = json.RawMessage("{\"properties\": {\"a\": {\"maximum\": 1}},\n \"type\": \"object\"}")
	if definition.Of(&same).Hash != pin.Hash {
		t.Error("the order of keys changes the hash")
	}
	for name, change := range map[string]func(*tool.Discovered){
		"description":              func(d *tool.Discovered) { d.Description += "\u200b" },
		"input_schema":             func(d *tool.Discovered) { d.InputSchema = json.RawMessage(`{"type":"object"}`) },
		"output_schema":            func(d *tool.Discovered) { d.OutputSchema = json.RawMessage(`{}`) },
		"annotations":              func(d *tool.Discovered) { d.Annotations = map[string]string{"title": "T"} },
		"definition":               func(d *tool.Discovered) { d.Name = "y" },
		"description, annotations": func(d *tool.Discovered) { d.Description, d.Annotations = "", nil },
	} {
		other := base
		change(&other)
		if now := definition.Of(&other); now.Hash == pin.Hash || now.Changed(pin) != name {
			t.Errorf("%s: %s %s", name, now.Hash, now.Changed(pin))
		}
	}
}

// What is pinned outlives the process, in a file that a person can write too.
func TestPinsAreRemembered(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.pins")
	first, err := definition.OpenPins(path)
	if err != nil {
		t.Fatal(err)
	}
	d := tool.Discovered{Name: "x"}
	pins := map[definition.Tool]definition.Pin{{Backend: "files", Name: "read_file"}: definition.Of(&d), {Backend: "files", Name: "odd \"name\"\n"}: {Hash: "sha256:" + strings.Repeat("0", 64)}}
	if err := first.Remember(pins); err != nil {
		t.Fatal(err)
	}
	second, err := definition.OpenPins(path)
	if err != nil {
		t.Fatal(err)
	}
	var asked []definition.Tool
	for at := range maps.Keys(pins) {
		asked = append(asked, at)
	}
	known, err := second.Known(append(asked, definition.Tool{Backend: "files", Name: "new"}))
	if err != nil || len(known) != 2 || known[asked[0]].Hash != pins[asked[0]].Hash || known[asked[1]].Hash != pins[asked[1]].Hash {
		t.Errorf("%v, %v", known, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info, err)
	}
	if left, _ := filepath.Glob(path + ".*"); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	other := definition.Tool{Backend: "files", Name: "other"}
	if err := first.Remember(map[definition.Tool]definition.Pin{other: pins[asked[0]]}); err != nil {
		t.Fatal(err)
	}
	if err := second.Remember(map[definition.Tool]definition.Pin{asked[0]: pins[asked[0]]}); err != nil {
		t.Fatal(err)
	}
	if known, err := first.Known([]definition.Tool{other}); err != nil || len(known) != 1 {
		t.Errorf("what another process wrote is gone: %v, %v", known, err)
	}
	line := "files by_hand sha256:" + strings.Repeat("a", 64) + "\n"
	if err := os.WriteFile(path, []byte("# mine\n\n"+line), 0o600); err != nil {
		t.Fatal(err)
	}
	if known, err := second.Known([]definition.Tool{{Backend: "files", Name: "by_hand"}, asked[0]}); err != nil || len(known) != 1 {
		t.Errorf("what a person wrote: %v, %v", known, err)
	}
	for _, bad := range []string{"files x", "files x sha256:12", line + line, "x\x00"} {
		if err := os.WriteFile(path, []byte("#\n"+bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := definition.OpenPins(path); err == nil || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%q: %v", bad, err)
		}
		if err := second.Remember(pins); err == nil || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%q, and more is to be remembered: %v", bad, err)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != "#\n"+bad {
			t.Errorf("what could not be read was written over: %q, %v", text, err)
		}
	}
}

// A server that renames its tools for ever fills neither the memory nor the file,
// on which other backends rely at the next start.
func TestAServerThatRenamesItsToolsFillsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.pins")
	pins, err := definition.OpenPins(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for list := range 4 {
		fresh := map[definition.Tool]definition.Pin{}
		for n := range 10_000 {
			fresh[definition.Tool{Backend: "noisy", Name: fmt.Sprintf("tool_%d_%d", list, n)}] = definition.Pin{Hash: "sha256:" + strings.Repeat("0", 64)}
		}
		if err := pins.Remember(fresh); err != nil {
			refused++
		}
	}
	if refused == 0 {
		t.Error("there is no bound")
	}
	other := definition.Tool{Backend: "calm", Name: "read"}
	if err := pins.Remember(map[definition.Tool]definition.Pin{other: {Hash: "sha256:" + strings.Repeat("1", 64)}}); err != nil {
		t.Errorf("another backend: %v", err)
	}
	again, err := definition.OpenPins(path)
	if err != nil {
		t.Fatal(err)
	}
	if known, err := again.Known([]definition.Tool{other, {Backend: "noisy", Name: "tool_0_0"}}); err != nil || len(known) != 2 {
		t.Errorf("what was remembered before is lost: %v, %v", known, err)
	}
}
