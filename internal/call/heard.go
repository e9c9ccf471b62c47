package call

import (
	"context"
	"encoding/json"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/redact"
)

// discreet is a caller who is told what a backend says, without the secrets of the config.
type discreet struct {
	backend.Caller

	secrets *redact.Set
}

// heard is the caller as a backend of the tool may tell it; nil for nil.
func heard(caller backend.Caller, secrets *redact.Set) backend.Caller {
	if caller == nil || secrets == nil {
		return caller
	}
	return discreet{caller, secrets}
}

// Progressed implements backend.Caller.
func (d discreet) Progressed(sign backend.Sign) {
	sign.Note = d.secrets.Replace(sign.Note)
	d.Caller.Progressed(sign)
}

// Said implements backend.Caller.
func (d discreet) Said(method string, params json.RawMessage) {
	d.Caller.Said(method, json.RawMessage(d.secrets.Replace(string(params))))
}

// Asked implements backend.Caller.
func (d discreet) Asked(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	return d.Caller.Asked(ctx, method, json.RawMessage(d.secrets.Replace(string(params))))
}
