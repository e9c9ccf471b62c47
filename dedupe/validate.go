package dedupe

import (
	"fmt"
	"math"
	"time"
)

// Bounds that every store keeps, so that none of them can be made to hold or
// send something absurd.
const (
	// MaxKeyBytes bounds the four components of a Key together.
	MaxKeyBytes = 4 << 10
	// MaxNameBytes bounds an owner token and a tool name, each.
	MaxNameBytes = 1 << 10
	// MaxResultBytes bounds Settlement.Result.
	MaxResultBytes = 32 << 20
	// MaxOutputBytes bounds Output.Data.
	MaxOutputBytes = 64 << 20
)

// Validate reports what no store can accept; the error wraps ErrInvalid.
func (r Request) Validate() error {
	if err := r.Key.validate(); err != nil {
		return err
	}
	switch {
	case r.Owner == "" || len(r.Owner) > MaxNameBytes:
		return fmt.Errorf("%w: an owner of %d bytes, want 1 to %d", ErrInvalid, len(r.Owner), MaxNameBytes)
	case len(r.Tool) > MaxNameBytes:
		return fmt.Errorf("%w: a tool name of %d bytes, want at most %d", ErrInvalid, len(r.Tool), MaxNameBytes)
	case r.Lease < time.Millisecond:
		return fmt.Errorf("%w: a lease of %v, want at least 1ms", ErrInvalid, r.Lease)
	case r.Retention < r.Lease:
		return fmt.Errorf("%w: a retention of %v, shorter than the lease of %v: an open claim would be forgotten", ErrInvalid, r.Retention, r.Lease)
	default:
		return nil
	}
}

func (k Key) validate() error {
	switch {
	case k.ID == "":
		return fmt.Errorf("%w: the key has no id", ErrInvalid)
	case len(k.Tenant)+len(k.Conversation)+len(k.Turn)+len(k.ID) > MaxKeyBytes:
		return fmt.Errorf("%w: a key of more than %d bytes", ErrInvalid, MaxKeyBytes)
	default:
		return nil
	}
}

// Validate reports what no store can accept; the error wraps ErrInvalid.
func (s Settlement) Validate() error {
	if err := s.Key.validate(); err != nil {
		return err
	}
	switch {
	case s.State != Done && s.State != NotRun && s.State != Unknown:
		return fmt.Errorf("%w: a call cannot be settled as %v", ErrInvalid, s.State)
	case s.Epoch < 0 || s.Epoch == 0 && s.State != NotRun:
		return fmt.Errorf("%w: a settlement as %v without the epoch of its claim", ErrInvalid, s.State)
	case s.Resolves && (s.State == Unknown || s.Epoch == 0):
		return fmt.Errorf("%w: a resolution as %v at epoch %d", ErrInvalid, s.State, s.Epoch)
	case s.Owner == "" || len(s.Owner) > MaxNameBytes:
		return fmt.Errorf("%w: an owner of %d bytes, want 1 to %d", ErrInvalid, len(s.Owner), MaxNameBytes)
	case len(s.Result) > MaxResultBytes:
		return fmt.Errorf("%w: a result of %d bytes, want at most %d", ErrInvalid, len(s.Result), MaxResultBytes)
	case s.Attempts < 0 || s.Attempts > math.MaxInt32:
		return fmt.Errorf("%w: %d attempts", ErrInvalid, s.Attempts)
	case s.Retention < time.Millisecond:
		return fmt.Errorf("%w: a retention of %v, want at least 1ms", ErrInvalid, s.Retention)
	}
	return s.Output.validate()
}

func (o *Output) validate() error {
	switch {
	case o == nil:
		return nil
	case o.Ref == "" || len(o.Ref) > MaxNameBytes:
		return fmt.Errorf("%w: an output reference of %d bytes, want 1 to %d", ErrInvalid, len(o.Ref), MaxNameBytes)
	case len(o.Data) > MaxOutputBytes:
		return fmt.Errorf("%w: an output of %d bytes, want at most %d", ErrInvalid, len(o.Data), MaxOutputBytes)
	case o.TTL < time.Millisecond:
		return fmt.Errorf("%w: an output kept for %v, want at least 1ms", ErrInvalid, o.TTL)
	default:
		return nil
	}
}
