package rest

import (
	"context"
	"encoding/json"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/internal/tool"
)

// told is how a message is written: by the names of the contract.
var told = protojson.MarshalOptions{UseProtoNames: true}

// answer writes what the sidecar has said. A call that failed is answered too: what is an error
// here is for the program, and its call was not made.
func answer(w http.ResponseWriter, res proto.Message, err error) {
	var body []byte
	if err == nil {
		body, err = told.Marshal(res)
	}
	if err != nil {
		refuse(w, status.Convert(err))
		return
	}
	write(w, http.StatusOK, body)
}

// maxMessage bounds what is said of a request, in characters: it may quote it, in JSON in six bytes
// for each.
const maxMessage = 600

// refuse writes why there is no answer.
func refuse(w http.ResponseWriter, why *status.Status) {
	say(w, httpStatus(why.Code()), why.Code(), why.Message())
}

// Error writes why a request is not let in, as http.Error does.
func Error(w http.ResponseWriter, why string, code int) {
	kind, known := map[int]codes.Code{
		http.StatusBadRequest: codes.InvalidArgument, http.StatusForbidden: codes.PermissionDenied, http.StatusMethodNotAllowed: codes.Unimplemented,
		http.StatusRequestTimeout: codes.DeadlineExceeded, http.StatusRequestEntityTooLarge: codes.ResourceExhausted, http.StatusServiceUnavailable: codes.ResourceExhausted,
	}[code]
	if !known {
		kind = codes.Internal
	}
	say(w, code, kind, why)
}

func say(w http.ResponseWriter, code int, kind codes.Code, why string) {
	body, _ := json.Marshal(map[string]string{"status": kind.String(), "message": tool.Shorten(why, maxMessage)}) // of texts alone
	write(w, code, body)
}

func write(w http.ResponseWriter, code int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	if _, err := w.Write(body); err != nil { //nolint:gosec // JSON, which no browser takes for a page
		panic(http.ErrAbortHandler) // no answer at all, which is asked for again, and not an empty one
	}
}

// httpStatus is that of a code of gRPC.
func httpStatus(code codes.Code) int {
	switch code {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange:
		return http.StatusBadRequest
	case codes.NotFound:
		return http.StatusNotFound
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.ResourceExhausted, codes.Unavailable:
		return http.StatusServiceUnavailable
	case codes.DeadlineExceeded:
		return http.StatusGatewayTimeout
	case codes.Canceled:
		return 499 // nobody reads it: the client has gone
	default:
		return http.StatusInternalServerError
	}
}

// traced is the context of a request, with the trace that it belongs to.
func traced(r *http.Request) context.Context {
	var all []string
	for _, name := range []string{"traceparent", "tracestate", "baggage"} {
		if value := r.Header.Get(name); value != "" {
			all = append(all, name, value)
		}
	}
	return metadata.AppendToOutgoingContext(r.Context(), all...)
}
