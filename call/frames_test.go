package call_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"runtime"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/backend/httptool"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/dedupe/memory"
	"github.com/sidecall/sidecall/testkit/calltest"
	"github.com/sidecall/sidecall/tool"
)

// frames are the named functions of this module from the RPC to where it is
// called, the outermost first. A function literal belongs to who wrote it.
func frames() []string {
	var at [64]uintptr
	stack := runtime.CallersFrames(at[:runtime.Callers(2, at[:])])
	var names []string
	for more := true; more; {
		var frame runtime.Frame
		frame, more = stack.Next()
		name, ours := strings.CutPrefix(frame.Function, "github.com/sidecall/sidecall/")
		if ours && !strings.Contains(name, "_test.") && !strings.Contains(name, ".func") {
			names = append([]string{name}, names...)
		}
		if strings.HasSuffix(name, ".ExecuteTool") {
			break
		}
	}
	return names
}

// deep is a store that notes how deep it stands.
type deep struct {
	dedupe.Store

	seen []string
}

func (d *deep) Admit(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	d.seen = append(frames(), "the store")
	return d.Store.Admit(ctx, req)
}

// Whoever reads the code from the RPC to the store, or to the connection, has few
// functions to hold in mind.
func TestFewFramesFromTheRPCToItsEffect(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) }))
	defer up.Close()
	shop, err := httptool.New(httptool.Config{Name: "shop", BaseURL: up.URL, AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = shop.Close(context.Background()) }()
	if err := shop.Register("refund", httptool.Spec{Method: http.MethodPost, Path: "/refunds"}); err != nil {
		t.Fatal(err)
	}
	store := &deep{Store: memory.New(memory.Options{})}
	s := calltest.NewOn(t, store, calltest.NewRoute(t, "refund", tool.NonIdempotent, shop))
	var connection []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connection = append(frames(), "the connection") },
	})
	if res, err := service(s).ExecuteTool(ctx, calltest.Request("toolu_1", "refund")); err != nil || res.GetIsError() {
		t.Fatal(res, err)
	}
	for _, path := range []struct {
		seen []string
		most int
	}{{store.seen, 7}, {connection, 11}} {
		if n := len(path.seen); n < 4 || n > path.most {
			t.Errorf("%d frames, at most %d:\n%s", n, path.most, strings.Join(path.seen, "\n"))
		}
	}
	t.Logf("%s\n\n%s", strings.Join(store.seen, "\n"), strings.Join(connection, "\n"))
}
