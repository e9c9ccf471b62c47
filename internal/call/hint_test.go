package call_test

import (
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/test/testkit/calltest"

	"github.com/sidecall/sidecall/internal/tool"
)

// The hint of OUTCOME_UNKNOWN says what to call, and with what.
func TestTheHintSaysWithWhatToVerify(t *testing.T) {
	const closed = `,"additionalProperties":false`
	for name, test := range map[string]struct {
		schema    string // of the tool that verifies
		args      string // of the call
		sensitive []string
		want      string
	}{
		"all of its arguments": {
			`{"type":"object","properties":{"order_id":{"type":"string"}},"required":["order_id"]` + closed + `}`,
			`{"order_id":"A-1","cents":5}`, nil, `call look with {"order_id":"A-1"} to see whether it has.`,
		},
		"those of the same name": {
			`{"type":"object","properties":{"order_id":{"type":"string"},"cents":{"type":"integer"},"verbose":{"type":"boolean"}}}`,
			`{"order_id":"A-1","cents":5}`, nil, `call look with {"cents":5,"order_id":"A-1"} to see whether it has.`,
		},
		"one is missing": {
			`{"type":"object","properties":{"order_id":{"type":"string"},"shop":{"type":"string"}},"required":["order_id","shop"]}`,
			`{"order_id":"A-1"}`, nil, `call look with {"order_id":"A-1"} and the fitting shop to see whether it has.`,
		},
		"all are missing": {
			`{"type":"object","properties":{"shop":{"type":"string"},"day":{"type":"string"}},"required":["shop","day"]}`,
			`{"order_id":"A-1"}`, nil, `call look with the fitting shop, day to see whether it has.`,
		},
		"of another type": {
			`{"type":"object","properties":{"order_id":{"type":"integer"}},"required":["order_id"]}`,
			`{"order_id":"A-1"}`, nil, `call look with the fitting order_id to see whether it has.`,
		},
		"it takes none": {`{"type":"object"}`, `{"order_id":"A-1"}`, nil, `call look to see whether it has.`},
		"sensitive": {
			`{"type":"object","properties":{"order_id":{"type":"string"},"cents":{"type":"integer"}},"required":["order_id"]}`,
			`{"order_id":"A-1","cents":5}`, []string{"order_id"}, `call look with {"cents":5} and the fitting order_id to see whether it has.`,
		},
		"a password": {
			`{"type":"object","properties":{"order_id":{"type":"string","format":"password"}},"required":["order_id"]}`,
			`{"order_id":"A-1"}`, nil, `call look with the fitting order_id to see whether it has.`,
		},
		"too long": {
			`{"type":"object","properties":{"order_id":{"type":"string"}},"required":["order_id"]}`,
			`{"order_id":"` + strings.Repeat("A", 500) + `"}`, nil, `call look with the fitting order_id to see whether it has.`,
		},
		"an unusual schema": {
			`{"allOf":[{"type":"object","properties":{"order_id":{"type":"string"}}}]}`, `{"order_id":"A-1"}`, nil, `call look to see whether it has.`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			look := calltest.NewRoute(t, "look", tool.ReadOnly, calltest.Answers("{}"), func(r *catalog.Route) { r.Tool.InputSchema = []byte(test.schema) })
			refund := calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.CutOff), func(r *catalog.Route) {
				r.Tool.Policy.VerifyWith, r.Tool.Policy.Sensitive = "look", test.sensitive
			})
			s := calltest.New(t, refund, look)
			req := calltest.Request("toolu_1", "refund")
			req.ArgumentsJson = test.args
			res := s.Call(req)
			if hint := res.GetError().GetHint(); !strings.HasSuffix(hint, "until you know: "+test.want) {
				t.Errorf("the hint is %q,\nwant it to end with %q", hint, test.want)
			}
			if again := s.Call(req); again.GetContent() != res.GetContent() {
				t.Errorf("told differently the second time: %s", again.GetContent())
			}
		})
	}
}

// A configured verification knows better what to ask than equal names do; what
// is sensitive does not slip out under another name.
func TestTheHintFollowsTheVerification(t *testing.T) {
	up := &shop{look: nil}
	up.happens = false
	for sensitive, want := range map[string]string{
		"":         `call get_order with {"order_id":"5"} to see whether it has.`,
		"order_id": `call get_order with {"order_id":"5"} to see whether it has.`,
		"cents":    `call get_order with the fitting order_id to see whether it has.`,
	} {
		bubble(t, func(t *testing.T) {
			s := up.sidecar(t, func(refund, _ *catalog.Route) {
				refund.Verification.Program = verification(t, map[string]string{"order_id": "string(args.cents)"}, "false")
				refund.Schema = sensitiveSchema(t, refund.Tool.InputSchema, sensitive)
			})
			req := calltest.Request("toolu_1", "refund")
			req.ArgumentsJson = `{"order_id":"A-1","cents":5}`
			if hint := s.Call(req).GetError().GetHint(); !strings.Contains(hint, want) {
				t.Errorf("%s is sensitive: %q, want %q in it", sensitive, hint, want)
			}
		})
	}
}

// A tool that is not there at the moment is still named.
func TestTheHintNamesAToolThatIsGone(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.CutOff), func(r *catalog.Route) { r.Tool.Policy.VerifyWith = "look" }))
	if hint := s.Call(calltest.Request("toolu_1", "refund")).GetError().GetHint(); !strings.HasSuffix(hint, "call look to see whether it has.") {
		t.Errorf("the hint is %q", hint)
	}
}

// sensitiveSchema is a schema compiled for a tool that lists a sensitive
// argument, or none.
func sensitiveSchema(t *testing.T, source []byte, name string) *schema.Schema {
	t.Helper()
	var options schema.Options
	if name != "" {
		options.Sensitive = []string{name}
	}
	compiled, err := schema.Compile("refund", source, options)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}
