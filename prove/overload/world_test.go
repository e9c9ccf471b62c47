//go:build prove

package overload

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/e2e/harness"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// connections is how many connections the agents of a load have together.
const connections = 4

// stores are those that every scenario runs with.
var stores = []string{"embedded", "redis"}

// world is a sidecar under load.
type world struct {
	*harness.Sidecar
	t       *testing.T
	clients []sidecallv1.ToolServiceClient
	// ids keeps the ids of one load apart from those of another.
	ids atomic.Int64
	// arguments makes the arguments of a call from its id; nil for the id alone.
	arguments func(id string) string
	// stored measures the store in bytes; nil when nobody wants to know.
	stored func() int64
}

// startWorld starts a sidecar with a store and the rest of a config file.
func startWorld(t *testing.T, store, config string, env ...string) *world {
	t.Helper()
	if store == "redis" {
		config = fmt.Sprintf("store: {redis: {addrs: [%q]}}\n%s", harness.Redis(t), config)
	}
	w := &world{Sidecar: harness.New(t, config, env...), t: t}
	// A log line per call is written, and nobody reads millions of them.
	sink, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Close() }) // nothing was written that could be lost
	w.Output = sink
	w.Run()
	for range connections {
		conn, err := grpc.NewClient("passthrough:///"+w.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDisableRetry(), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		})
		w.clients = append(w.clients, sidecallv1.NewToolServiceClient(conn))
	}
	return w
}

// load returns a name that keeps the ids of a load apart from all others.
func (w *world) load(name string) string { return fmt.Sprintf("%s%d-", name, w.ids.Add(1)) }

// call makes one call of a tool whose argument is the id.
func (w *world) call(ctx context.Context, n int, toolName, id string) (*sidecallv1.ExecuteToolResponse, error) {
	arguments := fmt.Sprintf(`{"id":%q}`, id)
	if w.arguments != nil {
		arguments = w.arguments(id)
	}
	return w.clients[n%len(w.clients)].ExecuteTool(ctx, &sidecallv1.ExecuteToolRequest{
		ToolUseId: id, ToolName: toolName, ConversationId: id, ArgumentsJson: arguments,
	})
}

// calling returns calls of a tool, each under an id of its own.
func (w *world) calling(toolName, prefix string, look func(*sidecallv1.ExecuteToolResponse)) func(context.Context, int) Answer {
	return func(ctx context.Context, n int) Answer {
		res, err := w.call(ctx, n, toolName, fmt.Sprint(prefix, n))
		if err == nil && look != nil {
			look(res)
		}
		return answerOf(res, err)
	}
}

func answerOf(res *sidecallv1.ExecuteToolResponse, err error) Answer {
	switch {
	case err != nil:
		return Answer{Code: "grpc " + status.Code(err).String()}
	case res.GetIsError():
		return Answer{Code: res.GetError().GetCode(), Attempts: int(res.GetRecovery().GetAttempts())}
	default:
		return Answer{Code: OK, Attempts: 1}
	}
}

// refusals looks at refused calls: each has to say when to come back, and that
// it sent nothing.
type refusals struct {
	code  string
	wrong atomic.Int64
	seen  atomic.Int64
	first atomic.Pointer[string]
}

func (r *refusals) look(res *sidecallv1.ExecuteToolResponse) {
	if res.GetError().GetCode() != r.code {
		return
	}
	r.seen.Add(1)
	if res.GetRecovery().GetRetryAfter().AsDuration() <= 0 || res.GetRecovery().GetAttempts() != 0 ||
		!strings.Contains(res.GetError().GetHint(), "Nothing was sent") {
		r.wrong.Add(1)
		text := res.String()
		r.first.CompareAndSwap(nil, &text)
	}
}

// violations reports what was wrong with the refusals.
func (r *refusals) violations(t *testing.T) int {
	t.Helper()
	if text := r.first.Load(); text != nil {
		t.Errorf("a refusal that does not say what it must: %s", *text)
	}
	return int(r.wrong.Load())
}

// broken counts a violation, with what it is.
func broken(t *testing.T, violations *int, format string, args ...any) {
	t.Helper()
	*violations++
	t.Errorf(format, args...)
}

// seconds rounds for figures.
func seconds(d time.Duration) string { return d.Round(time.Second / 10).String() }
