package app

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/redact"
)

const (
	// minSecret is the length, in bytes, from which a value is taken for a secret
	// that a name or a reference says is one. Shorter ones turn up by chance.
	minSecret = 8
	// minLiteral is that of a value of which nothing says so: true, production and
	// eu-west-1 are shorter.
	minLiteral = 12
)

// secrets are values that tools must not show.
type secrets struct {
	// known are those of which a name or a reference says that they are secret: no
	// tool may show them. literal are the other values that a backend is given; its
	// own tools may not.
	known, literal []string
}

// set is what takes them out.
func (s secrets) set() *redact.Set { return redact.New(slices.Concat(s.known, s.literal)...) }

// secretsOf are the secrets among what a backend is given: some servers echo
// their request, some commands their environment.
func secretsOf(given entrusted) (found secrets) {
	for _, group := range given.values {
		for name, value := range group {
			found.value(name, value)
		}
	}
	for _, text := range given.texts {
		found.references(text.References())
	}
	for _, name := range given.passed {
		if value, ok := os.LookupEnv(name); ok && config.SecretName.MatchString(name) {
			found.know(value)
		}
	}
	return found
}

// allSecrets are those that no tool of a config may show, whoever was given them.
func allSecrets(cfg *config.Config) (known []string) {
	var found secrets
	for _, declared := range cfg.Backends {
		if of, ok := kinds[declared.Kind()]; ok && declared.HasOneKind() {
			found.known = append(found.known, secretsOf(of.entrusted(declared)).known...)
		}
	}
	for _, declared := range cfg.Tools {
		if declared.Exec != nil {
			for _, text := range declared.Exec.Argv {
				found.references(text.References())
			}
		}
	}
	if redis := cfg.Store.Redis; redis != nil {
		found.know(redis.Password.Reveal())
		found.know(redis.SentinelPassword.Reveal())
	}
	found.know(cfg.Notify.Secret.Reveal())
	found.know(cfg.Notify.URL.Reveal())
	return found.known
}

// maxFormer bounds the secrets of former configs that are still not shown.
const maxFormer = 100

// withFormer are secrets with those of the configs before, the latest first: one that was replaced may still be
// valid, and stands in what tools keep and log.
func withFormer(now []string, before *generation) []string {
	if before == nil {
		return now
	}
	all, most := slices.Clone(now), len(now)+maxFormer
	for _, was := range before.known {
		if len(all) < most && !slices.Contains(all, was) {
			all = append(all, was)
		}
	}
	return all
}

// value takes a value that stands under a name.
func (s *secrets) value(name string, value config.Secret) {
	text, refs := value.Reveal(), value.References()
	switch {
	case harmlessHeader(name):
		s.references(refs)
	case config.SecretName.MatchString(name):
		s.know(text)
	case len(refs) > 0:
		s.references(refs)
		if !isWord(text) {
			s.know(text)
		}
	case len(text) >= minLiteral && !isPlace(text):
		s.literal = append(s.literal, text)
		s.inside(text)
	}
}

// references takes what references to files stand for, and to variables of whose
// name it is plain that they hold a secret.
func (s *secrets) references(refs []config.Reference) {
	for _, ref := range refs {
		if ref.FromFile() || config.SecretName.MatchString(ref.Name) {
			s.know(ref.Value)
		}
	}
}

// know takes a value of which it is said that it is secret: "Bearer abc" is one
// whole and in its parts.
func (s *secrets) know(text string) {
	for _, part := range append(strings.Fields(text), text) {
		if len(part) >= minSecret && !isPlace(part) {
			s.known = append(s.known, part)
		}
	}
	s.inside(text)
}

// namedValue is a password or key with its name, as connection strings and queries of
// URLs have it: password=..., AccountKey=...;
var namedValue = regexp.MustCompile(`(?i)(?:password|passwd|pwd|secret|token|key)\s*=\s*("[^"]*"|'[^']*'|[^\s;&"']+)`)

// inside takes the secrets inside of a value: the password of a URL or of a
// connection string, what Basic authentication encodes, the key of a service account.
func (s *secrets) inside(text string) {
	for _, found := range namedValue.FindAllStringSubmatch(text, -1) {
		if value := strings.Trim(found[1], `"'`); !isPlace(value) {
			s.part(value)
		}
	}
	if u, err := url.Parse(text); err == nil && u.User != nil {
		password, _ := u.User.Password()
		s.part(password)
	}
	s.basic(text)
	s.keys(text)
}

// part takes what is part of a value, if it is long enough.
func (s *secrets) part(text string) {
	if len(text) >= minSecret {
		s.known = append(s.known, text)
	}
}

// basic takes user and password of Basic authentication (RFC 7617).
func (s *secrets) basic(text string) {
	scheme, encoded, _ := strings.Cut(text, " ")
	plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	if err != nil || !strings.EqualFold(scheme, "basic") {
		return
	}
	_, password, _ := strings.Cut(string(plain), ":")
	s.part(string(plain))
	s.part(password)
}

// keys takes the keys in a JSON document.
func (s *secrets) keys(text string) {
	var object map[string]any
	if !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &object) != nil {
		return
	}
	for name, member := range object {
		if value, ok := member.(string); ok && config.SecretName.MatchString(name) && !isPlace(value) {
			s.part(value)
		}
	}
}

// harmlessHeader reports a header that describes the exchange.
func harmlessHeader(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "accept") || strings.HasPrefix(name, "content-") || name == "user-agent"
}

// isWord reports one word of letters.
func isWord(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') })
}

var (
	// aPath is a path, or a list of them, on whatever system.
	aPath = regexp.MustCompile(`^(~|\.{1,2}|[A-Za-z]:)?[/\\][^\s"'=?&]*$`)
	// aSegment is between the separators of paths and URLs.
	aSegment = regexp.MustCompile(`[^/\\:;]+`)
)

// isPlace reports a path, or a URL without user and query: tools name places in
// what they return, and the model names them back. One of which a part looks as if
// it were drawn by lot (a webhook) is a secret all the same.
func isPlace(text string) bool {
	if u, err := url.Parse(text); err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		if !aPath.MatchString(text) {
			return false
		}
	}
	return !slices.ContainsFunc(aSegment.FindAllString(text, -1), isRandom)
}

// isRandom reports capitals, small letters and digits, mixed, 16 or more.
func isRandom(segment string) bool {
	return len(segment) >= 16 && strings.ContainsFunc(segment, func(r rune) bool { return r >= 'A' && r <= 'Z' }) &&
		strings.ContainsFunc(segment, func(r rune) bool { return r >= 'a' && r <= 'z' }) && strings.ContainsAny(segment, "0123456789")
}
