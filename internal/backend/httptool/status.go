package httptool

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

// statusFailure is what an answer other than 2xx means. What it proves:
//
//   - 4xx and 501, 505: the upstream looked at the request and said no.
//   - 429, 503, and 408, 425: by convention the work was not begun, but a proxy
//     in between may say so in the middle of it, so this counts only where the
//     tool lists the status in rejects_before_work, as it does 429 unless the
//     operator says otherwise: whoever counts requests does so before the work.
//   - other 5xx: the work may have been done before it went wrong.
//   - 307 and 308 that were not followed: the upstream wants the request elsewhere.
//   - other 3xx, and what no request of a tool should get: the work may have been done.
func statusFailure(resp *http.Response, call backend.Invocation) *tool.Failure {
	status := resp.StatusCode
	failure := &tool.Failure{
		Status:      status,
		ErrorType:   strconv.Itoa(status),
		Constraint:  "the upstream answers " + statusText(status),
		CallerFault: status >= 400 && status < 500,
	}
	failure.Code, failure.Evidence = backend.Meaning(status)
	if failure.Evidence == tool.Ambiguous && slices.Contains(call.RejectsBeforeWork, status) {
		failure.Evidence = tool.NotExecuted
	}
	switch {
	case status >= 300 && status < 400:
		redirected(failure, resp)
		if call.Effect == tool.ReadOnly {
			failure.Evidence = tool.Definite
		}
	case status == http.StatusBadRequest:
		failure.Hint = "Do not repeat this call as it is. If the upstream's message names an argument, correct that and call again."
	case status >= 400:
		failure.RetryAfter = backend.RetryAfter(resp.Header, time.Now())
	}
	return failure
}

func statusText(status int) string {
	if text := http.StatusText(status); text != "" {
		return fmt.Sprintf("%d %s", status, text)
	}
	return strconv.Itoa(status)
}

// redirected says where a redirect that was not followed points to, without
// its query, which may hold a token.
func redirected(failure *tool.Failure, resp *http.Response) {
	to := location(resp)
	if to == nil {
		return // 304, or 300 without a preference
	}
	failure.Message = "it points to " + tool.ShortenBytes(to.Scheme+"://"+to.Host+to.EscapedPath(), 300)
	failure.Hint = "Do not repeat this call. Tell the user that an operator must correct the address of this tool."
}
