package dedupe

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// Bounds that every store keeps.
const (
	MaxKeyBytes      = 4 << 10  // of the four components of an identity together
	MaxNameBytes     = 1 << 10  // of an owner token and a tool name, each
	MaxDetailsBytes  = 24 << 10 // of Request.Details
	MaxApprovalBytes = 4 << 10  // of Settlement.Approval
	MaxResultBytes   = 32 << 20 // of Settlement.Result
	MaxOutputBytes   = 64 << 20 // of Output.Data
)

// longest is how long something may last, so that its end can be told.
const longest = time.Duration(math.MaxInt64 / 2)

func keyBytes(k *tool.CallID) int {
	return len(k.Tenant) + len(k.Conversation) + len(k.Turn) + len(k.ID)
}

func validKey(k *tool.CallID) error {
	return cmp.Or(
		between("bytes of an id", len(k.ID), 1, MaxKeyBytes),
		between("bytes of a key", keyBytes(k), 1, MaxKeyBytes))
}

// holds reports an identity without a conversation that is to have something of one.
func holds(k *tool.CallID, something bool) error {
	if something && k.Conversation == "" {
		return fmt.Errorf("%w: a tally, logs or an effect of a conversation, and none is named", ErrInvalid)
	}
	return nil
}

func between[N ~int | ~int64](what string, n, least, most N) error {
	if least <= n && n <= most {
		return nil
	}
	return fmt.Errorf("%w: %s: %v, want %v to %v", ErrInvalid, what, n, least, most)
}

func named[E ~uint8](kind string, names []string, e E) string {
	if int(e) < len(names) && names[e] != "" {
		return names[e]
	}
	return fmt.Sprintf("%s(%d)", kind, uint8(e))
}
