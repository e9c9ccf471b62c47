//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/mcpservers"
)

const (
	readOnly      = sidecallv1.Effect_EFFECT_READ_ONLY
	idempotent    = sidecallv1.Effect_EFFECT_IDEMPOTENT
	nonIdempotent = sidecallv1.Effect_EFFECT_NON_IDEMPOTENT
)

// The real servers behind one sidecar: what they offer, and what calls of them
// do and bring back.
func TestMCPServersThatOthersWrote(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	t.Run("tools are listed", w.listsTools)
	t.Run("effects", w.listsEffects)
	t.Run("filesystem", w.filesystem)
	t.Run("git", w.git)
	t.Run("time", w.time)
	t.Run("sqlite", w.sqlite)
	t.Run("memory", w.memory)
	t.Run("everything on stdio", func(t *testing.T) { w.everything(t, "every_") })
	t.Run("everything over HTTP", func(t *testing.T) { w.everything(t, "remote_") })
	t.Run("isError", w.errors)
	t.Run("an unknown tool", w.unknownTool)
	t.Run("a duplicate", w.replays)
	lives(t, w.Sidecar)
}

func (w *world) listsTools(t *testing.T) {
	w.t = t
	list := w.list()
	count := map[string]int{}
	var names []string
	for _, tool := range list.GetTools() {
		count[tool.GetBackend()]++
		names = append(names, tool.GetName())
		var input struct {
			Type       string                     `json:"type"`
			Properties map[string]json.RawMessage `json:"properties"`
			Required   []string                   `json:"required"`
		}
		if err := json.Unmarshal([]byte(tool.GetInputSchemaJson()), &input); err != nil || input.Type != "object" {
			t.Errorf("%s: input schema %s: %v", tool.GetName(), tool.GetInputSchemaJson(), err)
		}
		for _, name := range input.Required {
			if _, ok := input.Properties[name]; !ok {
				t.Errorf("%s requires %s and does not describe it", tool.GetName(), name)
			}
		}
		if out := tool.GetOutputSchemaJson(); out != "" && !json.Valid([]byte(out)) {
			t.Errorf("%s: output schema %s", tool.GetName(), out)
		}
		if tool.GetDescription() == "" {
			t.Errorf("%s has no description", tool.GetName())
		}
	}
	if !slices.IsSorted(names) {
		t.Errorf("not sorted by name: %v", names)
	}
	// The least that the pinned versions have.
	for backend, least := range map[string]int{
		"files": 14, "every": 13, "remote": 13, "memory": 9, "git": 12, "time": 2, "sqlite": 6, "sidecall": 1,
	} {
		if count[backend] < least {
			t.Errorf("%s has %d tools, want at least %d: %v", backend, count[backend], least, names)
		}
	}
	if down := list.GetUnavailableBackends(); len(down) > 0 {
		t.Errorf("unavailable: %v", down)
	}
	if code, body := readyz(t, w.Sidecar); code != 200 || body.Status != "ready" || body.Tools != len(names) {
		t.Errorf("/readyz = %d %+v, with %d tools listed", code, body, len(names))
	}
}

func (w *world) listsEffects(t *testing.T) {
	w.t = t
	effects := map[string]sidecallv1.Effect{}
	for _, tool := range w.list().GetTools() {
		effects[tool.GetName()] = tool.GetEffect()
	}
	for name, want := range map[string]sidecallv1.Effect{
		// Said by name in the config; the rest of that backend is undeclared,
		// whatever the server's annotations claim.
		"files_read_text_file": readOnly, "files_write_file": idempotent,
		"files_list_directory": nonIdempotent, "files_create_directory": nonIdempotent,
		// Nothing said and nothing trusted.
		"every_echo": nonIdempotent, "remote_echo": nonIdempotent, "sqlite_read_query": nonIdempotent,
		// The server's annotations, trusted.
		"memory_read_graph": readOnly, "memory_delete_entities": idempotent, "memory_create_entities": nonIdempotent,
		// Trusted, but what the config says by name is stronger; and the rest
		// of the config is weaker than an annotation.
		"git_commit": idempotent, "git_status": readOnly, "git_add": idempotent, "git_checkout": nonIdempotent,
		// Said for all of them.
		"time_convert_time": readOnly, "time_get_current_time": readOnly,
	} {
		if got := effects[name]; got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

func (w *world) filesystem(t *testing.T) {
	w.t = t
	path := filepath.Join(w.files, "hello.txt")
	w.does("files_write_file", args(t, "path", path, "content", "línea uno\nline two\n"), "Successfully wrote")
	if text, err := os.ReadFile(path); err != nil || string(text) != "línea uno\nline two\n" {
		t.Errorf("the file holds %q (%v)", text, err)
	}
	w.does("files_read_text_file", args(t, "path", path), "línea uno\nline two\n")
	w.does("files_read_text_file", args(t, "path", path, "head", 1), "línea uno")
	// Providers' strict modes send null for what is optional.
	w.does("files_read_text_file", args(t, "path", path, "head", nil, "tail", 1))
	w.does("files_list_directory", args(t, "path", w.files), "[FILE] hello.txt")
}

func (w *world) git(t *testing.T) {
	w.t = t
	w.does("git_status", args(t, "repo_path", w.repo), "On branch main", "notes.txt")
	w.does("git_log", args(t, "repo_path", w.repo, "max_count", 5), "The first commit", "Ada")
	w.does("git_add", args(t, "repo_path", w.repo, "files", []string{"notes.txt"}))
	w.does("git_commit", args(t, "repo_path", w.repo, "message", "Add the notes"), "committed")
	w.does("git_log", args(t, "repo_path", w.repo), "The first commit", "Add the notes")
}

func (w *world) time(t *testing.T) {
	w.t = t
	res := w.does("time_convert_time", args(t, "source_timezone", "Asia/Tokyo", "time", "09:00", "target_timezone", "Asia/Kolkata"))
	var converted struct {
		Target struct {
			Datetime string `json:"datetime"`
		} `json:"target"`
		TimeDifference string `json:"time_difference"`
	}
	// Trusted output reaches the model as it is.
	if err := json.Unmarshal([]byte(res.GetContent()), &converted); err != nil {
		t.Fatalf("%s: %v", res.GetContent(), err)
	}
	if !strings.Contains(converted.Target.Datetime, "T05:30:00+05:30") || converted.TimeDifference != "-3.5h" {
		t.Errorf("9:00 in Tokyo is %+v", converted)
	}
}

func (w *world) sqlite(t *testing.T) {
	w.t = t
	w.does("sqlite_create_table", args(t, "query", "CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)"), "created")
	w.does("sqlite_write_query", args(t, "query", "INSERT INTO orders (item) VALUES ('tea'), ('kettle')"), "2")
	w.does("sqlite_read_query", args(t, "query", "SELECT item FROM orders ORDER BY id"), "tea", "kettle")
	w.does("sqlite_describe_table", args(t, "table_name", "orders"), "'pk': 1", "item")
}

func (w *world) memory(t *testing.T) {
	w.t = t
	entity := map[string]any{"name": "Ada", "entityType": "person", "observations": []string{"wrote the first program"}}
	w.does("memory_create_entities", args(t, "entities", []any{entity}), "Ada")
	w.does("memory_add_observations", args(t, "observations", []any{
		map[string]any{"entityName": "Ada", "contents": []string{"lived in London"}},
	}))
	w.does("memory_search_nodes", args(t, "query", "first program"), "Ada", "lived in London")
	w.does("memory_read_graph", "", "Ada")
}

func (w *world) everything(t *testing.T, prefix string) {
	w.t = t
	echoed := w.does(prefix+"echo", args(t, "message", "hello, wörld"), "Echo: hello, wörld")
	if !strings.Contains(strings.ToLower(echoed.GetContent()), "untrusted") {
		t.Errorf("what a discovered tool says is not marked untrusted: %s", echoed.GetContent())
	}
	w.does(prefix+"get-sum", args(t, "a", 19, "b", 23.5), "42.5")
	w.does(prefix+"trigger-long-running-operation", args(t, "duration", 11, "steps", 22), "Long running operation completed")

	pictured := w.does(prefix+"get-tiny-image", "{}", "image")
	if blocks := pictured.GetBlocks(); len(blocks) != 1 || blocks[0].GetType() != "image" || blocks[0].GetMimeType() != "image/png" {
		t.Errorf("blocks = %v, want one image", blocks)
	} else if _, err := png.DecodeConfig(bytes.NewReader(blocks[0].GetData())); err != nil || !bytes.Contains(blocks[0].GetData(), []byte("IEND")) {
		t.Errorf("the image was not carried through, or not to its end: %v", err)
	}
	if n := len(pictured.GetContent()); n > 2000 {
		t.Errorf("the image was put into the %d bytes of the content", n)
	}

	weather := w.does(prefix+"get-structured-content", args(t, "location", "Chicago"), "temperature")
	var structured struct {
		Temperature *float64 `json:"temperature"`
		Conditions  string   `json:"conditions"`
	}
	if err := json.Unmarshal([]byte(weather.GetStructuredContentJson()), &structured); err != nil || structured.Temperature == nil || structured.Conditions == "" {
		t.Errorf("structured content %q: %v", weather.GetStructuredContentJson(), err)
	}

	linked := w.does(prefix+"get-resource-links", args(t, "count", 3))
	links := slices.DeleteFunc(slices.Clone(linked.GetBlocks()), func(b *sidecallv1.ContentBlock) bool {
		return b.GetType() != "resource_link" || b.GetUri() == "" || b.GetName() == ""
	})
	if len(links) != 3 {
		t.Errorf("%d resource links with a name and a URI, want 3: %v", len(links), linked.GetBlocks())
	}
	embedded := w.does(prefix+"get-resource-reference", args(t, "resourceType", "Text", "resourceId", 1))
	if !slices.ContainsFunc(embedded.GetBlocks(), func(b *sidecallv1.ContentBlock) bool {
		return b.GetType() == "resource" && b.GetText() != "" && b.GetUri() != ""
	}) {
		t.Errorf("no embedded resource with text: %v", embedded.GetBlocks())
	}
}

func (w *world) errors(t *testing.T) {
	w.t = t
	for name, arguments := range map[string]string{
		"files_read_text_file": args(t, "path", "/etc/passwd"),
		"time_convert_time":    args(t, "source_timezone", "Mars/Base", "time", "12:00", "target_timezone", "Etc/UTC"),
		"git_log":              args(t, "repo_path", "/no/such/repository"),
		"memory_add_observations": args(t, "observations", []any{
			map[string]any{"entityName": "Nobody", "contents": []string{"x"}},
		}),
	} {
		res := w.call(name, arguments)
		wantError(t, res, "UNRECOVERABLE")
		if res.GetError().GetReceived() == "" || res.GetError().GetHint() == "" || res.GetRecovery().GetAttempts() != 1 {
			t.Errorf("%s: %v, %v: want what the server said, a hint and one attempt", name, res.GetError(), res.GetRecovery())
		}
		if res.GetRecovery().GetClass() != sidecallv1.RecoveryClass_RECOVERY_CLASS_HARD || !res.GetRecorded() {
			t.Errorf("%s: %v, recorded %t: want a definite failure, recorded", name, res.GetRecovery(), res.GetRecorded())
		}
	}
	// What the schema forbids does not reach the server.
	res := w.call("every_get-sum", `{"a":"one","c":2}`)
	wantError(t, res, "INVALID_ARGS")
	if res.GetRecovery().GetAttempts() != 0 || len(res.GetViolations()) < 2 {
		t.Errorf("%v, %v: want every violation and no attempt", res.GetRecovery(), res.GetViolations())
	}
}

func (w *world) unknownTool(t *testing.T) {
	w.t = t
	for wrong, near := range map[string]string{
		"files_read_textfile": "files_read_text_file", "get_status": "git_status",
		"memory_creat_entities": "memory_create_entities", "timeConvertTime": "time_convert_time",
	} {
		res := w.call(wrong, "{}")
		wantError(t, res, "UNKNOWN_TOOL")
		if want := `Did you mean "` + near + `"?`; !strings.Contains(res.GetError().GetHint(), want) {
			t.Errorf("%s: %q does not ask %s", wrong, res.GetError().GetHint(), want)
		}
	}
}

// A duplicate never reaches a server, on either transport.
func (w *world) replays(t *testing.T) {
	w.t = t
	insert := func(id, item string) *sidecallv1.ExecuteToolResponse {
		return w.Call(&sidecallv1.ExecuteToolRequest{
			ToolUseId: id, ToolName: "sqlite_write_query", TurnId: "replays",
			ArgumentsJson: args(t, "query", "INSERT INTO orders (item) VALUES ('"+item+"')"),
		})
	}
	first, again := insert("call_0", "cup"), insert("call_0", "cup")
	if first.GetReplayed() || !again.GetReplayed() || !bytes.Equal(withoutReplayed(t, first), withoutReplayed(t, again)) {
		t.Errorf("first %v, again %v", first, again)
	}
	w.does("sqlite_read_query", args(t, "query", "SELECT count(*) AS n FROM orders WHERE item = 'cup'"), "'n': 1}")
}

// wantError checks the fixed shape of an error: the five fields, in the
// response and in what goes to the model.
func wantError(t *testing.T, res *sidecallv1.ExecuteToolResponse, code string) {
	t.Helper()
	if res.GetOutcome() != sidecallv1.Outcome_OUTCOME_ERROR || !res.GetIsError() || res.GetError().GetCode() != code {
		t.Fatalf("%s: %s %s, want %s: %s", res.GetToolUseId(), res.GetOutcome(), res.GetError().GetCode(), code, res.GetContent())
	}
	var shown map[string]json.RawMessage
	if err := json.Unmarshal([]byte(res.GetContent()), &shown); err != nil {
		t.Fatalf("%s: %v", res.GetContent(), err)
	}
	delete(shown, "more")
	for _, key := range []string{"code", "field", "constraint", "received", "hint"} {
		if _, ok := shown[key]; !ok {
			t.Errorf("no %s in %s", key, res.GetContent())
		}
		delete(shown, key)
	}
	if len(shown) > 0 {
		t.Errorf("further keys %v in %s", shown, res.GetContent())
	}
	if res.GetError().GetConstraint() == "" || res.GetRecovery() == nil {
		t.Errorf("an error without a constraint or without recovery: %v", res)
	}
}

// args writes arguments given as names and values.
func args(t *testing.T, pairs ...any) string {
	t.Helper()
	encoded, err := json.Marshal(with(map[string]any{}, pairs...))
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

// One name of two backends: the first of them keeps it, both are named, and
// nothing else suffers.
func TestMCPNameCollision(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, inYAML(t, map[string]any{"backends": map[string]any{
		"alpha": with(stdio(t)(mcpservers.Everything()), "include", []string{"echo", "get-sum"}),
		"beta":  with(stdio(t)(mcpservers.Everything()), "include", []string{"echo", "get-tiny-image"}),
	}}))
	harness.WaitFor(t, "both servers", func() bool { return serves(t, s, "get-sum") && serves(t, s, "get-tiny-image") })
	for _, tool := range listTools(t, s).GetTools() {
		if tool.GetName() == "echo" && tool.GetBackend() != "alpha" {
			t.Errorf("echo is %s's, want that of the backend that sorts first", tool.GetBackend())
		}
	}
	for i, call := range []struct{ name, args string }{
		{"echo", `{"message":"hi"}`}, {"get-sum", `{"a":1,"b":2}`}, {"get-tiny-image", `{}`},
	} {
		res := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: string(rune('a' + i)), ToolName: call.name, ArgumentsJson: call.args})
		if res.GetIsError() {
			t.Errorf("%s: %s", call.name, res.GetContent())
		}
	}
	code, page := s.Get("/readyz")
	for _, part := range []string{"degraded", "collisions", `\"echo\"`, `\"alpha\"`, `\"beta\"`, "prefix"} {
		if code != 200 || !strings.Contains(page, part) {
			t.Errorf("/readyz = %d %s, without %s", code, page, part)
		}
	}
	if log := s.Log(); !strings.Contains(log, "name collision") {
		t.Errorf("the log does not name the collision:\n%s", log)
	}
}
