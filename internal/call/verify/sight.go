package verify

import (
	"fmt"
	"time"

	"github.com/sidecall/sidecall/internal/interpret"
)

// sight is what was seen, whatever it means for the call.
type sight struct {
	judged interpret.Judgement
	// asked is when, by the store's clock: before the question was sent.
	asked     time.Time
	untrusted bool
	// cancelled: whoever asked left before there was an answer.
	cancelled bool
}

// blind is a sight of nothing.
func blind(format string, args ...any) sight {
	return sight{judged: interpret.Judgement{Why: fmt.Errorf(format, args...)}}
}
