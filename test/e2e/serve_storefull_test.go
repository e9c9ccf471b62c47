//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// Eighteen outputs of 9 MB fit into a volume of 85 MiB, whose pod is evicted when it has
// more: the file stays below its bound, every call is recorded, and what a result says can
// be read on can be.
func TestOutputsDoNotOutgrowTheVolume(t *testing.T) {
	t.Parallel()
	page := bytes.Repeat([]byte("nine megabytes "), 600_000)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) }))
	t.Cleanup(up.Close)
	const bound = 64 << 20 // three quarters, as the chart has it
	s := harness.Start(t, fmt.Sprintf(`
store: {embedded: {max_bytes: 64MiB}}
backends: {up: {http: {base_url: %q, allow_private: true}}}
tools: {export: {backend: up, http: {method: POST, path: /}}}
`, up.URL))
	for i := range 18 {
		res := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: fmt.Sprint("call ", i), ConversationId: "c", ToolName: "export"})
		ref := res.GetTruncation().GetOutputRef()
		if res.GetIsError() || !res.GetRecorded() || ref == "" == !strings.Contains(res.GetContent(), "The rest is not kept") {
			t.Fatalf("call %d: recorded %v, output_ref %q: %.200s", i, res.GetRecorded(), ref, res.GetContent())
		}
		if ref != "" {
			read, err := s.Client.ReadOutput(t.Context(), &sidecallv1.ReadOutputRequest{OutputRef: ref, ConversationId: "c", Offset: int64(len(page)) - 5, Limit: 5})
			if err != nil || read.GetContent() != "ytes " {
				t.Errorf("call %d: its end is %q, %v", i, read.GetContent(), err)
			}
		}
		file, err := os.Stat(filepath.Join(s.Dir, "sidecall.db"))
		if err != nil || file.Size() > bound {
			t.Fatalf("after %d calls the file has %d bytes of %d (%v)", i+1, file.Size(), bound, err)
		}
	}
}
