package assembly

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

// secretsOf returns what takes secrets out of the errors of the backend that
// they were entrusted to: some servers echo their request, some commands their
// environment. nil when there are none.
func secretsOf(given entrusted) *strings.Replacer {
	var found []string
	for _, group := range given.values {
		for name, value := range group {
			if secretName.MatchString(name) || isReference(value) {
				// "Bearer abc" is a secret whole and in its parts.
				found = append(found, value.Reveal())
				found = append(found, strings.Fields(value.Reveal())...)
			}
		}
	}
	for _, name := range given.passed {
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
