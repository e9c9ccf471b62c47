//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/repairs"
)

// examples are valid calls of the tools of the real servers, as a model might
// make them. Prefixes as in startWorld.
var examples = map[string][]string{
	"files_create_directory":          {`{"path":"/data/reports"}`},
	"files_directory_tree":            {`{"path":"/data"}`, `{"path":"/data","excludePatterns":["node_modules","*.log"]}`},
	"files_edit_file":                 {`{"path":"/data/a.txt","edits":[{"oldText":"one","newText":"two"},{"oldText":"3","newText":"4"}],"dryRun":true}`},
	"files_get_file_info":             {`{"path":"/data/a.txt"}`},
	"files_list_allowed_directories":  {`{}`},
	"files_list_directory":            {`{"path":"/data"}`},
	"files_list_directory_with_sizes": {`{"path":"/data","sortBy":"size"}`},
	"files_move_file":                 {`{"source":"/data/a.txt","destination":"/data/b.txt"}`},
	"files_read_file":                 {`{"path":"/data/a.txt","head":10}`},
	"files_read_media_file":           {`{"path":"/data/logo.png"}`},
	"files_read_multiple_files":       {`{"paths":["/data/a.txt","/data/b.txt"]}`},
	"files_read_text_file":            {`{"path":"/data/a.txt"}`, `{"path":"/data/a.txt","tail":25}`},
	"files_search_files":              {`{"path":"/data","pattern":"**/*.md","excludePatterns":["drafts"]}`},
	"files_write_file":                {`{"path":"/data/a.txt","content":"Dear Ada,\n"}`},

	"memory_add_observations":    {`{"observations":[{"entityName":"Ada","contents":["lived in London","born 1815"]}]}`},
	"memory_create_entities":     {`{"entities":[{"name":"Ada","entityType":"person","observations":["wrote programs"]},{"name":"London","entityType":"city","observations":[]}]}`},
	"memory_create_relations":    {`{"relations":[{"from":"Ada","to":"London","relationType":"lived in"}]}`},
	"memory_delete_entities":     {`{"entityNames":["Ada","London"]}`},
	"memory_delete_observations": {`{"deletions":[{"entityName":"Ada","observations":["born 1815"]}]}`},
	"memory_delete_relations":    {`{"relations":[{"from":"Ada","to":"London","relationType":"lived in"}]}`},
	"memory_open_nodes":          {`{"names":["Ada"]}`},
	"memory_read_graph":          {`{}`},
	"memory_search_nodes":        {`{"query":"programs"}`},

	"git_add":           {`{"repo_path":"/src/app","files":["main.go","main_test.go"]}`},
	"git_branch":        {`{"repo_path":"/src/app","branch_type":"local"}`, `{"repo_path":"/src/app","branch_type":"all","contains":"4f2d1c9"}`},
	"git_checkout":      {`{"repo_path":"/src/app","branch_name":"feature/login"}`},
	"git_commit":        {`{"repo_path":"/src/app","message":"Fix the login page"}`},
	"git_create_branch": {`{"repo_path":"/src/app","branch_name":"feature/login","base_branch":"main"}`},
	"git_diff":          {`{"repo_path":"/src/app","target":"main","context_lines":5}`},
	"git_diff_staged":   {`{"repo_path":"/src/app"}`},
	"git_diff_unstaged": {`{"repo_path":"/src/app","context_lines":1}`},
	"git_log":           {`{"repo_path":"/src/app","max_count":20,"start_timestamp":"2026-01-15"}`, `{"repo_path":"/src/app"}`},
	"git_reset":         {`{"repo_path":"/src/app"}`},
	"git_show":          {`{"repo_path":"/src/app","revision":"HEAD~1"}`},
	"git_status":        {`{"repo_path":"/src/app"}`},

	"time_convert_time":     {`{"source_timezone":"Europe/Berlin","time":"16:30","target_timezone":"Asia/Tokyo"}`},
	"time_get_current_time": {`{"timezone":"America/New_York"}`},

	"sqlite_append_insight": {`{"insight":"Tea sells best on Mondays."}`},
	"sqlite_create_table":   {`{"query":"CREATE TABLE orders (id INTEGER PRIMARY KEY)"}`},
	"sqlite_describe_table": {`{"table_name":"orders"}`},
	"sqlite_list_tables":    {`{}`},
	"sqlite_read_query":     {`{"query":"SELECT count(*) FROM orders"}`},
	"sqlite_write_query":    {`{"query":"DELETE FROM orders WHERE id = 7"}`},

	"every_echo":                           {`{"message":"hello"}`},
	"every_get-annotated-message":          {`{"messageType":"success","includeImage":true}`},
	"every_get-env":                        {`{}`},
	"every_get-resource-links":             {`{"count":4}`},
	"every_get-resource-reference":         {`{"resourceType":"Blob","resourceId":2}`},
	"every_get-structured-content":         {`{"location":"Los Angeles"}`},
	"every_get-sum":                        {`{"a":2,"b":40.5}`},
	"every_get-tiny-image":                 {`{}`},
	"every_gzip-file-as-resource":          {`{"name":"notes.gz","data":"https://example.com/notes.txt","outputType":"resource"}`},
	"every_simulate-research-query":        {`{"topic":"tides","ambiguous":false}`},
	"every_toggle-simulated-logging":       {`{}`},
	"every_toggle-subscriber-updates":      {`{}`},
	"every_trigger-long-running-operation": {`{"duration":3,"steps":6}`},
}

// A program that reads only the five fields repairs calls of the real servers'
// tools, judged by a running sidecar.
func TestRepairOfCallsToRealServers(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	var tools []repairs.Tool
	for _, listed := range w.list().GetTools() {
		if strings.HasPrefix(listed.GetName(), "remote_") || listed.GetBackend() == "sidecall" {
			continue // the same server twice, and no server at all
		}
		tools = append(tools, repairs.Tool{
			Name: listed.GetName(), InputSchema: json.RawMessage(listed.GetInputSchemaJson()),
			Calls: validExamples(t, w.Sidecar, listed.GetName()),
		})
	}
	if len(tools) < 40 {
		t.Fatalf("the servers have %d tools, want at least 40", len(tools))
	}
	report, err := repairs.Run(tools, func(one repairs.Tool) (repairs.Caller, error) {
		return func(args map[string]any) ([]tool.Error, error) { return judge(t, w.Sidecar, one.Name, args) }, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(report)
	for i, failure := range report.Failures {
		if i < 40 {
			t.Log(failure)
		}
	}
	if len(report.Unusable) > 0 {
		t.Errorf("no valid call for %v", report.Unusable)
	}
	if share := report.Total.Share(); report.Total.Broken < 1000 || share < 0.95 {
		t.Errorf("%.2f %% of %d broken calls repaired within one further call, want at least 95 %% of 1,000 or more", 100*share, report.Total.Broken)
	}
	// All of it was only checked, nothing was run.
	if entries, err := os.ReadDir(w.files); err != nil || len(entries) > 0 {
		t.Errorf("the checks have left %v (%v)", entries, err)
	}
}

// validExamples are the examples of a tool, each of which the sidecar accepts.
func validExamples(t *testing.T, s *harness.Sidecar, name string) []map[string]any {
	t.Helper()
	if len(examples[name]) == 0 {
		t.Errorf("there is no example of %s", name)
	}
	var out []map[string]any
	for _, text := range examples[name] {
		var args map[string]any
		if err := json.Unmarshal([]byte(text), &args); err != nil {
			t.Fatalf("%s %s: %v", name, text, err)
		}
		if violations, err := judge(t, s, name, args); err != nil || len(violations) > 0 {
			t.Errorf("%s %s is not accepted: %v, %v", name, text, violations, err)
		}
		out = append(out, args)
	}
	return out
}

// judge has arguments checked by the sidecar, as those of a call that is not
// run, and returns the violations, as a program finds them in the response.
func judge(t *testing.T, s *harness.Sidecar, name string, args map[string]any) ([]tool.Error, error) {
	encoded, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	res, err := execute(t, s, &sidecallv1.ExecuteToolRequest{
		ToolUseId: "check", ToolName: name, ArgumentsJson: string(encoded), ValidateOnly: true,
	})
	if err != nil {
		return nil, err
	}
	if !res.GetIsError() {
		return nil, nil
	}
	if res.GetError().GetCode() != "INVALID_ARGS" || len(res.GetViolations()) == 0 {
		return nil, fmt.Errorf("%s %s: %s", name, encoded, res.GetContent())
	}
	var out []tool.Error
	for _, v := range res.GetViolations() {
		out = append(out, tool.Error{
			Code: tool.Code(v.GetCode()), Field: v.GetField(), Constraint: v.GetConstraint(), Received: v.GetReceived(), Hint: v.GetHint(),
		})
	}
	return out, nil
}
