package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// garden is a document of a test.
type garden struct {
	Beds []bed `yaml:"beds" doc:"The beds." required:"true" items:"1"`
}

type bed struct {
	Name  string `yaml:"name" doc:"Its name." required:"true"`
	Rows  int    `yaml:"rows" doc:"Its rows." default:"3" min:"1" max:"9"`
	Plant Value  `yaml:"plant" doc:"What grows."`
}

// Another kind of file is read as strictly as the config, with places.
func TestADocument(t *testing.T) {
	read, err := ParseDocument[garden]("g.yaml", []byte("beds:\n- name: a\n- {name: b, rows: 5, plant: [1.50, {x: null}]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	beds := read.Value.Beds
	if len(beds) != 2 || beds[0].Rows != 3 || beds[0].Plant != nil || beds[1].Rows != 5 || string(beds[1].Plant) != `[1.50,{"x":null}]` {
		t.Errorf("%+v", beds)
	}
	if at := read.Where("beds", "1", "plant"); at.File != "g.yaml" || at.Line != 3 || at.Column != 29 || at.Path != "beds[1].plant" {
		t.Errorf("%+v", at)
	}
}

func TestADocumentThatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     `g.yaml:1:1: "beds" is missing: The beds.`,
		"bed: []":                              `g.yaml:1:1: bed: unknown key; did you mean "beds"?`,
		"beds: []":                             "g.yaml:1:7: beds: expected at least 1 item",
		"beds: [{name: a, rows: 10}]":          "g.yaml:1:24: beds[0].rows: expected 1 to 9, found the number 10",
		"beds: [{name: a, plant: !!binary x}]": "g.yaml:1:25: beds[0].plant: expected a value that JSON knows",
		"beds: [":                              "g.yaml:2:1: not YAML",
		"beds: &a [*a]":                        "an alias of itself",
		"beds: [{name: ${env:HOME}}]":          "not YAML",
	} {
		_, err := ParseDocument[garden]("g.yaml", []byte(text))
		if _, ok := errors.AsType[Problems](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, and not %q", text, err, want)
		}
	}
}

func TestADocumentInAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "g.yaml")
	if _, err := ReadDocument[garden](path); err == nil || err.Error() != path+": cannot read the file: no such file or directory" {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("beds: [{name: a}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if read, err := ReadDocument[garden](path); err != nil || read.Value.Beds[0].Name != "a" {
		t.Error(err)
	}
}
