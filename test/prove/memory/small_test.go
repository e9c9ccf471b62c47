//go:build prove

package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

const (
	// mostGrown is how much memory a small input may take, in bytes, and mostCalls as how many
	// calls it may work, on whatever machine: 5 s on one on which a call takes half a millisecond.
	mostGrown = 512 << 20
	mostCalls = 10_000
)

// asCalls is as how many calls of a sidecar it has worked.
func asCalls(t *testing.T, s *harness.Sidecar, worked time.Duration) int {
	t.Helper()
	const some = 1000
	begun := cpu(t, s.PID())
	for n := range some {
		if res := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: fmt.Sprint("some", n), ToolName: "act", ConversationId: "some", ArgumentsJson: `{}`}); res.GetIsError() {
			t.Fatalf("a call after it: %v", res)
		}
	}
	return int(worked / max(1, (cpu(t, s.PID())-begun)/some))
}

// cpu is the time that a process has worked.
func cpu(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// spent reports what an input takes that send sends, and returns how long it was. once
// is what it took before it was bounded.
func spent(t *testing.T, s *harness.Sidecar, fault, once string, runs int, send func() (sent int)) {
	t.Helper()
	before, worked, stop := own(t, s.PID()), cpu(t, s.PID()), watch(t, s.PID())
	sent := send()
	grown, worked := stop()-before, cpu(t, s.PID())-worked
	violations, calls := 0, asCalls(t, s, worked)
	if grown > mostGrown || calls > mostCalls {
		violations++
	}
	proof.Report(t, proof.Row{
		Fault: fault, Store: "embedded", Runs: runs, Violations: violations,
		Figure: fmt.Sprintf("%d KiB in; %d MiB more memory, %s of CPU, as %d calls (%s once)", sent>>10, grown>>20, worked, calls, once),
	})
}

const smallConfig = `
limits: {max_held_bytes: 256MiB}
conversations: {max_bytes: 64MiB}
backends:
  up: {http: {base_url: %[1]q, allow_private: true}}
  studio: {mcp: {url: %[1]q, allow_private: true}}
tools:
  act: {backend: up, description: Does it., effect: read_only, http: {method: POST, path: /act}}
  long: {backend: up, description: Is long., effect: read_only, http: {method: POST, path: /long}}
`

// offering is a sidecar with the tools of an MCP server, by their schemas, beside its own.
func offering(t *testing.T, tools map[string]string) *harness.Sidecar {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "studio", Version: "1"}, nil)
	for name, schema := range tools {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(schema)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
		})
	}
	answers := http.NewServeMux()
	answers.HandleFunc("/act", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `"done"`) }) // to nobody, at the test's end
	answers.HandleFunc("/long", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `["`+strings.Repeat("x", 10<<20-100)+`",1]`) // as above
	})
	answers.Handle("/", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	up := httptest.NewServer(answers)
	t.Cleanup(up.Close)
	s := harness.New(t, fmt.Sprintf(smallConfig, up.URL))
	s.Release = true // its memory is measured
	s.Run()
	for name := range tools {
		harness.WaitFor(t, "the tool "+name, func() bool { return strings.Contains(strings.Join(s.Tools(), " "), name) })
	}
	return s
}

// properties is a schema of an object with n of them.
func properties(n int, each string) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`"%x":%s`, i, each))
	}
	return `{"type":"object","properties":{` + strings.Join(list, ",") + `}}`
}

func TestASchemaAndAWrongArgument(t *testing.T) {
	wide := properties(4900, `{"$dynamicRef":"#"}`)
	s := offering(t, map[string]string{"wide": wide})
	spent(t, s, "a schema whose properties are all of it, and a wrong argument", "5 GB, 13 s", 10, func() int {
		for n := range 10 {
			res := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: fmt.Sprint(n), ToolName: "wide", ConversationId: "c1", ArgumentsJson: `{"1":"x"}`})
			if res.GetError().GetCode() != "INVALID_ARGS" {
				t.Errorf("%v", res)
			}
		}
		return len(wide)
	})
}

func TestALongListOfLargeSchemas(t *testing.T) {
	tools, sent := map[string]string{}, 0
	for n := 0; sent < 2_400_000; n++ {
		tools[fmt.Sprintf("tool_%02d", n)] = properties(4900, `{}`)
		sent += len(tools["tool_00"])
	}
	s := offering(t, tools)
	begun := cpu(t, s.PID())
	spent(t, s, "a list of tools with 4,900 properties each, and a call of one", "35 s", len(tools), func() int {
		if res := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "1", ToolName: "tool_00", ConversationId: "c1", ArgumentsJson: `{"1":"x"}`}); res.GetIsError() {
			t.Errorf("%v", res)
		}
		return sent
	})
	if calls := asCalls(t, s, begun); calls > mostCalls {
		t.Errorf("the list took %s of CPU, as %d calls", begun, calls)
	}
	t.Logf("the start with the list took %s of CPU", begun)
}

func TestReferencesToLongOutputs(t *testing.T) {
	s := offering(t, map[string]string{"take": `{"type":"object"}`})
	var refs []string
	for n := range 16 {
		res := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: fmt.Sprint("long", n), ToolName: "long", ConversationId: "c1", ArgumentsJson: `{}`})
		if res.GetTruncation().GetOutputRef() == "" {
			t.Fatalf("nothing was cut: %.300v", res)
		}
		refs = append(refs, fmt.Sprintf(`{"$output_ref":%q,"path":"$[1]"}`, res.GetTruncation().GetOutputRef()))
	}
	arguments := `{"a":[` + strings.Join(refs, ",") + `]}`
	spent(t, s, "16 references of a call to outputs of 10 MiB, 20 calls at once", "0.5 s for each", 20, func() int {
		var all sync.WaitGroup
		for n := range 20 {
			all.Go(func() {
				res := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: fmt.Sprint("take", n), ToolName: "take", ConversationId: "c1", ArgumentsJson: arguments})
				if code := res.GetError().GetCode(); code != "INVALID_ARGS" && code != "OVERLOADED" {
					t.Errorf("%.300v", res)
				}
			})
		}
		all.Wait()
		return 20 * len(arguments)
	})
}

// TestStreamsOfQuestions: gRPC's own services, whose names are as long as a request may
// be, packed, and whose answers nobody reads.
func TestStreamsOfQuestions(t *testing.T) {
	s := offering(t, nil)
	const streams = 600
	conn, err := grpc.NewClient("passthrough:///"+s.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithInitialWindowSize(65535))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	name := strings.Repeat("n", 4<<20-100)
	spent(t, s, "streams of health and reflection with packed names of 4 MiB, not read", "2.5 GB and 1 GB", 2*streams, func() int {
		for range streams {
			if _, err := healthpb.NewHealthClient(conn).Watch(t.Context(), &healthpb.HealthCheckRequest{Service: name}, grpc.UseCompressor(gzip.Name)); err != nil {
				t.Fatal(err)
			}
			stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context(), grpc.UseCompressor(gzip.Name))
			if err != nil {
				t.Fatal(err)
			}
			_ = stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: name}}) // which may be refused before
		}
		harness.WaitFor(t, "health to be told", func() bool {
			_, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
			return err == nil
		})
		return 2 * streams * 4200
	})
}

// TestStreamsWithoutRequests: streams that are begun, and no more.
func TestStreamsWithoutRequests(t *testing.T) {
	for _, c := range []struct {
		fault, once            string
		connections, n, fields int
	}{
		{"streams on which nothing is sent", "1 GB", 8, 20_000, 0},
		{"streams with 400 headers on which nothing is sent", "4.7 GB", 8, 2_000, 400},
	} {
		s := offering(t, nil)
		spent(t, s, c.fault, c.once, c.connections*c.n, func() (sent int) {
			for range c.connections {
				conn, err := net.Dial("tcp", s.Addr)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				sent += begin(t, conn, c.n, c.fields)
			}
			return sent
		})
	}
}

// begin begins n streams with so many headers beside those that there must be, and
// returns how many bytes that were.
func begin(t *testing.T, conn net.Conn, n, fields int) (sent int) {
	t.Helper()
	var out, block bytes.Buffer
	out.WriteString(http2.ClientPreface)
	framer, encoder := http2.NewFramer(&out, conn), hpack.NewEncoder(&block)
	write := func(err error) {
		if err == nil {
			sent += out.Len()
			_, err = out.WriteTo(conn)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write(framer.WriteSettings())
	go func() { _, _ = io.Copy(io.Discard, conn) }() // until the test closes it
	for i := range n {
		block.Reset()
		headers := []hpack.HeaderField{
			{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: sidecallv1.ToolService_ExecuteTool_FullMethodName},
			{Name: ":authority", Value: "sidecall"}, {Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
		}
		for f := range fields {
			headers = append(headers, hpack.HeaderField{Name: fmt.Sprintf("x-%d", f)})
		}
		for _, h := range headers {
			if err := encoder.WriteField(h); err != nil {
				t.Fatal(err)
			}
		}
		write(framer.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: block.Bytes(), EndHeaders: true}))
	}
	return sent
}

// TestManyCompactingLoads: each reads a conversation to find out what is left out of it.
func TestManyCompactingLoads(t *testing.T) {
	s := offering(t, nil)
	conversations := sidecallv1.NewConversationServiceClient(s.Conn)
	version := int64(0)
	for n := range 60 {
		id := fmt.Sprint("toolu_", n)
		res, err := conversations.AppendMessages(t.Context(), &sidecallv1.AppendMessagesRequest{
			ConversationId: "c1", ExpectedVersion: version, Provider: "anthropic", TurnId: id, MessagesJson: []string{
				`{"role":"user","content":"go on"}`, `{"role":"assistant","content":[{"type":"tool_use","id":"` + id + `","name":"act","input":{}}]}`,
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + id + `","content":"` + strings.Repeat("x", 1_000_000) + `"}]}`,
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		version = res.GetVersion()
	}
	spent(t, s, "100 compacting loads of 60 MB at once", "22 s, 2 GB", 100, func() int {
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				res, err := conversations.LoadConversation(t.Context(), &sidecallv1.LoadConversationRequest{ConversationId: "c1", CompactAfterTurns: 1})
				if err != nil || len(res.GetMessagesJson()) == 0 {
					t.Errorf("%d messages: %v", len(res.GetMessagesJson()), err)
				}
			})
		}
		all.Wait()
		return 100 * 60
	})
}
