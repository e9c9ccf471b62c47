package timeline

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// Counts are of calls. Each error is one of Recovered, GaveUp and Open; some of them Spun.
type Counts struct {
	Calls, Errors, Recovered, GaveUp, Open, Spun int
}

func (c *Counts) add(f *Failure) {
	c.Calls++
	if f == nil {
		return
	}
	c.Errors++
	switch f.Fate {
	case Recovered:
		c.Recovered++
	case GaveUp:
		c.GaveUp++
	case Open:
		c.Open++
	}
	if f.Spun {
		c.Spun++
	}
}

// Counts counts the calls of one conversation.
func (t *Timeline) Counts() (c Counts) {
	for e := range t.Calls {
		c.add(e.Call.Failure)
	}
	return c
}

// worse orders the worst first: what was given up on, then what was told again and again,
// then what was told often.
func (c *Counts) worse(d *Counts) int {
	return cmp.Or(cmp.Compare(d.GaveUp, c.GaveUp), cmp.Compare(d.Spun, c.Spun), cmp.Compare(d.Open, c.Open), cmp.Compare(d.Errors, c.Errors))
}

// ToolCounts are those of a tool.
type ToolCounts struct {
	Counts

	Tool string
}

// MessageCounts are those of an error text of a tool: texts that differ only in numbers, in
// what was received and in the hint are one. Calls is as Errors.
type MessageCounts struct {
	Counts

	Tool string
	Code tool.Code
	// Example is the first of them, word for word as far as it is shown.
	Example string
	// Vague is why it is of little help.
	Vague Vagueness
	// Conversations are some in which it stands.
	Conversations []string
}

// maxExamples is how many conversations are named for an error text.
const maxExamples = 3

// maxMessages bounds the tools, and the error texts, that are told apart, maxExample the text of
// one in characters: agents write them.
const maxMessages, maxExample = 10_000, 2000

// Report is what an audit has found.
type Report struct {
	Counts

	Conversations, Prompts int
	// Recorded, Forgotten and Unrecorded are the calls by what there is of their records.
	Recorded, Forgotten, Unrecorded int
	// Tools and Messages have the worst first.
	Tools    []ToolCounts
	Messages []MessageCounts
	// ToolsLeft and MessagesLeft are calls, and errors, whose tools and texts were too many to be told apart.
	ToolsLeft, MessagesLeft int
}

// Audit counts what became of errors in many conversations. The zero value has counted
// none.
type Audit struct {
	// Tool is the one whose calls are counted; empty for all.
	Tool string

	report   Report
	tools    map[string]*Counts
	messages map[messageKey]*MessageCounts
}

// messageKey tells error texts apart, by a hash of what they have in common.
type messageKey struct {
	tool  string
	shape [sha256.Size]byte
}

// Add counts a conversation.
func (a *Audit) Add(id string, t *Timeline) {
	if a.tools == nil {
		a.tools, a.messages = map[string]*Counts{}, map[messageKey]*MessageCounts{}
	}
	a.report.Conversations++
	prompts := map[int]bool{}
	for e := range t.Calls {
		c := e.Call
		if a.Tool != "" && c.Tool != a.Tool {
			continue
		}
		prompts[e.Prompt] = true
		a.report.recorded(c.Record)
		a.report.add(c.Failure)
		of := a.tools[c.Tool]
		switch {
		case of != nil:
		case len(a.tools) == maxMessages:
			a.report.ToolsLeft++
			of = &Counts{}
		default:
			of = &Counts{}
			a.tools[strings.Clone(c.Tool)] = of
		}
		of.add(c.Failure)
		if c.Failure != nil {
			a.message(id, c)
		}
	}
	a.report.Prompts += len(prompts)
}

func (r *Report) recorded(record *Record) {
	switch {
	case record == nil:
		r.Unrecorded++
	case record.State == dedupe.Absent:
		r.Forgotten++
	default:
		r.Recorded++
	}
}

func (a *Audit) message(id string, c *Call) {
	key := messageKey{strings.Clone(c.Tool), sha256.Sum256([]byte(c.Failure.shape(c.Text)))}
	m := a.messages[key]
	if m == nil && len(a.messages) == maxMessages {
		a.report.MessagesLeft++
		return
	}
	if m == nil { // its own bytes: those of the conversation go
		m = &MessageCounts{Tool: key.tool, Code: c.Failure.Code, Example: strings.Clone(tool.Shorten(c.Failure.message(c.Text), maxExample))}
		a.messages[key] = m
	}
	m.add(c.Failure)
	m.Vague |= c.Failure.Vague
	if len(m.Conversations) < maxExamples && !slices.Contains(m.Conversations, id) {
		m.Conversations = append(m.Conversations, id)
	}
}

// Report is what was counted.
func (a *Audit) Report() Report {
	r := a.report
	for _, name := range slices.Sorted(maps.Keys(a.tools)) {
		r.Tools = append(r.Tools, ToolCounts{*a.tools[name], name})
	}
	slices.SortStableFunc(r.Tools, func(x, y ToolCounts) int { return x.worse(&y.Counts) })
	for _, m := range a.messages {
		r.Messages = append(r.Messages, *m)
	}
	slices.SortFunc(r.Messages, func(x, y MessageCounts) int {
		return cmp.Or(x.worse(&y.Counts), cmp.Compare(x.Tool, y.Tool), cmp.Compare(x.Example, y.Example))
	})
	return r
}

// message is an error text word for word, without what the model was told beside the fields.
func (f *Failure) message(text string) string {
	decoder := json.NewDecoder(strings.NewReader(text))
	if f.Code == "" || decoder.Decode(&json.RawMessage{}) != nil {
		return text
	}
	return text[:decoder.InputOffset()]
}

// shape is what error texts have in common that say the same of other things.
func (f *Failure) shape(text string) string {
	if f.Code == "" {
		return masked(text)
	}
	says := []string{string(f.Code), masked(f.fields.Field), masked(f.fields.Constraint)}
	if f.Code.Class() != tool.Malformed { // what was received is then what the upstream has said
		says = append(says, masked(f.fields.Received))
	}
	return strings.Join(says, "\x00")
}

// masked is a text with each word that has a digit in it as one and the same.
func masked(text string) string {
	words := strings.Fields(text)
	for i, word := range words {
		if strings.ContainsFunc(word, unicode.IsDigit) {
			words[i] = "#"
		}
	}
	return strings.Join(words, " ")
}
