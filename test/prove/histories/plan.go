package histories

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// Plan is what all processes that take part in a history know of it. It follows
// from the seed and the number of the history alone.
type Plan struct {
	Seed    uint64
	History int
	// Keys are used by everybody; Ops is how many operations a client makes.
	Keys, Ops int
	// Effects and Leases are those that clients choose from.
	Effects []tool.Effect
	Leases  []time.Duration
	// Retention is short in a few histories, so that records are forgotten.
	Retention time.Duration
	// Incarnations has clients be incarnations of two instances, which come after
	// each other and go on all the same.
	Incarnations bool
	// Unheard is how many of a thousand operations are given up at a random
	// moment.
	Unheard int
}

var allEffects = []tool.Effect{tool.NonIdempotent, tool.ReadOnly, tool.Idempotent, tool.Keyed}

// leastLease is the shortest that there is.
const leastLease = 2 * time.Millisecond

// NewPlan makes the plan of a history.
func NewPlan(seed uint64, history int) Plan {
	r := rand.New(rand.NewPCG(seed, uint64(history)))
	p := Plan{
		Seed: seed, History: history, Keys: 1 + r.IntN(2), Ops: 4 + r.IntN(5),
		Leases:    []time.Duration{time.Hour, leastLease, time.Duration(3+r.IntN(15)) * time.Millisecond},
		Retention: 24 * time.Hour, Unheard: 40,
	}
	switch r.IntN(4) {
	case 0, 1: // where promises are hardest to keep
		p.Effects = allEffects[:1]
	case 2:
		p.Effects = allEffects[1+r.IntN(3):][:1]
	default: // a tool that is declared anew all the time
		p.Effects = allEffects
	}
	if r.IntN(10) == 0 {
		p.Retention = time.Duration(20+r.IntN(20)) * time.Millisecond
	}
	if p.Incarnations = r.IntN(4) == 0; p.Incarnations {
		// Of what has no answer more may have changed something here, each at any
		// time: an order of many such is never found.
		p.Ops, p.Unheard = 3+r.IntN(3), 10
	}
	return p
}

// Key is the key of the store for one of the history's keys.
func (p Plan) Key(key int) tool.CallID {
	return tool.CallID{Tenant: "acme", Conversation: fmt.Sprintf("%x.%d", p.Seed, p.History), Turn: "1", ID: fmt.Sprint(key)}
}

// owner is the token of a client's nth claim attempt; others can guess it.
func (p Plan) owner(phase, client, n int) string {
	token := fmt.Sprintf("p%d.c%d.%d", phase, client, n)
	if p.Incarnations {
		return fmt.Sprintf("@shop%d@%d.%s", client%2, 8+(client/2+n)%3, token)
	}
	return token
}

// decides reports that an owner is of a later incarnation than another, of the
// same instance, and need not wait for its lease.
func decides(owner, other string) bool {
	of := func(owner string) (instance string, number int, ok bool) {
		parts := strings.Split(owner, "@")
		if len(parts) != 3 || parts[0] != "" {
			return "", 0, false
		}
		n, err := fmt.Sscanf(parts[2], "%d.", &number)
		return parts[1], number, err == nil && n == 1
	}
	instance, number, ok := of(owner)
	earlier, before, known := of(other)
	return ok && known && instance == earlier && number > before
}
