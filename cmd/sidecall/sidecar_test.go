package main

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// fakeSidecar answers as a test says, and counts the resolutions that arrive.
type fakeSidecar struct {
	sidecallv1.UnimplementedToolServiceServer
	sidecallv1.UnimplementedOperatorServiceServer

	record  *sidecallv1.Execution
	execute func(context.Context) (*sidecallv1.ExecuteToolResponse, error)
	// dies ends the fake before it answers a resolution.
	dies     func()
	resolved atomic.Int32
}

func (f *fakeSidecar) GetExecution(context.Context, *sidecallv1.GetExecutionRequest) (*sidecallv1.Execution, error) {
	return f.record, nil
}

func (f *fakeSidecar) ExecuteTool(ctx context.Context, _ *sidecallv1.ExecuteToolRequest) (*sidecallv1.ExecuteToolResponse, error) {
	return f.execute(ctx)
}

func (f *fakeSidecar) ResolveExecution(ctx context.Context, req *sidecallv1.ResolveExecutionRequest) (*sidecallv1.ResolveExecutionResponse, error) {
	f.resolved.Add(1)
	if f.dies != nil {
		f.dies()
		<-ctx.Done()
	}
	return &sidecallv1.ResolveExecutionResponse{Execution: &sidecallv1.Execution{State: req.GetState()}}, nil
}

// serve serves the fake until the test ends, or until stop is called.
func (f *fakeSidecar) serve(t *testing.T) (addr string, stop func()) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	sidecallv1.RegisterToolServiceServer(server, f)
	sidecallv1.RegisterOperatorServiceServer(server, f)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "tcp://" + listener.Addr().String(), server.Stop
}

// said is what a command has printed, and its exit code.
type said struct {
	code        int
	out, errOut string
	err         error
}

// command runs a command of the root, as from a shell whose stdin is closed.
func command(t *testing.T, args ...string) said {
	t.Helper()
	root := newRoot()
	var out, errOut bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errOut)
	root.SetIn(new(bytes.Buffer))
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(t.Context())
	return said{report(cmd, err), out.String(), errOut.String(), err}
}
