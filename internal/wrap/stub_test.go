package wrap_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/app"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/mcptool"
	"github.com/sidecall/sidecall/internal/backend/process"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/observed"
	"github.com/sidecall/sidecall/internal/wrap"
)

const (
	stubEnv   = "SIDECALL_TEST_STUB"
	ledgerEnv = "SIDECALL_TEST_LEDGER"
)

// TestMain lets this program be an MCP server that keeps a ledger of what it does.
func TestMain(m *testing.M) {
	switch kind := os.Getenv(stubEnv); kind {
	case "":
	case "sdk":
		sdkServer()
		return
	default:
		(&stub{kind: kind, ledger: os.Getenv(ledgerEnv), say: sayOut, exit: os.Exit}).serve()
		return
	}
	os.Exit(m.Run())
}

// stub is an MCP server, written without any library so that what it says is known to the byte.
type stub struct {
	kind, ledger string
	say          func(line string)
	mu           sync.Locker // held while it hears; nil of one that hears one message after the other
	exit         func(code int)
	// held are the ids of calls that wait for stub/go.
	held []json.RawMessage
	// asker is the call that has asked the client.
	asker json.RawMessage
}

type stubMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Params struct {
		Cursor    string          `json:"cursor"`
		Name      string          `json:"name"`
		State     string          `json:"requestState"`
		RequestID json.RawMessage `json:"requestId"`
		Meta      map[string]any  `json:"_meta"`
	} `json:"params"`
}

const (
	stubTools = `[{"name":"charge","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}}}},` +
		`{"name":"wait","inputSchema":{"type":"object"}}, {"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},` +
		`{"name":"die","inputSchema":{"type":"object"}},{"name":"ask","inputSchema":{"type":"object"}},{"name":"longid","inputSchema":{"type":"object"}},{"name":"long","inputSchema":{"type":"object"}},` +
		`{"name":"askno","inputSchema":{"type":"object"}},{"name":"fail","inputSchema":{"type":"object"}},{"name":"refuse","inputSchema":{"type":"object"}},{"name":"step","inputSchema":{"type":"object","properties":{"n":{}},"required":["n"]}},` +
		`{"name":"giant","inputSchema":{"type":"object"}},{"name":"later","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}},`
	stubTools2 = `[{"name":"params","inputSchema":{"type":"object"}},{"name":"dotted.name","inputSchema":{"type":"object"}},` +
		`{"name":"odd","inputSchema":{"type":"object","properties":{"a":{"$ref":"https://example.com/nowhere.json"}}}},` +
		`{"name":"blocks","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}]`
	stubHeaders = `[{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},{"name":"tagged","inputSchema":{"type":"object","properties":{` +
		`"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"},"on":{"type":"boolean","x-mcp-header":"On"},"none":{"type":"string","x-mcp-header":"None"},` +
		`"at":{"type":"object","properties":{"zone":{"type":"string","x-mcp-header":"Zone"}}},"other":{"type":"string"}}}}]`
	chargeResult = `{"content":[ {"type":"text","text":"charged \u00e9"} ],  "z":{"b":1.0,"a":12345678901234567890}}`
	failResult   = `{"isError":true,"content":[{"type":"text","text":"the card is stolen"}]}`
	refusal      = `{"code":-32050,"message":"not today","data":{"why":"closed"}}`
	taskHandle   = `{"task":{"taskId":"t\u00e9 1","status":"working",  "ttl":60000,"pollInterval":1e3}}`
	question     = `{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create"}},"requestState":"s1"}`
)

func (s *stub) serve() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimSuffix(line, "\n")
		var m stubMessage
		if json.Unmarshal([]byte(line), &m) != nil {
			fmt.Fprintln(os.Stderr, "the stub cannot read", line)
			continue
		}
		s.hear(line, m)
	}
}

func sayOut(line string) { _, _ = os.Stdout.WriteString(line + "\n") }

func (s *stub) answer(id json.RawMessage, result string) {
	s.say(`{"jsonrpc":"2.0", "result":` + result + `, "id":` + string(id) + `}`)
}

func (s *stub) refuse(id json.RawMessage, why string) {
	s.say(`{"jsonrpc":"2.0","id":` + string(id) + `,"error":` + why + `}`)
}

func (s *stub) hear(line string, m stubMessage) {
	switch m.Method {
	case "initialize":
		s.enter("initialize")
		s.say("this is no message")
		switch s.kind {
		case "mute":
			return
		case "modern":
			s.refuse(m.ID, `{"code":-32022,"message":"unsupported protocol version","data":{"supported":["2026-07-28"]}}`)
			return
		}
		can := ``
		if s.kind == "keyed" {
			can = `,"experimental":{"dev.sidecall/idempotency":{"version":1}}`
		}
		s.answer(m.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}`+can+`},"serverInfo":{"name":"stub","version":"1"}}`)
	case "notifications/initialized":
		s.enter("initialized")
	case "notifications/cancelled":
		s.enter("cancelled")
	case "tools/list":
		tools, next := stubTools+`{"name":"last","inputSchema":{"type":"object"}}]`, `,"nextCursor":"2"`
		if m.Params.Cursor == "2" {
			tools, next = stubTools2, ``
		}
		if s.kind == "headers" {
			tools, next = stubHeaders, ``
		}
		if s.kind == "reader" {
			tools, next = `[{"name":"read_output","inputSchema":{"type":"object"}},{"name":"long","inputSchema":{"type":"object"}}]`, ``
		}
		s.answer(m.ID, `{"tools":`+tools+next+`,"ttlMs":5}`)
	case "tools/call":
		s.call(line, m)
	case "stub/line", "tasks/get", "tasks/result", "tasks/update", "tasks/cancel": // what exactly has arrived
		s.answer(m.ID, `{"line":"`+base64.StdEncoding.EncodeToString([]byte(line))+`"}`)
	case "stub/mute", "subscriptions/listen":
		s.enter("mute")
	case "stub/later": // when its test allows it, if it is not asked to end before
		s.enter("later")
		go func() {
			for text := ""; !strings.Contains(text, "now\n"); time.Sleep(10 * time.Millisecond) {
				read, _ := os.ReadFile(s.ledger)
				text = string(read)
			}
			if s.mu != nil {
				s.mu.Lock()
				defer s.mu.Unlock()
			}
			s.answer(m.ID, `{"later":true}`)
		}()
	case "stub/exit":
		s.exit(3)
	case "stub/go":
		for _, id := range s.held {
			s.answer(id, `{"content":[{"type":"text","text":"at last"}]}`)
		}
		s.held = nil
	case "": // the client's answer to what was asked
		s.answer(s.asker, `{"content":[{"type":"text","text":"the client says `+strings.ReplaceAll(string(m.Result), `"`, `'`)+`"}]}`)
	default:
		s.refuse(m.ID, `{"code":-32601,"message":"no such method"}`)
	}
}

func (s *stub) call(line string, m stubMessage) {
	s.enter(m.Params.Name)
	if token, ok := m.Params.Meta["progressToken"]; ok {
		text, _ := json.Marshal(token)
		s.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(text) + `,"progress":1}}`)
	}
	switch m.Params.Name {
	case "charge", "dotted.name", "odd", "tagged":
		s.answer(m.ID, chargeResult)
	case "wait", "look":
		s.held = append(s.held, m.ID)
		s.say(`{"jsonrpc":"2.0","method":"stub/held"}`)
	case "die":
		if s.kind == "keyed" { // the first time, before its answer
			key, _ := m.Params.Meta["dev.sidecall/idempotencyKey"].(string)
			s.enter("key " + key)
			if text, _ := os.ReadFile(s.ledger); strings.Count(string(text), "die\n") > 1 {
				s.answer(m.ID, chargeResult)
				return
			}
		}
		s.exit(2)
	case "ask":
		s.asker = m.ID
		s.say(`{"jsonrpc":"2.0","id":"q1","method":"sampling/createMessage","params":{"x":  1}}`)
	case "askno": // and does not wait for the answer
		s.say(`{"jsonrpc":"2.0","id":"q2","method":"sampling/createMessage"}`)
		s.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q2"}}`)
		s.answer(m.ID, chargeResult)
	case "longid":
		s.asker = m.ID
		s.say(`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 300) + `","method":"sampling/createMessage"}`)
	case "long":
		text, _ := json.Marshal(strings.Repeat("a line of text\n", 1000) + "the end")
		s.answer(m.ID, `{"content":[{"type":"text","text":`+string(text)+`},{"type":"image","data":"aGk=","mimeType":"image/png"}],"structuredContent":{"all":`+string(text)+`}}`)
	case "blocks":
		s.answer(m.ID, `{"content":[{"type":"text","text":"a"},{"type":"image","data":"aGk=","mimeType":"image/png"},{"type":"text","text":"b"},`+
			`{"type":"resource","resource":{"uri":"file:///x","mimeType":"text/plain","text":"t"}},{"type":"resource_link","uri":"file:///y","name":"y"}],"structuredContent":{"a":1}}`)
	case "fail":
		s.answer(m.ID, failResult)
	case "refuse":
		s.refuse(m.ID, refusal)
	case "step":
		if m.Params.State == "" {
			s.answer(m.ID, question)
			return
		}
		s.answer(m.ID, `{"content":[{"type":"text","text":"done with `+m.Params.State+`"}]}`)
	case "later":
		s.answer(m.ID, taskHandle)
	case "giant":
		s.answer(m.ID, `{"content":[{"type":"text","text":"`+strings.Repeat("x", 40<<20)+`"}]}`)
	case "read_output":
		s.answer(m.ID, `{"content":[{"type":"text","text":"the server's own"}]}`)
	case "params":
		text, _ := json.Marshal(line)
		s.answer(m.ID, `{"content":[{"type":"text","text":`+string(text)+`}]}`)
	}
}

// enter writes what is done into the ledger.
func enter(what string) { (&stub{ledger: os.Getenv(ledgerEnv)}).enter(what) }

func (s *stub) enter(what string) {
	f, err := os.OpenFile(s.ledger, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	_, _ = f.WriteString(what + "\n")
	_ = f.Close()
}

// patience bounds every wait of a test for what has to come.
const patience = 30 * time.Second

// world is a client, a wrapper and a stub.
type world struct {
	*testing.T
	in     *io.PipeWriter
	heard  chan string
	missed []string // what was heard and not awaited yet
	ledger string
	log    *logged
	site   *site // nil where the server is a process
	served chan error
	end    func() // what a signal does
}

type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

const settings = `
identity: {require: []}
store: {memory: {}}
defaults: {max_output_chars: 500, retry: {max_attempts: 3, base: 1ms, max: 2ms}}
default_profile: wrap
profiles: {wrap: {loop_guard: {off: true}}}
backends: {server: {mcp: {command: [sh], trust_annotations: true}, trust: trusted, effects: {die: EFFECTS}, tools: {step: {effect: non_idempotent, effect_key: {args: [n], scope: tenant}}}}}
`

// start begins a session, as far as the handshake where greeted.
func start(t *testing.T, kind string, greeted bool) *world {
	t.Helper()
	return startObserved(t, kind, greeted, nil)
}

// startObserved is start of a wrapper that may only observe.
func startObserved(t *testing.T, kind string, greeted bool, observe *observed.Log) *world {
	t.Helper()
	w := &world{T: t, ledger: filepath.Join(t.TempDir(), "ledger"), log: &logged{}, heard: make(chan string, 1000), served: make(chan error, 1)}
	in, toRelay := io.Pipe()
	fromRelay, out := io.Pipe()
	w.in = toRelay
	log := slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelInfo})
	spec := process.Spec{Argv: []string{os.Args[0]}, Env: append(os.Environ(), stubEnv+"="+kind, ledgerEnv+"="+w.ledger)}
	open := func(l mcptool.Listener) (wrap.Link, error) { return mcptool.StartProcess(spec, wrap.MaxMessage, l) }
	if strings.HasPrefix(t.Name(), "TestOverHTTP") {
		w.site = newSite(t, kind, w.ledger)
		open = w.site.open(slog.New(log))
	}
	relay := wrap.New(wrap.Options{
		Name: "server", Tenant: "wrap", In: in, Out: out, Log: slog.New(log), Observe: observe, Shown: 500,
		Open: open, Handshake: map[string]time.Duration{"mute": 100 * time.Millisecond}[kind],
	})
	effects := "non_idempotent"
	if strings.HasPrefix(t.Name(), "TestAKeyedTool") {
		effects = "keyed"
	}
	cfg, err := config.Parse("test", []byte(strings.Replace(settings, "EFFECTS", effects, 1)), config.System())
	if err != nil {
		t.Fatal(err)
	}
	inner, err := app.StartInner(t.Context(), cfg, app.Options{Log: log, Brought: app.Brought{Backends: map[string]backend.Backend{"server": relay}}})
	if err != nil {
		t.Fatal(err)
	}
	life, end := context.WithCancel(context.Background())
	w.end = end
	t.Cleanup(end)
	leave := 100 * time.Millisecond
	if kind == "patient" {
		leave = patience
	}
	go func() {
		w.served <- relay.Serve(life, inner, leave)
		_ = out.Close()
	}()
	go func() {
		defer close(w.heard)
		lines := bufio.NewReaderSize(fromRelay, 1<<20)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			w.heard <- strings.TrimSuffix(line, "\n")
		}
	}()
	t.Cleanup(func() {
		_ = w.in.Close()
		for range w.heard { // to its end
		}
		if err := inner.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(w.log)
		}
	})
	if greeted {
		w.say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
		w.await(`"serverInfo"`)
		w.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return w
}

func (w *world) say(line string) {
	w.Helper()
	if _, err := io.WriteString(w.in, line+"\n"); err != nil {
		w.Fatal(err)
	}
}

// await returns the first message that has a text in it, of those that were not awaited yet.
func (w *world) await(part string) string {
	w.Helper()
	if i := slices.IndexFunc(w.missed, func(line string) bool { return strings.Contains(line, part) }); i >= 0 {
		line := w.missed[i]
		w.missed = slices.Delete(w.missed, i, i+1)
		return line
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case line, ok := <-w.heard:
			if !ok {
				w.Fatalf("the wrapper has ended before %s came", part)
			}
			if strings.Contains(line, part) {
				return line
			}
			w.missed = append(w.missed, line)
		case <-timer.C:
			w.Fatalf("nothing with %s comes", part)
		}
	}
}

// ask sends a request and returns its answer.
func (w *world) ask(id, method, params string) string {
	w.Helper()
	w.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`)
	return w.answer(id)
}

// answer returns the answer to a request.
func (w *world) answer(id string) string {
	w.Helper()
	if i := slices.IndexFunc(w.missed, func(line string) bool { return isAnswer(line, id) }); i >= 0 {
		line := w.missed[i]
		w.missed = slices.Delete(w.missed, i, i+1)
		return line
	}
	for {
		if line := w.await(`"id":` + id); isAnswer(line, id) {
			return line
		}
	}
}

func isAnswer(line, id string) bool {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	return json.Unmarshal([]byte(line), &m) == nil && m.Method == "" && string(m.ID) == id
}

// call calls a tool under a tool use id.
func (w *world) call(id, name, use string) string {
	w.Helper()
	return w.ask(id, "tools/call", `{"name":"`+name+`","arguments":{},"_meta":{"dev.sidecall/toolUseId":"`+use+`"}}`)
}

// entries counts what stands in the ledger.
func (w *world) entries(what string) int {
	w.Helper()
	text, err := os.ReadFile(w.ledger)
	if err != nil && !os.IsNotExist(err) {
		w.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		if line == what+"\n" {
			n++
		}
	}
	return n
}

// until waits for a condition.
func (w *world) until(what string, condition func() bool) {
	w.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("it is not so: %s", what)
		}
	}
}
