package main

import (
	"context"
	"strings"
	"testing"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

func TestANegativeTimeoutIsRefused(t *testing.T) {
	got := command(t, "call", "pay", "--timeout", "-1s")
	if got.code != exitUsage || got.err == nil || !strings.Contains(got.err.Error(), "--timeout -1s") {
		t.Errorf("exit code %d, %v", got.code, got.err)
	}
}

// A result without a record is remarked on, where a record was wanted.
func TestWhatIsSaidOfAResultWithoutARecord(t *testing.T) {
	fake := &fakeSidecar{execute: func(context.Context) (*sidecallv1.ExecuteToolResponse, error) {
		return &sidecallv1.ExecuteToolResponse{Content: "fine"}, nil
	}}
	addr, _ := fake.serve(t)
	for _, c := range []struct {
		flags []string
		says  string
	}{
		{nil, "sidecall: the result is not recorded; a resend may not find it\n"},
		{[]string{"--validate-only"}, ""},
		{[]string{"--json"}, ""},
	} {
		got := command(t, append([]string{"call", "pay", "--addr", addr}, c.flags...)...)
		if got.code != 0 || !strings.Contains(got.out, "fine") || got.errOut != c.says {
			t.Errorf("%v: %+v, want %q on stderr", c.flags, got, c.says)
		}
	}
}
