package config

import (
	"strings"
	"testing"
)

func TestWhereAJournalIsKept(t *testing.T) {
	for text, want := range map[string]struct {
		on   bool
		file string
	}{
		"{}":                                         {false, "./sidecall.journal"},
		"store: {memory: {}}":                        {false, "./sidecall.journal"},
		`store: {redis: {addrs: ["r:6379"]}}`:        {true, "./sidecall.journal"},
		"journal: {path: /other/disk/j}":             {true, "/other/disk/j"},
		"journal: {enabled: true}":                   {true, "./sidecall.journal"},
		"journal: {enabled: false, path: /j}":        {false, "/j"},
		"{store: {memory: {}}, journal: {path: /j}}": {false, "/j"},
		`{store: {redis: {addrs: ["r:6379"]}}, journal: {enabled: false}}`:                    {false, "./sidecall.journal"},
		`{store: {redis: {addrs: ["r:6379"]}}, journal: {path: "/run/${env:SIDECALL_TEST}"}}`: {true, "/run/x"},
	} {
		t.Setenv("SIDECALL_TEST", "x")
		c, err := Parse("sidecall.yaml", []byte(text), System())
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := c.Journal.On(c.Store.Kind()); got != want.on || c.Journal.File() != want.file {
			t.Errorf("%s: on %t at %s, want %t at %s", text, got, c.Journal.File(), want.on, want.file)
		}
		if c.Journal.MaxBytes != 64<<20 {
			t.Errorf("%s: %v", text, c.Journal.MaxBytes)
		}
	}
}

func TestTheJournalIsNotTheStore(t *testing.T) {
	_, err := Parse("sidecall.yaml", []byte("journal: {path: ./sidecall.db}"), System())
	if err == nil || !strings.Contains(err.Error(), "journal.path") || !strings.Contains(err.Error(), "file of the store") {
		t.Errorf("got %v", err)
	}
}
