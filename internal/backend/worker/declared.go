package worker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const (
	// protocolVersion is the one that is spoken here.
	protocolVersion = 1
	// longestName is how long a tool's name may be for every provider, prefix
	// included.
	longestName = 64
	// maxAnnotations bounds the annotations of a tool, and maxAnnotation each name and
	// value in them, in bytes.
	maxAnnotations, maxAnnotation = 32, 400
	// shortest and longest bound the times that a worker may ask for, as the config's.
	shortest, longest = time.Millisecond, 24 * time.Hour
	// maxShown is how much of a worker's words a refusal repeats, in bytes.
	maxShown = 200
)

var (
	workerName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	toolName   = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
)

// declared is a tool as a worker declares it, in a form that can be compared.
type declared struct {
	tool.Discovered
	wishes tool.Wishes
	// input and output are the schemas with their keys in order.
	input, output string
}

// found is the tool as the sidecar takes it in.
func (d *declared) found() tool.Discovered {
	found := d.Discovered
	found.Declaration = d
	if d.wishes != (tool.Wishes{}) {
		found.Wishes = &d.wishes
	}
	return found
}

// differs names the first thing in which two declarations of a tool are not the same;
// empty when they are.
func (d *declared) differs(from *declared) string {
	w, v := &d.wishes, &from.wishes
	for _, of := range []struct {
		what string
		same bool
	}{
		{"description", d.Description == from.Description},
		{"input_schema_json", d.input == from.input},
		{"output_schema_json", d.output == from.output},
		{"effect", d.Effect == from.Effect && d.Claimed == from.Claimed},
		{"annotations", maps.Equal(d.Annotations, from.Annotations)},
		{"sequential", w.Sequential == v.Sequential},
		{"polling", w.Polling == v.Polling},
		{"fails_cleanly", w.FailsCleanly == v.FailsCleanly},
		{"cancel_with_caller", w.CancelWithCaller == v.CancelWithCaller},
		{"attempt_timeout", w.AttemptTimeout == v.AttemptTimeout},
		{"deadline", w.Deadline == v.Deadline},
	} {
		if !of.same {
			return of.what
		}
	}
	return ""
}

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

// declaration reads a registration. Its errors are the status of the stream.
func (cfg *Config) declaration(register *sidecallv1.WorkerRegister) ([]*declared, error) {
	switch {
	case register.GetProtocolVersion() != protocolVersion:
		return nil, status.Errorf(codes.FailedPrecondition, "protocol_version: the worker speaks version %d of the protocol, and this sidecar version %d: update the older of them",
			register.GetProtocolVersion(), protocolVersion)
	case !workerName.MatchString(register.GetWorker()):
		return nil, invalid("worker: the name of a worker is 1 to 64 of A-Z a-z 0-9 . _ -, not %s", shown(register.GetWorker()))
	case register.GetClient() != "" && !workerName.MatchString(register.GetClient()):
		return nil, invalid("client: a client calls itself 1 to 64 of A-Z a-z 0-9 . _ -, not %s", shown(register.GetClient()))
	case register.GetMaxInFlight() < 0:
		return nil, invalid("max_in_flight: it is %d; want at least 1, or 0 for 1", register.GetMaxInFlight())
	case len(register.GetTools()) == 0:
		return nil, invalid("tools: the worker has none: register at least one function")
	case len(register.GetTools()) > cfg.MaxTools:
		return nil, invalid("tools: the worker has %d, and the backend %s may have %d (max_tools)", len(register.GetTools()), cfg.Name, cfg.MaxTools)
	}
	tools := make([]*declared, len(register.GetTools()))
	seen := make(map[string]bool, len(tools))
	for i, t := range register.GetTools() {
		d, err := cfg.declaredTool(t)
		if err != nil {
			return nil, err
		}
		if seen[d.Name] {
			return nil, invalid("tool %s: it is registered twice", d.Name)
		}
		seen[d.Name], tools[i] = true, d
	}
	return tools, nil
}

func (cfg *Config) declaredTool(t *sidecallv1.WorkerTool) (*declared, error) {
	name := t.GetName()
	if !toolName.MatchString(name) || len(cfg.Prefix)+len(name) > longestName {
		with := ""
		if cfg.Prefix != "" {
			with = ", the prefix " + cfg.Prefix + " included"
		}
		return nil, invalid("tool %s: a name is 1 to %d of A-Z a-z 0-9 _ -%s", shown(name), longestName, with)
	}
	d := &declared{Discovered: tool.Discovered{Name: name, Description: t.GetDescription(), Annotations: t.GetAnnotations()}}
	var err error
	if d.Effect, d.Claimed, err = effectOf(t); err != nil {
		return nil, err
	}
	if d.InputSchema, d.input, err = schemaOf(name, "input_schema_json", t.GetInputSchemaJson()); err != nil {
		return nil, err
	}
	if d.InputSchema, err = ofObject(name, d.InputSchema); err != nil {
		return nil, err
	}
	if d.OutputSchema, d.output, err = schemaOf(name, "output_schema_json", t.GetOutputSchemaJson()); err != nil {
		return nil, err
	}
	if err := fewAnnotations(t); err != nil {
		return nil, err
	}
	d.wishes = tool.Wishes{Sequential: t.GetSequential(), Polling: t.GetPolling(), FailsCleanly: t.GetFailsCleanly(), CancelWithCaller: t.GetCancelWithCaller()}
	if d.wishes.AttemptTimeout, err = timeOf(name, "attempt_timeout", t.GetAttemptTimeout()); err != nil {
		return nil, err
	}
	d.wishes.Deadline, err = timeOf(name, "deadline", t.GetDeadline())
	return d, err
}

var effects = map[sidecallv1.Effect]tool.Effect{
	sidecallv1.Effect_EFFECT_READ_ONLY:      tool.ReadOnly,
	sidecallv1.Effect_EFFECT_IDEMPOTENT:     tool.Idempotent,
	sidecallv1.Effect_EFFECT_KEYED:          tool.Keyed,
	sidecallv1.Effect_EFFECT_NON_IDEMPOTENT: tool.NonIdempotent,
}

// effectOf is what a worker says of the effect; not claimed when it says nothing.
func effectOf(t *sidecallv1.WorkerTool) (effect tool.Effect, claimed bool, err error) {
	if t.GetEffect() == sidecallv1.Effect_EFFECT_UNSPECIFIED {
		return tool.NonIdempotent, false, nil
	}
	effect, claimed = effects[t.GetEffect()]
	if !claimed {
		return effect, false, invalid("tool %s: effect: there is no effect %d: want read_only, idempotent, keyed or non_idempotent", t.GetName(), t.GetEffect())
	}
	return effect, true, nil
}

// schemaOf reads a schema, as it is and in the form that is compared. Whether it is one
// that can be used is the examiner's to say.
func schemaOf(name, field, given string) (raw json.RawMessage, ordered string, err error) {
	if strings.TrimSpace(given) == "" {
		return nil, "", nil
	}
	decoder := json.NewDecoder(strings.NewReader(given))
	decoder.UseNumber()
	var value map[string]any
	if err := decoder.Decode(&value); err != nil || value == nil {
		return nil, "", invalid("tool %s: %s: it is not a JSON object: %s", name, field, why(err))
	}
	if decoder.More() {
		return nil, "", invalid("tool %s: %s: there is something behind the JSON object", name, field)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, "", invalid("tool %s: %s: %v", name, field, err)
	}
	return bytes.TrimSpace([]byte(given)), string(text), nil
}

// ofObject sees to it that an input schema says that it describes an object, as
// providers demand. One that describes something else describes no arguments.
func ofObject(name string, schema json.RawMessage) (json.RawMessage, error) {
	if schema == nil {
		return nil, nil
	}
	var s map[string]any // by the very name: Type is another key
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, invalid("tool %s: input_schema_json: %s", name, why(err))
	}
	kind, said := s["type"]
	many, _ := kind.([]any)
	switch {
	case !said:
		if rest := bytes.TrimSpace(schema[1:]); rest[0] != '}' {
			return append([]byte(`{"type":"object",`), rest...), nil
		}
		return json.RawMessage(`{"type":"object"}`), nil
	case kind == "object" || slices.Contains(many, any("object")):
		return schema, nil
	}
	return nil, invalid("tool %s: input_schema_json: arguments are an object: want type object, not %s", name, shown(fmt.Sprint(kind)))
}

func why(err error) string {
	if err == nil {
		return "it is null"
	}
	return tool.ShortenBytes(err.Error(), maxShown)
}

func fewAnnotations(t *sidecallv1.WorkerTool) error {
	if len(t.GetAnnotations()) > maxAnnotations {
		return invalid("tool %s: annotations: there are %d; want at most %d", t.GetName(), len(t.GetAnnotations()), maxAnnotations)
	}
	for _, name := range slices.Sorted(maps.Keys(t.GetAnnotations())) {
		if name == "" || len(name) > maxAnnotation || len(t.GetAnnotations()[name]) > maxAnnotation {
			return invalid("tool %s: annotations: %s: want a name, and at most %d bytes in it and in its value", t.GetName(), shown(name), maxAnnotation)
		}
	}
	return nil
}

func timeOf(name, field string, given *durationpb.Duration) (time.Duration, error) {
	if given == nil {
		return 0, nil
	}
	d := given.AsDuration()
	if !given.IsValid() || d < shortest || d > longest {
		return 0, invalid("tool %s: %s: it is %s; want %s to %s", name, field, d, shortest, longest)
	}
	return d, nil
}

// shown is a word of a worker's, as a refusal repeats it.
func shown(word string) string { return tool.Quote(tool.ShortenBytes(text(word), maxShown)) }
