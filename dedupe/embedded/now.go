package embedded

import (
	"context"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

var _ dedupe.Clock = (*Store)(nil)

// Now implements dedupe.Clock.
func (s *Store) Now(context.Context) (time.Time, error) { return s.clock.now(), nil }
