package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

const (
	exampleCases  = "../../docs/examples/shop.cases.yaml"
	exampleConfig = "../../docs/examples/shop.yaml"
)

// The test binary is sidecall where it is called with a command, and is what is asked to end.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == askedName {
		askedToEnd()
	}
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		root := newRoot()
		root.SetArgs(os.Args[1:])
		cmd, err := root.ExecuteC()
		os.Exit(report(cmd, err))
	}
	os.Exit(m.Run())
}

// A newcomer's tool is a command: it is stood in for, whether it is there or not.
func TestTestsOfCommands(t *testing.T) {
	config := written(t, `backends: {sh: {exec: {env: [PATH]}}}
tools: {count: {backend: sh, effect: read_only, exec: {argv: [no-such-program], exit_codes: {3: {code: NOT_FOUND}}}}}
`)
	cases := written(t, `cases:
- {case: it counts, call: {tool: count}, answer: {text: "3"}, expect: {outcome: ok, content: ^3$}}
- {case: it does not find it, call: {tool: count}, fault: {kind: tool_error, exit_code: 3}, expect: {code: NOT_FOUND}}
- {case: it is killed, call: {tool: count}, fault: connection_lost, expect: {code: UNRECOVERABLE}}
`)
	if got := command(t, "test", cases, "--config", config); got.code != 0 || !strings.Contains(got.out, "3 cases met, 0 not") {
		t.Errorf("%+v", got)
	}
}

// golden compares with a golden file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("it prints now (go test ./cmd/sidecall -update writes it):\n%s", got)
	}
}

// took is what differs from run to run.
var took = regexp.MustCompile(`, [0-9.]+m?s\n`)

// The example is met, and this is the table that a person sees; two cases of it,
// and one that is not met, which says what was seen instead.
func TestTestPrintsATable(t *testing.T) {
	got := command(t, "test", exampleCases, "--config", exampleConfig)
	if got.code != 0 || got.errOut != "" {
		t.Fatalf("%+v", got)
	}
	golden(t, "test.example.golden.txt", took.ReplaceAllString(got.out, ", a while\n"))

	failing := filepath.Join(t.TempDir(), "cases.yaml")
	if err := os.WriteFile(failing, []byte(`cases:
- case: order not found
  call: {tool: get_order, arguments: {order_id: A-404}}
  fault: 404
  expect: {code: NOT_FOUND, attempts: 1}
- case: "paid twice\n"
  steps:
  - call: {tool: create_refund, arguments: {order_id: A-1, cents: 500}}
    expect: {outcome: ok, attempts: 1, effects: 1}
  - call: {tool: create_refund, arguments: {order_id: A-1, cents: 500}}
    expect: {outcome: error, attempts: 1, effects: 1, content: DUPLICATE}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	got = command(t, "test", failing, "-c", exampleConfig)
	if got.code != exitFailed || got.errOut != "" {
		t.Fatalf("%+v", got)
	}
	golden(t, "test.failing.golden.txt", strings.ReplaceAll(took.ReplaceAllString(got.out, ", a while\n"), failing, "cases.yaml"))
}

func TestTestForPrograms(t *testing.T) {
	got := command(t, "test", "--json", "--run", "^order not|API timeout$", "--config", exampleConfig, exampleCases)
	var read struct {
		File, Config string
		Met, Unmet   int
		Cases        []struct {
			Case  string
			Line  int
			Met   bool
			Calls []struct {
				Tool  string
				Seen  map[string]any
				Unmet []any
			}
		}
	}
	if err := json.Unmarshal([]byte(got.out), &read); err != nil || got.code != 0 {
		t.Fatalf("%v: %+v", err, got)
	}
	if read.File != exampleCases || read.Config != exampleConfig || read.Met != 2 || read.Unmet != 0 || len(read.Cases) != 2 {
		t.Fatalf("%+v", read)
	}
	one := read.Cases[0]
	if one.Case != "order not found" || !one.Met || one.Line == 0 || one.Calls[0].Seen["code"] != "NOT_FOUND" || one.Calls[0].Seen["attempts"] != 1.0 || one.Calls[0].Unmet == nil {
		t.Errorf("%+v", one)
	}
}

// Nothing runs when something is wrong, and the exit code says so.
func TestTestsThatCannotRun(t *testing.T) {
	wrong := written(t, "cases:\n- case: a\n  call: {tool: nosuch}\n  expect: {code: NOSUCH}\n")
	for name, c := range map[string]struct {
		line []string
		says string
	}{
		"no cases":             {[]string{"test"}, "Name their file: sidecall test cases.yaml"},
		"two files":            {[]string{"test", exampleCases, exampleConfig}, "the config is named by --config"},
		"cases of no file":     {[]string{"test", "/not/there", "-c", exampleConfig}, "/not/there: cannot read the file"},
		"a config of no file":  {[]string{"test", exampleCases, "-c", "/not/there"}, "/not/there: cannot read the config file"},
		"wrong cases":          {[]string{"test", wrong, "-c", exampleConfig}, wrong + `:3:16: cases[0].call.tool: there is no tool "nosuch"`},
		"wrong cases, further": {[]string{"test", wrong, "-c", exampleConfig}, wrong + `:4:18: cases[0].expect.code: there is no code "NOSUCH"`},
		"a wrong pattern":      {[]string{"test", exampleCases, "-c", exampleConfig, "--run", "("}, "--run: "},
		"nothing chosen":       {[]string{"test", exampleCases, "-c", exampleConfig, "--run", "nosuch"}, "--run: no case has such a name"},
	} {
		if got := command(t, c.line...); got.code != exitUsage || got.err == nil || !strings.Contains(got.err.Error(), c.says) || got.out != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A shell completes the file of cases with YAML files.
func TestCompletionOfCases(t *testing.T) {
	if got := command(t, "__complete", "test", ""); !strings.HasPrefix(got.out, "yaml\nyml\n:8\n") {
		t.Errorf("%+v", got)
	}
	if got := command(t, "__complete", "tools", "--format", ""); !strings.HasPrefix(got.out, "anthropic\njson\nopenai\nopenai-responses\ntable\n") {
		t.Errorf("%+v", got)
	}
}
