package mcptool

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/transcript"
)

func TestSchemasOfToolsAreRepaired(t *testing.T) {
	for in, want := range map[string]string{
		``:                                   `{"type":"object"}`,
		`null`:                               `{"type":"object"}`,
		`true`:                               `{"type":"object"}`,
		`[]`:                                 `{"type":"object"}`,
		`{"type":"string"}`:                  `{"type":"object"}`,
		`{"type":["string","null"]}`:         `{"type":"object"}`,
		`{"type":5}`:                         `{"type":"object"}`,
		`{}`:                                 `{"type":"object"}`,
		` { } `:                              `{"type":"object"}`,
		`{ "properties":{"b":{},"a":{}}}`:    `{"type":"object","properties":{"b":{},"a":{}}}`,
		`{"type":"object","properties":{}}`:  `{"type":"object","properties":{}}`,
		`{"type":["object","null"],"x":1.0}`: `{"type":["object","null"],"x":1.0}`,
	} {
		if got, _ := inputSchema([]byte(in)); string(got) != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
	}
}

func TestOneToolAtATime(t *testing.T) {
	b, err := New(Config{Name: "b", Command: []string{"x"}})
	if err != nil {
		t.Fatal(err)
	}
	for raw, want := range map[string]tool.Discovered{
		`{"name":"a","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}}`: {
			Name: "a", InputSchema: []byte(`{"type":"object"}`), OutputSchema: []byte(`{"type":"array"}`)},
		`{"name":"a","outputSchema":null,"annotations":null}`: {
			Name: "a", InputSchema: anyObject},
		`{"name":"a","annotations":{"readOnlyHint":true,"idempotentHint":true,"title":"T"}}`: {
			Name: "a", InputSchema: anyObject, Effect: tool.ReadOnly, Claimed: true,
			Annotations: map[string]string{"readOnlyHint": "true", "idempotentHint": "true", "title": "T"}},
		`{"name":"a","title":"U","annotations":{"idempotentHint":true,"title":"T"}}`: {
			Name: "a", InputSchema: anyObject, Effect: tool.Idempotent, Claimed: true,
			Annotations: map[string]string{"idempotentHint": "true", "title": "U"}},
		`{"name":"a","annotations":{"readOnlyHint":false}}`: {
			Name: "a", InputSchema: anyObject, Claimed: true, Annotations: map[string]string{"readOnlyHint": "false"}},
		`{"name":"a","annotations":{"destructiveHint":true,"openWorldHint":false}}`: {
			Name: "a", InputSchema: anyObject, Claimed: true, Annotations: map[string]string{"destructiveHint": "true", "openWorldHint": "false"}},
		`{"name":"a","annotations":{"readOnlyHint":"yes"}}`: {Name: "a", InputSchema: anyObject},
	} {
		got, _, err := NewListing(b.log, false).discovered([]byte(raw))
		if err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", raw, diff)
		}
	}
	for _, raw := range []string{`null`, `5`, `{}`, `{"name":5}`, `{"name":""}`} {
		if _, _, err := NewListing(b.log, false).discovered([]byte(raw)); err == nil {
			t.Errorf("%s is a tool", raw)
		}
	}
}

// listing is a server whose tool list is made by hand.
func listing(t *testing.T, list func(cursor string) string) (*running, *transcript.Transcript) {
	t.Helper()
	s := newSite(t, mcp.StreamableHTTPOptions{})
	s.before(lists(list))
	cfg := s.config(t)
	log := new(transcript.Transcript)
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	return run(t, cfg), log
}

// lists answers what asks for a page of the tool list.
func lists(list func(cursor string) string) func(http.ResponseWriter, *http.Request, string) bool {
	return func(w http.ResponseWriter, _ *http.Request, body string) bool {
		if !strings.Contains(body, `"method":"tools/list"`) {
			return false
		}
		_, rest, _ := strings.Cut(body, `"cursor":"`)
		cursor, _, _ := strings.Cut(rest, `"`)
		_, rest, _ = strings.Cut(body, `"id":`)
		id, _, _ := strings.Cut(rest, ",")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, id, list(cursor))
		return true
	}
}

// TestAToolThatIsGoneIsLookedUp: a server that says nothing when its list changes
// is asked for it when it says that a tool is not there, and the tool is gone
// before anybody else calls it.
func TestAToolThatIsGoneIsLookedUp(t *testing.T) {
	var gone atomic.Bool
	r, _ := listing(t, func(string) string {
		if gone.Load() {
			return `"result":{"tools":[{"name":"pay"}]}`
		}
		return `"result":{"tools":[{"name":"pay"},{"name":"refund"}]}`
	})
	if tools := r.up(); len(tools) != 2 {
		t.Fatalf("tools are %+v", tools)
	}
	gone.Store(true)
	_, f := r.call("refund", `{}`)
	wantFailure(t, f, tool.CodeUnknownTool, tool.Ambiguous, "-32602")
	if tools := r.up(); len(tools) != 1 || tools[0].Name != "pay" {
		t.Errorf("after that tools are %+v", tools)
	}
}

func TestABadToolCostsItselfAlone(t *testing.T) {
	r, log := listing(t, func(string) string {
		return `"result":{"tools":[null,{"name":5},{"name":"a","inputSchema":"what"},{"name":"a"},{"name":"b","annotations":7}]}`
	})
	tools := r.up()
	if len(tools) != 2 || tools[0].Name != "a" || tools[1].Name != "b" || string(tools[0].InputSchema) != `{"type":"object"}` {
		t.Errorf("tools are %+v", tools)
	}
	if !strings.Contains(log.String(), "is taken") || !strings.Contains(log.String(), "malformed") {
		t.Errorf("the log says\n%s", log)
	}
}

func TestManyBadToolsAreLoggedInFewLines(t *testing.T) {
	r, log := listing(t, func(string) string {
		return `"result":{"tools":[` + strings.Repeat("null,", 1000) + `{"name":"a"}]}`
	})
	if n := len(r.up()); n != 1 {
		t.Errorf("%d tools", n)
	}
	if n := strings.Count(log.String(), "a tool was left out"); n != maxComplaints || !strings.Contains(log.String(), "tools=980") {
		t.Errorf("%d lines:\n%s", n, log)
	}
}

func TestListsWithoutEndAreBounded(t *testing.T) {
	pages := 0
	r, _ := listing(t, func(cursor string) string {
		pages++
		return fmt.Sprintf(`"result":{"tools":[{"name":"t%d"}],"nextCursor":"c%d"}`, pages, pages)
	})
	if n := len(r.up()); n != maxPages {
		t.Errorf("%d tools from %d pages", n, pages)
	}
}

// What counts is the whole list: pages that are small enough one by one must not
// fill the memory together.
func TestListsThatAreTooLongInAllAreCut(t *testing.T) {
	const page = 100 << 10
	s, pages := newSite(t, mcp.StreamableHTTPOptions{}), 0
	s.before(lists(func(string) string {
		pages++
		next := fmt.Sprintf(`,"nextCursor":"c%d"`, pages)
		if pages == 50 {
			next = "" // enough to show it
		}
		return fmt.Sprintf(`"result":{"tools":[{"name":"t%d","inputSchema":{"type":"object","description":%q}}]%s}`,
			pages, strings.Repeat("x", page), next)
	}))
	cfg := s.config(t)
	log := new(transcript.Transcript)
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	cfg.MaxMessage, cfg.MaxList = 2*page, 10*page
	r := run(t, cfg)
	if n := len(r.up()); n != 9 || pages != 10 {
		t.Errorf("%d tools from %d pages, want 9 from 10", n, pages)
	}
	if !strings.Contains(log.String(), "the server's tool list is longer than is read") {
		t.Errorf("the log says\n%s", log)
	}
}

// One page that may be read is read, however small the bound of the list.
func TestTheBoundOfTheListIsNeverBelowThatOfAMessage(t *testing.T) {
	s := newSite(t, mcp.StreamableHTTPOptions{})
	cfg := s.config(t)
	cfg.MaxList = 1
	if n := len(run(t, cfg).up()); n == 0 {
		t.Error("no tools")
	}
}

func TestAPageThatPointsToItselfIsRead(t *testing.T) {
	r, _ := listing(t, func(cursor string) string {
		return fmt.Sprintf(`"result":{"tools":[{"name":"t%s"}],"nextCursor":"same"}`, cursor)
	})
	if n := len(r.up()); n != 2 {
		t.Errorf("%d tools", n)
	}
}

func TestTooManyTools(t *testing.T) {
	var all strings.Builder
	for i := range maxTools + 5 {
		fmt.Fprintf(&all, `,{"name":"t%d"}`, i)
	}
	r, _ := listing(t, func(string) string { return `"result":{"tools":[` + all.String()[1:] + `]}` })
	if n := len(r.up()); n != maxTools {
		t.Errorf("%d tools", n)
	}
}

func TestAServerWithoutTools(t *testing.T) {
	r, _ := listing(t, func(string) string { return `"error":{"code":-32601,"message":"Method not found"}` })
	if n := len(r.up()); n != 0 {
		t.Errorf("%d tools", n)
	}
}

func TestAListThatCannotBeRead(t *testing.T) {
	for answer, want := range map[string]string{
		`"error":{"code":-32603,"message":"database is gone"}`: "database is gone",
		`"result":{"tools":"none"}`:                            "not in the shape",
	} {
		r, _ := listing(t, func(string) string { return answer })
		if err := r.down(); !strings.Contains(err.Error(), want) {
			t.Errorf("it is down because %v, want %s", err, want)
		}
	}
}

func TestDelaysGrowWithinTheirBounds(t *testing.T) {
	b, err := New(Config{Name: "b", Command: []string{"x"}, Timing: Timing{RestartBase: time.Second, RestartMax: 10 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	for fails, most := range map[int]time.Duration{0: time.Second, 1: 2 * time.Second, 3: 8 * time.Second, 4: 10 * time.Second, 29: 10 * time.Second, 1000: 10 * time.Second} {
		for range 100 {
			if d := b.timing.backoff(fails); d < most/2 || d > most {
				t.Fatalf("after %d failures the delay is %s", fails, d)
			}
		}
	}
}
