package dedupe

import "fmt"

// Key identifies a call. Tenant is the verified identity of the caller; the
// other three come from the request and may be empty, but for ID.
type Key struct {
	Tenant       string
	Conversation string
	Turn         string
	ID           string
}

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
