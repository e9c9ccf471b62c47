package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sidecall/sidecall/internal/config"
)

// What the command line says holds for every config that comes after the first, too.
func TestTheSourceOfAConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sidecall.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, watch := range []bool{true, false} {
		write("store: {memory: {}}\n")
		s := &source{Watch: config.NewWatch(path), listen: []string{"tcp://127.0.0.1:1"}, watch: watch}
		for _, text := range []string{"store: {memory: {}}\n", "store: {memory: {}}\nlisten: [tcp://127.0.0.1:2]\n"} {
			write(text)
			cfg, err := s.Load()
			if err != nil || len(cfg.Listen) != 1 || cfg.Listen[0].Reveal() != "tcp://127.0.0.1:1" {
				t.Errorf("it listens at %v, %v", cfg.Listen, err)
			}
		}
		write("store: {memory: {}}\nlease: 1m\n")
		if s.Changed(); s.Changed() != watch {
			t.Errorf("that it changed is said: %v", !watch)
		}
	}
	s := &source{Watch: config.NewWatch(path), listen: []string{"nowhere"}}
	if _, err := s.Load(); err == nil {
		t.Error("an address that is none was taken")
	}
}
