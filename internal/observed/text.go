package observed

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// shownOf is how many of a list are shown; the others are counted.
const shownOf = 10

// Write writes a report for a person.
func (r Report) Write(out io.Writer) {
	if r.Broken > 0 {
		fmt.Fprintf(out, "%s of the file cannot be read.\n", tool.Count(r.Broken, "line"))
	}
	if r.Calls == 0 {
		fmt.Fprintln(out, "No calls were observed: put sidecall wrap --observe -- before the command of a server, or mode: observe into a profile, whose file --file names.")
		return
	}
	fmt.Fprintf(out, "%s of %s, %s to %s.\n%d of them said their id, and they are of %s.\nThis is what Sidecall would have done:\n\n",
		tool.Count(r.Calls, "call"), strings.Join(r.Servers, ", "), day(r.From), day(r.To), r.Named, tool.Count(r.Conversations, "conversation"))
	section(out, "Made again under the id of a call that was made; answered from its record", r.Again, repeated)
	section(out, "Made again within a minute with the same arguments, under another id or none; an effect_key would tell", r.Alike, repeated)
	section(out, "Another call under the id of one; refused (ID_REUSED)", r.Reused, repeated)
	section(out, "Lost when the server ended; said to be of unknown outcome, and not made again under the id", r.Lost, repeated)
	section(out, "Round in circles; refused by the loop guard, which a wrapper has only with --loop-guard", r.Loops, func(l Loop) string {
		return fmt.Sprintf("%s %s: %s from %s on (%s), in %s", l.Server, l.Tool, tool.Count(l.Refused, "call"), l.At.UTC().Format(time.DateTime), l.Rule, l.Conversation)
	})
	section(out, "Not sent, and the model told why", r.Wrong, func(w WrongCalls) string {
		return fmt.Sprintf("%s %s: %s, %s %s: %s", w.Server, w.Tool, tool.Count(w.Times, "call"), w.Code, w.Field, w.Constraint)
	})
	section(out, "Held until a person has allowed them", r.Held, tally)
	section(out, "Of sensitive tools, behind untrusted output in the same prompt; refused", r.Tainted, tally)
	section(out, "Prompts with more calls than they may have; the rest refused", r.Over, func(o Over) string {
		return fmt.Sprintf("%s %s of %s: %s, of %d", o.Server, cmp.Or(o.Prompt, "(no prompt)"), cmp.Or(o.Conversation, "(no conversation)"), tool.Count(o.Calls, "call"), o.Most)
	})
	if r.Cut == 0 {
		fmt.Fprintln(out, "Results cut: none")
		return
	}
	fmt.Fprintf(out, "Results cut, the rest kept for read_output: %d, which have some %d tokens more than would have been shown\n", r.Cut, r.Tokens)
}

func day(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

func repeated(c Repeated) string {
	id := c.ID
	if id == "" {
		id = "(no id)"
	}
	if c.Times == 1 {
		return fmt.Sprintf("%s %s %s (%s), %s", c.Server, c.Tool, id, c.Effect, c.First.UTC().Format(time.DateTime))
	}
	return fmt.Sprintf("%s %s %s (%s): %d times, %s and %s later", c.Server, c.Tool, id, c.Effect, c.Times,
		c.First.UTC().Format(time.DateTime), c.Last.Sub(c.First).Round(time.Millisecond))
}

func tally(t Tally) string {
	return fmt.Sprintf("%s %s: %s", t.Server, t.Tool, tool.Count(t.Times, "call"))
}

// section lists what there is of a kind.
func section[T any](out io.Writer, title string, found []T, line func(T) string) {
	if len(found) == 0 {
		fmt.Fprintf(out, "%s: none\n", title)
		return
	}
	fmt.Fprintf(out, "%s: %d\n", title, len(found))
	for i, one := range found {
		if i == shownOf {
			fmt.Fprintf(out, "  and %d more\n", len(found)-i)
			break
		}
		fmt.Fprintf(out, "  %s\n", line(one))
	}
}
