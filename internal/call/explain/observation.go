package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/tool"
)

// What is said of results that are no errors, and from which a model might conclude
// that it should call again: some of it was done, or nothing was found. What the
// tool says of its items stands in the result; here are the sidecar's own words, in
// which a tool's have no place but for ids that can say nothing.

// maxListed is how many items are named one by one.
const maxListed = 20

// Observation is what came back of a call that worked, or of which items were done.
type Observation struct {
	Of      *Subject
	Reading *interpret.Reading
}

// Remarks are what a model is told of a result beside it, the fullest first; none of
// one that speaks for itself.
func (o Observation) Remarks() []string {
	name, reading := o.Of.Route.Tool.Name, o.Reading
	switch {
	case reading.Outcome == interpret.Partial:
		return o.partly()
	case reading.Unread:
		return []string{name + " may have done only some of this: its answer tells so item by item. Read it before you rely on it, and call " +
			name + " again only with what it says was not done."}
	case reading.Outcome == interpret.Empty:
		return o.nothing()
	default:
		return nil
	}
}

// partly says which items are done and which are to be sent again.
func (o Observation) partly() []string {
	reading := o.Reading
	var isDone, failed, open listing
	for i := range reading.Items {
		switch item := &reading.Items[i]; {
		case item.OK:
			isDone.add(item)
		case o.open(item):
			open.add(item)
		default:
			failed.add(item)
		}
	}
	counts := fmt.Sprintf("Done in part: %d of %d items.", reading.Done, reading.Total)
	list := o.listArgument()
	which := "the items that were not done"
	if list != "" {
		which = "those of " + list + " that were not done"
	}
	again := fmt.Sprintf(" Call %s again with only %s, corrected as their errors say.", o.Of.Route.Tool.Name, which)
	full := counts
	if isDone.n > 0 {
		full += " Done, not to be sent again: " + isDone.String() + "."
	}
	if failed.n > 0 {
		full += " Not done: " + failed.String() + "."
	}
	short := counts + " Those that are done must not be sent again."
	if open.n > 0 {
		unsure := fmt.Sprintf(" May or may not be done: %s; do not send them again until you know.", open.String())
		full, short = full+unsure, short+unsure
	}
	if more := reading.Total - len(reading.Items); more > 0 {
		full += fmt.Sprintf(" Of the %d items after these the result tells.", more)
	}
	if failed.n == 0 && open.n > 0 {
		again = ""
	}
	return []string{full + " Indexes count from 0." + again, short + again, counts}
}

// open reports an item that may have been done though it failed, and must not be
// done twice.
func (o Observation) open(item *interpret.Item) bool {
	return item.Ambiguous && !o.Of.Route.Tool.Effect.Repeatable()
}

// ItemErrors says what is said of each item that was not done.
func (o Observation) ItemErrors() func(item *interpret.Item) tool.Error {
	list := o.listArgument()
	return func(item *interpret.Item) tool.Error {
		explained := *item.Error
		if list != "" {
			explained.Field = fmt.Sprintf("%s[%d]", list, item.Index)
		}
		if o.open(item) {
			explained.Code = tool.CodeOutcomeUnknown
			explained.Constraint = fmt.Sprintf("item %d may or may not have been done", item.Index)
			explained.Hint = "Do not send this item again until you know whether it was done."
			if verify := o.Of.Route.Tool.Policy.VerifyWith; verify != "" {
				explained.Hint = fmt.Sprintf("Do not send this item again until you know whether it was done: %s.", now(o.Of.Snapshot, "ask", verify))
			}
		}
		return explained
	}
}

// listArgument is the argument whose items the reply answers, one by one; empty when there is none,
// or several could be it.
func (o Observation) listArgument() string {
	found := ""
	for name, value := range o.Of.About.Args {
		if list, ok := value.([]any); ok && len(list) == o.Reading.Total && plain.MatchString(name) {
			if found != "" {
				return ""
			}
			found = name
		}
	}
	return found
}

// nothing says that nothing was found, and what may find more. A tool with an effect
// that answers with nothing has done what it was to do.
func (o Observation) nothing() []string {
	name := o.Of.Route.Tool.Name
	if o.Of.Route.Tool.Effect != tool.ReadOnly && !o.Of.Route.Program.KnowsEmpty() {
		done := name + " ran and returned nothing: it has succeeded. Do not call it again for this."
		return []string{done, "Succeeded, and returned nothing."}
	}
	const observation = " found nothing. That is an answer and no error: the same call finds the same."
	advice := " Try other values, such as another id or a shorter search text; or go on without it, or tell the user that there is nothing."
	if wider := o.optional(); len(wider) > 0 {
		advice = fmt.Sprintf(" To find more, leave out or widen %s; or try other values, such as another id; or go on without it, or tell the user that there is nothing.",
			strings.Join(wider, ", "))
	}
	return []string{name + observation + advice, name + observation, "Nothing was found."}
}

// maxWidened is how many arguments are named that may be left out.
const maxWidened = 5

// optional are the arguments of the call that its tool does not ask for.
func (o Observation) optional() []string {
	required := o.Of.Route.Schema.Required()
	var names []string
	for name := range o.Of.About.Args {
		if plain.MatchString(name) && !slices.Contains(required, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), maxWidened)]
}

// plain are names in which hardly anything can be said: of arguments, which a tool
// chooses, and of items.
var plain = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:@#-]{0,39}$`)

// listing writes items one after the other, runs of those without an id as 2-5.
type listing struct {
	text  strings.Builder
	n     int
	named int // entries of text
	// from and to are the run at the end that is not written yet; to is behind it.
	from, to int
}

func (l *listing) add(item *interpret.Item) {
	l.n++
	if id := item.ID; id != "" && plain.MatchString(id) {
		l.flush()
		l.entry(fmt.Sprintf("%d (%s)", item.Index, id))
		return
	}
	if l.to != item.Index || l.from == l.to {
		l.flush()
		l.from = item.Index
	}
	l.to = item.Index + 1
}

// flush writes the run.
func (l *listing) flush() {
	switch l.to - l.from {
	case 0:
	case 1:
		l.entry(strconv.Itoa(l.from))
	default:
		l.entry(fmt.Sprintf("%d-%d", l.from, l.to-1))
	}
	l.from, l.to = 0, 0
}

func (l *listing) entry(text string) {
	if l.named++; l.named > maxListed {
		return
	}
	if l.named > 1 {
		l.text.WriteString(", ")
	}
	l.text.WriteString(text)
}

// String is the list; of a long one it says that there is more.
func (l *listing) String() string {
	l.flush()
	if l.named > maxListed {
		return l.text.String() + " and more, as the result tells"
	}
	return l.text.String()
}
