package cases

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/config"
)

// shop is a config with a tool of every effect, over every transport.
const shop = `
listen: [unix:///nobody/may/listen/here.sock]
admin: "off"
store: {embedded: {path: /nobody/may/open/this.db}}
pins: {path: /nobody/may/write/this.pins}
backends:
  up:
    http: {base_url: "https://${env:CASES_TEST_HOST}/v1", headers: {Authorization: "Bearer ${env:CASES_TEST_TOKEN}", X-Key: "${file:/nobody/has/this}"}}
  files: {mcp: {command: [/nobody/has/this/program]}, prefix: files_, exclude: [move], effects: {read: read_only}, pin: true}
  notes: {mcp: {url: "https://notes.invalid/mcp"}, effects: {jot: idempotent}}
  docs: {mcp: {url: "https://docs.invalid/mcp"}, prefix: docs_}
  sh: {exec: {env: {A_TOKEN: "${env:CASES_TEST_TOKEN}"}, dir: /nobody/has/this}}
tools:
  look: {backend: up, http: {method: GET, path: "/orders/{id}"}, input_schema: &one {type: object, properties: {id: {type: string}}, required: [id], additionalProperties: false}}
  put: {backend: up, http: {method: PUT, path: "/orders/{id}"}, input_schema: *one}
  pay: {backend: up, effect: non_idempotent, http: {method: POST, path: /pay}, verify_with: look, input_schema: *one}
  pay_by_key: {backend: up, effect: keyed, http: {method: POST, path: /pay_by_key, idempotency_header: Idempotency-Key}, input_schema: *one}
  pay_politely: {backend: up, effect: non_idempotent, http: {method: POST, path: /pay_politely}, rejects_before_work: [429, 503], input_schema: *one}
  pay_surely:
    backend: up
    effect: non_idempotent
    http: {method: POST, path: /pay_surely}
    input_schema: *one
    verify: {tool: look, args: {id: args.id}, done_when: "result.paid == true", not_run_when: "result.paid == false", not_run_after: 1h}
  pay_oddly: {backend: up, effect: non_idempotent, http: {method: POST, path: /pay_oddly}, input_schema: *one, verify: {tool: run, args: {id: args.id}, done_when: "result.paid == true"}}
  batch:
    backend: up
    effect: non_idempotent
    http: {method: POST, path: /batch}
    input_schema: *one
    partial: {items: result.items, ok: item.ok, error: item.error}
  run: {backend: sh, effect: read_only, exec: {argv: [/nobody/has/this/either], exit_codes: {4: {code: NOT_FOUND}}}, input_schema: *one}
  write: {backend: sh, effect: non_idempotent, exec: {argv: [/nobody/has/this/either]}, input_schema: *one}
  write_by_key: {backend: sh, effect: keyed, exec: {argv: [/nobody/has/this/either]}, input_schema: *one}
  files_stat: {backend: files, effect: read_only, mcp: {name: stat}, input_schema: *one}
profiles: {reader: {tools: ["look"]}, all: {tools: ["*"]}}
default_profile: all
`

// of are the paths of files of a config and of cases.
func of(t *testing.T, cfg, cases string) (casesFile, configFile string) {
	t.Helper()
	dir := t.TempDir()
	casesFile, configFile = filepath.Join(dir, "cases.yaml"), filepath.Join(dir, "sidecall.yaml")
	for path, text := range map[string]string{casesFile: cases, configFile: cfg} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return casesFile, configFile
}

// load holds cases against a config, without a program to stand in for commands.
func load(t *testing.T, cfg, text string) (*Suite, error) {
	t.Helper()
	cases, file := of(t, cfg, text)
	return Load(cases, file, Options{})
}

const head = "cases:\n- case: a\n  "

// What cannot be is told with its place, all of it, before anything runs.
func TestCasesThatCannotBe(t *testing.T) {
	for text, want := range map[string]string{
		"":          `1:1: "cases" is missing`,
		"a: [":      "not YAML",
		"caes:":     "1:1: caes: unknown key; did you mean \"cases\"?",
		"cases: []": "1:8: cases: expected at least 1 item",

		head + "expect: {}":                                                                                            "2:3: cases[0]: expected exactly one of steps, call, found none",
		head + "call: {tool: look}\n  steps: []":                                                                       "2:3: cases[0]: expected exactly one of steps, call, found steps and call",
		head + "call: {tool: look}":                                                                                    "2:3: cases[0]: expect is missing",
		head + "call: {tool: look}\n  expect: {}":                                                                      "4:11: cases[0].expect: it expects nothing",
		head + "call: {toll: look}\n  expect: {}":                                                                      `3:10: cases[0].call.toll: unknown key; did you mean "tool"?`,
		head + "cal: {tool: look}":                                                                                     `cases[0].cal: unknown key; did you mean "call"?`,
		head + "call: {tool: loook}\n  expect: {outcome: ok}":                                                          `3:16: cases[0].call.tool: there is no tool "loook" in the config; did you mean "look"?`,
		head + "call: {tool: loook}\n  fault: 503\n  expect: {code: UNKNOWN_TOOL}":                                     "4:10: cases[0].fault: a tool that there is not has no backend",
		head + "call: {tool: files_move}\n  expect: {outcome: ok}":                                                     `3:16: cases[0].call.tool: there is no tool "files_move"`,
		head + "call: {tool: jott}\n  expect: {outcome: ok}":                                                           `3:16: cases[0].call.tool: there is no tool "jott" in the config; did you mean "jot"?`,
		head + "call: {tool: run}\n  expect: {outcome: ok}":                                                            "3:16: cases[0].call.tool: run lives on the exec backend sh: there is no program here",
		head + "call: {tool: pay_oddly}\n  expect: {outcome: ok}":                                                      "3:16: cases[0].call.tool: pay_oddly is verified with run, which lives on an exec backend",
		head + "call: {tool: look, arguments: [1]}\n  expect: {outcome: ok}":                                           "3:33: cases[0].call.arguments: expected a mapping",
		head + "profile: writer\n  call: {tool: look}\n  expect: {outcome: ok}":                                        `3:12: cases[0].profile: there is no profile "writer"`,
		head + "answers: {lock: {text: a}}\n  call: {tool: look}\n  expect: {outcome: ok}":                             `3:19: cases[0].answers.lock: there is no tool "lock" in the config; did you mean "look"?`,
		head + "answer: {text: a, json: 1}\n  call: {tool: look}\n  expect: {outcome: ok}":                             "3:11: cases[0].answer: expected json or text, found both",
		head + "call: {tool: look, conversation: \"\"}\n  expect: {outcome: ok}":                                       "3:36: cases[0].call.conversation: is empty, and the config requires it (identity.require)",
		head + "call: {tool: look}\n  answer: {headers: {\"a b\": c}}\n  expect: {outcome: ok}":                        `4:29: cases[0].answer.headers["a b"]: is no name of a header`,
		head + "answers: {look: {headers: {a: \"b\\nc\"}}}\n  call: {tool: look}\n  expect: {outcome: ok}":             `3:33: cases[0].answers.look.headers.a: is no value of a header`,
		head + "call: {tool: look}\n  expect: {outcome: good}":                                                         "4:21: cases[0].expect.outcome: ",
		head + "call: {tool: look}\n  expect: {code: TIMED_OUT}":                                                       `4:18: cases[0].expect.code: there is no code "TIMED_OUT"`,
		head + "call: {tool: look}\n  expect: {code: TIMEOUTS}":                                                        `did you mean "TIMEOUT"?`,
		head + "call: {tool: look}\n  expect: {code: TIMEOUT, class: HARD}":                                            "4:34: cases[0].expect.class: the class of TIMEOUT is TRANSIENT",
		head + "call: {tool: look}\n  expect: {class: SOFT}":                                                           `4:19: cases[0].expect.class: there is no class "SOFT"`,
		head + "call: {tool: look}\n  expect: {code: INTERNAL, retryable: true}":                                       "4:39: cases[0].expect.retryable: INTERNAL is always retryable: false",
		head + "call: {tool: look}\n  expect: {outcome: ok, hint: a}":                                                  "4:31: cases[0].expect.hint: only an error has it, and outcome is ok",
		head + "call: {tool: look}\n  expect: {hint: \"a(\"}":                                                          "4:18: cases[0].expect.hint: the pattern does not compile: ",
		head + "call: {tool: look}\n  expect: {effects: 1}":                                                            "4:21: cases[0].expect.effects: look cannot have had 1 effect by then: a read_only tool has none",
		head + "call: {tool: pay}\n  expect: {effects: 2}":                                                             "4:21: cases[0].expect.effects: pay cannot have had 2 effects by then: a non_idempotent tool has one per id",
		head + "call: {tool: pay}\n  fault: 503\n  expect: {effects: 1}":                                               "5:21: cases[0].expect.effects: pay cannot have had 1 effect by then",
		head + "call: {tool: write}\n  expect: {attempts: 2}":                                                          "4:22: cases[0].expect.attempts: write is non_idempotent: it is sent once, unless",
		head + "call: {tool: look}\n  expect: {attempts: 4}":                                                           "4:22: cases[0].expect.attempts: look is sent 3 times at the most",
		head + "call: {tool: look}\n  expect: {attempts: -1}":                                                          "4:22: cases[0].expect.attempts: ",
		head + "call: {tool: pay}\n  expect: {replayed: true}":                                                         "4:22: cases[0].expect.replayed: nothing can be replayed",
		head + "call: {tool: look}\n  fault: timeot\n  expect: {outcome: ok}":                                          `4:10: cases[0].fault: there is no fault "timeot"; did you mean "timeout"?`,
		head + "call: {tool: look}\n  fault: 200\n  expect: {outcome: ok}":                                             "status 200 is no fault: want 400 to 599",
		head + "call: {tool: look}\n  fault: [503, 99]\n  expect: {outcome: ok}":                                       "item 2: status 99 is no fault",
		head + "call: {tool: look}\n  fault: {kind: 503, retry_afer: 1s}\n  expect: {outcome: ok}":                     `unknown key "retry_afer"; did you mean "retry_after"?`,
		head + "call: {tool: look}\n  fault: {kind: 503, retry_after: 1}\n  expect: {outcome: ok}":                     "retry_after: want a duration such as 30s",
		head + "call: {tool: look}\n  fault: {kind: timeout, retry_after: 1s}\n  expect: {outcome: ok}":                "timeout answers no status that could carry it",
		head + "call: {tool: look}\n  fault: {kind: 503, exit_code: 1}\n  expect: {outcome: ok}":                       "exit_code: 503 is no command",
		head + "call: {tool: files_read}\n  fault: {kind: tool_error, exit_code: 256}\n  expect: {outcome: ok}":        "exit_code: want a number from 1 to 255",
		head + "call: {tool: files_read}\n  fault: {kind: tool_error, exit_code: 1}\n  expect: {outcome: ok}":          "cannot have the fault tool_error",
		head + "call: {tool: look}\n  fault: {kind: 503, times: 0}\n  expect: {outcome: ok}":                           "times: want a number from 1 to 1000",
		head + "call: {tool: look}\n  fault: {retry_after: 1s}\n  expect: {outcome: ok}":                               "kind is missing",
		head + "call: {tool: look}\n  fault: true\n  expect: {outcome: ok}":                                            "want a status such as 503, or one of [",
		head + "call: {tool: batch}\n  fault: partial\n  expect: {outcome: ok}":                                        "partial: want json",
		head + "call: {tool: look}\n  fault: {kind: huge, text: a}\n  expect: {outcome: ok}":                           "huge answers nothing, or its own",
		head + "call: {tool: look}\n  fault: tool_error\n  expect: {outcome: ok}":                                      "an http backend cannot have the fault tool_error",
		head + "call: {tool: files_read}\n  fault: 503\n  expect: {outcome: ok}":                                       "4:10: cases[0].fault: an mcp server over stdin and stdout cannot have the fault 503",
		head + "fault: 503\n  steps: [{call: {tool: look}, expect: {outcome: ok}}]":                                    "2:3: cases[0]: fault, answer and expect belong to a call",
		head + "steps: [{expect: {outcome: ok}}]":                                                                      "cases[0].steps[0]: expected exactly one of call, found none",
		head + "call: {tool: look}\n  expect: {outcome: ok}\n- case: a\n  call: {tool: look}\n  expect: {outcome: ok}": "5:9: cases[1].case: the name of case 1 too",
	} {
		_, err := load(t, shop, text)
		if _, ok := errors.AsType[config.Problems](err); !ok || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "cases.yaml") {
			t.Errorf("%s\nis told:\n%v\nand not %q", text, err, want)
		}
	}
}

// Everything that is wrong is told in one run.
func TestAllThatIsWrongIsTold(t *testing.T) {
	_, err := load(t, shop, head+"call: {tool: loook}\n  fault: 1\n  expect: {code: NO}")
	problems, _ := errors.AsType[config.Problems](err)
	if len(problems) != 3 {
		t.Errorf("%v", err)
	}
}

// What can be is not refused.
func TestCasesThatCanBe(t *testing.T) {
	for _, text := range []string{
		head + "call: {tool: loook}\n  expect: {code: UNKNOWN_TOOL}",
		head + "call: {tool: pay_politely}\n  fault: [503]\n  expect: {attempts: 2, effects: 1}",
		head + "call: {tool: pay}\n  fault: {kind: 503, effect: true}\n  expect: {effects: 1}",
		head + "call: {tool: files_anything}\n  fault: tool_error\n  expect: {outcome: error}",
		head + "call: {tool: jot}\n  expect: {effects: 1}",
		head + "call: {tool: docs_anything}\n  fault: 503\n  expect: {outcome: error}",
		head + "profile: reader\n  call: {tool: pay}\n  expect: {code: PERMISSION_DENIED, attempts: 0}",
		head + "steps:\n  - {call: {tool: pay, id: a}, expect: {effects: 1}}\n  - {call: {tool: pay, id: b}, expect: {effects: 2}}\n  - {call: {tool: pay, id: b}, expect: {replayed: true}}",
	} {
		if _, err := load(t, shop, text); err != nil {
			t.Errorf("%s\n%v", text, err)
		}
	}
}

// A config that is wrong is told of as such, and one that is not there.
func TestAConfigThatIsWrong(t *testing.T) {
	cases, cfg := of(t, "nosuch: 1\n", head+"call: {tool: look}\n  expect: {outcome: ok}")
	if _, err := Load(cases, cfg, Options{}); err == nil || !strings.Contains(err.Error(), "sidecall.yaml:1:1: nosuch: unknown key") {
		t.Errorf("%v", err)
	}
	cases, unusable := of(t, shop+"x: {}\n", head+"call: {tool: look}\n  expect: {outcome: ok}")
	if _, err := Load(cases, unusable, Options{}); err == nil || !strings.Contains(err.Error(), "x: unknown key") {
		t.Errorf("%v", err)
	}
	cases, uncompiled := of(t, strings.Replace(shop, "type: string", "type: strong", 1), head+"call: {tool: look}\n  expect: {outcome: ok}")
	_, err := Load(cases, uncompiled, Options{})
	if _, ok := errors.AsType[config.Problems](err); !ok || !strings.Contains(err.Error(), "input_schema") {
		t.Errorf("a schema that does not compile: %v", err)
	}
	if _, err := Load(cases, cfg+"x", Options{}); err == nil || !strings.Contains(err.Error(), "cannot read the config file") {
		t.Errorf("%v", err)
	}
	if _, err := Load(cases+"x", cfg, Options{}); err == nil || !strings.Contains(err.Error(), "cannot read the file: no such file") {
		t.Errorf("%v", err)
	}
}
