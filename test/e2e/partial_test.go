//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// Results that were done in part, and empty ones, of each kind of backend.
func TestPartialAndEmptyResultsOfEveryBackend(t *testing.T) {
	t.Parallel()
	up, err := upstream.Start(upstream.New(upstream.NewLedger()), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = up.Close() })
	const graph = `{"responses":[{"id":"A-1","status":201},{"id":"A-2","status":404,"body":{"error":"no such order"}}]}`
	const statuses = `{"results":[{"status":{}},{"status":{"code":9,"message":"closed"}}]}`
	up.Script("/multi", upstream.StatusBody(207, graph))
	up.Script("/xml", upstream.StatusBody(207, `<multistatus/>`))
	up.Script("/statuses", upstream.JSON(statuses))
	up.Script("/unprocessable", upstream.StatusBody(422, statuses))
	up.Script("/none", upstream.StatusBody(207, `[{"status":404},{"status":409}]`))
	up.Script("/found", upstream.JSON(`{"hits":[]}`))
	up.Script("/gone", upstream.StatusBody(204, ""))

	h := newHostile(t)
	h.mcp.AddTool(&mcp.Tool{Name: "mail", InputSchema: json.RawMessage(`{"type":"object","properties":{"to":{"type":"array"}}}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{IsError: true, StructuredContent: map[string]any{"sent": []any{map[string]any{"to": "ann", "ok": true}, map[string]any{"to": "bob", "ok": false, "why": "no such box"}}},
				Content: []mcp.Content{&mcp.TextContent{Text: "1 of 2 mails was not sent"}}}, nil
		})
	h.mcp.AddTool(&mcp.Tool{Name: "search", InputSchema: json.RawMessage(`{"type":"object","properties":{}}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "[]"}}}, nil
		})
	const items = `partial: {items: result.results, ok: done(item)}`
	s := harness.Start(t, fmt.Sprintf(`
backends:
  up: {http: {base_url: %q, allow_private: true}}
  sh: {exec: {env: [PATH]}}
  mail:
    mcp: {url: %q, allow_private: true, headers: {Authorization: "Bearer ${env:E2E_ENV_SECRET}"}}
    effects: {search: read_only}
    tools: {mail: {partial: {items: result.sent, ok: done(item), id: item.to, error: item.why}}}
tools:
  multi: {backend: up, http: {method: POST, path: /multi}}
  xml: {backend: up, http: {method: POST, path: /xml}}
  statuses: {backend: up, http: {method: POST, path: /statuses}, %s}
  unprocessable: {backend: up, http: {method: POST, path: /unprocessable}, %s}
  none: {backend: up, http: {method: POST, path: /none}}
  find: {backend: up, http: {method: GET, path: /found}, empty_when: size(result.hits) == 0}
  drop: {backend: up, http: {method: DELETE, path: /gone}}
  script: {backend: sh, exec: {argv: [sh, -c, "echo '[{\"file\":\"a\",\"error\":null},{\"file\":\"b\",\"error\":\"locked\"}]'; exit 3"]}, partial: {items: result, ok: done(item), id: item.file}}
  grep: {backend: sh, effect: read_only, exec: {argv: [sh, -c, "exit 1"], exit_codes: {1: {success: true}}}}
`, up.URL, h.URL, items, items), "E2E_ENV_SECRET="+envSecret)
	harness.WaitFor(t, "the tools of the server", func() bool { return serves(t, s, "mail") })

	const again = " Indexes count from 0. Call %s again with only %s that were not done, corrected as their errors say."
	inPart := func(name, isDone, not, which string) string {
		return fmt.Sprintf("Done in part: 1 of 2 items. Done, not to be sent again: %s. Not done: %s."+again, isDone, not, name, which)
	}
	for name, want := range map[string]struct {
		args    string
		outcome sidecallv1.Outcome
		says    string
		code    string // of item 1
	}{
		"multi":         {`{"orders":["A-1","A-2"]}`, sidecallv1.Outcome_OUTCOME_PARTIAL, `{"_note":"` + inPart("multi", "0 (A-1)", "1 (A-2)", "those of orders") + `","result":` + graph + "}", "NOT_FOUND"},
		"xml":           {`{}`, sidecallv1.Outcome_OUTCOME_OK, "xml may have done only some of this", ""},
		"statuses":      {`{}`, sidecallv1.Outcome_OUTCOME_PARTIAL, inPart("statuses", "0", "1", "the items"), "CONFLICT"},
		"unprocessable": {`{}`, sidecallv1.Outcome_OUTCOME_PARTIAL, inPart("unprocessable", "0", "1", "the items"), "CONFLICT"},
		"none":          {`{}`, sidecallv1.Outcome_OUTCOME_ERROR, "none of the 2 items was done", "CONFLICT"},
		"mail":          {`{"to":["ann","bob"]}`, sidecallv1.Outcome_OUTCOME_PARTIAL, ">\n[" + inPart("mail", "0 (ann)", "1 (bob)", "those of to") + "]", "UNRECOVERABLE"},
		"script":        {`{}`, sidecallv1.Outcome_OUTCOME_PARTIAL, inPart("script", "0 (a)", "1 (b)", "the items"), "UNRECOVERABLE"},
		"find":          {`{"city":"Bonn"}`, sidecallv1.Outcome_OUTCOME_EMPTY, "find found nothing. That is an answer and no error: the same call finds the same. To find more, leave out or widen city;", ""},
		"search":        {`{}`, sidecallv1.Outcome_OUTCOME_EMPTY, "search found nothing. That is an answer and no error", ""},
		"grep":          {`{}`, sidecallv1.Outcome_OUTCOME_EMPTY, "[grep found nothing. That is an answer and no error", ""},
		"drop":          {`{}`, sidecallv1.Outcome_OUTCOME_EMPTY, "[drop ran and returned nothing: it has succeeded. Do not call it again for this.]", ""},
	} {
		res := hostileCall(s, name, name, want.args)
		if res.GetOutcome() != want.outcome || !strings.Contains(res.GetContent(), want.says) {
			t.Errorf("%s: %s\n%s\nwant %s\n%s", name, res.GetOutcome(), res.GetContent(), want.outcome, want.says)
		}
		code := ""
		if len(res.GetItems()) == 2 {
			code = res.GetItems()[1].GetError().GetCode()
		}
		if code != want.code {
			t.Errorf("%s: the items are %v, want the second to be %q", name, res.GetItems(), want.code)
		}
		if again := hostileCall(s, name, name, want.args); !again.GetReplayed() || again.GetContent() != res.GetContent() || len(again.GetItems()) != len(res.GetItems()) {
			t.Errorf("%s: a replay says something else: %s", name, again.GetContent())
		}
	}
}
