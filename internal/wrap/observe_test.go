package wrap_test

import (
	"encoding/base64"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/observed"
)

// A wrapper that observes passes every call byte for byte, and writes down what would have become of
// it: what was made twice, what is wrong, what is long, what was lost.
func TestObserving(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "observed")
	log := observed.To(file, slog.New(slog.DiscardHandler))
	defer log.Close()
	w := startObserved(t, "plain", true, log)
	call := func(id, name, arguments, use string) string {
		return w.ask(id, "tools/call", `{"name":"`+name+`","arguments":`+arguments+`,"_meta":{"claudecode/toolUseId":"`+use+`","dev.sidecall/conversationId":"c"}}`)
	}
	for _, id := range []string{"1", "2"} {
		if got := call(id, "charge", "{}", "a"); got != `{"jsonrpc":"2.0", "result":`+chargeResult+`, "id":`+id+`}` {
			t.Error(got)
		}
	}
	call("3", "charge", `{"n":5}`, "a")
	call("4", "charge", `{"n":"x"}`, "b")
	has(t, call("5", "long", "{}", "c"), "the end")
	call("6", "fail", "{}", "d")
	call("7", "refuse", "{}", "e")
	has(t, w.ask("8", "tools/call", `{"name":"params","arguments":{ }}`), `\"id\":8`, `{ }`)
	lost := "has ended before it answered"
	if w.site != nil {
		lost = "was lost before its answer came"
	}
	has(t, call("9", "die", "{}", "f"), lost)
	if got := w.ask("10", "tools/list", `{"cursor":"2"}`); strings.Contains(got, "read_output") {
		t.Error("read_output is listed")
	}
	sent := `{"jsonrpc":"2.0","id":11,"method":"stub/line","method":"stub/line"}`
	w.say(sent) // which is the server's to refuse
	has(t, w.answer("11"), base64.StdEncoding.EncodeToString([]byte(sent)))
	w.say(`{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":"wait","arguments":{}}}`)
	w.await("stub/held")
	w.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":12}}`)
	if w.entries("charge") != 4 {
		t.Errorf("it was charged %d times", w.entries("charge"))
	}

	var calls []observed.Call
	var err error
	w.until("all calls are written down", func() bool {
		calls, _, err = observed.Read(file, time.Time{})
		return err == nil && len(calls) == 10
	})
	r := observed.Of(calls)
	switch {
	case r.Calls != 10, r.Named != 8, r.Conversations != 1:
		t.Errorf("%+v", r)
	case len(r.Again) != 1, r.Again[0].ID != "a", r.Again[0].Times != 2:
		t.Errorf("made again: %+v", r.Again)
	case len(r.Reused) != 1, r.Reused[0].ID != "a":
		t.Errorf("reused: %+v", r.Reused)
	case len(r.Wrong) != 1, r.Wrong[0].Code != "INVALID_ARGS", r.Wrong[0].Field != "n":
		t.Errorf("wrong: %+v", r.Wrong)
	case r.Cut != 1, r.Tokens < 3000:
		t.Errorf("cut: %d, %d", r.Cut, r.Tokens)
	case len(r.Lost) != 1, r.Lost[0].Tool != "die":
		t.Errorf("lost: %+v", r.Lost)
	case calls[9].Tool != "wait", calls[9].Ended != observed.Cancelled:
		t.Errorf("cancelled: %+v", calls[9])
	}
}
