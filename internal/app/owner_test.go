package app

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// mcpAt is a backend of a config.
func mcpAt(name string, o *office, more string) string {
	return fmt.Sprintf("%s: {%s mcp: {url: %q, allow_private: true}}", name, more, o.url)
}

// pins is where a config of the test writes them.
func pins(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("pins: {path: %q}\n", filepath.Join(t.TempDir(), "pins"))
}

// owned says that a tool is a backend's, and that another's is told of.
func (h *hall) owned(name, by, not string) {
	h.t.Helper()
	now := h.parts.catalog.Snapshot()
	if route, ok := now.Lookup(name); !ok || route.Tool.Backend != by {
		h.t.Errorf("%s is no tool of %s: %v", name, by, route)
	}
	told := fmt.Sprint(now.Collisions())
	if want := fmt.Sprintf("tool %q of backend %q is not registered: backend %q", name, not, by); !strings.Contains(told, want) {
		h.t.Errorf("told %s; want %s", told, want)
	}
}

// A server that connects later, and sorts first, takes neither the tool of a worker nor
// that of another server: what they are called with goes where it went.
func TestAServerThatComesLaterTakesNoTool(t *testing.T) {
	late, there := newOffice(t, false, "add", "echo", "late"), newOffice(t, true, "echo", "more")
	h := opened(t, fmt.Sprintf("backends: {local: {worker: {}}, %s, %s}\n", mcpAt("aaa", late, ""), mcpAt("there", there, "include: [echo], pin: true,"))+pins(t)).stops()
	w, _ := h.hired(adder())
	harness.WaitFor(t, "the other server", func() bool { _, ok := h.parts.catalog.Snapshot().Lookup("echo"); return ok })
	late.open()
	harness.WaitFor(t, "the server", func() bool { _, ok := h.parts.catalog.Snapshot().Lookup("late"); return ok })
	h.owned("add", "local", "aaa")
	h.owned("echo", "there", "aaa")
	answered := h.asks("1", "add", `{"a":1}`)
	w.done("the worker's")
	if res := <-answered; res.GetContent() != "the worker's" {
		t.Errorf("got %v", res)
	}
}

// A name that the config gives to a server is not served by another one meanwhile.
func TestAToolThatTheConfigMentionsWaitsForItsServer(t *testing.T) {
	early, its := newOffice(t, true, "echo", "early"), newOffice(t, false, "echo")
	h := opened(t, fmt.Sprintf("backends: {%s, %s}\n", mcpAt("aaa", early, ""), mcpAt("its", its, "include: [echo], pin: true,"))+pins(t)).stops()
	harness.WaitFor(t, "the other server", func() bool { _, ok := h.parts.catalog.Snapshot().Lookup("early"); return ok })
	if res := <-h.asks("1", "echo", `{}`); res.GetError().GetCode() != "DEPENDENCY_UNAVAILABLE" {
		t.Errorf("before its server is there: %v", res)
	}
	its.open()
	harness.WaitFor(t, "its server", func() bool { _, ok := h.parts.catalog.Snapshot().Lookup("echo"); return ok })
	h.owned("echo", "its", "aaa")
}

// A config that takes over gives the tool of a worker to no server that it adds.
func TestAServerThatAConfigAddsTakesNoTool(t *testing.T) {
	const before = "backends: {local: {worker: {}}}\n"
	h := opened(t, before).stops()
	w, _ := h.hired(adder())
	added := newOffice(t, true, "add", "new")
	h.take(fmt.Sprintf("backends: {local: {worker: {}}, %s}\n", mcpAt("aaa", added, "")))
	h.owned("add", "local", "aaa")
	answered := h.asks("1", "add", `{"a":1}`)
	w.done("the worker's") // which has heard no goodbye
	if res := <-answered; res.GetContent() != "the worker's" {
		t.Errorf("got %v", res)
	}
}

// A worker takes no name under the prefix of a backend, whether that is there or not.
func TestAWorkerUnderThePrefixOfAnother(t *testing.T) {
	away := newOffice(t, false, "write")
	h := opened(t, fmt.Sprintf("backends: {local: {worker: {}}, mine: {worker: {}, prefix: files_mine_}, %s}\n", mcpAt("files", away, "prefix: files_,"))).stops()
	register := adder()
	register.Backend, register.Tools[0].Name = "local", "files_read"
	for _, when := range []string{"before it is there", "when it is there, and has another tool"} {
		_, err := h.apply(register).Recv()
		if status.Code(err) != codes.AlreadyExists || !strings.Contains(err.Error(), `the name "files_read" is that of a tool of the backend files, whose prefix it has`) {
			t.Errorf("%s: %v", when, err)
		}
		away.open()
		harness.WaitFor(t, "the server", func() bool { return h.parts.catalog.Snapshot().Undiscovered()["files"].Prefix == "" })
	}
	own := adder()
	own.Backend, own.Tools = "mine", []*sidecallv1.WorkerTool{{Name: "add"}}
	h.hired(own) // its own prefix is the longer one
}
