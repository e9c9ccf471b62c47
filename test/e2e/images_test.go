//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/mcpservers"
)

// gallery is the files of a real MCP server, more of them than one response takes.
type gallery struct {
	dir   string
	files map[string][]byte // by the id of the call that reads it
	batch *sidecallv1.ExecuteToolsRequest
}

const images = 3

func newGallery(t *testing.T) *gallery {
	t.Helper()
	g := &gallery{dir: t.TempDir(), files: map[string][]byte{}, batch: &sidecallv1.ExecuteToolsRequest{}}
	for i := range images {
		g.add(t, "read_media_file", fmt.Sprintf("%d.png", i), append([]byte("\x89PNG\r\n\x1a\n"), bytes.Repeat([]byte{byte(i), 0xff, 0x00}, 2_900_000/3)...))
	}
	g.add(t, "read_text_file", "log.txt", []byte(strings.Repeat("all is well, ∀ lines\n", 1<<20/22)))
	return g
}

func (g *gallery) add(t *testing.T, tool, name string, content []byte) {
	t.Helper()
	path := filepath.Join(g.dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	g.files[name] = content
	g.batch.Calls = append(g.batch.Calls, &sidecallv1.ExecuteToolRequest{
		ToolUseId: name, ToolName: tool, ConversationId: "c", ArgumentsJson: args(t, "path", path),
	})
}

// usual is a client with the settings that gRPC comes with: 4 MiB for a response.
func usual(t *testing.T, s *harness.Sidecar) sidecallv1.ToolServiceClient {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+s.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return sidecallv1.NewToolServiceClient(conn)
}

// read is what a handle stands for, page by page.
func read(t *testing.T, client sidecallv1.ToolServiceClient, handle string) []byte {
	t.Helper()
	var whole bytes.Buffer
	for offset := int64(0); ; {
		page, err := client.ReadOutput(t.Context(), &sidecallv1.ReadOutputRequest{OutputRef: handle, ConversationId: "c", Offset: offset, Limit: 1 << 30}, grpc.WaitForReady(true))
		if err != nil {
			t.Errorf("%q at %d: %v", handle, offset, err)
			return nil
		}
		if !page.GetComplete() {
			t.Errorf("%q is not complete", handle)
		}
		whole.Write(page.GetData())
		whole.WriteString(page.GetContent())
		if offset = page.GetNextOffset(); offset >= page.GetTotalChars()+page.GetTotalBytes() {
			return whole.Bytes()
		}
	}
}

// TestImagesOfARealServer: what does not fit into a response is kept, named by its
// output_ref, and read to the byte: at once, and by the process after a kill -9, to
// which the batch is sent again without the server.
func TestImagesOfARealServer(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		g := newGallery(t)
		s := harness.Start(t, store+inYAML(t, map[string]any{
			"defaults": map[string]any{"attempt_timeout": "10m", "deadline": "20m"}, // all of it is work for a busy machine
			"backends": map[string]any{"files": stdio(t)(mcpservers.Filesystem(g.dir))},
		}))
		harness.WaitFor(t, "the server", func() bool { return serves(t, s, "read_media_file") })
		client := usual(t, s)
		first, err := client.ExecuteTools(t.Context(), g.batch)
		if err != nil {
			t.Fatal(err)
		}
		g.wants(t, client, first)
		s.Kill()
		for name := range g.files {
			if err := os.Remove(filepath.Join(g.dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		s.Run()
		again, err := client.ExecuteTools(t.Context(), g.batch, grpc.WaitForReady(true))
		if err != nil {
			t.Fatal(err)
		}
		g.wants(t, client, again)
		for i, res := range again.GetResults() {
			if !res.GetReplayed() {
				t.Errorf("%s ran again", res.GetToolUseId())
			}
			res.Replayed = false
			if !proto.Equal(res, first.GetResults()[i]) {
				t.Errorf("%s is another one when it is sent again", res.GetToolUseId())
			}
		}
	})
}

// wants each file in the results, whole, the most of them by their handles.
func (g *gallery) wants(t *testing.T, client sidecallv1.ToolServiceClient, res *sidecallv1.ExecuteToolsResponse) {
	t.Helper()
	carried := 0
	for i, one := range res.GetResults() {
		name := g.batch.GetCalls()[i].GetToolUseId()
		if one.GetToolUseId() != name || one.GetIsError() || !one.GetRecorded() {
			t.Errorf("%s: %.300v", name, one)
			continue
		}
		handle := one.GetTruncation().GetOutputRef()
		var got []byte
		if strings.HasSuffix(name, ".png") {
			if len(one.GetBlocks()) != 1 || one.GetBlocks()[0].GetMimeType() != "image/png" {
				t.Errorf("%s has the blocks %.300v", name, one.GetBlocks())
				continue
			}
			got, handle = one.GetBlocks()[0].GetData(), one.GetBlocks()[0].GetOutputRef()
		}
		if len(got) > 0 {
			carried++
		} else if handle != "" {
			got = read(t, client, handle)
		}
		if !bytes.Equal(got, g.files[name]) {
			t.Errorf("%s: %d bytes of %d, by %q", name, len(got), len(g.files[name]), handle)
		}
	}
	if carried != 1 {
		t.Errorf("%d images are carried, and there is room for one", carried)
	}
}
