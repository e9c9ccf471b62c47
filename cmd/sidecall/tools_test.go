package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/sidecall/sidecall/internal/app"
	"github.com/sidecall/sidecall/internal/config"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// aShop is a config whose sidecar listens on a socket of a directory.
func aShop(t *testing.T) (text, addr string) {
	t.Helper()
	addr = "unix://" + filepath.Join(t.TempDir(), "s.sock")
	return `listen: ["` + addr + `"]
admin: "off"
store: {memory: {}}
backends: {sh: {exec: {env: [PATH]}}}
tools:
  look: {backend: sh, description: Look., effect: read_only, exec: {argv: [ls]}}
  pay: {backend: sh, description: Pay., verify_with: look, exec: {argv: [ls]}}
profiles:
  reader: {tools: [look]}
  writer: {tools: ["*"]}
default_profile: writer
`, addr
}

// A file and a sidecar of it are asked for the same, and answer the same.
func TestToolsOfAFileAndOfASidecar(t *testing.T) {
	text, addr := aShop(t)
	file := written(t, text)
	cfg, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := app.Start(t.Context(), cfg, app.Options{Log: slog.DiscardHandler, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	for _, flags := range []string{"--format table", "--format anthropic", "--format openai --profile reader", "--format openai-responses", "--instructions", "--instructions --profile reader"} {
		of := func(where ...string) said {
			return command(t, append(append([]string{"tools"}, where...), strings.Fields(flags)...)...)
		}
		asked, read := of("--addr", addr), of("--config", file)
		if asked.code != 0 || asked.out == "" || asked.out != read.out || read.code != 0 || asked.errOut+read.errOut != "" {
			t.Errorf("%s:\nof a sidecar %+v\nof its file   %+v", flags, asked, read)
		}
		if paid := strings.Contains(read.out, "pay"); paid == strings.Contains(flags, "reader") {
			t.Errorf("%s: not what the profile may call:\n%s", flags, read.out)
		}
	}
}

// The Responses API takes a tool flat, and is strict unless it is told not to be.
func TestToolsForTheResponsesAPI(t *testing.T) {
	text, _ := aShop(t)
	var tools []map[string]any
	got := command(t, "tools", "--config", written(t, text), "--format", "openai-responses")
	if err := json.Unmarshal([]byte(got.out), &tools); err != nil || len(tools) == 0 {
		t.Fatalf("%+v: %v", got, err)
	}
	for _, one := range tools {
		if one["type"] != "function" || one["name"] == nil || one["parameters"] == nil || one["strict"] != false {
			t.Errorf("%v", one)
		}
	}
}

func TestToolsThatCannotBeTold(t *testing.T) {
	text, _ := aShop(t)
	file := written(t, text)
	for name, c := range map[string]struct {
		line []string
		says string
	}{
		"an unknown profile":           {[]string{"--config", file, "--profile", "nobody"}, `the profile "nobody" is not offered here`},
		"a paragraph in a format":      {[]string{"--config", file, "--instructions", "--format", "json"}, "no --format"},
		"a file and a sidecar":         {[]string{"--config", file, "--addr", "tcp://127.0.0.1:1"}, "name one of them"},
		"a file without a name":        {[]string{"--config", ""}, "want the path"},
		"a file that is not there":     {[]string{"--config", "/not/there"}, "cannot read"},
		"a file that does not parse":   {[]string{"--config", written(t, "nosuch: 1\n")}, ":1:1: nosuch"},
		"a tool that does not compile": {[]string{"--config", written(t, text+"  x: {}\n")}, ""},
	} {
		if got := command(t, append([]string{"tools"}, c.line...)...); got.code != exitUsage || got.err == nil || !strings.Contains(got.err.Error(), c.says) || got.out != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Of tools that a backend says itself nothing is known without asking it, and that
// is said; nothing is started to find out.
func TestToolsOfAFileThatADiscoveringBackendHas(t *testing.T) {
	file := written(t, `backends: {m: {mcp: {command: [/no/such/program]}}}`)
	for _, flag := range []string{"--format=json", "--instructions"} {
		got := command(t, "tools", "--config", file, flag)
		if got.code != 0 || !strings.Contains(got.out, "read_output") || strings.Count(got.errOut, "\n") != 1 ||
			!strings.Contains(got.errOut, "backend m is not discovered yet, so its tools are missing here: it says itself which tools it has, and was not asked") {
			t.Errorf("%s: %+v", flag, got)
		}
	}
}

// endless answers with the same page for ever.
type endless struct{ answering }

func (endless) ListTools(context.Context, *sidecallv1.ListToolsRequest, ...grpc.CallOption) (*sidecallv1.ListToolsResponse, error) {
	return &sidecallv1.ListToolsResponse{NextPageToken: "again"}, nil
}

// What answers with the same page for ever is no sidecar.
func TestAListWithoutEnd(t *testing.T) {
	_, err := listAll(t.Context(), endless{}, &sidecallv1.ListToolsRequest{})
	if err == nil || !strings.Contains(err.Error(), "go round in circles") {
		t.Error(err)
	}
}
