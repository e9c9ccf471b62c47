package app

import (
	"fmt"
	"path/filepath"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// twoTenants is a sidecar with an open listener and a narrow one, at which only see* may
// be called.
func twoTenants(t *testing.T, more string) (wide, narrow *hall) {
	t.Helper()
	dir := harness.ShortDir(t)
	at := func(name string) string { return "unix://" + filepath.Join(dir, name) }
	s := started(t, parsed(t, fmt.Sprintf(`
listen: [%q, {address: %q, profiles: [narrow]}]
admin: "off"
store: {memory: {}}
identity: {require: []}
profiles: {narrow: {tools: ["see*"]}, all: {tools: ["*"]}}
default_profile: all
%s`, at("w"), at("n"), more)), quiet())
	of := func(name string) *hall {
		conn := connected(t, at(name))
		return &hall{s, t, "", sidecallv1.NewToolServiceClient(conn), sidecallv1.NewWorkerServiceClient(conn)}
	}
	return of("w").stops(), of("n")
}

func seer() *sidecallv1.WorkerRegister {
	r := adder()
	r.Worker, r.Tools[0].Name = "main", "see_orders"
	return r
}

// refused is what a worker is told that is not taken in.
func (h *hall) refused(register *sidecallv1.WorkerRegister) codes.Code {
	_, err := h.apply(register).Recv()
	return status.Code(err)
}

// What tools there are, and what they are, is said by workers at a listener without
// profiles: one at a narrow listener serves the same, and nothing else.
func TestANarrowWorkerSaysNothingOfTools(t *testing.T) {
	t.Parallel()
	wide, narrow := twoTenants(t, "backends: {local: {worker: {}}}\n")
	forged := seer()
	forged.Worker, forged.Tools[0].Effect = "evil", sidecallv1.Effect_EFFECT_READ_ONLY
	for _, when := range []string{"before", "beside"} {
		if got := narrow.refused(forged); got != codes.PermissionDenied {
			t.Errorf("%s the tenant's own worker: %v", when, got)
		}
		if when == "before" {
			wide.hired(seer())
		}
	}
	same := seer()
	same.Worker = "narrow"
	narrow.hired(same)
}

// A worker of a narrow listener that calls itself as another tenant's does makes that
// one's tools unknown while it is away for a moment; the name is then an MCP server's
// that waits for it.
func TestANarrowWorkerReleasesNoName(t *testing.T) {
	other := newOffice(t, false, "pay", "more")
	wide, narrow := twoTenants(t, fmt.Sprintf("backends: {local: {worker: {}}, %s}\n", "aaa: {mcp: {url: \""+other.url+"\", allow_private: true}}"))
	own := seer()
	own.Tools[0].Name = "pay"
	// the worker is there first
	w, _ := wide.hired(own)
	other.open()
	harness.WaitFor(t, "the server", func() bool { _, ok := wide.parts.catalog.Snapshot().Lookup("more"); return ok })
	w.end()
	harness.WaitFor(t, "its end", func() bool { return wide.parts.catalog.Snapshot().Down()["local"] != "" })
	if route, _ := wide.parts.catalog.Snapshot().Lookup("pay"); route == nil || route.Tool.Backend != "local" {
		t.Fatal("not the worker's while it is away")
	}
	thief := seer()
	thief.Tools[0].Name = "see_nothing"
	if got := narrow.refused(thief); got != codes.PermissionDenied {
		t.Errorf("it is taken in: %v", got)
	}
	if route, _ := wide.parts.catalog.Snapshot().Lookup("pay"); route == nil || route.Tool.Backend != "local" {
		t.Errorf("pay is now of %v", route.Tool.Backend)
	}
}

// Workers of narrow listeners have half of the places.
func TestANarrowListenerTakesNotAllPlaces(t *testing.T) {
	t.Parallel()
	wide, narrow := twoTenants(t, "backends: {local: {worker: {max_workers: 4}}}\n")
	wide.hired(seer())
	named := func(n int) *sidecallv1.WorkerRegister {
		r := seer()
		r.Worker = fmt.Sprint("w", n)
		return r
	}
	for n := range 2 {
		narrow.hired(named(n))
	}
	if got := narrow.refused(named(2)); got != codes.ResourceExhausted {
		t.Errorf("the third: %v", got)
	}
	wide.hired(named(3))
}
