package loop

import (
	"crypto/sha256"

	"github.com/sidecall/sidecall/internal/rules"
	"github.com/sidecall/sidecall/internal/rules/loop/guard"
	"github.com/sidecall/sidecall/internal/schema"
)

// prompted is what two calls of a batch have in common that may be the same call.
type prompted struct{ tenant, conversation, prompt, profile, tool string }

// Beside judges the calls of a batch by each other, before any of them is made. Only calls
// of one tool are compared that are to be made, and only those of a profile with a guard.
func Beside(calls []*rules.Call, made func(i int) bool) {
	if len(calls) < 2 {
		return
	}
	message := messageOf(calls)
	alike := map[prompted][]int{}
	for i, c := range calls {
		if c.UnknownProfile || c.Profile.Guard == nil {
			continue
		}
		c.Batch.Message = message
		if c.Route != nil && made(i) {
			of := prompted{c.Key.Tenant, c.Key.Conversation, c.Prompt, c.Profile.Name, c.Tool}
			alike[of] = append(alike[of], i)
		}
	}
	for _, places := range alike {
		if len(places) > 1 {
			compare(calls, places)
		}
	}
}

// messageOf is the same of the calls of a batch: their ids.
func messageOf(calls []*rules.Call) guard.Hash {
	sum := sha256.New()
	for _, c := range calls {
		sum.Write([]byte(c.Key.Turn + "\x00" + c.Key.ID + "\x00"))
	}
	return guard.Cut([sha256.Size]byte(sum.Sum(nil)))
}

// compare judges calls of one tool, by their places in the batch.
func compare(calls []*rules.Call, places []int) {
	seen := make([]guard.Call, len(places))
	for i, place := range places {
		seen[i] = asWritten(calls[place])
	}
	for i, verdict := range calls[places[0]].Profile.Guard.Batch(seen) {
		if verdict.Level != guard.Pass {
			verdict.First = places[verdict.First]
			calls[places[i]].Batch.Beside = verdict
		}
	}
}

// asWritten is a call as the guard sees it before its arguments are checked: those that
// cannot be read are like no others.
func asWritten(c *rules.Call) guard.Call {
	seen := unread(c, nil)
	args, violation := schema.ParseArgs(c.Tool, c.Arguments)
	if violation != nil {
		return seen
	}
	if canonical, err := schema.Canonical(args); err == nil {
		seen.Same = guard.Cut(schema.Fingerprint(c.Tool, canonical))
	}
	return seen
}
