// Package injections has what tools say that want to be taken for more than data,
// and a reader who looks for what cannot be seen: whatever a sidecar lets through is to
// be read with Unseen. The corpus is data, injections.yaml.
package injections

import (
	_ "embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// Payload is one thing that a tool says.
type Payload struct {
	Family, Name string
	// Text is what it says, of any bytes.
	Text string
	// Shown is what a model may read of it: the text without what cannot be seen.
	Shown string
}

// String names it, as a subtest.
func (p *Payload) String() string { return p.Family + "/" + p.Name }

//go:embed injections.yaml
var corpus []byte

// entry is a payload as the corpus has it.
type entry struct {
	Name  string  `yaml:"name"`
	Text  string  `yaml:"text"`
	Hex   string  `yaml:"hex"`
	Times int     `yaml:"times"`
	Shown *string `yaml:"shown"`
}

// All is the corpus, by family and in its order.
func All(t testing.TB) []Payload {
	t.Helper()
	var families map[string][]entry
	if err := yaml.Unmarshal(corpus, &families); err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(families))
	for name := range families {
		names = append(names, name)
	}
	slices.Sort(names)
	var all []Payload
	for _, family := range names {
		for _, e := range families[family] {
			p, err := e.payload()
			if err != nil {
				t.Fatalf("%s/%s: %v", family, e.Name, err)
			}
			p.Family = family
			all = append(all, p)
		}
	}
	return all
}

func (e *entry) payload() (Payload, error) {
	p := Payload{Name: e.Name, Text: e.Text}
	if e.Hex != "" {
		raw, err := hex.DecodeString(e.Hex)
		if err != nil {
			return p, fmt.Errorf("hex: %w", err)
		}
		p.Text = string(raw)
	}
	p.Shown = p.Text
	if e.Shown != nil {
		p.Shown = *e.Shown
	}
	times := max(e.Times, 1)
	p.Text, p.Shown = strings.Repeat(p.Text, times), strings.Repeat(p.Shown, times)
	return p, nil
}
