package call

import (
	"crypto/sha256"

	"github.com/sidecall/sidecall/guard"
	"github.com/sidecall/sidecall/schema"
)

// prompted is what two calls of a batch have in common that may be the same call.
type prompted struct{ tenant, conversation, prompt, profile, tool string }

// besideEachOther judges the calls of a batch by each other, before any of them is
// made. Only calls of one tool are compared, and only those of a profile with a guard.
func besideEachOther(calls []*call) {
	if len(calls) < 2 {
		return
	}
	var batch guard.Hash
	alike := map[prompted][]int{}
	for i, c := range calls {
		if profile, ok := c.profile(); !ok || profile.Guard == nil {
			continue
		}
		if batch == 0 {
			batch = batchOf(calls)
		}
		c.loop.batch = batch
		if c.route != nil && c.Nameless == nil && c.Impossible == nil && !c.ValidateOnly {
			of := prompted{c.Key.Tenant, c.Key.Conversation, c.Prompt, c.Profile, c.Tool}
			alike[of] = append(alike[of], i)
		}
	}
	for _, places := range alike {
		if len(places) > 1 {
			compare(calls, places)
		}
	}
}

// compare judges calls of one tool, by their places in the batch.
func compare(calls []*call, places []int) {
	profile, _ := calls[places[0]].profile()
	seen := make([]guard.Call, len(places))
	for i, place := range places {
		seen[i] = calls[place].asWritten()
	}
	for i, verdict := range profile.Guard.Batch(seen) {
		if verdict.Level != guard.Pass {
			verdict.First = places[verdict.First]
			calls[places[i]].loop.beside = verdict
		}
	}
}

// batchOf is what the calls of a batch have in common: their ids.
func batchOf(calls []*call) guard.Hash {
	sum := sha256.New()
	for _, c := range calls {
		sum.Write([]byte(c.Key.Turn + "\x00" + c.Key.ID + "\x00"))
	}
	return guard.Cut([sha256.Size]byte(sum.Sum(nil)))
}

// asWritten is the call as the guard sees it before its arguments are checked: those
// that cannot be read are like no others.
func (c *call) asWritten() guard.Call {
	seen := c.unread()
	args, violation := schema.ParseArgs(c.Tool, c.Arguments)
	if violation != nil {
		return seen
	}
	if canonical, err := schema.Canonical(args); err == nil {
		seen.Same = guard.Cut(schema.Fingerprint(c.Tool, canonical))
	}
	return seen
}
