package interpret

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

// word is what an item of a batch says of itself, in one of the shapes in use: an
// HTTP status (Microsoft Graph, SCIM, Elasticsearch, WebDAV), a google.rpc.Status
// (https://google.aip.dev/193), ok or success, an error that is there or null.
type word uint8

const (
	silent word = iota // it says nothing that is known
	done
	notDone
)

// verdict is the word of an item and, when it was not done, which failure that is.
type verdict struct {
	word word
	code tool.Code
	// ambiguous: it may have been done all the same.
	ambiguous bool
}

// The members in which an item says what became of it.
var (
	problemMembers = []string{"error", "errors", "fault", "failure"}
	statusMembers  = []string{"status", "statusCode", "status_code", "httpStatus", "http_status", "code"}
	flagMembers    = []string{"ok", "success", "succeeded"}
)

// maxWrapped is how deep an item may stand in objects of one member each.
const maxWrapped = 3

// wordOf reads an item; an error in it counts more than its status, and that more
// than a flag.
func wordOf(item ref.Val) verdict {
	for range maxWrapped {
		object, ok := item.(traits.Mapper)
		if !ok {
			return verdict{}
		}
		if size, _ := object.Size().(types.Int); size == 0 {
			return verdict{word: done} // a google.rpc.Status of code 0
		}
		if v := wordOfObject(object); v.word != silent {
			return v
		}
		if item = onlyMember(object); item == nil {
			return verdict{}
		}
	}
	return verdict{}
}

func wordOfObject(object traits.Mapper) verdict {
	problem, absent := problemOf(object)
	status := statusOf(object)
	switch {
	case problem != nil:
		if status.word != notDone || status.code == tool.CodeUnrecoverable {
			if named := statusIn(problem); named.word == notDone {
				return named
			}
		}
		if status.word == notDone {
			return status
		}
		return verdict{word: notDone, code: tool.CodeUnrecoverable}
	case status.word != silent:
		return status
	}
	for _, name := range flagMembers {
		if flag, found := member(object, name).(types.Bool); found {
			if flag {
				return verdict{word: done}
			}
			return verdict{word: notDone, code: tool.CodeUnrecoverable}
		}
	}
	if absent {
		return verdict{word: done}
	}
	return verdict{}
}

// problemOf is the error of an item; nil when it has none. absent reports that it
// says so.
func problemOf(object traits.Mapper) (problem ref.Val, absent bool) {
	for _, name := range problemMembers {
		value := member(object, name)
		switch v := value.(type) {
		case nil:
			continue
		case types.Null:
		case types.Bool:
			if v {
				return value, false
			}
		case traits.Sizer:
			if size, _ := v.Size().(types.Int); size > 0 {
				return value, false
			}
		default:
			return value, false
		}
		absent = true
	}
	return nil, absent
}

// statusOf reads the status of an object.
func statusOf(object traits.Mapper) (found verdict) {
	for _, name := range statusMembers {
		value := member(object, name)
		if value == nil {
			continue
		}
		v := statusIn(value)
		if v.word == notDone {
			return v
		}
		if found.word == silent {
			found = v
		}
	}
	return found
}

// statusIn reads a status: a number or its text, a name, or an object that holds one.
func statusIn(value ref.Val) verdict {
	switch v := value.(type) {
	case types.Int:
		return statusNumber(int64(v))
	case types.Double:
		if whole := int64(v); types.Double(whole) == v { // else it is no status
			return statusNumber(whole)
		}
	case types.String:
		return statusText(string(v))
	case traits.Mapper:
		if size, _ := v.Size().(types.Int); size == 0 {
			return verdict{word: done}
		}
		for _, name := range statusMembers {
			switch one := member(v, name).(type) {
			case types.Int, types.Double, types.String:
				if found := statusIn(one); found.word != silent {
					return found
				}
			}
		}
	}
	return verdict{}
}

// statusNumber: what is at most 16 is a code of gRPC, and no HTTP status is.
func statusNumber(n int64) verdict {
	switch {
	case n == 0:
		return verdict{word: done}
	case n > 0 && n < int64(len(rpcCodes)):
		return rpcCodes[n]
	case n >= 100 && n < 400:
		return verdict{word: done}
	case n >= 400 && n < 600:
		return httpVerdict(int(n))
	default:
		return verdict{}
	}
}

// Words for what was done and what was not, beside the names of gRPC's codes.
var (
	doneWords    = []string{"ok", "success", "succeeded", "successful", "done", "completed", "complete", "created", "updated", "deleted", "accepted", "sent", "delivered"}
	notDoneWords = []string{"error", "failed", "failure", "rejected", "denied", "invalid", "aborted", "cancelled", "canceled", "bounced", "not_found", "conflict"}
)

func statusText(text string) verdict {
	text = strings.TrimSpace(text)
	number := strings.TrimPrefix(text, "HTTP/1.1 ") // as WebDAV writes it
	if first, _, _ := strings.Cut(number, " "); first != "" {
		if n, err := strconv.ParseInt(first, 10, 32); err == nil {
			return statusNumber(n)
		}
	}
	if i := slices.Index(rpcNames, text); i >= 0 {
		return statusNumber(int64(i))
	}
	switch lower := strings.ToLower(text); {
	case slices.Contains(doneWords, lower):
		return verdict{word: done}
	case slices.Contains(notDoneWords, lower):
		return verdict{word: notDone, code: tool.CodeUnrecoverable}
	default:
		return verdict{}
	}
}

// rpcNames are the codes of gRPC in their order (google.rpc.Code), and rpcCodes what
// they mean. Those that a server gives when it does not know how far it came are
// ambiguous.
var (
	rpcNames = []string{"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
		"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"}
	rpcCodes = [...]verdict{
		{done, "", false},
		{notDone, tool.CodeCancelled, true},
		{notDone, tool.CodeUnrecoverable, true},
		{notDone, tool.CodeInvalidArgs, false},
		{notDone, tool.CodeTimeout, true},
		{notDone, tool.CodeNotFound, false},
		{notDone, tool.CodeConflict, false},
		{notDone, tool.CodePermissionDenied, false},
		{notDone, tool.CodeRateLimited, true},
		{notDone, tool.CodeConflict, false},
		{notDone, tool.CodeConflict, false},
		{notDone, tool.CodeInvalidArgs, false},
		{notDone, tool.CodeUnrecoverable, false},
		{notDone, tool.CodeDependencyUnavailable, true},
		{notDone, tool.CodeDependencyUnavailable, true},
		{notDone, tool.CodeUnrecoverable, true},
		{notDone, tool.CodeUnauthenticated, false},
	}
)

// httpVerdict is what a status of 400 and above means, nearly as for a call of its own.
func httpVerdict(status int) verdict {
	switch status {
	case http.StatusBadRequest:
		return verdict{notDone, tool.CodeInvalidArgs, false}
	case http.StatusFailedDependency:
		return verdict{notDone, tool.CodeBusinessRule, false}
	case http.StatusTooEarly:
		return verdict{notDone, tool.CodeUnrecoverable, false}
	}
	code, evidence := backend.Meaning(status)
	return verdict{notDone, code, evidence == tool.Ambiguous}
}

// member is a member of an object; nil when it has none of that name.
func member(object traits.Mapper, name string) ref.Val {
	if value, found := object.Find(types.String(name)); found {
		return value
	}
	return nil
}

// onlyMember is the member of an object that has one; nil of any other.
func onlyMember(object traits.Mapper) ref.Val {
	if size, _ := object.Size().(types.Int); size != 1 {
		return nil
	}
	return object.Get(object.Iterator().Next())
}

// doneFunction is the function done(item) of expressions: what the item says of
// itself. Of one that says nothing it cannot be evaluated.
func doneFunction() cel.EnvOption {
	return cel.Function("done", cel.Overload("done_dyn", []*cel.Type{cel.DynType}, cel.BoolType, cel.UnaryBinding(func(item ref.Val) ref.Val {
		switch wordOf(item).word {
		case done:
			return types.True
		case notDone:
			return types.False
		case silent:
		}
		return types.NewErr("the item does not say whether it was done")
	})))
}
