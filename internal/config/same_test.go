package config

import (
	"slices"
	"strings"
	"testing"
)

// of is the config of a text, which may refer to TOKEN.
func of(t *testing.T, text, token string) *Config {
	t.Helper()
	c, err := Parse("test.yaml", []byte(text), scene{"TOKEN": token})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDifferencesAreNamedByTheirKeys(t *testing.T) {
	const text = `
listen: [tcp://127.0.0.1:8470]
store: {redis: {addrs: ["127.0.0.1:6379"], password: "${env:TOKEN}"}}
limits: {max_in_flight: 10}
backends: {web: {http: {base_url: "http://example.com", headers: {X: "${env:TOKEN}"}}}}
tools: {get: {backend: web, http: {method: GET, path: /x}}}
`
	for name, c := range map[string]struct {
		from, to, token string
		want            []string
	}{
		"nothing":                       {"", "", "a", nil},
		"another way to write it":       {"max_in_flight: 10", `max_in_flight: 0xa`, "a", nil},
		"a value for its reference":     {`password: "${env:TOKEN}"`, "password: a", "a", nil},
		"a list":                        {"tcp://127.0.0.1:8470", "tcp://127.0.0.1:8471", "a", []string{"listen"}},
		"one key of several":            {"max_in_flight: 10", "max_in_flight: 11, max_batch: 3", "a", []string{"limits.max_batch", "limits.max_in_flight"}},
		"what references stand for":     {"", "", "b", []string{"backends", "store.redis.password"}},
		"a block that is there no more": {`{redis: {addrs: ["127.0.0.1:6379"], password: "${env:TOKEN}"}}`, "{memory: {}}", "a", []string{"store.memory", "store.redis"}},
		"a key of another block":        {"max_in_flight: 10}", "max_in_flight: 10}\nlease: 40s", "a", []string{"lease"}},
		"a tool":                        {"path: /x", "path: /y", "a", []string{"tools"}},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := of(t, text, "a"), of(t, strings.Replace(text, c.from, c.to, 1), c.token)
			var got []string
			for _, path := range before.Differences(after, func([]string) bool { return false }) {
				got = append(got, strings.Join(path, "."))
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
			if got := after.Differences(after, func([]string) bool { return false }); got != nil {
				t.Errorf("from itself it differs in %q", got)
			}
		})
	}
}

// What a backend is does not depend on how it is called.
func TestThePlaceOfABackend(t *testing.T) {
	exec := &ExecBackend{RunAs: NewText("nobody")}
	b := Backend{Exec: exec, MaxInFlight: 3, Breaker: Breaker{Failures: 2}, Trust: Untrusted, Prefix: "x_"}
	if got := b.Place(); !Same(got, Backend{Exec: exec}) {
		t.Errorf("%+v", got)
	}
}
