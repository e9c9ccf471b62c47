//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// withoutReplayed is a response as bytes, but for the one field in which a
// replay differs.
func withoutReplayed(t *testing.T, res *sidecallv1.ExecuteToolResponse) []byte {
	t.Helper()
	res = proto.CloneOf(res)
	res.Replayed = false
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

func TestServeReplaysAfterARestart(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	up.Script("/act",
		upstream.JSON(`{"paid":true,"note":"dix euros – 10 €","n":12345678901234567890}`),
		upstream.HugeJSON(2000),
		upstream.StatusBody(404, `{"error":"no such order"}`),
		upstream.CloseAfter())
	s := harness.Start(t, oneTool(up.URL))
	firsts := map[string]*sidecallv1.ExecuteToolResponse{}
	ids := []string{"ok", "cut", "definite", "unknown"}
	for _, id := range ids {
		firsts[id] = s.Call(&sidecallv1.ExecuteToolRequest{
			ToolUseId: id, ToolName: "act", ArgumentsJson: fmt.Sprintf(`{"key":%q}`, id), ConversationId: "c", TurnId: "1",
		})
		if !firsts[id].GetRecorded() || firsts[id].GetReplayed() {
			t.Errorf("%s: recorded=%t replayed=%t", id, firsts[id].GetRecorded(), firsts[id].GetReplayed())
		}
	}
	executions := up.Ledger.Total()

	for _, end := range []struct {
		how string
		do  func()
	}{{"stopped", s.Stop}, {"killed", s.Kill}} {
		end.do()
		s.Run()
		for _, id := range ids {
			again := s.Call(&sidecallv1.ExecuteToolRequest{
				// The same arguments, written differently.
				ToolUseId: id, ToolName: "act", ArgumentsJson: fmt.Sprintf(` { "key" : %q } `, id), ConversationId: "c", TurnId: "1",
			})
			if !again.GetReplayed() {
				t.Errorf("%s, after it was %s: not replayed: %v", id, end.how, again)
			}
			if want, got := withoutReplayed(t, firsts[id]), withoutReplayed(t, again); !bytes.Equal(want, got) {
				t.Errorf("%s, after it was %s, differs:\n%v\n%v", id, end.how, firsts[id], again)
			}
		}
		if ref := firsts["cut"].GetTruncation().GetOutputRef(); ref == "" {
			t.Error("the long output was not kept")
		} else if page, err := s.Client.ReadOutput(t.Context(), &sidecallv1.ReadOutputRequest{OutputRef: ref, ConversationId: "c"}); err != nil || page.GetContent() == "" {
			t.Errorf("the kept output, after it was %s: %v, %v", end.how, page, err)
		}
	}
	if n := up.Ledger.Total(); n != executions {
		t.Errorf("%d executions, want %d: a replay ran", n, executions)
	}
}

func TestServeStoreIsForOneProcess(t *testing.T) {
	t.Parallel()
	first := harness.Start(t, oneTool("http://127.0.0.1:1"))
	store := filepath.Join(first.Dir, "sidecall.db")
	second := harness.New(t, fmt.Sprintf("store: {embedded: {path: %q}}", store)+oneTool("http://127.0.0.1:1"))
	says(t, refusedStart(t, second, 3), store, "another process is using it")
	lives(t, first)
	first.Stop()
	second.Run()
	lives(t, second)
}

func TestServeRefusesADamagedStore(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	s := harness.Start(t, oneTool(up.URL))
	for i := range 20 {
		s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: fmt.Sprint("t", i), ToolName: "act"})
	}
	s.Stop()
	store := filepath.Join(s.Dir, "sidecall.db")
	good, err := os.ReadFile(store)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(good)
	for at := 0; ; {
		next := bytes.Index(flipped[at:], []byte("executions"))
		if next < 0 {
			break
		}
		at += next
		flipped[at] ^= 0x40
	}
	for name, damaged := range map[string][]byte{
		"empty":         {},
		"another file":  []byte(strings.Repeat("this is no store\n", 1000)),
		"cut short":     good[:bytes.LastIndex(good, []byte("executions"))],
		"flipped bits":  flipped,
		"zeroed header": append(make([]byte, 8192), good[8192:]...),
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(store, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			says(t, refusedStart(t, s, 3), "sidecall.db", "left untouched", "restore a copy")
			if now, err := os.ReadFile(store); err != nil || !bytes.Equal(now, damaged) {
				t.Errorf("the damaged file was changed (%v)", err)
			}
			if entries, err := os.ReadDir(s.Dir); err != nil || len(entries) != 2 {
				t.Errorf("the directory holds %v (%v), want the config and the store", entries, err)
			}
		})
	}
	if err := os.WriteFile(store, good, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Run()
	if res := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "t0", ToolName: "act"}); !res.GetReplayed() {
		t.Errorf("with the file restored, t0 is %v", res)
	}
}

func TestServeRefusesAStoreItCannotWrite(t *testing.T) {
	t.Parallel()
	s := harness.New(t, `store: {embedded: {path: "/no/such/directory/sidecall.db"}}`+oneTool("http://127.0.0.1:1"))
	says(t, refusedStart(t, s, 3), "/no/such/directory/sidecall.db", "does not exist: create it")
}
