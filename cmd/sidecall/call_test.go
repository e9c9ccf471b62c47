package main

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Each way in which a sidecar does not answer is told as what it is.
func TestWhyThereIsNoAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		answer error
		dies   bool
		code   int
		says   string
	}{
		"it is draining":    {status.Error(codes.Unavailable, "the sidecar is draining; nothing was started"), false, exitUnavailable, "the sidecar is draining; nothing was started"},
		"its store is down": {status.Error(codes.Unavailable, "the store is down; nothing was changed"), false, exitUnavailable, "the store is down"},
		"a bad request":     {status.Error(codes.InvalidArgument, "labels: too many"), false, exitUsage, "labels: too many"},
		"it has a bug":      {status.Error(codes.Internal, "look for err_1"), false, exitUnavailable, "Internal: look for err_1"},
		"it dies":           {nil, true, exitUnavailable, "went away before it had answered, so a call may have run"},
	} {
		t.Run(name, func(t *testing.T) {
			fake := &fakeSidecar{}
			addr, stop := fake.serve(t)
			dead := make(chan struct{})
			fake.execute = func(ctx context.Context) (*sidecallv1.ExecuteToolResponse, error) {
				if c.dies {
					go func() { stop(); close(dead) }()
					<-ctx.Done()
				}
				return nil, c.answer
			}
			got := command(t, "call", "pay", "--addr", addr)
			if got.code != c.code || got.err == nil || !strings.Contains(got.err.Error(), c.says) || strings.Contains(got.err.Error(), "start one") {
				t.Errorf("exit code %d, %v; want %d and %q", got.code, got.err, c.code, c.says)
			}
			if c.dies {
				<-dead
			}
		})
	}
}

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
