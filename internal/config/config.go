// Package config reads the one YAML file that says what a sidecar serves.
//
// The Go types of this package are the single source of truth. Their struct
// tags name the keys, defaults, bounds and descriptions; from them come the
// strict decoder, the published JSON Schema (schema.json) and docs/config.md, so
// they cannot disagree; the tests write the latter two (go test ./internal/config -update).
// A file passes through four steps:
//
//	text ──syntax──▶ nodes ──expand──▶ tree ──decode──▶ Config ──check──▶ Config
//	     tabs, UTF-8,      aliases and       keys, types,      references between
//	     size, depth       merges, bounded   ranges, secrets   parts of the file
//
// The last two steps go on after a problem, so that a user sees all of them in
// one run, each with line, column, path and what was expected.
//
// Three kinds of string keep secrets where they belong. A plain string is taken
// as it is written and may hold no reference. A Text may hold references such
// as ${env:HOME} and prints as it was written. A Secret may hold them too and
// never prints at all.
//
// The tags of a field:
//
//	yaml     the key; ",inline" merges the keys of an embedded struct
//	doc      the description in the JSON Schema
//	default  the value when the key is absent
//	required the key must be there, and a string must not be empty
//	one      exactly one field of the struct with this tag must be there
//	with     the key acts only beside one of these, separated by |
//	as       text, list or map: the field for a value of that form, whole
//	enum     the values allowed, separated by |
//	min, max bounds, in the notation of the value itself
//	format   a named rule of the strings in it (formats)
//	keys     a named rule of the keys of a map
//	items    the least number of items of a list
package config

import (
	"fmt"
	"slices"
	"time"
)

// Config is a whole, checked config file with every default filled in. It is
// immutable. It keeps the parsed text for Where, until Release.
type Config struct {
	*Source

	Listen         []Listener         `yaml:"listen" doc:"Addresses that serve agents over gRPC: unix:///path (mode 0600) or tcp://host:port on loopback; or a mapping, {address: ..., profiles: [...]}, of one that offers only some profiles." default:"tcp://127.0.0.1:8470" items:"1"`
	Admin          Text               `yaml:"admin" doc:"Loopback host:port of /metrics, /healthz and /readyz, or off." default:"127.0.0.1:8471" format:"admin"`
	AdminHosts     []string           `yaml:"admin_hosts" doc:"Names, without port, by which the admin address may be asked for beside loopback names and addresses and its own: others are answered 421, since a web page may have its name resolve to this machine." format:"host"`
	HTTP           Front              `yaml:"http" doc:"Where MCP clients are served over streamable HTTP, and calls of JSON (see clients.md): loopback host:port, or off; or a mapping, {address: ..., profiles: [...], hosts: [...]}. See mcp.md."`
	Operator       Text               `yaml:"operator" doc:"The socket of those who look after the sidecar, unix:///path (mode 0600), or off: OperatorService is served there and nowhere else. Without this key: beside the file of the embedded store, /dir/sidecall.operator.sock for /dir/sidecall.db; off with another store." format:"operator"`
	Identity       Identity           `yaml:"identity" doc:"What a call has to say of itself."`
	Instance       Text               `yaml:"instance" doc:"The name of this sidecar, in telemetry (service.instance.id) and among those on one Redis: of two processes with one name only one lives, and the next decides at once what the one before it left. Without this key: the host name and the first listen address; with port 0 there, a name that nobody else has." format:"instance"`
	Store          Store              `yaml:"store" doc:"Where the records of calls are kept: exactly one kind. Without this key: embedded at ./sidecall.db."`
	Journal        Journal            `yaml:"journal" doc:"The local directory where results wait that the store could not take, until it can."`
	Pins           Pins               `yaml:"pins" doc:"The file that remembers what discovered tools say of themselves."`
	StoreDown      StoreDown          `yaml:"store_down" doc:"What happens to calls while the store cannot be reached. Calls with an effect are always refused."`
	Notify         Notify             `yaml:"notify" doc:"The webhook that is told of calls which need a person. See notify.md."`
	Observe        Observe            `yaml:"observe" doc:"Where profiles with mode: observe write down what they see. See observe.md."`
	Lease          time.Duration      `yaml:"lease" doc:"How long a claim holds without renewal. Renewed at a third of it." default:"30s" min:"1s" max:"1h"`
	Retention      time.Duration      `yaml:"retention" doc:"How long the record of a call is remembered after its last change or renewal; at least the longest deadline and two leases." default:"24h" min:"1m" max:"8760h"`
	KeepArguments  string             `yaml:"keep_arguments" doc:"What of the arguments of a call is kept with its record, for those who look after the sidecar. redacted: at most 4 KiB, without what is sensitive. none: nothing." enum:"redacted|none" default:"redacted"`
	Receipts       bool               `yaml:"receipts" doc:"Each settlement of a call with an effect, in a conversation, leaves a receipt in the same step, which has the hash of the one before it: sidecall receipts verify finds what was changed or left out since." default:"false"`
	Conversations  Conversations      `yaml:"conversations" doc:"What is kept of conversations for loops that append their messages. See conversations.md."`
	Defaults       Defaults           `yaml:"defaults" doc:"Policy of every tool that does not say otherwise."`
	Limits         Limits             `yaml:"limits" doc:"Bounds of the sidecar as a whole."`
	Backends       map[string]Backend `yaml:"backends" doc:"The places where tools live, by name." keys:"name"`
	Tools          map[string]Tool    `yaml:"tools" doc:"The tools declared here, by the name that the model calls." keys:"name"`
	Profiles       Profiles           `yaml:"profiles" doc:"Sets of tools and limits that a request can name. Where none is declared these are interactive, research and code, built in, with every tool; else those declared, and default_profile. Declaring a built-in one changes only the keys written." keys:"name"`
	DefaultProfile string             `yaml:"default_profile" doc:"Profile of a request that names none, where the listener has no profiles of its own." default:"interactive" format:"name"`

	warnings Problems
	local    []Problem // those of them that are about one block alone
}

// Identity says which ids a call must have.
type Identity struct {
	Require []string `yaml:"require" doc:"The ids that a call must have beside its tool_use_id. Without conversation_id the ids of two agents may stand for one call: the second is told the result of the first. [] requires none." enum:"conversation_id|turn_id|prompt_id" default:"conversation_id"`
}

// check takes no key without a value for a decision: it would relax what the whole
// file says nothing else of.
func (Identity) check(w within) {
	if require, there := w.top.step("require"); there && isNull(require.node) {
		w.in("require").bad("expected a list of ids, or [] to require none")
	}
}

// Conversations bounds the conversations that are kept.
type Conversations struct {
	TTL         time.Duration `yaml:"ttl" doc:"How long a conversation is kept after its last message. What became of a call is known for the retention; of one that was made longer ago it is said that it may have run." default:"168h" min:"1m" max:"8760h"`
	MaxMessages int           `yaml:"max_messages" doc:"Messages of a conversation; an append beyond it is refused." default:"10000" min:"1" max:"1000000"`
	MaxBytes    Bytes         `yaml:"max_bytes" doc:"Bytes of a conversation; an append beyond it is refused." default:"64MiB" min:"1KiB" max:"1GiB"`
}

// StoreDown says what happens to calls while the store cannot be reached.
type StoreDown struct {
	ReadOnly string `yaml:"read_only" doc:"run: read-only calls run, unrecorded. refuse: they are refused too." enum:"run|refuse" default:"run"`
}

// Defaults are the policy of every tool that does not say otherwise.
type Defaults struct {
	AttemptTimeout time.Duration `yaml:"attempt_timeout" doc:"Time for one attempt at the backend. Progress that an MCP server reports starts it anew, up to the deadline." default:"30s" min:"1ms" max:"24h"`
	Deadline       time.Duration `yaml:"deadline" doc:"Time for the whole call, waits and retries included." default:"60s" min:"1ms" max:"24h"`
	MaxOutputChars int           `yaml:"max_output_chars" doc:"The most characters (Unicode code points) of a result that the model receives, notices included." default:"8000" min:"1" max:"7000000"`
	Output         string        `yaml:"output" doc:"How a result that is too long is cut. auto: json for JSON, else head_tail." enum:"auto|json|head|tail|head_tail" default:"auto"`
	Retry          Retry         `yaml:"retry" doc:"How attempts that may be repeated are repeated."`

	Recovery RecoveryDefaults `yaml:"recovery" doc:"What failed calls are told of what was tried before them."`
}

// Retry is a whole retry policy: exponential, with full jitter.
type Retry struct {
	MaxAttempts int           `yaml:"max_attempts" doc:"Attempts in all, the first included." default:"3" min:"1" max:"100"`
	Base        time.Duration `yaml:"base" doc:"Ceiling of the first wait; the wait is drawn between 0 and the ceiling." default:"250ms" min:"1ms" max:"1h"`
	Multiplier  float64       `yaml:"multiplier" doc:"Factor from one ceiling to the next." default:"2" min:"1" max:"100"`
	Max         time.Duration `yaml:"max" doc:"The highest ceiling." default:"10s" min:"1ms" max:"1h"`
}

func (r Retry) check(w within) { RetryRules(r).check(w) }

// Limits bound the sidecar as a whole.
type Limits struct {
	MaxRequestBytes Bytes         `yaml:"max_request_bytes" doc:"Largest gRPC request that is read; the message of a model, with all its calls, may have four times as much." default:"4MiB" min:"1KiB" max:"1GiB"`
	MaxHeldBytes    Bytes         `yaml:"max_held_bytes" doc:"What requests and replies may hold in memory at the same time, each counted as often as it is copied. When three quarters are taken calls are refused as OVERLOADED before anything is sent; a reply for which nothing is left is cut. Responses that agents have not read yet may take half as much beside it, and so may streams whose requests have not come. Listeners that differ in profiles have equal parts of it. 0B: a quarter of the memory limit (GOMEMLIMIT, else nine tenths of what the cgroup has), 256MiB without one." default:"0B" max:"1024GiB"`
	MaxInFlight     int           `yaml:"max_in_flight" doc:"Calls in flight in the whole sidecar; more are refused as OVERLOADED." default:"10000" min:"1" max:"1000000"`
	MaxWaiting      int           `yaml:"max_waiting" doc:"Duplicates, beside max_in_flight, that wait for the result of a call in flight; more are told IN_PROGRESS at once." default:"10000" min:"1" max:"1000000"`
	MaxBatch        int           `yaml:"max_batch" doc:"Calls in one ExecuteTools request." default:"128" min:"1" max:"128"`
	BatchParallel   int           `yaml:"batch_parallel" doc:"Calls of one ExecuteTools request that run at the same time." default:"16" min:"1" max:"128"`
	KeepOutputBytes Bytes         `yaml:"keep_output_bytes" doc:"What is read, and kept for ReadOutput, of one output." default:"10MiB" min:"1KiB" max:"64MiB"`
	OutputTTL       time.Duration `yaml:"output_ttl" doc:"How long a cut output is kept for ReadOutput." default:"1h" min:"1s" max:"8760h"`
}

// Warnings are things that may be mistakes, by position: names that no tool of
// the file has (a discovered one may), backends that nothing uses.
func (c *Config) Warnings() []Problem { return c.warnings }

// WarningsAmong is Warnings, without bound, once it is known which tools there
// are: tools holds the names of all, those of the file too. It may tell errors.
func (c *Config) WarningsAmong(tools []string) []Problem {
	found := &collector{file: c.File, most: maxCollected, given: c.given, warnings: slices.Clone(c.local)}
	c.check(found, append([]string{}, tools...))
	return append(found.problems(), found.warned()...)
}

// String summarizes the config in one line.
func (c *Config) String() string {
	return fmt.Sprintf("%s: %d backends, %d tools, %d profiles",
		c.File, len(c.Backends), len(c.Tools), len(c.Profiles))
}
