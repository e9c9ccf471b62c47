package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/sidecall/sidecall/internal/limit"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/server/mcp"
	"github.com/sidecall/sidecall/server/rest"
)

// post sends a call as JSON, and returns what it is answered.
func (s *shop) post(t *testing.T, tool, body string) (code int, answer map[string]any) {
	t.Helper()
	return s.ask(t, http.MethodPost, "/v1/tools/"+tool, body, http.Header{"Content-Type": {"application/json"}})
}

func (s *shop) ask(t *testing.T, method, path, body string, header http.Header) (code int, answer map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Errorf("%s %s is answered %d with no JSON: %.200q", method, path, res.StatusCode, text)
	}
	if res.StatusCode != http.StatusOK && (answer["status"] == nil || answer["message"] == nil || len(answer) != 2) {
		t.Errorf("%s %s is answered %d in another shape: %v", method, path, res.StatusCode, answer)
	}
	return res.StatusCode, answer
}

func TestACallOfJSONRunsOnce(t *testing.T) {
	s := newShop(t)
	const call = `{"tool_use_id":"toolu_1","conversation_id":"c","arguments":{"cents":5}}`
	for _, replayed := range []any{nil, true} {
		code, res := s.post(t, "pay", call)
		if code != http.StatusOK || res["content"] != `{"payment":1}` || res["replayed"] != replayed || res["is_error"] == true {
			t.Errorf("%d %v", code, res)
		}
	}
	if n := s.paid.Load(); n != 1 {
		t.Errorf("%d payments of one call", n)
	}
	code, res := s.ask(t, http.MethodGet, "/v1/tools", "", nil)
	tools, _ := json.Marshal(res["tools"])
	if code != http.StatusOK || !strings.Contains(string(tools), `"name":"pay"`) || !strings.Contains(string(tools), "input_schema_json") {
		t.Errorf("%d %s", code, tools)
	}
}

// What is wrong with the arguments is for the model: the call is answered, in five fields. They are
// what the program sent, byte for byte.
func TestArgumentsOfJSONAreForTheModel(t *testing.T) {
	s := newShop(t)
	for n, c := range []struct{ arguments, want string }{
		{`{"cents":"5"}`, "INVALID_ARGS"},
		{`{"cents":1e400}`, "INVALID_ARGS"},
		{`{"cents":5,"cents":6}`, "INVALID_ARGS"},
		{`{"cents":5.5}`, "INVALID_ARGS"},
		{`[5]`, "INVALID_ARGS"},
		{`{"cents":900}`, "APPROVAL_REQUIRED"},
		{`{"cents":900719925474099312345678}`, "APPROVAL_REQUIRED"},
	} {
		code, res := s.post(t, "pay", fmt.Sprintf(`{"arguments":%s,"conversation_id":"%d","tool_use_id":"toolu_1"}`, c.arguments, n))
		five, _ := res["error"].(map[string]any)
		if code != http.StatusOK || res["is_error"] != true || five["code"] != c.want || five["hint"] == "" {
			t.Errorf("%s: %d %v", c.arguments, code, res)
		}
	}
	code, res := s.post(t, "pya", `{"tool_use_id":"1","conversation_id":"c"}`)
	five, _ := res["error"].(map[string]any)
	if code != http.StatusOK || five["code"] != "UNKNOWN_TOOL" {
		t.Errorf("a tool that there is not: %d %v", code, res)
	}
	if n := s.paid.Load(); n != 0 {
		t.Errorf("%d payments", n)
	}
}

// What is wrong with a request is for the program, and names the place. Nothing is called.
func TestARequestOfJSONThatIsNone(t *testing.T) {
	s := newShop(t)
	isJSON := http.Header{"Content-Type": {"application/json; charset=utf-8"}}
	for name, c := range map[string]struct {
		method, path, body string
		header             http.Header
		code               int
		says               string
	}{
		"no JSON":            {"POST", "/v1/tools/pay", `cents=5`, isJSON, 400, "one JSON object"},
		"nothing":            {"POST", "/v1/tools/pay", ``, isJSON, 400, "one JSON object"},
		"half of it":         {"POST", "/v1/tools/pay", `{"tool_use_id":"1","arguments":{"cents"`, isJSON, 400, "the body: "},
		"two of it":          {"POST", "/v1/tools/pay", `{"tool_use_id":"1"}{}`, isJSON, 400, "after the object"},
		"a batch":            {"POST", "/v1/tools/pay", `[{"tool_use_id":"1"}]`, isJSON, 400, "a batch"},
		"arguments twice":    {"POST", "/v1/tools/pay", `{"arguments":{},"arguments":{"cents":5}}`, isJSON, 400, "arguments twice"},
		"arguments also":     {"POST", "/v1/tools/pay", `{"arguments":{},"arguments_json":"{}"}`, isJSON, 400, "arguments_json"},
		"an id twice":        {"POST", "/v1/tools/pay", `{"tool_use_id":"1","tool_use_id":"2"}`, isJSON, 400, "tool_use_id"},
		"an id that is none": {"POST", "/v1/tools/pay", `{"tool_use_id":1}`, isJSON, 400, "the body: "},
		"a member unknown":   {"POST", "/v1/tools/pay", `{"tool_use":"1"}`, isJSON, 400, `"tool_use"`},
		"two names":          {"POST", "/v1/tools/pay", `{"tool_name":"order","tool_use_id":"1"}`, isJSON, 400, `"order"`},
		"no id":              {"POST", "/v1/tools/pay", `{"conversation_id":"c","arguments":{"cents":5}}`, isJSON, 400, "tool_use_id"},
		"no conversation":    {"POST", "/v1/tools/pay", `{"tool_use_id":"1","arguments":{"cents":5}}`, isJSON, 400, "conversation_id"},
		"of a form":          {"POST", "/v1/tools/pay", `{}`, http.Header{"Content-Type": {"text/plain"}}, 400, "application/json"},
		"without a type":     {"POST", "/v1/tools/pay", `{}`, nil, 400, "application/json"},
		"no UTF-8":           {"POST", "/v1/tools/pay", "{\"tool_use_id\":\"\xff\"}", isJSON, 400, "UTF-8"},
		"a name in no UTF-8": {"POST", "/v1/tools/pay%ff", `{"tool_use_id":"1"}`, isJSON, 400, "UTF-8"},
		"another in none":    {"GET", "/v1/tools?profile=%ff", ``, nil, 400, "UTF-8"},
		"a query of nothing": {"GET", "/v1/tools?profile=%zz", ``, nil, 400, "UTF-8"},
		"a long name":        {"POST", "/v1/tools/pay", `{"tool_name":"` + strings.Repeat("q", 5000) + `"}`, isJSON, 400, "tool_name"},
		"a page of another":  {"POST", "/v1/tools/pay", `{}`, http.Header{"Content-Type": {"application/json"}, "Origin": {"https://example.com"}}, 403, "cross-origin"},
		"a GET of a call":    {"GET", "/v1/tools/pay", ``, nil, 405, "POST /v1/tools/NAME"},
		"two slashes":        {"POST", "//v1/tools/pay", `{}`, isJSON, 405, "nothing else is here"},
		"a way round":        {"POST", "/v1/x/../tools/pay", `{}`, isJSON, 405, "nothing else is here"},
		"another page":       {"POST", "/v1/tool/pay", `{}`, isJSON, 405, "nothing else is here"},
		"a page of nobody":   {"GET", "/v1/tools?page_token=x", ``, nil, 400, "page_token"},
	} {
		code, res := s.ask(t, c.method, c.path, c.body, c.header)
		said, _ := json.Marshal(res)
		if code != c.code || !strings.Contains(strings.ReplaceAll(string(said), `\"`, `"`), c.says) {
			t.Errorf("%s: %d %s, want %d with %q", name, code, said, c.code, c.says)
		}
	}
	if code, res := s.post(t, "pay", `{"tool_use_id":"1","arguments":{"x":"`+strings.Repeat("x", 32<<20)+`"}}`); code != http.StatusRequestEntityTooLarge || res["status"] != "ResourceExhausted" {
		t.Errorf("32 MiB are answered %d %v", code, res)
	}
	if n := s.paid.Load(); n != 0 {
		t.Errorf("%d payments", n)
	}
}

// long is a sidecar whose results are long.
type long struct{ sidecallv1.ToolServiceClient }

func (long) ExecuteTool(context.Context, *sidecallv1.ExecuteToolRequest, ...grpc.CallOption) (*sidecallv1.ExecuteToolResponse, error) {
	return &sidecallv1.ExecuteToolResponse{Content: strings.Repeat("x", 1<<20)}, nil
}

// An answer for which there is no room is none, so that the call is sent again under its id; an empty one would be
// taken for that of a call that is done.
func TestAnAnswerForWhichThereIsNoRoomIsNoEmptyOne(t *testing.T) {
	t.Parallel()
	front := mcp.New(mcp.Options{MaxRequestBytes: 4 << 20, Bytes: limit.NewBytes(4 << 20)})
	defer front.Close()
	server := httptest.NewServer(front.Bounded(rest.Handler(long{}), rest.Error))
	defer server.Close()
	res, err := http.Post(server.URL+"/v1/tools/pay", "application/json", strings.NewReader(`{"tool_use_id":"a"}`))
	if err == nil {
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		t.Errorf("it is answered %d, with %d bytes", res.StatusCode, len(text))
	}
}
