package main

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/sidecall/sidecall/config"
	"github.com/sidecall/sidecall/tool"
)

// minSecret is the length, in bytes, from which a value is taken for a secret.
// Shorter ones turn up in messages by chance.
const minSecret = 8

// secretName is the name of a variable or header whose value is a secret,
// however it is written in the config file.
var secretName = regexp.MustCompile(`(?i)token|secret|key|passw|credential|auth|cookie`)

// secretsOf returns what takes the secrets of a backend out of its errors: some
// servers echo their request, some commands their environment. nil when the
// backend has none.
func secretsOf(cfg config.Backend) *strings.Replacer {
	var found []string
	add := func(name string, value config.Secret) {
		if secretName.MatchString(name) || isReference(value) {
			// "Bearer abc" is a secret whole and in its parts.
			found = append(found, value.Reveal())
			found = append(found, strings.Fields(value.Reveal())...)
		}
	}
	for _, group := range secretMaps(cfg) {
		for name, value := range group {
			add(name, value)
		}
	}
	for _, name := range passedOn(cfg) {
		if value, ok := os.LookupEnv(name); ok && secretName.MatchString(name) {
			found = append(found, value)
		}
	}
	return replacer(found)
}

// isReference reports whether a value comes from the environment or a file.
func isReference(s config.Secret) bool {
	text, err := s.MarshalText()
	return err == nil && strings.HasPrefix(string(text), "${")
}

func secretMaps(cfg config.Backend) []map[string]config.Secret {
	switch {
	case cfg.HTTP != nil:
		return []map[string]config.Secret{cfg.HTTP.Headers}
	case cfg.MCP != nil:
		return []map[string]config.Secret{cfg.MCP.Headers, cfg.MCP.Env.Set}
	default:
		return []map[string]config.Secret{cfg.Exec.Env.Set}
	}
}

// passedOn are the names of the sidecar's own variables that a backend gets.
func passedOn(cfg config.Backend) []string {
	switch {
	case cfg.MCP != nil:
		return cfg.MCP.Env.Pass
	case cfg.Exec != nil:
		return cfg.Exec.Env.Pass
	default:
		return nil
	}
}

func replacer(secrets []string) *strings.Replacer {
	unique := make(map[string]bool)
	for _, secret := range secrets {
		if len(secret) >= minSecret {
			unique[secret] = true
		}
	}
	if len(unique) == 0 {
		return nil
	}
	// The longest first, so that a whole value goes before its parts.
	sorted := slices.SortedFunc(maps.Keys(unique), func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(sorted))
	for _, secret := range sorted {
		pairs = append(pairs, secret, tool.ReceivedRedacted)
	}
	return strings.NewReplacer(pairs...)
}
