package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sidecall/sidecall/internal/tool"
)

// shop is a file with one backend of each kind and the given tools.
func shop(t testing.TB, rest string) *Config {
	t.Helper()
	return mustParse(t, "shop.yaml", []byte(`
backends:
  shop: {http: {base_url: "http://127.0.0.1:1"}}
  wild: {http: {base_url: "http://127.0.0.1:2"}, trust: untrusted}
  files: {mcp: {command: [server]}, prefix: f_}
  sh: {exec: {}}
`+rest))
}

var defaultPolicy = tool.Policy{
	AttemptTimeout: 30 * time.Second,
	Deadline:       60 * time.Second,
	Retry:          tool.Retry{MaxAttempts: 3, Base: 250 * time.Millisecond, Multiplier: 2, Max: 10 * time.Second},
	MaxOutputChars: 8000,
	OutputStrategy: "auto",

	RejectsBeforeWork: []int{429},
}

func TestPolicyOfAToolThatSaysNothing(t *testing.T) {
	c := shop(t, `tools: {t: {backend: sh, exec: {argv: [x]}}}`)
	if diff := cmp.Diff(defaultPolicy, c.Policy("t")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(defaultPolicy, c.Policy("no such tool")); diff != "" {
		t.Error(diff)
	}
}

func TestPolicyOfAToolThatSaysEverything(t *testing.T) {
	c := shop(t, `
defaults: {retry: {base: 1s}, output: tail}
tools:
  t:
    backend: shop
    effect: non_idempotent
    http: {method: POST, path: /}
    attempt_timeout: 1s
    deadline: 2s
    retry: {max_attempts: 1, multiplier: 3}
    rejects_before_work: [429, 503]
    max_output_chars: 10
    output: head
    trust: untrusted
    sequential: true
    coerce: true
    fails_cleanly: true
    on_cancel: cancel
    forward_undeclared: true
    verify_with: u
    effect_key: {args: [order_id], scope: tenant, window: 1h}
    approval_ttl: 30m
    require_confirmation_after: 2
    polling: true
    sensitive: true
    sensitive_args: [card]
    max_in_flight: 4
  u: {backend: shop, http: {method: GET, path: /}}
`)
	want := tool.Policy{
		AttemptTimeout:    time.Second,
		Deadline:          2 * time.Second,
		Retry:             tool.Retry{MaxAttempts: 1, Base: time.Second, Multiplier: 3, Max: 10 * time.Second},
		RejectsBeforeWork: []int{429, 503},
		MaxOutputChars:    10,
		OutputStrategy:    "head",
		Untrusted:         true,
		Sequential:        true,
		Coerce:            true,
		FailsCleanly:      true,
		CancelWithCaller:  true,
		ForwardUndeclared: true,
		VerifyWith:        "u",
		EffectKey:         tool.EffectKey{Args: []string{"order_id"}, WholeTenant: true, Window: time.Hour},
		ApprovalTTL:       30 * time.Minute,
		ConfirmAfter:      2,
		Polling:           true,
		RefuseTainted:     true,
		Sensitive:         []string{"card"},
		MaxInFlight:       4,
	}
	if diff := cmp.Diff(want, c.Policy("t")); diff != "" {
		t.Error(diff)
	}
	for field, said := range reflect.ValueOf(want).Fields() {
		if said.IsZero() {
			t.Errorf("the tool says nothing of %s", field.Name)
		}
	}
	if got := c.Policy("u").OutputStrategy; got != "tail" {
		t.Errorf("output of a tool that says nothing is %q, want that of defaults", got)
	}
}

func TestAnAttemptCannotOutlastItsCall(t *testing.T) {
	c := shop(t, `tools: {t: {backend: sh, exec: {argv: [x]}, deadline: 5s}}`)
	if got := c.Policy("t").AttemptTimeout; got != 5*time.Second {
		t.Errorf("attempt timeout is %v, want the deadline of 5s", got)
	}
}

func TestEffectOfDeclaredTools(t *testing.T) {
	for _, tt := range []struct {
		says string
		want tool.Effect
	}{
		{`backend: shop, http: {method: GET, path: /}`, tool.ReadOnly},
		{`backend: shop, http: {method: HEAD, path: /}`, tool.ReadOnly},
		{`backend: shop, http: {method: PUT, path: /}`, tool.Idempotent},
		{`backend: shop, http: {method: DELETE, path: /}`, tool.Idempotent},
		{`backend: shop, http: {method: POST, path: /}`, tool.NonIdempotent},
		{`backend: shop, http: {method: PATCH, path: /}`, tool.NonIdempotent},
		{`backend: shop, effect: read_only, http: {method: POST, path: /}`, tool.ReadOnly},
		{`backend: shop, effect: non_idempotent, http: {method: GET, path: /}`, tool.NonIdempotent},
		{`backend: shop, effect: keyed, http: {method: POST, path: /, idempotency_header: K}`, tool.Keyed},
		{`backend: shop, http: {method: POST, path: /, idempotency_header: K}`, tool.NonIdempotent},
		{`backend: sh, exec: {argv: [x]}`, tool.NonIdempotent},
		{`backend: sh, effect: keyed, exec: {argv: [x]}`, tool.Keyed},
		{`backend: files`, tool.NonIdempotent},
		{`backend: files, effect: idempotent`, tool.Idempotent},
	} {
		c := shop(t, "tools: {t: {"+tt.says+"}}")
		got, ok := c.Tool("t")
		if !ok || got.Effect != tt.want {
			t.Errorf("%s: effect is %v, want %v", tt.says, got.Effect, tt.want)
		}
	}
}

func TestDeclaredToolIsWhole(t *testing.T) {
	c := shop(t, `tools: {t: {backend: sh, exec: {argv: [x]}, description: "${env:PORT}", annotations: {title: T}, output_schema: {type: string}}}`)
	got, _ := c.Tool("t")
	want := tool.Tool{
		Name: "t", Description: "9001", Backend: "sh",
		InputSchema: []byte(`{"type":"object"}`), OutputSchema: []byte(`{"type":"string"}`),
		Annotations: map[string]string{"title": "T"}, Policy: defaultPolicy,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, ok := c.Tool("nobody"); ok {
		t.Error("a tool that nobody declared")
	}
}

func TestTrust(t *testing.T) {
	for _, tt := range []struct {
		name, says    string
		wantUntrusted bool
	}{
		{"a declared tool is trusted", `backend: shop, http: {method: GET, path: /}`, false},
		{"unless its backend is not", `backend: wild, http: {method: GET, path: /}`, true},
		{"or the tool itself", `backend: shop, trust: untrusted, http: {method: GET, path: /}`, true},
		{"whose word is the last", `backend: wild, trust: trusted, http: {method: GET, path: /}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := shop(t, "tools: {t: {"+tt.says+"}}").Policy("t").Untrusted; got != tt.wantUntrusted {
				t.Errorf("untrusted is %v", got)
			}
		})
	}
}

func TestDiscoveredTools(t *testing.T) {
	c := mustParse(t, "mcp.yaml", []byte(`
defaults: {max_output_chars: 500}
backends:
  files:
    mcp: {command: [server], trust_annotations: true}
    prefix: f_
    exclude: [secret_*]
    effects: {write: idempotent, "*": idempotent}
    tools:
      stat: {effect: read_only, trust: trusted, deadline: 5s, description: Look., errors: [{when: is_error, code: NOT_FOUND}]}
  few: {mcp: {command: [server]}, include: [read_*], trust: trusted}
`))
	readOnly := tool.ReadOnly
	for _, tt := range []struct {
		backend, tool string
		claimed       *tool.Effect
		name          string
		effect        tool.Effect
		untrusted     bool
	}{
		{"files", "write", nil, "f_write", tool.Idempotent, true},
		{"files", "write", &readOnly, "f_write", tool.Idempotent, true},
		{"files", "other", nil, "f_other", tool.Idempotent, true},
		{"files", "other", &readOnly, "f_other", tool.ReadOnly, true},
		{"files", "stat", nil, "f_stat", tool.ReadOnly, false},
		{"few", "read_me", &readOnly, "read_me", tool.NonIdempotent, false},
		{"files", "repo/read.me", nil, "f_repo_read_me", tool.Idempotent, true},
	} {
		got, ok := c.Discovered(tt.backend, tt.tool, tt.claimed)
		if !ok || got.Name != tt.name || got.Effect != tt.effect || got.Policy.Untrusted != tt.untrusted {
			t.Errorf("%s of %s: %+v, %v", tt.tool, tt.backend, got, ok)
		}
		if got.Policy.MaxOutputChars != 500 {
			t.Errorf("%s: defaults do not reach discovered tools", tt.tool)
		}
	}
	stat, _ := c.Discovered("files", "stat", nil)
	if stat.Description != "Look." || stat.Policy.Deadline != 5*time.Second || len(stat.Rules.Errors) != 1 {
		t.Errorf("override is lost: %+v", stat)
	}
	for backend, name := range map[string]string{"files": "secret_key", "few": "write"} {
		if _, ok := c.Discovered(backend, name, nil); ok {
			t.Errorf("%s of %s is left out by the file", name, backend)
		}
	}
}

func TestDiscoveredNamesFit(t *testing.T) {
	long := strings.Repeat("x", 60)
	a, b := fitName(long+"_one.a"), fitName(long+"_one.b")
	if len(a) > 64 || a == b || !strings.HasPrefix(a, "xxxx") {
		t.Errorf("long names become %q and %q", a, b)
	}
	for in, want := range map[string]string{"plain-name_1": "plain-name_1", "a b.c": "a_b_c", "é": "__"} {
		if got := fitName(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestNamesThatTheFileMentions(t *testing.T) {
	b := Backend{
		Prefix: "f_", Include: []string{"read", "list_*", "wh?t"}, Exclude: []string{"gone"},
		Effects: map[string]tool.Effect{"*": tool.Keyed, "wri.te": tool.Keyed}, Tools: map[string]Override{"move": {}},
	}
	got := b.Mentioned()
	slices.Sort(got)
	if want := []string{"f_move", "f_read", "f_wri_te"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestProfiles(t *testing.T) {
	c := shop(t, `profiles: {interactive: {max_tool_calls: 5}, research: {}, code: {}, batch: {tools: ["get_*", f_?]}}`)
	for _, tt := range []struct {
		name string
		want Profile
	}{
		{"", Profile{Mode: enforces, MaxToolCalls: 5, MaxTokens: 50_000, Tools: []string{"*"}}},
		{"interactive", Profile{Mode: enforces, MaxToolCalls: 5, MaxTokens: 50_000, Tools: []string{"*"}}},
		{"research", Profile{Mode: enforces, MaxToolCalls: 200, MaxTokens: 500_000, Tools: []string{"*"}}},
		{"code", Profile{Mode: enforces, Tools: []string{"*"}}},
		{"batch", Profile{Mode: enforces, Tools: []string{"get_*", "f_?"}}},
	} {
		got, ok := c.Profile(tt.name)
		if diff := cmp.Diff(tt.want, got); !ok || diff != "" {
			t.Errorf("%q: %v %s", tt.name, ok, diff)
		}
	}
	if _, ok := c.Profile("nobody"); ok {
		t.Error("a profile that nobody declared")
	}
	if diff := cmp.Diff([]string{"batch", "code", "interactive", "research"}, c.ProfileNames()); diff != "" {
		t.Error(diff)
	}
}

// A file that declares profiles offers those: by the name of a built-in one, which
// has every tool, a caller would leave a narrow one.
func TestTheProfilesOnOffer(t *testing.T) {
	for file, want := range map[string][]string{
		"{}":                     {"code", "interactive", "research"},
		"default_profile: code":  {"code", "interactive", "research"},
		"profiles: {reader: {}}": {"interactive", "reader"},
		"default_profile: reader\nprofiles: {reader: {}}":             {"reader"},
		"default_profile: research\nprofiles: {reader: {}, code: {}}": {"code", "reader", "research"},
	} {
		c := mustParse(t, "p.yaml", []byte(file))
		if diff := cmp.Diff(want, c.ProfileNames()); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
		for _, name := range []string{"code", "interactive", "research"} {
			if _, ok := c.Profile(name); ok != slices.Contains(want, name) {
				t.Errorf("%s: %s is offered: %v", file, name, ok)
			}
		}
	}
}

func TestGlobs(t *testing.T) {
	for _, tt := range []struct {
		glob, name string
		want       bool
	}{
		{"*", "", true},
		{"*", "a/b", true},
		{"", "", true},
		{"", "a", false},
		{"a*c", "abbbc", true},
		{"a*c", "abcd", false},
		{"*b*b*", "abcb", true},
		{"*b*b*", "abc", false},
		{"a?", "a", false},
		{"a?", "ab", true},
		{"a?", "abc", false},
		{"a?", "a/", true},
		{"a?", "aé", true},
		{"get_*", "get_", true},
		{"get_*", "forget_order", false},
		{"**", "x", true},
	} {
		if got := matchGlob(tt.glob, tt.name); got != tt.want {
			t.Errorf("%q on %q: %v", tt.glob, tt.name, got)
		}
	}
	// Exponential in a naive matcher.
	if matchGlob(strings.Repeat("*a", 60)+"b", strings.Repeat("a", 5000)) {
		t.Error("matches")
	}
}

// 429 says that nothing was done, unless the file says what does, or that nothing does.
func TestRejectsBeforeWork(t *testing.T) {
	for said, want := range map[string][]int{
		"":                                  {429},
		", rejects_before_work: []":         {},
		", rejects_before_work: [503]":      {503},
		", rejects_before_work: [429, 503]": {429, 503},
	} {
		cfg := shop(t, `tools: {pay: {backend: shop, http: {method: POST, path: /}`+said+`}}`)
		if got := cfg.Policy("pay").RejectsBeforeWork; !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", said, got, want)
		}
	}
}
