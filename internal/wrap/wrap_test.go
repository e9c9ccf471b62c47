package wrap_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func has(t *testing.T, line string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(line, part) {
			t.Errorf("%.2000s\nhas no %s", line, part)
		}
	}
}

// What is no call passes either way as it was written, whatever it is.
func TestMessagesPassByteForByte(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", true)
	sent := `{"id" : "é\u00e9" ,"params":{"n":1.50,"big":123456789012345678901,"_meta":{"x":[ ]}},"method":"stub/line","jsonrpc":"2.0","also":null}`
	w.say(sent)
	got := w.await(`"line"`)
	if want := `{"jsonrpc":"2.0", "result":{"line":"` + base64.StdEncoding.EncodeToString([]byte(sent)) + `"}, "id":"é\u00e9"}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	odd := "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"stub/line\",\"params\":{\"half\":\"\\ud83d\",\"byte\":\"\xff\"}}" // as JavaScript writes half of a character
	w.say(odd)
	has(t, w.answer("9"), base64.StdEncoding.EncodeToString([]byte(odd)))
	if got := w.ask("8", "no/such", "{}"); got != `{"jsonrpc":"2.0","id":8,"error":{"code":-32601,"message":"no such method"}}` {
		t.Error(got)
	}
	if log := w.log.String(); !strings.Contains(log, "this is no message") {
		t.Error("what the server prints beside the protocol is not told")
	}
}

// A call is answered in the server's own words, once; sent again under its id it is answered from
// its record.
func TestACallIsMadeOnce(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", true)
	if got := w.call("1", "charge", "a"); got != `{"jsonrpc":"2.0","id":1,"result":`+chargeResult+`}` {
		t.Error(got)
	}
	has(t, w.call(`"x"`, "charge", "a"), `"text":"charged é"`)
	has(t, w.ask("2", "tools/call", `{"name":"charge","arguments":{"n":5},"_meta":{"dev.sidecall/toolUseId":"a"}}`), `ID_REUSED`, `"isError":true`)
	if n := w.entries("charge"); n != 1 {
		t.Errorf("it was charged %d times", n)
	}
}

func TestErrorsOfTheServerPass(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", true)
	if got := w.call("1", "refuse", "a"); got != `{"jsonrpc":"2.0","id":1,"error":`+refusal+`}` {
		t.Error(got)
	}
	if got := w.call("2", "fail", "b"); got != `{"jsonrpc":"2.0","id":2,"result":`+failResult+`}` {
		t.Error(got)
	}
	// That a tool says it failed is no proof that it did nothing: it is not made again.
	has(t, w.call("3", "fail", "b"), "OUTCOME_UNKNOWN")
	if w.entries("refuse") != 1 || w.entries("fail") != 1 {
		t.Error("a call was made twice")
	}
}

// What the client says beside the arguments goes on, and so do the arguments, to the digit; the
// server gets a key that is the same each time.
func TestParametersGoOn(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", true)
	got := w.ask("1", "tools/call", `{"arguments":{"z":1.0,"a":123456789012345678901,"undeclared":[ ]},"future":{"x":1},"name":"params","_meta":{"progressToken":7,"dev.sidecall/toolUseId":"p","other":"o"}}`)
	var answer struct {
		Result struct{ Content []struct{ Text string } }
	}
	if err := json.Unmarshal([]byte(got), &answer); err != nil || len(answer.Result.Content) == 0 {
		t.Fatal(got, err)
	}
	has(t, answer.Result.Content[0].Text, `"arguments":{"z":1.0,"a":123456789012345678901,"undeclared":[ ]}`, `"future":{"x":1}`,
		`"progressToken":7`, `"other":"o"`, `"dev.sidecall/idempotencyKey":"`)
}

func TestProgressReachesTheClient(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", true)
	w.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","_meta":{"progressToken":"tok"}}}`)
	if got := w.await("progress"); got != `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"tok","progress":1}}` {
		t.Error(got)
	}
	has(t, w.answer("1"), "charged")
}

// What a tool asks in mid-call reaches the client, and its answer the tool.
func TestTheServerAsksTheClient(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", true)
	w.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask"}}`)
	if got := w.await("sampling"); got != `{"jsonrpc":"2.0","id":"q1","method":"sampling/createMessage","params":{"x":  1}}` {
		t.Error(got)
	}
	w.say(`{"jsonrpc":"2.0","id":"q1","result":{"role":"user"}}`)
	has(t, w.answer("1"), `the client says {'role':'user'}`)
}

// What a server asks that was started again has an id of its own: the client may still answer what the one
// before has asked, and that is nobody's.
func TestTheNextServerAsksTheClient(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", true)
	w.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask"}}`)
	w.await("sampling")
	w.call("2", "die", "d")
	has(t, w.await("notifications/cancelled"), `"requestId":"q1"`)
	w.say(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"ask"}}`)
	var asked struct{ ID string }
	if err := json.Unmarshal([]byte(w.await("sampling")), &asked); err != nil || asked.ID == "q1" {
		t.Fatalf("%v, it is asked under %s", err, asked.ID)
	}
	w.say(`{"jsonrpc":"2.0","id":"q1","result":{"role":"earlier"}}`)
	w.say(`{"jsonrpc":"2.0","id":"` + asked.ID + `","result":{"role":"user"}}`)
	has(t, w.answer("3"), `the client says {'role':'user'}`)
	w.say(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"askno"}}`)
	if err := json.Unmarshal([]byte(w.await("sampling")), &asked); err != nil {
		t.Fatal(err)
	}
	has(t, w.await("notifications/cancelled"), `"requestId":"`+asked.ID+`"`)
}

// A wrapper that is asked to end lets the calls in flight end, and makes no others.
func TestTheEndWaitsForCalls(t *testing.T) {
	t.Parallel()
	w := start(t, "patient", true)
	w.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`)
	w.await("stub/held")
	w.end()
	w.until("no more calls are made", func() bool {
		return strings.Contains(w.ask(`"n"`, "tools/call", `{"name":"no such tool"}`), "about to end")
	})
	w.say(`{"jsonrpc":"2.0","method":"stub/go"}`)
	has(t, w.answer("1"), "at last")
	if err := <-w.served; err != nil {
		t.Error(err)
	}
}

// A client that closes its end has asked for what it has asked for: the server was ended before it could
// answer. What is open as long as the client is there nobody waits for.
func TestTheEndOfTheInputWaitsForAnswers(t *testing.T) {
	t.Parallel()
	w := start(t, "patient", true)
	w.say(`{"jsonrpc":"2.0","id":1,"method":"stub/later"}`)
	w.until("the server works on it", func() bool { return w.entries("later") == 1 })
	w.say(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	w.say(`{"jsonrpc":"2.0","id":3,"method":"subscriptions/listen"}`)
	if err := w.in.Close(); err != nil {
		t.Fatal(err)
	}
	(&stub{ledger: w.ledger}).enter("now")
	has(t, w.answer("1"), `"later":true`)
	has(t, w.answer("2"), `"tools"`)
	if err := <-w.served; err != nil {
		t.Error(err)
	}
}

// What is remembered of a server's requests has a bound: the client does not see what is beyond it.
func TestAServerWithLongIDs(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", true)
	has(t, w.call("1", "longid", "a"), "the client says")
	for _, line := range w.missed {
		if strings.Contains(line, "sampling") {
			t.Error(line)
		}
	}
}

// A client that cancels a call is not answered. An effect goes on, and is recorded.
func TestACancelledEffectSettles(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", true)
	w.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","_meta":{"dev.sidecall/toolUseId":"w"}}}`)
	w.await("stub/held")
	w.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	w.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"wait","arguments":{},"_meta":{"dev.sidecall/toolUseId":"w"}}}`)
	w.say(`{"jsonrpc":"2.0","method":"stub/go"}`)
	has(t, w.answer("2"), "at last")
	if w.entries("wait") != 1 || w.entries("cancelled") != 0 {
		t.Errorf("made %d times, cancelled %d times", w.entries("wait"), w.entries("cancelled"))
	}
}

func TestACancelledLookEnds(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", true)
	w.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look"}}`)
	w.await("stub/held")
	w.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	w.until("the server was told", func() bool { return w.entries("cancelled") == 1 })
}

// A server that dies in mid-call: nobody knows what became of it, and it is not made again. The
// next process is greeted as the client has greeted the first.
func TestTheServerDiesInMidCall(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", true)
	w.say(`{"jsonrpc":"2.0","id":9,"method":"stub/mute"}`)
	has(t, w.call("1", "die", "d"), "OUTCOME_UNKNOWN", `"isError":true`)
	has(t, w.answer("9"), `"error"`, "has ended before it answered")
	has(t, w.call("2", "die", "d"), "OUTCOME_UNKNOWN")
	has(t, w.call("3", "charge", "c"), "charged")
	if w.entries("die") != 1 || w.entries("initialize") != 2 || w.entries("initialized") != 2 {
		t.Errorf("it died %d times, and was greeted %d and %d times", w.entries("die"), w.entries("initialize"), w.entries("initialized"))
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", true)
	for said, wants := range map[string][]string{
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`:                          {`"id":null`, `-32600`, "batches are not taken"},
		`{"jsonrpc":"2.0","id":null,"method":"ping"}`:                         {`"id":null`, `-32600`, "a text or a number"},
		`{"jsonrpc":"2.0","id":{"a":1},"method":"tools/call"}`:                {`"id":null`, `-32600`, "a text or a number"},
		`{"jsonrpc":"2.0","id":7,"method":["tools/call"]}`:                    {`-32600`, "cannot be read"},
		`{"jsonrpc":"2.0","id":7,"method":"ping","method":"tools/call"}`:      {`-32700`, "duplicate"},
		`{"jsonrpc":"2.0","id":7`:                                             {`-32700`, "cannot be read"},
		`{"jsonrpc":"2.0"}`:                                                   {`-32600`, "neither a method nor an id"},
		`{"jsonrpc":"2.0","id":71,"method":"tools/call"}`:                     {`"id":71`, `-32602`, "the name of a tool"},
		`{"jsonrpc":"2.0","id":72,"method":"tools/call","params":[1]}`:        {`"id":72`, `-32602`},
		`{"jsonrpc":"2.0","id":73,"method":"tools/call","params":{"name":7}}`: {`"id":73`, `-32602`},
		`{"jsonrpc":"2.0","id":74,"method":"tools/call","params":{"name":"charge","_meta":{"dev.sidecall/toolUseId":7}}}`:                                  {`"id":74`, `-32602`, "dev.sidecall/toolUseId"},
		`{"jsonrpc":"2.0","id":75,"method":"tools/call","params":{"name":"chrage"}}`:                                                                       {`"id":75`, `-32602`, "UNKNOWN_TOOL", "charge"},
		`{"jsonrpc":"2.0","id":76,"method":"tools/call","params":{"name":"charge","arguments":{"n":"x"}}}`:                                                 {`"id":76`, "INVALID_ARGS", `"isError":true`},
		`{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"charge","arguments":[1]}}`:                                                       {`"id":77`, "INVALID_ARGS", `"isError":true`},
		`{"jsonrpc":"2.0","id":78,"method":"tools/call","params":{"name":"charge","_meta":{"dev.sidecall/toolUseId":"` + strings.Repeat("x", 300) + `"}}}`: {`"id":78`, `"isError":true`, "tool_use_id"},
	} {
		w.say(said)
		has(t, w.await(wants[0]), wants...)
	}
	w.say(`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"charge"}}`)
	w.until("a call without an id is told of", func() bool { return strings.Contains(w.log.String(), "without an id is not made") })
	if w.entries("charge") != 0 {
		t.Error("something was charged")
	}
	has(t, w.call("1", "charge", "a"), "charged")
}

// A message that is too long ends with an error that names its length; what follows is read.
func TestGiants(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", true)
	w.say(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"charge","x":"` + strings.Repeat("x", 40<<20) + `"}}`)
	has(t, w.answer("5"), "-32600", fmt.Sprint("at most ", 32<<20))
	w.say(`{"params":{"name":"charge","x":"` + strings.Repeat("x", 40<<20) + `"},"method":"tools/call","id":6,"jsonrpc":"2.0"}`)
	has(t, w.answer("6"), "-32600")
	has(t, w.call("7", "giant", "g"), "INVALID_OUTPUT", "the tool ran")
	has(t, w.call("8", "charge", "a"), "charged")
	if w.entries("charge") != 1 || w.entries("giant") != 1 {
		t.Errorf("charged %d times, giants %d", w.entries("charge"), w.entries("giant"))
	}
}

// A long result is cut where it is text, and the rest is read by read_output.
func TestALongResultIsCut(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", true)
	got := w.call("1", "long", "l")
	var answer struct {
		Result struct {
			Content    []struct{ Type, Text, Data string }
			Structured json.RawMessage `json:"structuredContent"`
		}
	}
	if err := json.Unmarshal([]byte(got), &answer); err != nil || len(answer.Result.Content) != 2 {
		t.Fatal(got, err)
	}
	text, image := answer.Result.Content[0].Text, answer.Result.Content[1]
	if len(text) > 500 || image.Data != "aGk=" || answer.Result.Structured != nil {
		t.Errorf("%d characters, %+v, %s", len(text), image, answer.Result.Structured)
	}
	has(t, text, "read_output")
	_, ref, _ := strings.Cut(text, `output_ref`)
	_, ref, _ = strings.Cut(ref, `"`)
	ref, _, _ = strings.Cut(ref, `"`)
	has(t, w.ask("2", "tools/call", `{"name":"read_output","arguments":{"output_ref":"`+ref+`","pattern":"the end"}}`), "the end")
}

// An answer that is a step of the protocol is passed on, and recorded as it is; each round is a call
// of its own.
func TestRounds(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", true)
	for _, id := range []string{"1", "2"} {
		if got := w.ask(id, "tools/call", `{"name":"step","arguments":{"n":1},"_meta":{"dev.sidecall/toolUseId":"s"}}`); got != `{"jsonrpc":"2.0","id":`+id+`,"result":`+question+`}` {
			t.Error(got)
		}
	}
	for _, id := range []string{"3", "4"} {
		has(t, w.ask(id, "tools/call", `{"name":"step","arguments":{"n":1},"requestState":"s1","inputResponses":{"a":{}},"_meta":{"dev.sidecall/toolUseId":"s"}}`), "done with s1")
	}
	if n := w.entries("step"); n != 2 {
		t.Errorf("two rounds were made %d times", n)
	}
}

// The handle of a task is what its call is answered, the second time too; what is said about the task
// passes byte for byte, as do the wishes that the call has for it.
func TestTasks(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", true)
	has(t, w.ask("0", "tools/list", "{}"), `{"name":"later","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`)
	for _, id := range []string{"1", "2"} {
		got := w.ask(id, "tools/call", `{"name":"later","arguments":{},"task":{"ttl":5},"_meta":{"dev.sidecall/toolUseId":"l"}}`)
		if want := `{"jsonrpc":"2.0","id":` + id + `,"result":` + taskHandle + `}`; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if n := w.entries("later"); n != 1 {
		t.Errorf("it was begun %d times", n)
	}
	for i, method := range []string{"tasks/get", "tasks/result", "tasks/update", "tasks/cancel"} {
		id := strconv.Itoa(i + 3)
		sent := `{"method":"` + method + `" , "id":` + id + `,"params":{"taskId":"t\u00e9 1", "inputResponses":{"n":1.50}},"jsonrpc":"2.0"}`
		w.say(sent)
		if got, want := w.answer(id), `{"jsonrpc":"2.0", "result":{"line":"`+base64.StdEncoding.EncodeToString([]byte(sent))+`"}, "id":`+id+`}`; got != want {
			t.Errorf("%s: got  %s\nwant %s", method, got, want)
		}
	}
	has(t, w.ask("9", "tools/call", `{"name":"params","arguments":{},"task":{"ttl":5},"_meta":{"dev.sidecall/toolUseId":"p"}}`), `\"task\":{\"ttl\":5}`)
}

// read_output is listed on the last page; all else of a list is as the server says it.
func TestListing(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", true)
	if got := w.ask("1", "tools/list", "{}"); strings.Contains(got, "read_output") || !strings.Contains(got, stubTools) {
		t.Error(got)
	}
	has(t, w.ask("2", "tools/list", `{"cursor":"2"}`), strings.TrimSuffix(stubTools2, "]")+`,{"name":"read_output"`, `],"ttlMs":5}`)
}

// A server's own read_output is the server's: nothing is cut then.
func TestAReadOutputOfTheServers(t *testing.T) {
	t.Parallel()
	w := start(t, "reader", true)
	if got := w.ask("1", "tools/list", "{}"); strings.Count(got, "read_output") != 1 {
		t.Error(got)
	}
	has(t, w.call("2", "read_output", "a"), "the server's own")
	has(t, w.call("3", "long", "b"), strings.Repeat(`a line of text\n`, 1000))
}

// A schema that cannot be used keeps nobody from calling the tool, and neither does a name that
// models may not call.
func TestOddTools(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", true)
	has(t, w.call("1", "odd", "a"), "charged")
	has(t, w.call("2", "dotted.name", "b"), "charged")
	has(t, w.log.String(), "the arguments of a tool are not checked")
}

// Blocks of a recorded result are those of the first time, the texts joined.
func TestBlocksOfARecordedResult(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", true)
	w.call("1", "blocks", "a")
	has(t, w.call("2", "blocks", "a"), `"text":"a\nb`, `{"type":"image","mimeType":"image/png","data":"aGk="}`,
		`{"type":"resource","resource":{"uri":"file:///x","mimeType":"text/plain","text":"t"}}`, `"structuredContent":{"a":1}`)
	if w.entries("blocks") != 1 {
		t.Error("it was made twice")
	}
}

// A client that says no ids has no call taken for another, and it is said once.
func TestAClientWithoutIDs(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", true)
	for _, id := range []string{"1", "2"} {
		has(t, w.ask(id, "tools/call", `{"name":"charge","arguments":{}}`), "charged")
	}
	if n := w.entries("charge"); n != 2 {
		t.Errorf("two calls were made %d times", n)
	}
	if n := strings.Count(w.log.String(), "says no id"); n != 1 {
		t.Errorf("it was said %d times", n)
	}
}

// A client of a revision without a handshake says in each request what it is, and the wrapper says
// it of its own.
func TestAClientWithoutAHandshake(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", false)
	got := w.ask("1", "tools/call", `{"name":"params","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","dev.sidecall/toolUseId":"a"}}`)
	has(t, got, "2026-07-28")
	has(t, w.call("2", "params", "a"), `"resultType":"complete"`)
}

// A handshake that a server refuses, which has taken an earlier probe for the client's revision, is none: its
// client is one without a handshake, and the next process is not greeted in its place.
func TestAHandshakeThatIsRefused(t *testing.T) {
	t.Parallel()
	w := start(t, "modern", false)
	has(t, w.ask("1", "initialize", `{"protocolVersion":"2025-11-25"}`), "-32022")
	call := func(tool string) string {
		return `{"name":"` + tool + `","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","dev.sidecall/toolUseId":"` + tool + `"}}`
	}
	has(t, w.ask("2", "tools/call", call("charge")), "charged")
	has(t, w.ask("3", "tools/call", call("charge")), "charged", `"resultType":"complete"`)
	has(t, w.ask("4", "tools/call", call("die")), "OUTCOME_UNKNOWN")
	has(t, w.ask("5", "tools/list", `{}`), `"charge"`)
	if n := w.entries("initialize"); n != 1 {
		t.Errorf("a handshake was sent %d times", n)
	}
}

// A server that ends before it has said anything is no server.
func TestAServerThatIsNone(t *testing.T) {
	t.Parallel()
	w := start(t, "plain", false)
	w.say(`{"jsonrpc":"2.0","method":"stub/exit"}`)
	if err := <-w.served; err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Error(err)
	}
}

// A server that never answers the handshake is ended in its time, and both its client and whoever
// started the wrapper are told why.
func TestAServerThatNeverAnswersTheHandshake(t *testing.T) {
	t.Parallel()
	w := start(t, "mute", false)
	const why = "the server behind sidecall wrap did not answer initialize within 100ms"
	answer := w.ask("1", "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`)
	if err := <-w.served; !strings.Contains(answer, `"code":-32603`) || !strings.Contains(answer, why) || err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("%s, %v", answer, err)
	}
}

// A call of a keyed tool, of a server that says that it honours the key, is sent again with the same one
// when its answer was lost. The key is of no use to a server that does not say so.
func TestAKeyedTool(t *testing.T) {
	t.Parallel()
	w := start(t, "keyed", true)
	has(t, w.call("1", "die", "d"), "charged")
	ledger, err := os.ReadFile(w.ledger)
	if err != nil {
		t.Fatal(err)
	}
	keys := regexp.MustCompile(`key (.+)`).FindAllStringSubmatch(string(ledger), -1)
	if len(keys) != 2 || keys[0][1] != keys[1][1] {
		t.Errorf("%s", ledger)
	}
	other := start(t, "plain", true)
	has(t, other.call("1", "die", "d"), "OUTCOME_UNKNOWN")
	if other.entries("die") != 1 {
		t.Error("it was made twice")
	}
}
