package backend

import (
	"net/http"

	"github.com/sidecall/sidecall/internal/tool"
)

// Meaning is the code of an HTTP status that is none of success, and what the status proves.
func Meaning(status int) (tool.Code, tool.Evidence) {
	switch status {
	case http.StatusUnauthorized:
		return tool.CodeUnauthenticated, tool.Definite
	case http.StatusForbidden:
		return tool.CodePermissionDenied, tool.Definite
	case http.StatusNotFound, http.StatusGone:
		return tool.CodeNotFound, tool.Definite
	case http.StatusConflict, http.StatusPreconditionFailed, http.StatusLocked, http.StatusPreconditionRequired:
		return tool.CodeConflict, tool.Definite
	case http.StatusUnprocessableEntity:
		return tool.CodeBusinessRule, tool.Definite
	case http.StatusRequestTimeout:
		return tool.CodeTimeout, tool.Ambiguous
	case http.StatusTooManyRequests:
		return tool.CodeRateLimited, tool.Ambiguous
	case http.StatusTooEarly:
		return tool.CodeDependencyUnavailable, tool.Ambiguous
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return tool.CodeUnrecoverable, tool.Definite
	}
	switch {
	case Refuses(status):
		return tool.CodeUnrecoverable, tool.Definite
	case status >= 300 && status < 400:
		return tool.CodeUnrecoverable, tool.Ambiguous
	}
	return tool.CodeDependencyUnavailable, tool.Ambiguous
}

// Refuses reports whether an HTTP status says that a request was looked at and not carried out: 4xx, and
// 307 and 308, which want it sent elsewhere. After the other 3xx it may have been, as a form that is answered
// with 303, and what no such request should get (101, 304) proves nothing.
func Refuses(status int) bool {
	return status >= 400 && status < 500 || status == http.StatusTemporaryRedirect || status == http.StatusPermanentRedirect
}
