package interpret_test

import (
	"encoding/json"
	"testing"

	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/tool"
)

// What an item of a batch says of itself, in the shapes in use.
func TestWhatAnItemSaysOfItself(t *testing.T) {
	const isDone = tool.Code("done")
	p := compile(t, interpret.Config{Partial: &interpret.PartialRule{Items: "body", OK: "done(item)"}})
	for item, want := range map[string]tool.Code{
		`{"id":"1","status":201}`:                             isDone,
		`{"id":"1","status":404}`:                             tool.CodeNotFound,
		`{"status":"422"}`:                                    tool.CodeBusinessRule,
		`{"status":"HTTP/1.1 423 Locked"}`:                    tool.CodeConflict,
		`{"status":"200 OK"}`:                                 isDone,
		`{"status":{"code":"409","description":"x"}}`:         tool.CodeConflict,
		`{"statusCode":503,"message":"busy"}`:                 tool.CodeDependencyUnavailable,
		`{"http_status":400}`:                                 tool.CodeInvalidArgs,
		`{"index":{"_id":"7","status":201}}`:                  isDone,
		`{"delete":{"_id":"7","status":404,"x":1}}`:           tool.CodeNotFound,
		`{"code":0}`:                                          isDone,
		`{}`:                                                  isDone,
		`{"code":5,"message":"no order A-9"}`:                 tool.CodeNotFound,
		`{"code":7}`:                                          tool.CodePermissionDenied,
		`{"code":14,"message":"try later","details":[]}`:      tool.CodeDependencyUnavailable,
		`{"status":{}}`:                                       isDone,
		`{"status":{"code":3,"message":"bad"},"id":4}`:        tool.CodeInvalidArgs,
		`{"status":"NOT_FOUND"}`:                              tool.CodeNotFound,
		`{"code":"OK"}`:                                       isDone,
		`{"error":{"code":5,"message":"x"}}`:                  tool.CodeNotFound,
		`{"error":{"code":403,"status":"PERMISSION_DENIED"}}`: tool.CodePermissionDenied,
		`{"status":200,"error":"no stock"}`:                   tool.CodeUnrecoverable,
		`{"status":"failed","error":{"message":"no stock"}}`:  tool.CodeUnrecoverable,
		`{"error":null,"id":"A"}`:                             isDone,
		`{"errors":[],"id":"A"}`:                              isDone,
		`{"errors":[{"message":"x"}]}`:                        tool.CodeUnrecoverable,
		`{"ok":true}`:                                         isDone,
		`{"success":false,"why":"x"}`:                         tool.CodeUnrecoverable,
		`{"status":"success"}`:                                isDone,
		`{"status":"Rejected"}`:                               tool.CodeUnrecoverable,
		`{"status":"shipped"}`:                                "silent",
		`{"id":"A"}`:                                          "silent",
		`{"code":77}`:                                         "silent",
		`{"status":99999999999999999999}`:                     "silent",
		`{"status":0.5}`:                                      "silent",
		`{"status":-0.5}`:                                     "silent",
		`{"status":404.5}`:                                    "silent",
		`{"status":404.0}`:                                    tool.CodeNotFound,
		`"done"`:                                              "silent",
		`null`:                                                "silent",
		`[200]`:                                               "silent",
	} {
		// Beside one that was done, or nothing would be a partial success.
		r := p.Interpret(answer(200, `[{"ok":true},`+item+`]`), nil, nil)
		got := isDone
		if len(r.Items) != 2 {
			t.Fatalf("%s: %+v", item, r)
		}
		if one := r.Items[1]; !one.OK {
			got = one.Error.Code
		}
		if want == "silent" { // nobody knows: it is not counted as done
			want = tool.CodeUnrecoverable
			if whole := compile(t, interpret.Config{}).Interpret(answer(207, `[{"ok":true},`+item+`]`), nil, nil); !whole.Unread || whole.Outcome != interpret.OK {
				t.Errorf("%s: a list with it is read: %+v", item, whole)
			}
		}
		if got != want {
			t.Errorf("%s is %s, want %s", item, got, want)
		}
	}
}

// A reply of status 207 is read without a rule, in whatever shape; one that cannot be
// read is told, and never taken for a success of all.
func TestMultiStatusIsReadWithoutARule(t *testing.T) {
	var none *interpret.Program
	for text, want := range map[string]struct {
		outcome     interpret.Outcome
		total, done int
		unread      bool
	}{
		`[{"id":"a","status":200},{"id":"b","status":404}]`:                                   {interpret.Partial, 2, 1, false},
		`{"responses":[{"status":200},{"status":500}],"took":3,"ids":["x","y"]}`:              {interpret.Partial, 2, 1, false},
		`{"errors":true,"items":[{"create":{"status":201}},{"create":{"status":400,"e":1}}]}`: {interpret.Partial, 2, 1, false},
		`[{},{"code":5,"message":"gone"},{}]`:                                                 {interpret.Partial, 3, 2, false},
		`{"results":[{"status":200},{"status":200}]}`:                                         {interpret.OK, 2, 2, false},
		`[{"status":404},{"status":409}]`:                                                     {interpret.Failed, 2, 0, false},
		`{"a":[{"status":200}],"b":[{"status":404}]}`:                                         {interpret.OK, 0, 0, true},
		`{"results":[{"name":"x"},{"status":200}]}`:                                           {interpret.OK, 0, 0, true},
		`<multistatus><response/></multistatus>`:                                              {interpret.OK, 0, 0, true},
		`{"message":"see there"}`:                                                             {interpret.OK, 0, 0, true},
		`{"results":[]}`:                                                                      {interpret.OK, 0, 0, true},
		``:                                                                                    {interpret.Empty, 0, 0, false},
	} {
		r := none.Interpret(answer(207, text), nil, nil)
		if r.Outcome != want.outcome || r.Total != want.total || r.Done != want.done || r.Unread != want.unread {
			t.Errorf("%s: %s, %d of %d done, unread %v; want %+v", text, r.Outcome, r.Done, r.Total, r.Unread, want)
		}
	}
	r := none.Interpret(answer(207, `[{"id":"a","status":200},{"item":{"_id":7,"status":404}}]`), nil, nil)
	if r.Items[0].ID != "a" || r.Items[1].ID != "7" {
		t.Errorf("they are called %q and %q", r.Items[0].ID, r.Items[1].ID)
	}
	if r := none.Interpret(answer(200, `[{"status":200},{"status":404}]`), nil, nil); r.Outcome != interpret.OK || r.Items != nil {
		t.Errorf("what does not say that it is item by item is read so: %+v", r)
	}
	if r := none.Interpret(tool.Reply{Status: 207, Text: []byte(`[{"status":200},`), Cut: true}, nil, nil); !r.Unread {
		t.Errorf("one that was cut is taken for read: %+v", r)
	}
}

// A reply that tells that some items were done is no failure of the whole, whatever its
// status, exit code or isError says: all of it again would do some of it twice.
func TestAFailureOfWhichSomeItemsWereDone(t *testing.T) {
	rule := &interpret.PartialRule{Items: "body.results", OK: "done(item)", ID: "item.id", Error: "item.error"}
	p := compile(t, interpret.Config{Partial: rule})
	const some = `{"results":[{"id":"A","ok":true},{"id":"B","error":"no stock"}]}`
	const all, no = `{"results":[{"id":"A","ok":true}]}`, `{"results":[{"id":"A","error":"no stock"}]}`
	for name, raw := range map[string]*tool.Failure{
		"a status":         refusal(422, tool.CodeBusinessRule, tool.Definite),
		"a server error":   refusal(500, tool.CodeDependencyUnavailable, tool.Ambiguous),
		"isError":          {Code: tool.CodeUnrecoverable, Evidence: tool.Definite, ErrorType: "tool_error"},
		"isError, doubted": {Code: tool.CodeUnrecoverable, Evidence: tool.Ambiguous, ErrorType: "tool_error"},
		"an exit code":     {Code: tool.CodeUnrecoverable, Evidence: tool.Ambiguous, Status: 3, ErrorType: "exit_3"},
		"no failure even":  nil,
	} {
		reply := answer(0, some)
		if raw != nil {
			reply.Status = raw.Status
		}
		r := p.Interpret(reply, raw, nil)
		if r.Outcome != interpret.Partial || r.Done != 1 || r.Total != 2 || r.Items[1].ID != "B" || r.Items[1].Error.Received != "no stock" {
			t.Errorf("%s: %+v", name, r)
		}
		if raw == nil {
			continue
		}
		for _, text := range []string{all, no, `{"message":"broken"}`, `plain`} {
			if r := p.Interpret(tool.Reply{Status: reply.Status, Text: []byte(text), JSON: json.Valid([]byte(text))}, raw, nil); r.Failure != raw {
				t.Errorf("%s, %s: %+v", name, text, r)
			}
		}
	}
	unanswered := &tool.Failure{Code: tool.CodeTimeout, Evidence: tool.Ambiguous}
	if r := p.Interpret(answer(0, some), unanswered, nil); r.Failure != unanswered {
		t.Errorf("no answer is read: %+v", r)
	}
	raw := refusal(422, tool.CodeBusinessRule, tool.Definite)
	ruled := compile(t, interpret.Config{Partial: rule, Errors: []interpret.Rule{{When: "status == 422", Code: tool.CodeConflict}}})
	if r := ruled.Interpret(answer(422, some), raw, nil); r.Failure == nil || r.Failure.Code != tool.CodeConflict {
		t.Errorf("a rule for errors counts more: %+v", r)
	}
	selected := compile(t, interpret.Config{Partial: &interpret.PartialRule{Items: "result", OK: "done(item)"}, Result: "/results"})
	if r := selected.Interpret(answer(422, some), raw, nil); r.Outcome != interpret.Partial || string(r.Reply.Text) != `[{"id":"A","ok":true},{"id":"B","error":"no stock"}]` {
		t.Errorf("with a selection: %+v", r)
	}
}

// Where none was done but one may have been, so may the call.
func TestNoItemDoneButOneMayBe(t *testing.T) {
	var none *interpret.Program
	r := none.Interpret(answer(207, `[{"status":404},{"status":504,"message":"too slow"}]`), nil, nil)
	if f := r.Failure; f == nil || f.Evidence != tool.Ambiguous || f.Code != tool.CodeDependencyUnavailable || f.CallerFault || len(r.Items) != 2 || !r.Items[1].Ambiguous || r.Items[0].Ambiguous {
		t.Errorf("%+v, %+v", r.Failure, r.Items)
	}
}

// A reply of which the rule cannot read the items, for it is too long, says so.
func TestItemsThatCannotBeRead(t *testing.T) {
	p := compile(t, interpret.Config{Partial: &interpret.PartialRule{Items: "body", OK: "done(item)"}})
	if r := p.Interpret(tool.Reply{Text: []byte(`[{"ok":true},`), Cut: true}, nil, nil); !r.Unread || r.Outcome != interpret.OK {
		t.Errorf("%+v", r)
	}
	if r := p.Interpret(answer(200, `{"message":"ok"}`), nil, nil); r.Unread || r.Outcome != interpret.OK {
		t.Errorf("one without the list: %+v", r)
	}
}
