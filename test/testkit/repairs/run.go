package repairs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
)

// Tool is a tool under test.
type Tool struct {
	Name        string          `json:"name"`
	InputSchema json.RawMessage `json:"inputSchema"`
	// Calls are valid arguments. Examples made from the schema are added.
	Calls []map[string]any `json:"calls"`
}

// Caller sends arguments to one tool and returns the violations, none when they
// were accepted.
type Caller func(args map[string]any) ([]tool.Error, error)

// Local judges calls with the schema package, in this process. Arguments go
// through their text, as those of a model do.
func Local(t Tool) (Caller, error) {
	s, err := schema.Compile(t.Name, t.InputSchema, schema.Options{})
	if err != nil {
		return nil, err
	}
	return func(args map[string]any) ([]tool.Error, error) {
		parsed, violation := s.ParseArgs(encode(args))
		if violation != nil {
			return []tool.Error{*violation}, nil
		}
		_, _, violations := s.Check(parsed)
		return violations, nil
	}, nil
}

// Tally counts the broken calls of one kind, and how many of them the program
// repaired within one further call.
type Tally struct{ Broken, Repaired int }

// Share is the repaired part, 1 when nothing was broken.
func (t Tally) Share() float64 {
	if t.Broken == 0 {
		return 1
	}
	return float64(t.Repaired) / float64(t.Broken)
}

// Failure is a call that the program could not repair.
type Failure struct {
	Tool     string
	Mutation Mutation
	First    []tool.Error
	Repaired map[string]any
	Second   []tool.Error
}

func (f Failure) String() string {
	return fmt.Sprintf("%s: %s at %s\n  sent     %s\n  answer   %s\n  repaired %s\n  answer   %s",
		f.Tool, f.Mutation.Kind, f.Mutation.Where, encode(f.Mutation.Args), render(f.First), encode(f.Repaired), render(f.Second))
}

func render(violations []tool.Error) string {
	if len(violations) == 0 {
		return "accepted"
	}
	return tool.RenderError(violations[0], violations[1:])
}

// Report is the result of Run.
type Report struct {
	Tools int
	// Calls is the number of valid calls that were broken.
	Calls  int
	Total  Tally
	Nested Tally
	ByKind map[string]Tally
	// Failures holds the first 200.
	Failures []Failure
	// Unusable names tools for which there was no valid call.
	Unusable []string
}

func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d tools, %d valid calls, %d broken calls, %.2f %% repaired within one further call\n",
		r.Tools, r.Calls, r.Total.Broken, 100*r.Total.Share())
	kinds := make([]string, 0, len(r.ByKind))
	for k := range r.ByKind {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	for _, k := range kinds {
		t := r.ByKind[k]
		fmt.Fprintf(&b, "  %-20s %6d broken %6d repaired %7.2f %%\n", k, t.Broken, t.Repaired, 100*t.Share())
	}
	fmt.Fprintf(&b, "  %-20s %6d broken %6d repaired %7.2f %%\n", "(of all: nested)", r.Nested.Broken, r.Nested.Repaired, 100*r.Nested.Share())
	for _, name := range r.Unusable {
		fmt.Fprintf(&b, "  no valid call known for %s\n", name)
	}
	return b.String()
}

func (r *Report) count(m Mutation, repaired bool) {
	add := func(t Tally) Tally {
		t.Broken++
		if repaired {
			t.Repaired++
		}
		return t
	}
	r.Total = add(r.Total)
	if m.Nested {
		r.Nested = add(r.Nested)
	}
	r.ByKind[m.Kind] = add(r.ByKind[m.Kind])
}

// Run breaks valid calls of every tool in every way and lets the program repair
// them. connect says who judges the calls of a tool: Local, or a real server.
func Run(tools []Tool, connect func(Tool) (Caller, error)) (*Report, error) {
	r := &Report{Tools: len(tools), ByKind: map[string]Tally{}}
	for _, t := range tools {
		call, err := connect(t)
		if err != nil {
			return nil, err
		}
		valid, err := validCalls(t, call)
		if err != nil {
			return nil, err
		}
		if len(valid) == 0 {
			r.Unusable = append(r.Unusable, t.Name)
		}
		for _, args := range valid {
			r.Calls++
			for _, m := range Mutations(args) {
				if err := r.try(t, m, call); err != nil {
					return nil, err
				}
			}
		}
	}
	return r, nil
}

// try breaks one call; what is still accepted does not count.
func (r *Report) try(t Tool, m Mutation, call Caller) error {
	first, err := call(m.Args)
	if err != nil || len(first) == 0 {
		return err
	}
	repaired := Program(m.Args, first)
	second, err := call(repaired)
	if err != nil {
		return err
	}
	r.count(m, len(second) == 0)
	if len(second) > 0 && len(r.Failures) < 200 {
		r.Failures = append(r.Failures, Failure{Tool: t.Name, Mutation: m, First: first, Repaired: repaired, Second: second})
	}
	return nil
}

// validCalls are the tool's own calls and those made from its schema, as far as
// they are accepted.
func validCalls(t Tool, call Caller) ([]map[string]any, error) {
	candidates := slices.Clone(t.Calls)
	s, err := schema.Compile(t.Name, t.InputSchema, schema.Options{})
	if err != nil {
		return nil, err
	}
	for _, full := range []bool{true, false} {
		if args, ok := s.Example(full); ok {
			candidates = append(candidates, args)
		}
	}
	var out []map[string]any
	seen := map[string]bool{}
	for _, args := range candidates {
		args, violation := schema.ParseArgs(t.Name, encode(args)) // calls of a file hold float64
		if violation != nil {
			continue
		}
		violations, err := call(args)
		if err != nil {
			return nil, err
		}
		if key := encode(args); len(violations) == 0 && !seen[key] {
			seen[key] = true
			out = append(out, args)
		}
	}
	return out, nil
}
