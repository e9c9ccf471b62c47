package timeline

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sidecall/sidecall/internal/tool"
)

// spins is how often the same error is told until the model is said to spin.
const spins = 3

// span are the events of one reply of the model: from, up to end.
type span struct{ from, end int }

// judge says what became of each error, and finds the first that was not recovered from.
func (r *reader) judge() {
	replies := r.replies()
	r.fates(replies)
	r.spinning()
	for i := range replies {
		var after *reply
		if i+1 < len(replies) && r.Events[replies[i].from].Prompt == r.Events[replies[i+1].from].Prompt {
			after = r.replyOf(replies[i+1])
		}
		for _, e := range r.Events[replies[i].from:replies[i].end] {
			if e.Call == nil || e.Call.Failure == nil {
				continue
			}
			f := e.Call.Failure
			f.Next = after.next(e.Call)
			f.Vague = vagueness(e.Call.Text, f)
		}
	}
	r.First = slices.IndexFunc(r.Events, func(e Event) bool {
		return e.Call != nil && e.Call.Failure != nil && e.Call.Failure.Fate != Recovered
	})
}

// replies are those of the model, in their order. What the user says between is in none.
func (r *reader) replies() (all []span) {
	last := 0
	for i, e := range r.Events {
		switch {
		case e.Kind != ModelSaid && e.Kind != Called:
		case len(all) > 0 && e.reply == last:
			all[len(all)-1].end = i + 1
		default:
			all, last = append(all, span{i, i + 1}), e.reply
		}
	}
	return all
}

// fates says of each error whether its tool worked in a later reply of the same prompt.
func (r *reader) fates(replies []span) {
	prompt, worked := -1, map[string]bool{}
	for _, of := range slices.Backward(replies) {
		events := r.Events[of.from:of.end]
		if events[0].Prompt != prompt {
			prompt = events[0].Prompt
			clear(worked)
		}
		for _, e := range events {
			if e.Call == nil || e.Call.Failure == nil {
				continue
			}
			switch f := e.Call.Failure; {
			case worked[e.Call.Tool], f.Code == tool.CodeUnknownTool && len(worked) > 0:
				f.Fate = Recovered
			case r.Prompts[prompt].Over:
				f.Fate = GaveUp
			default:
				f.Fate = Open
			}
		}
		for _, e := range events {
			if e.Call != nil && e.Call.Answered && e.Call.Failure == nil {
				worked[e.Call.Tool] = true
			}
		}
	}
}

// spinning finds what the model was told again and again in a prompt.
func (r *reader) spinning() {
	type told struct {
		prompt     int
		tool, text string
	}
	times := map[told]int{}
	for e := range r.Calls {
		if e.Call.Failure != nil {
			times[told{e.Prompt, e.Call.Tool, e.Call.Failure.told}]++
		}
	}
	for e := range r.Calls {
		if f := e.Call.Failure; f != nil {
			f.Spun = f.Code == tool.CodeLoopDetected || times[told{e.Prompt, e.Call.Tool, f.told}] >= spins
		}
	}
}

// reply is what a model did at once, for those who ask what it did next.
type reply struct {
	text  string
	first *Call            // of all
	of    map[string]*Call // the first of each tool
	args  map[string]map[string]any
}

func (r *reader) replyOf(s span) *reply {
	did := &reply{of: map[string]*Call{}, args: map[string]map[string]any{}}
	for _, e := range r.Events[s.from:s.end] {
		switch {
		case e.Kind == ModelSaid && did.text == "":
			did.text = e.Text
		case e.Call == nil:
		case did.of[e.Call.Tool] == nil:
			if did.of[e.Call.Tool] = e.Call; did.first == nil {
				did.first = e.Call
			}
		}
	}
	return did
}

// next is what a model did after a call.
func (did *reply) next(c *Call) Next {
	if did == nil {
		return Next{Nothing: true}
	}
	n := Next{Text: did.text}
	again := did.of[c.Tool]
	switch {
	case again == nil && did.first != nil:
		n.Tool = did.first.Tool
	case again == nil:
	case again.sum == c.sum:
		n.Tool, n.Again = c.Tool, true
	default:
		n.Tool, n.Differences = c.Tool, did.differences(c, again)
	}
	return n
}

// Bounds of what is told of a difference.
const (
	maxDifferences = 8
	maxValue       = 80 // characters
)

// differences says how the arguments of a call differ from those of an earlier one.
func (did *reply) differences(then, now *Call) (all []string) {
	if then.Cut || now.Cut {
		return []string{"its arguments are too long to compare"}
	}
	after, read := did.args[now.Tool]
	if !read {
		after = objectOf(now.Arguments)
		did.args[now.Tool] = after
	}
	before := objectOf(then.Arguments)
	if before == nil || after == nil {
		return []string{"its arguments are not known"}
	}
	names := maps.Clone(before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, had := before[name]
		is, has := after[name]
		wasText, isText := encoded(was), encoded(is)
		shown, wasShown, isShown := tool.Shorten(name, maxValue), tool.Shorten(wasText, maxValue), tool.Shorten(isText, maxValue)
		switch {
		case had && has && wasText == isText:
			continue
		case len(all) == maxDifferences:
			return append(all, "and more")
		case !had:
			all = append(all, fmt.Sprintf("%s: %s, was left out", shown, isShown))
		case !has:
			all = append(all, fmt.Sprintf("%s: left out, was %s", shown, wasShown))
		default:
			all = append(all, fmt.Sprintf("%s: %s, was %s", shown, isShown, wasShown))
		}
	}
	if len(all) == 0 {
		return []string{"what differs is not shown"}
	}
	return all
}

// objectOf reads arguments; nil for what is none.
func objectOf(text string) (values map[string]any) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if decoder.Decode(&values) != nil {
		return nil
	}
	return values
}

// encoded is a value as JSON.
func encoded(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return "?"
	}
	return string(text)
}
