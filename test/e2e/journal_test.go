//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/server"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

// remembers is a Redis that has, after a kill -9, what it has acknowledged.
func remembers(t *testing.T) *redisserver.Server {
	t.Helper()
	return redisserver.Start(t, redisserver.Options{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
}

// firstEntry is the file in a journal that has what waited first.
const firstEntry = "0000000000000001"

func journaling(redis *redisserver.Server, journal, url string) string {
	return fmt.Sprintf("store: {redis: {addrs: [%q]}}\nlease: 2s\n%s\n%s", redis.Addr, journal, oneTool(url))
}

// callWhileTheStoreDies starts a call, kills the store when the effect has
// happened, and returns what the caller gets.
func callWhileTheStoreDies(t *testing.T, s *harness.Sidecar, g *gate, redis *redisserver.Server, ids ...string) map[string]*sidecallv1.ExecuteToolResponse {
	t.Helper()
	type answer struct {
		id  string
		res *sidecallv1.ExecuteToolResponse
		err error
	}
	answers := make(chan answer, len(ids))
	for _, id := range ids {
		go func() {
			res, err := s.Client.ExecuteTool(t.Context(), actOf(id))
			answers <- answer{id, res, err}
		}()
	}
	for range ids {
		<-g.arrived
	}
	redis.Kill()
	close(g.open)
	got := map[string]*sidecallv1.ExecuteToolResponse{}
	for range ids {
		a := <-answers
		if a.err != nil || a.res.GetIsError() || a.res.GetRecorded() || a.res.GetReplayed() {
			t.Fatalf("%s: %v, %v: want its result, not recorded", a.id, a.res, a.err)
		}
		got[a.id] = a.res
	}
	return got
}

func actOf(id string) *sidecallv1.ExecuteToolRequest {
	return &sidecallv1.ExecuteToolRequest{ToolUseId: id, ToolName: "act", ConversationId: "c", TurnId: "1"}
}

// result is a response as bytes, but for the fields that say where it is from.
func result(t *testing.T, res *sidecallv1.ExecuteToolResponse) []byte {
	t.Helper()
	res = proto.CloneOf(res)
	res.Replayed, res.Recorded = false, false
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// replays fails unless a duplicate gets the original result.
func replays(t *testing.T, s *harness.Sidecar, id string, first *sidecallv1.ExecuteToolResponse, recorded bool) {
	t.Helper()
	again := s.Call(actOf(id))
	if !again.GetReplayed() || again.GetRecorded() != recorded || !bytes.Equal(result(t, first), result(t, again)) {
		t.Errorf("%s: the duplicate got\n%v, want the original, replayed, recorded=%t:\n%v\n%s", id, again, recorded, first, s.Log())
	}
}

func ready(t *testing.T, s *harness.Sidecar) (code int, body server.Readiness) {
	t.Helper()
	code, text := s.Get("/readyz")
	if err := json.Unmarshal([]byte(text), &body); err != nil {
		t.Fatalf("/readyz is not JSON: %v: %s", err, text)
	}
	return code, body
}

func awaitReplayed(t *testing.T, s *harness.Sidecar) {
	t.Helper()
	harness.WaitFor(t, "the replay", func() bool {
		code, body := ready(t, s)
		return code == http.StatusOK && body.Status == "ready" && body.Journal == nil
	})
}

func TestJournalCarriesResultsOverAnOutage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ killed, backFirst bool }{
		"the store comes back":                                   {false, true},
		"the sidecar is killed, the store comes back before it":  {true, true},
		"the sidecar is killed, and comes back before the store": {true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis, g := remembers(t), startGate(t)
			s := harness.Start(t, journaling(redis, "", g.URL))
			ids := []string{"a", "b", "c"}
			firsts := callWhileTheStoreDies(t, s, g, redis, ids...)
			code, body := ready(t, s)
			if code != http.StatusServiceUnavailable || body.Journal == nil || body.Journal.Waiting != 3 ||
				!strings.Contains(body.Journal.Detail, "3 settlements wait in the journal") {
				t.Errorf("/readyz = %d %+v", code, body)
			}
			journal := filepath.Join(s.Dir, "sidecall.journal")
			for name, mode := range map[string]os.FileMode{"": 0o700, firstEntry: 0o600} {
				if info, err := os.Stat(filepath.Join(journal, name)); err != nil || info.Mode().Perm() != mode {
					t.Errorf("%v, %v", info, err)
				}
			}
			if c.killed {
				// What a killed process had to say in its log may be lost with it.
				harness.WaitFor(t, "the log to tell of all", func() bool { return strings.Count(s.Log(), "settlement journaled") == 3 })
				s.Kill()
				if c.backFirst {
					redis.Restart()
				}
				s.Run()
			}
			if c.killed != c.backFirst || !c.backFirst {
				replays(t, s, "a", firsts["a"], false) // the store is away
			}
			if !c.killed || !c.backFirst {
				redis.Restart()
			}
			awaitReplayed(t, s)
			other := harness.Start(t, journaling(redis, "", g.URL))
			for _, id := range ids {
				replays(t, s, id, firsts[id], true)
				replays(t, other, id, firsts[id], true)
			}
			if n := g.effects.Load(); n != 3 {
				t.Errorf("%d effects, want 3", n)
			}
			if log := s.Log(); strings.Count(log, "settlement journaled") != 3 || strings.Count(log, "settlement replayed") != 3 {
				t.Errorf("it logs\n%s", log)
			}
			if strings.Contains(s.Log(), `{\"done\":true}`) {
				t.Error("a result is in the log")
			}
			_, metrics := s.Get("/metrics")
			for _, metric := range []string{
				`sidecall_journal_pending{sidecall_store="redis"} 0`, "sidecall_journal_replayed_total 3",
				"sidecall_journal_lost_total 0", "sidecall_journal_damaged_total 0",
			} {
				if !strings.Contains(metrics, metric) {
					t.Errorf("/metrics lacks %s", metric)
				}
			}
		})
	}
}

// A Redis that keeps nothing has forgotten the claim too. Without the journal
// the call would run again at the next duplicate.
func TestJournalRemindsAStoreThatHasForgotten(t *testing.T) {
	t.Parallel()
	redis, g := redisserver.Start(t, redisserver.Options{}), startGate(t)
	s := harness.Start(t, journaling(redis, "", g.URL))
	firsts := callWhileTheStoreDies(t, s, g, redis, "a")
	redis.Restart()
	awaitReplayed(t, s)
	other := harness.Start(t, journaling(redis, "", g.URL))
	replays(t, other, "a", firsts["a"], true)
	if n := g.effects.Load(); n != 1 {
		t.Errorf("%d effects", n)
	}
	says(t, s.Log(), "forgotten the call")
}

func TestJournalDamaged(t *testing.T) {
	t.Parallel()
	redis, g := remembers(t), startGate(t)
	s := harness.Start(t, journaling(redis, "", g.URL))
	firsts := callWhileTheStoreDies(t, s, g, redis, "a", "b", "c")
	s.Kill()
	entry := filepath.Join(s.Dir, "sidecall.journal", firstEntry)
	data, err := os.ReadFile(entry)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile(entry, data, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Run()
	redis.Restart()
	harness.WaitFor(t, "the replay", func() bool {
		code, body := ready(t, s)
		return code == http.StatusOK && body.Journal.Waiting == 0
	})
	_, body := ready(t, s)
	if body.Status != "degraded" || body.Journal.Damaged != 1 || !strings.Contains(body.Journal.Detail, "1 entry of the journal is damaged") {
		t.Errorf("/readyz = %+v", body)
	}
	if now, err := os.ReadFile(entry + ".damaged"); err != nil || !bytes.Equal(now, data) {
		t.Errorf("the damaged entry was not kept as it was (%v)", err)
	}
	says(t, s.Log(), entry, "the journal is damaged", entry+".damaged", "settlements of an earlier run wait in the journal", `"waiting":2`)
	replayed, unknown := 0, 0
	for id, first := range firsts {
		switch again := s.Call(actOf(id)); {
		case again.GetReplayed() && bytes.Equal(result(t, first), result(t, again)):
			replayed++
		case again.GetError().GetCode() == "OUTCOME_UNKNOWN" || again.GetError().GetCode() == "IN_PROGRESS":
			unknown++
		default:
			t.Errorf("%s: %v", id, again)
		}
	}
	if replayed != 2 || unknown != 1 || g.effects.Load() != 3 {
		t.Errorf("%d replayed, %d unknown, %d effects", replayed, unknown, g.effects.Load())
	}
}

func TestJournalOff(t *testing.T) {
	t.Parallel()
	redis, g := remembers(t), startGate(t)
	s := harness.Start(t, journaling(redis, "journal: {enabled: false}", g.URL))
	callWhileTheStoreDies(t, s, g, redis, "a")
	redis.Restart()
	harness.WaitFor(t, "the store", func() bool { code, _ := ready(t, s); return code == http.StatusOK })
	if _, body := ready(t, s); body.Status != "degraded" || body.Journal.Lost != 1 {
		t.Errorf("/readyz = %+v", body)
	}
	if res := s.Call(actOf("a")); res.GetError().GetCode() != "OUTCOME_UNKNOWN" || g.effects.Load() != 1 {
		t.Errorf("%v, %d effects", res, g.effects.Load())
	}
	if files, err := filepath.Glob(filepath.Join(s.Dir, "*.journal*")); err != nil || len(files) > 0 {
		t.Errorf("%v, %v", files, err)
	}
}

func TestServeRefusesAJournalItCannotHave(t *testing.T) {
	t.Parallel()
	redis := redisserver.Start(t, redisserver.Options{})
	notOurs := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(notOurs, []byte("milk, eggs, bread, and a lot more"), 0o600); err != nil {
		t.Fatal(err)
	}
	first := harness.Start(t, journaling(redis, "", "http://127.0.0.1:1"))
	for name, c := range map[string]struct{ path, says string }{
		"no directory":      {"/no/such/directory/j", "no such file or directory"},
		"a directory":       {first.Dir, "it is not a journal of Sidecall, and was left untouched"},
		"no journal":        {notOurs, "it is not a journal of Sidecall, and was left untouched"},
		"another sidecar's": {filepath.Join(first.Dir, "sidecall.journal"), "another process is using it"},
	} {
		t.Run(name, func(t *testing.T) {
			s := harness.New(t, journaling(redis, fmt.Sprintf("journal: {path: %q}", c.path), "http://127.0.0.1:1"))
			says(t, refusedStart(t, s, 3), c.path, c.says, "set journal.path", "journal: {enabled: false}")
		})
	}
	if text, err := os.ReadFile(notOurs); err != nil || string(text) != "milk, eggs, bread, and a lot more" {
		t.Errorf("%q, %v", text, err)
	}
	lives(t, first)
}
