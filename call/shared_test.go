package call_test

import (
	"testing"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/interpret"
	"github.com/sidecall/sidecall/schema"
)

// keepOpen is a store that outlives whoever closes it.
type keepOpen struct{ dedupe.Store }

func (keepOpen) Close() error { return nil }

func mustSchema(t *testing.T, text string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile("test", []byte(text), schema.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// verification compiles a verification that only says when a call is done.
func verification(t *testing.T, args map[string]string, doneWhen string) *interpret.Verification {
	t.Helper()
	program, err := interpret.CompileVerification(interpret.VerificationConfig{Args: args, DoneWhen: doneWhen})
	if err != nil {
		t.Fatal(err)
	}
	return program
}
