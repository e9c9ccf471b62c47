//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/internal/store/redisstore"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// A call that is done is not run again when its record in Redis is damaged, in
// whatever way: the answer is definite, and an operator is told which record it is.
func TestADamagedRecordInRedisRunsNothing(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	redis := durableRedis(t)
	s := harness.Start(t, onRedis(redis.Addr, up.URL))
	call := func(id string) *sidecallv1.ExecuteToolRequest {
		req := callOf(id)
		req.ConversationId = "c"
		return req
	}
	damages := []string{"\x00", "\x09", "\x01", "\x03", "\x04"} // of the state, which is 2
	for i, state := range damages {
		id := fmt.Sprint("done", i)
		if res := s.Call(call(id)); res.GetIsError() || !res.GetRecorded() {
			t.Fatalf("%v", res)
		}
		name := redisstore.RecordKey("sidecall:", tool.CallID{Conversation: "c", ID: id})
		redis.Do("setrange", name, "1", state)
		for _, toolName := range []string{"act", "look"} {
			req := call(id)
			req.ToolName = toolName
			res := s.Call(req)
			wantError(t, res, "OUTCOME_UNKNOWN")
			if r := res.GetRecovery(); r.GetRetryable() || r.GetRetryAfter() != nil || !strings.Contains(res.GetError().GetConstraint(), "corrupt") {
				t.Errorf("state %q: %v", state, res)
			}
		}
		if n := up.Ledger.Executions(id); n != 1 {
			t.Errorf("state %q: executed %d times", state, n)
		}
		_, err := s.Client.GetExecution(t.Context(), &sidecallv1.GetExecutionRequest{ConversationId: "c", ToolUseId: id})
		if status.Code(err) != codes.DataLoss || !strings.Contains(err.Error(), name) {
			t.Errorf("state %q: GetExecution says %v", state, err)
		}
		if !strings.Contains(s.Log(), name) {
			t.Errorf("state %q: the log does not name it", state)
		}
	}
	list, err := s.Operators().ListUnknown(t.Context(), &sidecallv1.ListUnknownRequest{})
	if err != nil || len(list.GetExecutions()) != len(damages)-1 { // what is made NOT_RUN is found when it is asked for
		t.Errorf("listed %v, %v", list, err)
	}
	if _, page := s.Get("/metrics"); !strings.Contains(page, "sidecall_store_corrupt_total") {
		t.Errorf("not counted:\n%s", page)
	}
	if code, _ := readyz(t, s); code != http.StatusOK {
		t.Errorf("readyz is %d: one record is not the store", code)
	}
}

// A record of another layout is the work of another version, which is there while
// sidecars are replaced: nothing is run for it, and the call is to be sent again.
func TestARecordOfALaterVersion(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	redis := durableRedis(t)
	s := harness.Start(t, onRedis(redis.Addr, up.URL))
	req := callOf("later")
	req.ConversationId = "c"
	first := s.Call(req)
	if first.GetIsError() || !first.GetRecorded() {
		t.Fatalf("%v", first)
	}
	name := redisstore.RecordKey("sidecall:", tool.CallID{Conversation: "c", ID: "later"})
	written := redis.Do("getrange", name, "0", "0")
	redis.Do("setrange", name, "0", "\x09")
	for _, toolName := range []string{"act", "look"} {
		again := callOf("later")
		again.ConversationId, again.ToolName = "c", toolName
		res := s.Call(again)
		wantError(t, res, "STORE_UNAVAILABLE")
		if !res.GetRecovery().GetRetryable() || !strings.Contains(res.GetError().GetConstraint(), "layout") {
			t.Errorf("%s: %v", toolName, res)
		}
	}
	_, err := s.Client.GetExecution(t.Context(), &sidecallv1.GetExecutionRequest{ConversationId: "c", ToolUseId: "later"})
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), name) {
		t.Errorf("GetExecution says %v", err)
	}
	list, err := s.Operators().ListUnknown(t.Context(), &sidecallv1.ListUnknownRequest{})
	if err != nil || len(list.GetExecutions()) != 1 || list.GetExecutions()[0].GetError().GetCode() != "STORE_UNAVAILABLE" {
		t.Errorf("listed %v, %v", list, err)
	}
	if code, out, said := harness.CLI(t, "resolve", "--addr", s.Operator); code != 0 || !strings.Contains(out, "(record of another version)") {
		t.Errorf("resolve lists, with exit code %d,\n%s%s", code, out, said)
	}
	redis.Do("setrange", name, "0", written)
	if again := s.Call(req); !again.GetReplayed() || again.GetContent() != first.GetContent() {
		t.Errorf("for who can read it, it is %v", again)
	}
	if n := up.Ledger.Executions("later"); n != 1 {
		t.Errorf("executed %d times", n)
	}
}
