package schema_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/sidecall/sidecall/internal/schema"
)

// ticketSchema is a tool of middling size, and ticketCall a valid call of it.
const (
	ticketSchema = `{"type":"object","properties":{
		"title":{"type":"string","minLength":3,"maxLength":120},
		"priority":{"type":"string","enum":["low","medium","high","urgent"]},
		"due":{"anyOf":[{"type":"string","format":"date"},{"type":"null"}],"default":null},
		"labels":{"type":"array","items":{"type":"string"},"maxItems":10},
		"estimate":{"type":"number","minimum":0,"maximum":200},
		"reporter":{"type":"object","properties":{"id":{"type":"string","pattern":"^U-[0-9]+$"},"name":{"type":"string"}},"required":["id"],"additionalProperties":false}
	},"required":["title","priority"],"additionalProperties":false}`
	ticketCall = `{"title":"Printer on fire","priority":"high","due":"2026-11-21","labels":["office","fire"],"estimate":2.5,"reporter":{"id":"U-17","name":"Ada"}}`
)

func mustCompile(tb testing.TB, source string, opts schema.Options) *schema.Schema {
	tb.Helper()
	s, err := schema.Compile("create_ticket", []byte(source), opts)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		mustCompile(b, ticketSchema, schema.Options{})
	}
}

func BenchmarkParseArgs(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, violation := schema.ParseArgs("create_ticket", ticketCall); violation != nil {
			b.Fatal(violation)
		}
	}
}

func BenchmarkCheckValid(b *testing.B) {
	s := mustCompile(b, ticketSchema, schema.Options{})
	args, _ := schema.ParseArgs("create_ticket", ticketCall)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, violations := s.Check(args); violations != nil {
			b.Fatal(violations)
		}
	}
}

func BenchmarkCheckInvalid(b *testing.B) {
	s := mustCompile(b, ticketSchema, schema.Options{})
	args, _ := schema.ParseArgs("create_ticket", `{"titel":"Printer on fire","priority":"hihg","due":"tomorrow"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, violations := s.Check(args); len(violations) != 3 {
			b.Fatal(violations)
		}
	}
}

func BenchmarkCanonical(b *testing.B) {
	args, _ := schema.ParseArgs("create_ticket", ticketCall)
	b.ReportAllocs()
	for b.Loop() {
		text, err := schema.Canonical(args)
		if err != nil {
			b.Fatal(err)
		}
		schema.Fingerprint("create_ticket", text)
	}
}

// BenchmarkCompileCorpus compiles every tool of testdata once per loop, as a
// start does.
func BenchmarkCompileCorpus(b *testing.B) {
	benchmarkCorpus(b, func(*schema.Schema) error { return nil })
}

// BenchmarkPrepareCorpus does at once too what is else left to the first call.
func BenchmarkPrepareCorpus(b *testing.B) {
	benchmarkCorpus(b, (*schema.Schema).Prepare)
}

func benchmarkCorpus(b *testing.B, then func(*schema.Schema) error) {
	b.Helper()
	text, err := os.ReadFile("testdata/schemas.json")
	if err != nil {
		b.Fatal(err)
	}
	var tools []struct {
		Name        string
		InputSchema json.RawMessage
	}
	if err := json.Unmarshal(text, &tools); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, t := range tools {
			s, err := schema.Compile(t.Name, t.InputSchema, schema.Options{})
			if err != nil {
				b.Fatal(err)
			}
			if err := then(s); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(tools)), "µs/tool")
}
