package observed

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sidecall/sidecall/internal/rules/loop/guard"
	"github.com/sidecall/sidecall/internal/tool"
)

// soon is how near two calls with the same arguments are that look like one that was sent again.
const soon = time.Minute

// charsPerToken is what a token is taken for where none are counted.
const charsPerToken = 4

// Report is what Sidecall would have done of the calls that were observed.
type Report struct {
	From          time.Time `json:"from,omitzero"`
	To            time.Time `json:"to,omitzero"`
	Calls         int       `json:"calls"`
	Broken        int       `json:"broken,omitempty"` // lines of the file that are no calls
	Named         int       `json:"named"`            // that said their id
	Servers       []string  `json:"servers,omitempty"`
	Conversations int       `json:"conversations"`
	// Again are calls that were made again under an id, the most often made first: Sidecall would
	// have answered all but the first from its record.
	Again []Repeated `json:"again,omitempty"`
	// Alike are calls with an effect that were made again soon, with the same arguments under
	// another id, or none. An effect_key would tell the second that it was the first.
	Alike []Repeated `json:"alike,omitempty"`
	// Reused are ids under which another call was made: it would have been refused.
	Reused []Repeated   `json:"reused,omitempty"`
	Loops  []Loop       `json:"loops,omitempty"`
	Wrong  []WrongCalls `json:"wrong,omitempty"`
	// Cut is how many results would have been cut, and Tokens roughly how many a model would not
	// have read of them, unless it had asked for the rest.
	Cut    int `json:"cut"`
	Tokens int `json:"tokens"`
	// Held are calls of which a person would have been asked, Tainted those of sensitive tools behind
	// what an untrusted tool returned.
	Held    []Tally `json:"held,omitempty"`
	Tainted []Tally `json:"tainted,omitempty"`
	// Over are prompts with more calls than they may have.
	Over []Over `json:"over,omitempty"`
	// Lost are calls with an effect of which nobody knows whether they happened.
	Lost []Repeated `json:"lost,omitempty"`
}

// Repeated is a call that was made several times.
type Repeated struct {
	Server string    `json:"server"`
	Tool   string    `json:"tool"`
	ID     string    `json:"id,omitempty"`
	Effect string    `json:"effect"`
	Times  int       `json:"times"`
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
}

// Loop is where a model would have been stopped that went round in circles.
type Loop struct {
	Server       string    `json:"server"`
	Conversation string    `json:"conversation"`
	Tool         string    `json:"tool"`
	Rule         string    `json:"rule"`
	At           time.Time `json:"at"`
	// Refused is how many of its calls would not have been made.
	Refused int `json:"refused"`
}

// Tally is how often a tool was called.
type Tally struct {
	Server string `json:"server"`
	Tool   string `json:"tool"`
	Times  int    `json:"times"`
}

// Over is a prompt that has made more calls than it may.
type Over struct {
	Server       string `json:"server"`
	Conversation string `json:"conversation,omitempty"`
	Prompt       string `json:"prompt,omitempty"`
	Calls        int    `json:"calls"`
	Most         int64  `json:"most"`
}

// WrongCalls are calls that would not have been sent for one reason.
type WrongCalls struct {
	Server string `json:"server"`
	Tool   string `json:"tool"`
	Wrong
	Times int `json:"times"`
}

// Of reports on calls.
func Of(calls []Call) Report {
	slices.SortStableFunc(calls, func(a, b Call) int { return a.At.Compare(b.At) })
	r := Report{Calls: len(calls)}
	if len(calls) == 0 {
		return r
	}
	r.From, r.To = calls[0].At, calls[len(calls)-1].At
	servers, conversations := map[string]bool{}, map[string]bool{}
	for _, c := range calls {
		servers[c.Server] = true
		if c.ID != "" {
			r.Named++
		}
		if c.Conversation != "" {
			conversations[c.Server+"\x00"+c.Conversation] = true
		}
		if c.Shown > 0 && c.Chars > c.Shown {
			r.Cut++
			r.Tokens += (c.Chars - c.Shown) / charsPerToken
		}
		if c.Ended == Lost && c.Effect == tool.NonIdempotent.String() {
			r.Lost = append(r.Lost, Repeated{c.Server, c.Tool, c.ID, c.Effect, 1, c.At, c.At})
		}
	}
	r.Servers, r.Conversations = slices.Sorted(maps.Keys(servers)), len(conversations)
	r.repeated(calls)
	r.wrong(calls)
	r.loops(calls)
	r.prompts(calls)
	return r
}

// prompts finds what a prompt would have been kept from.
func (r *Report) prompts(calls []Call) {
	held, tainted := map[Tally]int{}, map[Tally]int{}
	entered, over := map[Over]bool{}, map[Over]int{}
	for _, c := range calls {
		tool, of := Tally{Server: c.Server, Tool: c.Tool}, Over{Server: c.Server, Conversation: c.Conversation, Prompt: c.Prompt}
		if c.Held {
			held[tool]++
		}
		if c.Sensitive && entered[of] {
			tainted[tool]++
		}
		entered[of] = entered[of] || c.Untrusted
		if of.Most = c.Most; c.Most > 0 && c.Conversation+c.Prompt != "" { // else nobody knows what belongs together
			over[of]++
		}
	}
	r.Held, r.Tainted = tallies(held), tallies(tainted)
	for of, n := range over {
		if of.Calls = n; int64(n) > of.Most {
			r.Over = append(r.Over, of)
		}
	}
	slices.SortFunc(r.Over, func(a, b Over) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), strings.Compare(a.Conversation, b.Conversation), strings.Compare(a.Prompt, b.Prompt), strings.Compare(a.Server, b.Server))
	})
}

func tallies(of map[Tally]int) (all []Tally) {
	for one, n := range of {
		one.Times = n
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b Tally) int {
		return cmp.Or(cmp.Compare(b.Times, a.Times), strings.Compare(a.Server, b.Server), strings.Compare(a.Tool, b.Tool))
	})
	return all
}

// repeated finds calls that were made again. Lists are in the order of time, but for those of what
// was made the most often.
func (r *Report) repeated(calls []Call) {
	type key struct{ server, conversation, turn, id string }
	first, again, reused := map[key]Call{}, map[key]*Repeated{}, map[key]*Repeated{}
	last, alike := map[key]Call{}, map[key]*Repeated{}
	count := func(of map[key]*Repeated, k key, before, c Call) {
		if of[k] == nil {
			of[k] = &Repeated{Server: c.Server, Tool: c.Tool, ID: c.ID, Effect: c.Effect, Times: 1, First: before.At}
		}
		of[k].Times++
		of[k].Last = c.At
	}
	for _, c := range calls {
		k := key{c.Server, c.Conversation, c.Turn, c.ID}
		before, known := first[k]
		known = known && c.ID != ""
		switch {
		case known && before.Same == c.Same:
			count(again, k, before, c)
			continue
		case known:
			count(reused, k, before, c)
			continue
		}
		first[k] = c
		if c.Effect != tool.NonIdempotent.String() || c.Wrong != nil {
			continue
		}
		same := key{c.Server, c.Conversation, "", c.Same}
		if near, there := last[same]; there && c.At.Sub(near.At) <= soon {
			count(alike, same, near, c)
		}
		last[same] = c
	}
	r.Again, r.Reused, r.Alike = sorted(again), sorted(reused), sorted(alike)
}

func sorted[K comparable](of map[K]*Repeated) (all []Repeated) {
	for _, one := range of {
		all = append(all, *one)
	}
	slices.SortFunc(all, func(a, b Repeated) int {
		return cmp.Or(cmp.Compare(b.Times, a.Times), a.First.Compare(b.First), strings.Compare(a.ID, b.ID))
	})
	return all
}

func (r *Report) wrong(calls []Call) {
	type key struct {
		server, tool string
		Wrong
	}
	times := map[key]int{}
	for _, c := range calls {
		if c.Wrong != nil {
			times[key{c.Server, c.Tool, *c.Wrong}]++
		}
	}
	for k, n := range times {
		r.Wrong = append(r.Wrong, WrongCalls{k.server, k.tool, k.Wrong, n})
	}
	slices.SortFunc(r.Wrong, func(a, b WrongCalls) int {
		return cmp.Or(cmp.Compare(b.Times, a.Times), strings.Compare(a.Tool, b.Tool), strings.Compare(a.Field, b.Field), strings.Compare(a.Constraint, b.Constraint))
	})
}

// loops has the loop guard, as it is when nothing is set, judge each conversation. What it would
// have refused was made all the same; it goes on as if it had not been.
func (r *Report) loops(calls []Call) {
	judge, err := guard.New(guard.Thresholds{})
	if err != nil {
		panic(err) // the defaults are right
	}
	logs, found := map[string][][]byte{}, map[string]int{}
	for _, c := range calls {
		if c.Conversation == "" {
			continue // nobody knows what belongs together
		}
		of := strings.Join([]string{c.Server, c.Conversation, c.Prompt}, "\x00")
		this := guardCall(c)
		entry := guard.Entry{Call: this, Kind: guard.OK, Outcome: guard.Sum([]byte(c.Result)), End: guard.At(c.At.Add(c.Took))}
		switch {
		case c.Wrong != nil:
			entry.Kind, entry.Outcome = guard.Invalid, guard.Sum([]byte(c.Wrong.Code+c.Wrong.Field+c.Wrong.Constraint))
		case c.Ended == Lost, c.Ended == Cancelled:
			continue // which is no word of the tool's
		case c.Ended != OK:
			entry.Kind = guard.Failed
		}
		verdict := judge.Before(guard.Read(logs[of]), this)
		if verdict.Level.Refused() {
			entry = this.Refuse(verdict, guard.At(c.At))
			at, known := found[of+"\x00"+c.Tool]
			if !known {
				at = len(r.Loops)
				found[of+"\x00"+c.Tool] = at
				r.Loops = append(r.Loops, Loop{c.Server, c.Conversation, c.Tool, verdict.Rule.String(), c.At, 0})
			}
			r.Loops[at].Refused++
		}
		logs[of] = append(logs[of], entry.AppendTo(nil))
		logs[of] = logs[of][max(0, len(logs[of])-guard.LogEntries):]
	}
}

func guardCall(c Call) guard.Call {
	effect, err := tool.ParseEffect(c.Effect)
	if err != nil {
		effect = tool.NonIdempotent
	}
	return guard.Call{
		Tool: c.Tool, Same: guard.Sum([]byte(c.Tool + "\x00" + c.Same)), ID: guard.Sum([]byte(c.Turn + "\x00" + c.ID + "\x00" + c.At.String())),
		Start: guard.At(c.At), Effect: effect,
	}
}
