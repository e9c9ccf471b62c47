package httptool_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/backend/httptool"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

func TestWhatAStatusMeans(t *testing.T) {
	s := misbehaving(t)
	b := at(t, s.URL)
	for status, c := range map[int]struct {
		code     tool.Code
		evidence tool.Evidence
	}{
		101: {tool.CodeDependencyUnavailable, tool.Ambiguous},
		300: {tool.CodeUnrecoverable, tool.Ambiguous},
		304: {tool.CodeUnrecoverable, tool.Ambiguous},
		305: {tool.CodeUnrecoverable, tool.Ambiguous},
		307: {tool.CodeUnrecoverable, tool.Definite},
		399: {tool.CodeUnrecoverable, tool.Ambiguous},
		400: {tool.CodeUnrecoverable, tool.Definite},
		401: {tool.CodeUnauthenticated, tool.Definite},
		402: {tool.CodeUnrecoverable, tool.Definite},
		403: {tool.CodePermissionDenied, tool.Definite},
		404: {tool.CodeNotFound, tool.Definite},
		405: {tool.CodeUnrecoverable, tool.Definite},
		408: {tool.CodeTimeout, tool.Ambiguous},
		409: {tool.CodeConflict, tool.Definite},
		410: {tool.CodeNotFound, tool.Definite},
		412: {tool.CodeConflict, tool.Definite},
		413: {tool.CodeUnrecoverable, tool.Definite},
		422: {tool.CodeBusinessRule, tool.Definite},
		423: {tool.CodeConflict, tool.Definite},
		425: {tool.CodeDependencyUnavailable, tool.Ambiguous},
		428: {tool.CodeConflict, tool.Definite},
		429: {tool.CodeRateLimited, tool.Ambiguous},
		451: {tool.CodeUnrecoverable, tool.Definite},
		499: {tool.CodeUnrecoverable, tool.Definite},
		500: {tool.CodeDependencyUnavailable, tool.Ambiguous},
		501: {tool.CodeUnrecoverable, tool.Definite},
		502: {tool.CodeDependencyUnavailable, tool.Ambiguous},
		503: {tool.CodeDependencyUnavailable, tool.Ambiguous},
		504: {tool.CodeDependencyUnavailable, tool.Ambiguous},
		600: {tool.CodeDependencyUnavailable, tool.Ambiguous},
		520: {tool.CodeDependencyUnavailable, tool.Ambiguous},
	} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			s.Script("/x", upstream.Status(status))
			post := call{spec: httptool.Spec{Method: "POST", Path: "/x"}}
			reply, failure := post.on(t, b)
			proves(t, failure, c.code, c.evidence)
			if failure.Status != status || reply.Status != status || failure.ErrorType != strconv.Itoa(status) {
				t.Errorf("failure %d, reply %d, type %s", failure.Status, reply.Status, failure.ErrorType)
			}
			if !strings.Contains(failure.Constraint, "the upstream answers "+strconv.Itoa(status)) {
				t.Errorf("constraint = %q", failure.Constraint)
			}
			if failure.CallerFault != (status >= 400 && status < 500) {
				t.Errorf("caller's fault: %v", failure.CallerFault)
			}
			post.reject = []int{429, 503, 400}
			_, failure = post.on(t, b)
			want := c.evidence
			if status == 429 || status == 503 {
				want = tool.NotExecuted
			}
			proves(t, failure, c.code, want)
		})
	}
}

func TestAFailureCarriesWhatTheUpstreamSaid(t *testing.T) {
	s := misbehaving(t)
	mask := strings.NewReplacer("abcdef123456", "(redacted)").Replace
	b := open(t, httptool.Config{BaseURL: s.URL, AllowPrivate: true, Mask: mask})
	for name, c := range map[string]struct {
		step    upstream.Step
		message string
	}{
		"problem details": {upstream.StatusBody(422, `{"title":"Refund refused","detail":"The order is older than 30 days.","status":422}`), "Refund refused: The order is older than 30 days."},
		"a page":          {upstream.HTML(502), `an HTML page titled "502 Bad Gateway"`},
		"our own secret":  {upstream.StatusBody(401, `{"error":"bad token abcdef123456"}`), "bad token (redacted)"},
		"nothing":         {upstream.StatusBody(404, ``), ""},
		"a redirect":      {upstream.Redirect(307, "https://other.example/v2/x?sig=1"), "it points to https://other.example/v2/x"},
	} {
		t.Run(name, func(t *testing.T) {
			s.Script("/x", c.step)
			_, failure := call{spec: httptool.Spec{Method: "POST", Path: "/x"}}.on(t, b)
			if failure == nil || failure.Message != c.message {
				t.Errorf("failure = %+v, want %q", failure, c.message)
			}
		})
	}
	s.Script("/x", upstream.StatusBody(400, `{"error":"`+strings.Repeat("é", 2000)+`abcdef123456"}`))
	_, failure := call{spec: httptool.Spec{Method: "POST", Path: "/x"}}.on(t, b)
	if n := len(failure.Message); n > 1024 || !strings.HasSuffix(failure.Message, "é…") {
		t.Errorf("%d bytes end in %q", n, failure.Message[len(failure.Message)-10:])
	}
}

func TestRetryAfterIsPassedOn(t *testing.T) {
	s := misbehaving(t)
	b := at(t, s.URL)
	s.Script("/x", upstream.RateLimited("7"), upstream.Status(http.StatusServiceUnavailable).WithHeader("Retry-After", "3"))
	for _, want := range []time.Duration{7 * time.Second, 3 * time.Second} {
		_, failure := call{spec: httptool.Spec{Method: "POST", Path: "/x"}}.on(t, b)
		if failure == nil || failure.RetryAfter != want {
			t.Errorf("failure = %+v, want %s", failure, want)
		}
	}
}

func TestAnErrorBodyThatNeverEndsDoesNotHideTheStatus(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte("no such order"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	b := at(t, url)
	var failure *tool.Failure
	for range 3 { // in one of which the machine may stand still before the status is read
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		_, failure = call{spec: httptool.Spec{Path: "/x"}, effect: tool.ReadOnly}.under(ctx, t, b)
		cancel()
		if failure != nil && failure.Code != tool.CodeTimeout {
			break
		}
	}
	proves(t, failure, tool.CodeNotFound, tool.Definite)
	if failure.Message != "no such order" {
		t.Errorf("message = %q", failure.Message)
	}
}
