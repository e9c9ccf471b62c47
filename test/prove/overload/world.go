//go:build prove

package overload

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/prove/scratch"
	"github.com/sidecall/sidecall/test/testkit/harness"
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

// startWorld starts a sidecar with a store and the rest of a config file; without
// a store, with the one that the config file names.
func startWorld(t *testing.T, store, config string, env ...string) *world {
	t.Helper()
	switch store {
	case "redis":
		config = fmt.Sprintf("store: {redis: {addrs: [%q]}}\n%s", harness.Redis(t), config)
	case "embedded":
		config = fmt.Sprintf("store: {embedded: {path: %q}}\n%s", filepath.Join(scratch.Dir(t), "sidecall.db"), config)
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
		conn.Connect() // so that what an idle sidecar takes up has the connections in it
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

// calling returns calls of a tool, each under an id of its own, and looks at
// those that are refused.
func (w *world) calling(toolName, prefix string, refused *refusals) func(context.Context, int) Answer {
	return func(ctx context.Context, n int) Answer {
		id := fmt.Sprint(prefix, n)
		res, err := w.call(ctx, n, toolName, id)
		refused.look(id, res)
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

// refusing are the codes of calls that the sidecar refuses for want of room or
// of a backend that is well.
var refusing = []string{"OVERLOADED", "CIRCUIT_OPEN"}

// refusals looks at refused calls: each has to say when to come back, and that
// it sent nothing.
type refusals struct {
	mu    sync.Mutex
	ids   map[string][]string // by code
	wrong []string
}

func (r *refusals) look(id string, res *sidecallv1.ExecuteToolResponse) {
	code := res.GetError().GetCode()
	if !slices.Contains(refusing, code) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids == nil {
		r.ids = make(map[string][]string)
	}
	r.ids[code] = append(r.ids[code], id)
	if res.GetRecovery().GetRetryAfter().AsDuration() <= 0 || res.GetRecovery().GetAttempts() != 0 ||
		!strings.Contains(res.GetError().GetHint(), "Nothing was sent") {
		r.wrong = append(r.wrong, res.String())
	}
}

// judge counts the refusals that did not say what they must, and those of which
// something arrived at the upstream, unless there is none.
func (r *refusals) judge(t *testing.T, violations *int, up *plant) {
	t.Helper()
	if len(r.wrong) > 0 {
		*violations += len(r.wrong)
		t.Errorf("%d refusals that do not say what they must: %s", len(r.wrong), r.wrong[0])
	}
	if up == nil {
		return
	}
	for code, ids := range r.ids {
		if sent := up.arrived(ids); len(sent) > 0 {
			*violations += len(sent)
			t.Errorf("%d of %d calls that were refused (%s) were sent, the first is %s", len(sent), len(ids), code, sent[0])
		}
	}
}

// mustBeAmong counts the calls that ended with another code than those.
func mustBeAmong(t *testing.T, violations *int, tally *Tally, codes ...string) {
	t.Helper()
	if n, which := tally.Beyond(codes...); n > 0 {
		*violations += n
		t.Errorf("%s, want nothing but %s", strings.Join(which, ", "), strings.Join(codes, ", "))
	}
}

// leastOffered is the share of the load that was meant to be offered that has to
// be. A machine that is busy with other things may be behind at the end of a
// short one; the figures tell what was offered.
func leastOffered() float64 {
	if proof.Full() {
		return 0.95
	}
	return 0.75
}

// broken counts a violation, with what it is.
func broken(t *testing.T, violations *int, format string, args ...any) {
	t.Helper()
	*violations++
	t.Errorf(format, args...)
}

// seconds rounds for figures.
func seconds(d time.Duration) string { return d.Round(time.Second / 10).String() }
