//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// badDay is one way in which an upstream has a bad day, and what must come of
// it: one result, and as many executions as the upstream says.
type badDay struct {
	steps []upstream.Step
	// rules are those of the tool; non_idempotent, POST, when they say nothing.
	rules string
	// code is empty for a success.
	code       string
	executions int
	requests   int
	says       []string
	// saysNot must not reach the model.
	saysNot []string
	check   func(t *testing.T, res *sidecallv1.ExecuteToolResponse)
}

const (
	readsOnly = ", effect: read_only"
	hasKey    = ", effect: keyed"
	inAHurry  = ", attempt_timeout: 3s"
	typed     = ", output_schema: {type: object, properties: {count: {type: integer}}, required: [count]}"
)

// badDays are grouped by what goes wrong.
func badDays() map[string]badDay {
	all := make(map[string]badDay)
	for _, group := range []map[string]badDay{badAnswers(), badConnections(), badTiming(), badRedirects()} {
		maps.Copy(all, group)
	}
	return all
}

func badAnswers() map[string]badDay {
	page := []string{"<", "lorem ipsum", "nginx</"}
	return map[string]badDay{
		"HTML error, perhaps after the work": {steps: []upstream.Step{upstream.HTML(502)}, code: "OUTCOME_UNKNOWN", requests: 1, saysNot: page},
		"HTML error, a definite one":         {steps: []upstream.Step{upstream.HTML(404)}, code: "NOT_FOUND", requests: 1, saysNot: page},
		"HTML error of a reader":             {steps: []upstream.Step{upstream.HTML(502)}, rules: readsOnly, code: "DEPENDENCY_UNAVAILABLE", requests: 3, saysNot: page},
		"HTML with status 200": {
			steps: []upstream.Step{upstream.Text("text/html", "<h1>Hello</h1>")}, executions: 1, requests: 1, says: []string{"Hello"},
		},
		"an image": {
			steps: []upstream.Step{upstream.Text("image/png", "\x89PNG\r\n\x1a\n\x00\x00\x00")}, executions: 1, requests: 1,
			says: []string{"image/png"}, saysNot: []string{"PNG\r", "\x00"},
		},
		"binary that claims to be nothing": {
			steps: []upstream.Step{upstream.Text("application/octet-stream", "\x00\x01\x02\xff\xfe")}, executions: 1, requests: 1,
			says: []string{"octet-stream"}, saysNot: []string{"\x01"},
		},
		"invalid UTF-8": {steps: []upstream.Step{upstream.InvalidUTF8()}, executions: 1, requests: 1, says: []string{"caf", "au lait"}},
		"terminal escapes and hidden text": {
			steps: []upstream.Step{upstream.Text("text/plain", "\x1b[31mred\x1b[0m a\u202eb\u200bc\x07")}, executions: 1, requests: 1,
			says: []string{"red"}, saysNot: []string{"\x1b", "\u202e", "\u200b", "\x07"},
		},
		"nothing": {
			steps: []upstream.Step{upstream.Text("application/json", "")}, executions: 1, requests: 1, check: func(t *testing.T, res *sidecallv1.ExecuteToolResponse) {
				if res.GetOutcome() != sidecallv1.Outcome_OUTCOME_EMPTY {
					t.Errorf("outcome %s, want EMPTY", res.GetOutcome())
				}
			},
		},
		"an endless body": {steps: []upstream.Step{upstream.Endless()}, executions: 1, requests: 1, says: []string{"all work and no play"}, check: wasCut},
		"a gzip bomb": { // on a busy machine packing it takes a while
			steps: []upstream.Step{upstream.GzipBomb(256 << 20)}, rules: ", attempt_timeout: 20s", executions: 1, requests: 1, check: wasCut,
		},
		"no gzip, though it says so": {
			steps: []upstream.Step{upstream.BadGzip()}, code: "INVALID_OUTPUT", executions: 1, requests: 1, saysNot: []string{"gzip: invalid"},
		},
		"a list of 20,000": {
			steps: []upstream.Step{upstream.HugeJSON(20_000)}, executions: 1, requests: 1, says: []string{"item number 0"},
			check: func(t *testing.T, res *sidecallv1.ExecuteToolResponse) {
				wasCut(t, res)
				if !json.Valid([]byte(res.GetContent())) {
					t.Errorf("the cut JSON is none: %.200s", res.GetContent())
				}
			},
		},
		"JSON that is none":                {steps: []upstream.Step{upstream.Text("application/json", `{"count": 1`)}, executions: 1, requests: 1, says: []string{`"count"`}},
		"JSON that is none, but must be":   {steps: []upstream.Step{upstream.Text("application/json", `{"count": 1`)}, rules: typed, code: "INVALID_OUTPUT", executions: 1, requests: 1},
		"JSON of a wrong type":             {steps: []upstream.Step{upstream.JSON(`{"count":"many"}`)}, rules: typed, code: "INVALID_OUTPUT", executions: 1, requests: 1, says: []string{"count must be of type integer"}},
		"a list where an object is wanted": {steps: []upstream.Step{upstream.JSON(`[]`)}, rules: typed, code: "INVALID_OUTPUT", executions: 1, requests: 1},
		"null where an object is wanted":   {steps: []upstream.Step{upstream.JSON(`null`)}, rules: typed, code: "INVALID_OUTPUT", executions: 1, requests: 1},
		"types that a rule does not expect": {
			steps: []upstream.Step{upstream.JSON(`"just text"`)}, executions: 1, requests: 1, says: []string{"just text"},
			rules: `, errors: [{when: "result.error.code == 5", code: CONFLICT}], empty_when: "size(result.items) == 0"`,
		},
		"an error with status 200": {
			steps: []upstream.Step{upstream.JSON(`{"error":{"code":5,"message":"locked by \u001b[1mBob"}}`)}, code: "CONFLICT", executions: 1, requests: 1,
			rules: `, errors: [{when: "result.error.code == 5", code: CONFLICT, hint: Unlock it first.}]`, says: []string{"Unlock it first."}, saysNot: []string{"\x1b"},
		},
		"a header of a megabyte": {steps: []upstream.Step{upstream.GiantHeader(1 << 20)}, code: "OUTCOME_UNKNOWN", executions: 1, requests: 1},
		"an error of a megabyte": {steps: []upstream.Step{upstream.StatusBody(422, `{"error":"`+strings.Repeat("no ", 1<<19)+`"}`)}, code: "BUSINESS_RULE", requests: 1},
		"a stack trace": {
			steps: []upstream.Step{upstream.StatusBody(501, "Traceback (most recent call last):\n  File \"/srv/app.py\", line 7, in <module>\nValueError: boom\n")},
			code:  "UNRECOVERABLE", requests: 1, says: []string{"ValueError: boom"}, saysNot: []string{"/srv/app.py"},
		},
		"a stack trace in JSON": {
			steps: []upstream.Step{upstream.StatusBody(422, `{"error":"no such user","trace":"at shop.User.find (/srv/user.js:7:3)\n    at shop.run (/srv/run.js:9:1)"}`)},
			code:  "BUSINESS_RULE", requests: 1, says: []string{"no such user"}, saysNot: []string{"/srv/"},
		},
		"a panic": {
			steps: []upstream.Step{upstream.StatusBody(501, "panic: boom\n\ngoroutine 7 [running]:\nmain.main()\n\t/srv/main.go:7 +0x1d\n")},
			code:  "UNRECOVERABLE", requests: 1, says: []string{"boom"}, saysNot: []string{"/srv/main.go", "goroutine"},
		},
	}
}

func badConnections() map[string]badDay {
	return map[string]badDay{
		"a length that is a lie":      {steps: []upstream.Step{upstream.ShortBody()}, code: "OUTCOME_UNKNOWN", executions: 1, requests: 1},
		"something that is not HTTP":  {steps: []upstream.Step{upstream.NotHTTP()}, code: "OUTCOME_UNKNOWN", executions: 1, requests: 1},
		"reset before the work":       {steps: []upstream.Step{upstream.ResetBefore()}, code: "OUTCOME_UNKNOWN", requests: 1},
		"reset after the work":        {steps: []upstream.Step{upstream.ResetAfter()}, code: "OUTCOME_UNKNOWN", executions: 1, requests: 1},
		"closed before the work":      {steps: []upstream.Step{upstream.CloseBefore()}, code: "OUTCOME_UNKNOWN", requests: 1},
		"closed after the work":       {steps: []upstream.Step{upstream.CloseAfter()}, code: "OUTCOME_UNKNOWN", executions: 1, requests: 1},
		"reset twice, reader":         {steps: []upstream.Step{upstream.ResetBefore(), upstream.ResetBefore(), upstream.Echo()}, rules: readsOnly, executions: 1, requests: 3},
		"reset always, reader":        {steps: []upstream.Step{upstream.ResetBefore()}, rules: readsOnly, code: "DEPENDENCY_UNAVAILABLE", requests: 3, says: []string{"3 attempts"}, check: exhausted},
		"half a body, reader":         {steps: []upstream.Step{upstream.ShortBody(), upstream.Echo()}, rules: readsOnly, executions: 2, requests: 2},
		"acknowledgement lost, keyed": {steps: []upstream.Step{upstream.CloseAfter(), upstream.Echo()}, rules: hasKey, executions: 1, requests: 2},
		"503 before the work, as it promises": {
			steps: []upstream.Step{upstream.Status(503), upstream.Echo()}, rules: ", rejects_before_work: [503]", executions: 1, requests: 2,
		},
		"503 before the work, as nobody promised": {steps: []upstream.Step{upstream.Status(503), upstream.Echo()}, code: "OUTCOME_UNKNOWN", requests: 1},
		"500 after the work":                      {steps: []upstream.Step{upstream.FailAfter(500), upstream.Echo()}, code: "OUTCOME_UNKNOWN", executions: 1, requests: 1},
	}
}

func badTiming() map[string]badDay {
	// Who waits in vain, until this deadline, does not answer while this test runs.
	const forHalfAnHour = readsOnly + ", deadline: 30m"
	later := func(least time.Duration) func(t *testing.T, res *sidecallv1.ExecuteToolResponse) {
		return func(t *testing.T, res *sidecallv1.ExecuteToolResponse) {
			if got := res.GetRecovery().GetRetryAfter().AsDuration(); got < least {
				t.Errorf("retry_after = %s, want at least %s", got, least)
			}
		}
	}
	inAnHour := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	return map[string]badDay{
		"a drip":                              {steps: []upstream.Step{upstream.Drip(50 * time.Millisecond)}, rules: inAHurry, code: "OUTCOME_UNKNOWN", executions: 1, requests: 1},
		"hangs after the work":                {steps: []upstream.Step{upstream.Hang()}, rules: inAHurry, code: "OUTCOME_UNKNOWN", executions: 1, requests: 1},
		"hangs once, reader":                  {steps: []upstream.Step{upstream.HangBefore(), upstream.Echo()}, rules: inAHurry + readsOnly, executions: 1, requests: 2},
		"hangs always, reader":                {steps: []upstream.Step{upstream.HangBefore()}, rules: inAHurry + readsOnly, code: "TIMEOUT", requests: 3, check: exhausted},
		"slower than the deadline, reader":    {steps: []upstream.Step{upstream.HangBefore()}, rules: readsOnly + ", deadline: 3s", code: "TIMEOUT", requests: 1},
		"429 with a wait that fits":           {steps: []upstream.Step{upstream.RateLimited("1"), upstream.Echo()}, rules: readsOnly, executions: 1, requests: 2, check: waited(time.Second)},
		"429 with a wait that does not fit":   {steps: []upstream.Step{upstream.RateLimited("3600")}, rules: forHalfAnHour, code: "RATE_LIMITED", requests: 1, check: later(50 * time.Minute)},
		"429 with a date that does not fit":   {steps: []upstream.Step{upstream.RateLimited(inAnHour)}, rules: forHalfAnHour, code: "RATE_LIMITED", requests: 1, check: later(50 * time.Minute)},
		"429 with a wait that is nonsense":    {steps: []upstream.Step{upstream.RateLimited("-7 parsecs"), upstream.Echo()}, rules: readsOnly, executions: 1, requests: 2},
		"429 always":                          {steps: []upstream.Step{upstream.Status(429)}, rules: readsOnly, code: "RATE_LIMITED", requests: 3, check: exhausted},
		"429 to what must not repeat":         {steps: []upstream.Step{upstream.RateLimited("1"), upstream.Echo()}, executions: 1, requests: 2, check: waited(time.Second)},
		"429 to what must not repeat, always": {steps: []upstream.Step{upstream.Status(429)}, code: "RATE_LIMITED", requests: 3, check: exhausted},
		"429 to what must not repeat, perhaps after the work": {
			steps: []upstream.Step{upstream.RateLimited("1"), upstream.Echo()}, rules: ", rejects_before_work: []", code: "OUTCOME_UNKNOWN", requests: 1,
		},
		"503 with a wait that does not fit": {steps: []upstream.Step{upstream.Status(503).WithHeader("Retry-After", "3600")}, rules: forHalfAnHour, code: "DEPENDENCY_UNAVAILABLE", requests: 1, check: later(50 * time.Minute)},
	}
}

func badRedirects() map[string]badDay {
	days := make(map[string]badDay)
	for _, status := range []int{307, 308} {
		days[fmt.Sprint(status, " with a body")] = badDay{
			steps: []upstream.Step{upstream.Redirect(status, "/elsewhere")}, code: "UNRECOVERABLE", requests: 1, says: []string{"/elsewhere"},
		}
		days[fmt.Sprint(status, " with a body and a key")] = badDay{
			steps: []upstream.Step{upstream.Redirect(status, "/elsewhere")}, rules: hasKey, code: "UNRECOVERABLE", requests: 1,
		}
		days[fmt.Sprint(status, " to another host")] = badDay{
			steps: []upstream.Step{upstream.Redirect(status, "http://169.254.169.254/latest/meta-data?token=x")}, rules: readsOnly,
			code: "UNRECOVERABLE", requests: 1, saysNot: []string{"token"},
		}
	}
	days["303 after a form"] = badDay{steps: []upstream.Step{upstream.Redirect(303, "/elsewhere")}, code: "OUTCOME_UNKNOWN", requests: 1}
	return days
}

func wasCut(t *testing.T, res *sidecallv1.ExecuteToolResponse) {
	t.Helper()
	if res.GetTruncation().GetOutputRef() == "" || res.GetTruncation().GetOriginalChars() < 100_000 {
		t.Errorf("truncation = %v, want a large output that was kept", res.GetTruncation())
	}
	if !strings.Contains(res.GetContent(), res.GetTruncation().GetOutputRef()) {
		t.Error("the model is not told how to get the rest")
	}
}

func exhausted(t *testing.T, res *sidecallv1.ExecuteToolResponse) {
	t.Helper()
	if r := res.GetRecovery(); !r.GetRetriesExhausted() || r.GetAttempts() != 3 {
		t.Errorf("recovery = %v, want three attempts and no more", r)
	}
}

func waited(least time.Duration) func(t *testing.T, res *sidecallv1.ExecuteToolResponse) {
	return func(t *testing.T, res *sidecallv1.ExecuteToolResponse) {
		t.Helper()
		if took := res.GetDuration().AsDuration(); took < least {
			t.Errorf("sent again after %s, though the upstream asked for %s", took, least)
		}
	}
}

// fixedShape checks what every result has, whatever happened.
func fixedShape(t *testing.T, id string, res *sidecallv1.ExecuteToolResponse) {
	t.Helper()
	failed := res.GetOutcome() == sidecallv1.Outcome_OUTCOME_ERROR
	if res.GetToolUseId() != id || res.GetOutcome() == 0 || res.GetIsError() != failed ||
		(res.GetError() != nil) != failed || (res.GetRecovery() != nil) != failed || res.GetDuration() == nil {
		t.Errorf("a result out of shape: %v", res)
	}
	if n := utf8.RuneCountInString(res.GetContent()); n > 8000 || !utf8.ValidString(res.GetContent()) {
		t.Errorf("content of %d characters, or not UTF-8", n)
	}
	if !failed {
		return
	}
	var keys []string
	decoder := json.NewDecoder(strings.NewReader(res.GetContent()))
	for depth := 0; ; {
		token, err := decoder.Token()
		if err != nil {
			break
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		default:
			if text, ok := token.(string); ok && depth == 1 {
				keys = append(keys, text)
			}
		}
	}
	e := res.GetError()
	if want := []string{"code", e.GetCode(), "field", e.GetField(), "constraint", e.GetConstraint(), "received", e.GetReceived(), "hint", e.GetHint()}; !slices.Equal(keys, want) {
		t.Errorf("the content is not the five fields in order: %s", res.GetContent())
	}
	if e.GetCode() == "" || e.GetConstraint() == "" || e.GetHint() == "" {
		t.Errorf("an error without words: %v", e)
	}
	if n := utf8.RuneCountInString(e.GetReceived()); n > 400 {
		t.Errorf("%d characters of what the upstream said", n)
	}
}

func TestBadUpstreamNeverHurts(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	days := badDays()
	names := slices.Sorted(maps.Keys(days))
	var config strings.Builder
	fmt.Fprintf(&config, `
limits: {keep_output_bytes: 1MiB}
defaults: {attempt_timeout: 15s, deadline: 50s, retry: {base: 5ms, max: 20ms}}
backends: {up: {http: {base_url: %q, allow_private: true}, breaker: {failures: 100000}}}
tools:
`, up.URL)
	for i, name := range names {
		key := ""
		if days[name].rules == hasKey {
			key = ", idempotency_header: Idempotency-Key"
			up.HonourKeys(fmt.Sprint("/", i))
		}
		fmt.Fprintf(&config, "  t%d: {backend: up, http: {method: POST, path: /%d%s}%s}\n", i, i, key, days[name].rules)
		up.Script(fmt.Sprint("/", i), days[name].steps...)
	}
	s := harness.Start(t, config.String())
	t.Run("day", func(t *testing.T) {
		for i, name := range names {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				survives(t, s, up, i, days[name])
			})
		}
	})
	if n := up.Requests("/elsewhere"); n != 0 {
		t.Errorf("%d redirects were followed with what must not be sent twice", n)
	}
	lives(t, s)
	_, metrics := s.Get("/metrics")
	t.Logf("resident afterwards: %s bytes", residentMemory.FindStringSubmatch(metrics)[1])
}

// survives lives through a bad day, and through the call being sent again.
func survives(t *testing.T, s *harness.Sidecar, up *upstream.Server, i int, day badDay) {
	t.Helper()
	id, key := fmt.Sprint("toolu_", i), fmt.Sprint("key-", i)
	req := &sidecallv1.ExecuteToolRequest{ToolUseId: id, ToolName: fmt.Sprint("t", i), ArgumentsJson: fmt.Sprintf(`{"key":%q}`, key)}
	res := s.Call(req)
	fixedShape(t, id, res)
	if got := res.GetError().GetCode(); got != day.code {
		t.Errorf("code %q, want %q: %.500s", got, day.code, res.GetContent())
	}
	if n := up.Ledger.Executions(key); n != day.executions {
		t.Errorf("%d executions, want %d", n, day.executions)
	}
	if n := up.Requests(fmt.Sprint("/", i)); n != day.requests {
		t.Errorf("%d requests, want %d", n, day.requests)
	}
	for _, words := range day.says {
		if !strings.Contains(res.GetContent(), words) {
			t.Errorf("the model is not told %q: %.500s", words, res.GetContent())
		}
	}
	for _, words := range day.saysNot {
		if strings.Contains(res.GetContent(), words) {
			t.Errorf("the model is told %q: %.500s", words, res.GetContent())
		}
	}
	if day.check != nil {
		day.check(t, res)
	}
	if res.GetRecovery().GetClass() != sidecallv1.RecoveryClass_RECOVERY_CLASS_TRANSIENT { // that may run again
		if again := s.Call(req); !again.GetReplayed() || again.GetContent() != res.GetContent() {
			t.Errorf("sent again it is not the same: %.300s", again.GetContent())
		}
		if n := up.Requests(fmt.Sprint("/", i)); n != day.requests {
			t.Errorf("%d requests after a replay, want %d", n, day.requests)
		}
	}
}
