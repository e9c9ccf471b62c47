package timeline

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
)

// name is what a call is known by in its conversation.
type name struct{ turn, id string }

// reader makes a timeline of messages, and then of the records that they do not tell of.
type reader struct {
	Timeline

	in      *Input
	records map[name]*Record
	told    map[name]bool  // the records that a message tells of
	open    map[string]int // the events of calls without a result, by id

	reply     int
	fromModel bool   // the last message was the model's
	spoken    bool   // the model has said something in this prompt
	answered  string // the call that the last result was of
}

func newReader(in *Input) *reader {
	r := &reader{in: in, records: map[name]*Record{}, told: map[name]bool{}, open: map[string]int{}}
	r.First = -1
	for i := range in.Records {
		r.records[name{in.Records[i].Turn, in.Records[i].ID}] = &in.Records[i]
	}
	return r
}

func (r *reader) read(m Message) {
	defer func() { r.Messages++ }()
	entry, err := provider.ReadEntry(m.JSON)
	if err != nil {
		r.unreadable(err)
		return
	}
	fromModel := entry.FromModel(r.in.Provider)
	if fromModel && !r.fromModel {
		r.reply++
	}
	r.fromModel = fromModel
	results := false
	err = entry.Says(r.in.Provider, func(said provider.Said) error {
		switch {
		case said.Call != nil:
			r.call(said.Call, m.Turn)
		case said.Result != nil:
			results = true
			r.result(said.Result)
		case strings.TrimSpace(said.Text) == "":
		case fromModel:
			r.says(ModelSaid, said.Text)
		case entry.FromUser():
			r.user(said.Text, results)
		}
		return nil
	})
	if err != nil {
		r.unreadable(err)
	}
}

// unreadable tells of a message that cannot be read; the others are told.
func (r *reader) unreadable(err error) { r.says(Unread, "this message cannot be read: "+err.Error()) }

// says adds a text.
func (r *reader) says(kind Kind, text string) {
	r.add(Event{Kind: kind, Message: r.Messages, Text: tool.Shorten(text, maxSaid)})
}

// add adds an event to the prompt that goes on.
func (r *reader) add(e Event) {
	if len(r.Prompts) == 0 {
		r.Prompts = append(r.Prompts, Prompt{})
	}
	r.spoken = r.spoken || e.Kind != UserSaid
	e.Prompt, e.reply = len(r.Prompts)-1, r.reply
	r.Events = append(r.Events, e)
}

// user adds what the user says, which begins a prompt: unless it stands beside results, or
// the model has said nothing since the text before it.
func (r *reader) user(text string, beside bool) {
	// Pictures of a result stand in a message of the user's where a tool has none.
	beside = beside || r.answered != "" && text == "Returned by "+r.answered+":"
	if len(r.Prompts) == 0 || r.spoken && !beside {
		if n := len(r.Prompts); n > 0 {
			r.Prompts[n-1].Over = true
		}
		r.Prompts = append(r.Prompts, Prompt{})
		r.spoken = false
	}
	r.says(UserSaid, text)
}

// call adds a call of the model.
func (r *reader) call(made *provider.Call, turn string) {
	c := &Call{ID: made.ID, Turn: turn, Tool: tool.Shorten(made.Name, maxResult)}
	r.arguments(c, made)
	if record := r.records[name{turn, made.ID}]; record != nil {
		c.Record, r.told[name{turn, made.ID}] = record, true
	}
	r.add(Event{Kind: Called, Message: r.Messages, Call: c})
	if prompt := &r.Prompts[len(r.Prompts)-1]; prompt.ID == "" && c.Record != nil {
		prompt.ID = c.Record.Prompt
	}
	r.open[made.ID] = len(r.Events) - 1
}

// arguments takes in those of a call, without what is never shown. What is no object may
// have secrets anywhere, and is not shown.
func (r *reader) arguments(c *Call, made *provider.Call) {
	raw := made.Arguments()
	values, violation := schema.ParseArgs(c.Tool, raw)
	if violation != nil {
		c.Arguments = "(" + tool.Count(len(raw), "byte") + " that are no JSON object)"
		c.sum = schema.Fingerprint(c.Tool, []byte(raw))
		return
	}
	if whole, err := schema.Canonical(values); err == nil {
		c.sum = schema.Fingerprint(c.Tool, whole)
	}
	if r.in.Redact != nil {
		values = r.in.Redact(c.Tool, values)
	}
	if shown, err := schema.Canonical(values); err == nil {
		c.Arguments = tool.ShortenBytes(string(shown), maxArguments)
		c.Cut = len(shown) > maxArguments
	}
}

// result adds what a model was told of a call.
func (r *reader) result(told *provider.Result) {
	r.answered = told.ID
	i, found := r.open[told.ID]
	if !found {
		return // no append has such a message
	}
	delete(r.open, told.ID)
	c := r.Events[i].Call
	// Only one provider's messages say so themselves; the record does, and the text.
	_, parsed := tool.ParseError(told.Text)
	c.tell(told.Text, told.IsError || parsed || c.Record != nil && c.Record.IsError)
}

// tell takes in what the model was told.
func (c *Call) tell(text string, isError bool) {
	c.Answered = true
	if !isError {
		c.Text = tool.Shorten(text, maxResult)
		c.TextCut = c.Text != text
		return
	}
	c.Text = tool.ShortenBytes(text, maxError)
	c.TextCut = c.Text != text
	if f := newFailure(c.Text); f.Code != tool.CodeApprovalRequired { // which waits, and has not failed
		c.Failure = f
	}
}

// end ends the prompt whose messages were the last.
func (r *reader) end() {
	if n := len(r.Prompts); n > 0 {
		r.Prompts[n-1].Over = r.fromModel && len(r.open) == 0
	}
	for _, i := range r.open { // what is recorded is not told to the model yet
		c := r.Events[i].Call
		if c.Record != nil && c.Record.Text != "" {
			c.tell(c.Record.Text, c.Record.IsError)
			c.Answered = false
		}
	}
}

// unappended adds the calls of which no message tells, prompt by prompt, in the order in
// which they were claimed.
func (r *reader) unappended() {
	var left []*Record
	for i := range r.in.Records {
		if record := &r.in.Records[i]; !r.told[name{record.Turn, record.ID}] {
			left = append(left, record)
		}
	}
	slices.SortStableFunc(left, func(a, b *Record) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), cmp.Compare(a.Turn, b.Turn), cmp.Compare(a.ID, b.ID))
	})
	var prompts []string
	of := map[string][]*Record{}
	for _, record := range left {
		if _, seen := of[record.Prompt]; !seen {
			prompts = append(prompts, record.Prompt)
		}
		of[record.Prompt] = append(of[record.Prompt], record)
	}
	for _, prompt := range prompts {
		r.Prompts = append(r.Prompts, Prompt{ID: prompt, Unappended: true})
		r.recorded(of[prompt])
	}
}

// recorded adds calls by their records. Those of one turn were made at once.
func (r *reader) recorded(records []*Record) {
	for i, record := range records {
		if i == 0 || record.Turn == "" || record.Turn != records[i-1].Turn {
			r.reply++
		}
		c := &Call{
			ID: record.ID, Turn: record.Turn, Tool: record.Tool, Record: record,
			Arguments: tool.ShortenBytes(record.Arguments, maxArguments), sum: record.Fingerprint,
			Cut: record.Cut || len(record.Arguments) > maxArguments,
		}
		switch {
		case record.Resolution != nil && record.ToldBefore != "":
			c.tell(record.ToldBefore, true) // or nobody would have had to settle it
		case record.Text != "" && record.State != dedupe.Claimed:
			c.tell(record.Text, record.IsError)
		}
		r.add(Event{Kind: Called, Message: -1, Call: c})
	}
}
