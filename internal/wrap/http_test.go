package wrap_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/backend/conn"
	"github.com/sidecall/sidecall/internal/backend/mcptool"
	"github.com/sidecall/sidecall/internal/observed"
	"github.com/sidecall/sidecall/internal/wrap"
)

// site is the stub over streamable HTTP: what it says goes to the stream of the request that it
// answers, or that it is said in.
type site struct {
	*httptest.Server

	stub stub
	mu   sync.Mutex
	// sessions counts those that were opened, known is the last one.
	sessions int
	known    string
	// streams are the requests that wait, by their ids; said is what is said in the one that is heard.
	streams map[string]chan string
	said    []string
	// plain: it answers in JSON. listens: it has a stream for what it says by itself. keeps: it knows
	// the sessions before the last one.
	plain, listens, keeps bool
	own                   chan string
	first                 chan string // own of the first session, where that is another
	// cuts is how many streams break off before their answer, which is kept for who resumes; busy how many of
	// them are told to come again.
	cuts, busy int
	kept       map[string][]string
	// headers are those of each POST, by its method of MCP.
	headers map[string]http.Header
	gets    []string // the Last-Event-ID of each GET
	left    int      // sessions that were ended
	dying   sync.WaitGroup
	refuse  func(w http.ResponseWriter, r *http.Request, m stubMessage) bool
}

func newSite(t *testing.T, kind, ledger string) *site {
	t.Helper()
	s := &site{streams: map[string]chan string{}, headers: map[string]http.Header{}, own: make(chan string, 10), kept: map[string][]string{}}
	s.stub = stub{kind: kind, ledger: ledger, say: s.say, mu: &s.mu, exit: func(int) {
		s.known = ""
		s.dying.Go(s.CloseClientConnections)
		panic(http.ErrAbortHandler)
	}}
	s.Server = httptest.NewServer(s)
	if strings.HasPrefix(kind, "sdk") {
		server := func(*http.Request) *mcp.Server { return newSDKServer(s.stub.enter) }
		with, without := mcp.NewStreamableHTTPHandler(server, nil), mcp.NewStreamableHTTPHandler(server, &mcp.StreamableHTTPOptions{Stateless: true})
		s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if kind == "sdk" && r.Header.Get("Mcp-Protocol-Version") >= "2026-07-28" {
				without.ServeHTTP(w, r)
			} else {
				with.ServeHTTP(w, r)
			}
		})
	}
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *site) open(log *slog.Logger) func(mcptool.Listener) (wrap.Link, error) {
	return func(l mcptool.Listener) (wrap.Link, error) {
		return mcptool.RemoteConfig{
			URL: s.URL, Headers: map[string]string{"Authorization": "Bearer x"}, MaxMessage: wrap.MaxMessage, Logger: log,
			HTTPClient: &http.Client{Transport: &http.Transport{DialContext: conn.NewSet().Dialer(new(net.Dialer).DialContext)}},
		}.Open(l), nil
	}
}

// say has the stub's words go where they belong. The lock is held.
func (s *site) say(line string) {
	var m stubMessage
	if json.Unmarshal([]byte(line), &m) == nil && m.Method == "" && m.ID != nil {
		if stream := s.streams[string(m.ID)]; stream != nil {
			stream <- line
			close(stream)
			delete(s.streams, string(m.ID))
			return
		}
	}
	s.said = append(s.said, line)
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if r.Header.Get("Authorization") != "Bearer x" {
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	switch r.Method {
	case http.MethodGet:
		s.get(w, r)
	case http.MethodDelete:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.left++
	default:
		s.post(w, r, string(body))
	}
}

func (s *site) post(w http.ResponseWriter, r *http.Request, line string) {
	var m stubMessage
	if json.Unmarshal([]byte(line), &m) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	stream, said, ok := s.hear(w, r, line, m)
	if !ok {
		return
	}
	if stream == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if s.plain {
		w.Header().Set("Content-Type", "application/json")
		select {
		case line := <-stream:
			fmt.Fprintln(w, line)
		case <-r.Context().Done():
		}
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := events{w, "s" + string(m.ID) + "-", 0}
	for _, line := range said {
		out.send(line)
	}
	out.flush()
	if s.cut(r, m, stream) {
		out.send("")
		panic(http.ErrAbortHandler)
	}
	select {
	case line := <-stream:
		out.send(line)
	case <-r.Context().Done():
		s.stub.enter("stream ended")
	}
}

// hear has the stub hear a message; false where it was refused.
func (s *site) hear(w http.ResponseWriter, r *http.Request, line string, m stubMessage) (stream chan string, said []string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.headers[m.Method] = r.Header.Clone()
	if s.refuse != nil && s.refuse(w, r, m) {
		return nil, nil, false
	}
	stateless := r.Header.Get("Mcp-Protocol-Version") >= "2026-07-28"
	switch {
	case m.Method == "initialize":
		s.sessions++
		s.known = fmt.Sprint("session ", s.sessions)
		w.Header().Set("Mcp-Session-Id", s.known)
	case !stateless && !s.keeps && r.Header.Get("Mcp-Session-Id") != s.known:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`)
		return nil, nil, false
	}
	if m.ID != nil && m.Method != "" {
		stream = make(chan string, 1)
		s.streams[string(m.ID)] = stream
	}
	s.said = nil
	s.stub.hear(line, m)
	return stream, s.said, true
}

// cut takes the answer of a call from its stream, if that is to break off, and keeps it.
func (s *site) cut(r *http.Request, m stubMessage, stream chan string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Method != "tools/call" || s.cuts == 0 {
		return false
	}
	s.cuts--
	select {
	case line := <-stream:
		s.kept["s"+string(m.ID)+"-1"] = []string{line}
	case <-r.Context().Done():
	}
	return true
}

// get is the stream of what the stub says by itself, or the rest of another one.
func (s *site) get(w http.ResponseWriter, r *http.Request) {
	after := r.Header.Get("Last-Event-ID")
	s.mu.Lock()
	s.gets = append(s.gets, after)
	kept, listens, unknown, busy := s.kept[after], s.listens, !s.keeps && r.Header.Get("Mcp-Session-Id") != s.known, after != "" && s.busy > 0
	if busy {
		s.busy--
	}
	s.mu.Unlock()
	switch {
	case busy:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case unknown:
		w.WriteHeader(http.StatusNotFound)
		return
	case !listens && kept == nil:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := events{w, "rest-", 0}
	for _, line := range kept {
		out.send(line)
	}
	out.flush()
	if kept != nil {
		return
	}
	own := s.own
	if s.first != nil && r.Header.Get("Mcp-Session-Id") == "session 1" {
		own = s.first
	}
	for {
		select {
		case line := <-own:
			if line == "end" {
				return
			}
			out.send(line)
		case <-r.Context().Done():
			s.stub.enter("listened")
			return
		}
	}
}

// events writes events.
type events struct {
	http.ResponseWriter

	prefix string
	n      int
}

func (e *events) send(line string) {
	e.n++
	fmt.Fprintf(e, "retry: 1\nid: %s%d\n", e.prefix, e.n)
	if line != "" {
		fmt.Fprintf(e, "data: %s\n", line)
	}
	fmt.Fprint(e, "\n")
	e.flush()
}

func (e *events) flush() { e.ResponseWriter.(http.Flusher).Flush() }

// What holds of a server that is a process holds of one behind a URL.
func TestOverHTTP(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T){
		"bytes": TestMessagesPassByteForByte, "once": TestACallIsMadeOnce, "errors": TestErrorsOfTheServerPass, "parameters": TestParametersGoOn,
		"progress": TestProgressReachesTheClient, "asks": TestTheServerAsksTheClient, "end": TestTheEndWaitsForCalls, "longid": TestAServerWithLongIDs,
		"cancelled effect": TestACancelledEffectSettles, "cancelled look": TestACancelledLookEnds,
		"bad input": TestBadInput, "giants": TestGiants, "cut": TestALongResultIsCut, "rounds": TestRounds, "listing": TestListing,
		"read_output": TestAReadOutputOfTheServers, "odd": TestOddTools, "blocks": TestBlocksOfARecordedResult, "no ids": TestAClientWithoutIDs,
		"no handshake": TestAClientWithoutAHandshake, "observing": TestObserving,
		"revisions": TestEveryRevision,
	} {
		t.Run(name, test)
	}
}

// A server that has forgotten the session is greeted again, and a call that it refused for that is
// made. What was under way when it died is of unknown outcome.
func TestOverHTTPASessionIsForgotten(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", true)
	w.say(`{"jsonrpc":"2.0","id":9,"method":"stub/mute"}`)
	w.until("the server works on it", func() bool { return w.entries("mute") == 1 })
	has(t, w.call("1", "die", "d"), "OUTCOME_UNKNOWN", `"isError":true`)
	has(t, w.answer("9"), `"error"`, "before its answer came")
	w.site.dying.Wait() // a call on a kept connection that ends behind its first byte is of unknown outcome
	has(t, w.call("2", "die", "d"), "OUTCOME_UNKNOWN")
	has(t, w.call("3", "charge", "c"), "charged")
	if w.entries("die") != 1 || w.entries("initialize") != 2 || w.entries("initialized") != 2 || w.entries("charge") != 1 {
		t.Errorf("it died %d times, and was greeted %d and %d times", w.entries("die"), w.entries("initialize"), w.entries("initialized"))
	}
}

// A request of the client that is refused for a forgotten session is sent in the next one.
func TestOverHTTPARequestFindsNoSession(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", true)
	has(t, w.call("0", "charge", "before"), "charged")
	w.site.mu.Lock()
	w.site.known = ""
	w.site.mu.Unlock()
	has(t, w.ask("1", "stub/line", `{"a":  1}`), `"line"`)
	if n := w.entries("initialize"); n != 2 {
		t.Errorf("it was greeted %d times", n)
	}
}

// One that only the server can read, as who observes passes on, is sent in the next session too.
func TestOverHTTPWhatNobodyReadsFindsNoSession(t *testing.T) {
	t.Parallel()
	log := observed.To(filepath.Join(t.TempDir(), "observed"), slog.New(slog.DiscardHandler))
	defer log.Close()
	w := startObserved(t, "plain", true, log)
	has(t, w.ask("0", "stub/line", `{}`), `"line"`)
	w.site.mu.Lock()
	w.site.known = ""
	w.site.mu.Unlock()
	sent := `{"jsonrpc":"2.0","id":1,"method":"stub/line","method":"stub/line"}`
	w.say(sent)
	has(t, w.answer("1"), base64.StdEncoding.EncodeToString([]byte(sent)))
}

// A 404 is the end of the request that it answers, and of no other: those that the server works on are
// answered, by whoever is asked in them, and can be cancelled, while what comes next has the next session.
func TestOverHTTPOneRequestFindsNoSession(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", true)
	w.site.mu.Lock()
	w.site.keeps = true
	w.site.refuse = func(rw http.ResponseWriter, _ *http.Request, m stubMessage) bool {
		if m.Params.Name != "blocks" {
			return false
		}
		http.Error(rw, "default backend - 404", http.StatusNotFound)
		return true
	}
	w.site.mu.Unlock()
	w.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`)
	w.await("stub/held")
	w.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask"}}`)
	w.await("sampling")
	w.say(`{"jsonrpc":"2.0","id":3,"method":"stub/later"}`)
	w.say(`{"jsonrpc":"2.0","id":4,"method":"stub/mute"}`)
	w.until("the server works on all", func() bool { return w.entries("later") == 1 && w.entries("mute") == 1 })
	has(t, w.call("5", "blocks", "b"), "OUTCOME_UNKNOWN")
	has(t, w.call("6", "charge", "c"), "charged")
	if n := w.entries("initialize"); n != 2 {
		t.Errorf("it was greeted %d times", n)
	}
	w.say(`{"jsonrpc":"2.0","id":"q1","result":{"role":"user"}}`)
	has(t, w.answer("2"), "the client says")
	w.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`)
	w.until("the stream of what is cancelled has ended", func() bool { return w.entries("stream ended") == 1 })
	w.site.stub.enter("now")
	w.say(`{"jsonrpc":"2.0","method":"stub/go"}`)
	has(t, w.answer("3"), `"later":true`)
	has(t, w.answer("1"), "at last")
	w.until("the session that was given up has ended", func() bool {
		w.site.mu.Lock()
		defer w.site.mu.Unlock()
		return w.site.left == 1
	})
}

// A request that waits for the next session can be cancelled: it is not sent there.
func TestOverHTTPARequestThatFindsNoSessionIsCancelled(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", true)
	has(t, w.call("0", "charge", "before"), "charged")
	away := true
	w.site.mu.Lock()
	w.site.known = ""
	w.site.refuse = func(rw http.ResponseWriter, _ *http.Request, m stubMessage) bool {
		if m.Method == "initialize" && away {
			http.Error(rw, "not now", http.StatusServiceUnavailable)
		}
		return m.Method == "initialize" && away
	}
	w.site.mu.Unlock()
	w.say(`{"jsonrpc":"2.0","id":1,"method":"stub/later"}`)
	w.until("it waits for the next session", func() bool { return strings.Contains(w.log.String(), "begun again") })
	w.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	w.site.mu.Lock()
	away = false
	w.site.mu.Unlock()
	has(t, w.call("2", "charge", "after"), "charged")
	if w.entries("later") != 0 {
		t.Error("it was sent in the next session")
	}
}

// What a server works on it may speak of where it says things by itself: what it asks there reaches the
// client, and the answer the server, for as long as the call is under way.
func TestOverHTTPWhatIsUnderWayAsksUnasked(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", false)
	w.site.listens, w.site.keeps, w.site.first = true, true, make(chan string, 10)
	w.site.refuse = func(rw http.ResponseWriter, _ *http.Request, m stubMessage) bool {
		if m.Params.Name == "blocks" {
			http.Error(rw, "default backend - 404", http.StatusNotFound)
		}
		return m.Params.Name == "blocks"
	}
	w.say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
	w.await(`"serverInfo"`)
	w.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	w.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`)
	w.await("stub/held")
	has(t, w.call("2", "blocks", "b"), "OUTCOME_UNKNOWN")
	has(t, w.call("3", "charge", "c"), "charged")
	w.site.first <- `{"jsonrpc":"2.0","id":"q9","method":"roots/list"}`
	w.await("roots/list")
	w.say(`{"jsonrpc":"2.0","id":"q9","result":{"roots":[]}}`)
	w.say(`{"jsonrpc":"2.0","method":"stub/go"}`)
	has(t, w.answer("1"), "at last")
	w.until("the stream of the first session has ended", func() bool { return w.entries("listened") == 1 })
}

// The answer to a request whose stream breaks off is asked for, and nothing is sent again.
func TestOverHTTPAStreamIsResumed(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", true)
	w.site.mu.Lock()
	w.site.cuts, w.site.busy = 1, 1
	w.site.mu.Unlock()
	if got := w.call("1", "charge", "a"); got != `{"jsonrpc":"2.0","id":1,"result":`+chargeResult+`}` {
		t.Error(got)
	}
	w.site.mu.Lock()
	defer w.site.mu.Unlock()
	if n := w.entries("charge"); n != 1 || !strings.HasSuffix(strings.Join(w.site.gets, " "), "-1") {
		t.Errorf("charged %d times, asked for %q", n, w.site.gets)
	}
}

// What the server says by itself reaches the client, from the next stream on when one has ended.
func TestOverHTTPWhatIsSaidUnasked(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", false)
	w.site.listens = true
	w.say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
	w.await(`"serverInfo"`)
	w.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for _, line := range []string{`{"jsonrpc":"2.0", "method":"stub/one"}`, "end", `{"jsonrpc":"2.0","method":"stub/two"}`} {
		w.site.own <- line
	}
	if got := w.await("stub/one"); got != `{"jsonrpc":"2.0", "method":"stub/one"}` {
		t.Error(got)
	}
	w.await("stub/two")
	w.site.mu.Lock()
	defer w.site.mu.Unlock()
	if got := strings.Join(w.site.gets, ","); got != ",rest-1" {
		t.Errorf("the streams were asked for behind %q", got)
	}
}

// A server that answers in JSON, and its session, which ends with the client.
func TestOverHTTPInJSON(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", false)
	w.site.plain = true
	w.say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
	w.await(`"serverInfo"`)
	w.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if got := w.call("1", "charge", "a"); got != `{"jsonrpc":"2.0","id":1,"result":`+chargeResult+`}` {
		t.Error(got)
	}
	_ = w.in.Close()
	if err := <-w.served; err != nil {
		t.Error(err)
	}
	w.site.mu.Lock()
	defer w.site.mu.Unlock()
	if got := w.site.headers["tools/call"]; got.Get("Mcp-Session-Id") != "session 1" || got.Get("Mcp-Protocol-Version") != "2025-11-25" || got.Get("Mcp-Method") != "" || w.site.left != 1 {
		t.Errorf("%v, %d sessions were ended", got, w.site.left)
	}
}

// A refusal of HTTP says what it proves: a call that was not carried out is made again, one of which
// nobody knows is not, and what the server says in MCP is what the client gets.
func TestOverHTTPRefusals(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", true)
	has(t, w.call("0", "charge", "before"), "charged")
	status, body := 0, ""
	w.site.mu.Lock()
	w.site.refuse = func(w http.ResponseWriter, r *http.Request, m stubMessage) bool {
		if m.Method != "tools/call" && m.Method != "stub/line" || status == 0 {
			return false
		}
		answer, code := strings.ReplaceAll(body, "ID", string(m.ID)), status
		if strings.HasPrefix(body, "{") {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, answer)
		return true
	}
	w.site.mu.Unlock()
	refusing := func(code int, text string) {
		w.site.mu.Lock()
		defer w.site.mu.Unlock()
		status, body = code, text
	}
	refusing(503, "closed")
	has(t, w.call("1", "charge", "unknown"), "OUTCOME_UNKNOWN")
	has(t, w.ask("2", "stub/line", "{}"), `"code":-32603`, "503")
	refusing(401, "who?")
	has(t, w.call("3", "charge", "unauthenticated"), "UNAUTHENTICATED")
	refusing(400, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32020,"message":"no",  "data":{"a":1}}}`)
	if got := w.ask("4", "stub/line", "{}"); got != `{"jsonrpc":"2.0","id":4,"error":{"code":-32020,"message":"no",  "data":{"a":1}}}` {
		t.Error(got)
	}
	refusing(200, "hello")
	has(t, w.call("5", "charge", "no MCP"), "OUTCOME_UNKNOWN")
	refusing(200, `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"kaput"}}`)
	has(t, w.call("8", "charge", "no id"), "OUTCOME_UNKNOWN")
	has(t, w.ask("9", "stub/line", "{}"), `"code":-32603`, "is not MCP")
	refusing(0, "")
	has(t, w.call("6", "charge", "unknown"), "OUTCOME_UNKNOWN")
	has(t, w.call("7", "charge", "after"), "charged")
	if n := w.entries("charge"); n != 2 {
		t.Errorf("charged %d times", n)
	}
}

// A server that nobody has started costs a call nothing but its time.
func TestOverHTTPNobodyIsThere(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", true)
	has(t, w.call("0", "charge", "before"), "charged")
	w.site.CloseClientConnections()
	w.site.Close()
	n := 0 // a call that crosses the end of its connection is of unknown outcome
	w.until("a call finds nobody", func() bool {
		n++
		return strings.Contains(w.call(fmt.Sprint(100+n), "charge", fmt.Sprint("a", n)), "DEPENDENCY_UNAVAILABLE")
	})
	has(t, w.ask("2", "stub/line", "{}"), `"error"`, "could not be reached")
}

// In the revision without sessions each request says in its headers what it is, and the end of its
// stream cancels it.
func TestOverHTTPWithoutSessions(t *testing.T) {
	t.Parallel()
	w := start(t, "headers", false)
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","dev.sidecall/toolUseId":"`
	has(t, w.ask("1", "tools/call", `{"name":"tagged","arguments":{"region":"eu é","n":7,"on":true,"none":"","at":{"zone":" z"},"other":"o"},`+meta+`a"}}`), "charged")
	w.site.mu.Lock()
	headers := w.site.headers["tools/call"]
	for name, want := range map[string]string{
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "tagged", "Mcp-Session-Id": "",
		"Mcp-Param-Region": "=?base64?ZXUgw6k=?=", "Mcp-Param-N": "7", "Mcp-Param-On": "true", "Mcp-Param-None": "=?base64??=", "Mcp-Param-Zone": "=?base64?IHo=?=",
	} {
		if got := headers.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if list := w.site.headers["tools/list"]; list.Get("Mcp-Method") != "tools/list" || list.Get("Mcp-Name") != "" {
		t.Errorf("%v", list)
	}
	w.site.mu.Unlock()
	w.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"look",` + meta + `b"}}}`)
	w.await("stub/held")
	w.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	w.until("its stream has ended", func() bool { return w.entries("stream ended") == 1 })
	if w.entries("cancelled") != 0 {
		t.Error("the server was sent a note")
	}
}

// A client that has asked for the revision without sessions, and was refused, begins as one with a
// session: the wrapper does not go on saying the other.
func TestOverHTTPAClientThatFallsBack(t *testing.T) {
	t.Parallel()
	revision(t, start(t, "sdk-sessions", false), "2026-07-28", "2025-11-25")
}
