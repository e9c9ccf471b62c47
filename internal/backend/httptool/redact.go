package httptool

import (
	"slices"
	"strings"

	"github.com/sidecall/sidecall/internal/tool"
)

// minSecret is the length from which a header value is taken for a secret.
// Shorter ones would turn up in messages by chance.
const minSecret = 8

// redactor takes the backend's own header values out of what an upstream says:
// some echo the request in their errors.
type redactor struct{ replacer *strings.Replacer }

func newRedactor(headers map[string]string) *redactor {
	var secrets []string
	for name, value := range headers {
		if harmlessHeader(name) {
			continue
		}
		for _, secret := range append(strings.Fields(value), value) {
			if len(secret) >= minSecret {
				secrets = append(secrets, secret)
			}
		}
	}
	// The longest first, so that a whole value goes before its parts.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	if len(secrets) == 0 {
		return &redactor{}
	}
	pairs := make([]string, 0, 2*len(secrets))
	for _, secret := range secrets {
		pairs = append(pairs, secret, tool.ReceivedRedacted)
	}
	return &redactor{strings.NewReplacer(pairs...)}
}

// harmlessHeader reports whether a header describes the exchange and holds no
// secret.
func harmlessHeader(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "accept") || strings.HasPrefix(name, "content-") || strings.HasSuffix(name, "version") ||
		name == "user-agent" || name == "host" || name == "cache-control" || name == "origin" || name == "referer"
}

func (r *redactor) clean(text string) string {
	if r.replacer == nil {
		return text
	}
	return r.replacer.Replace(text)
}
