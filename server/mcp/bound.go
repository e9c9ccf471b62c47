package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/sidecall/sidecall/internal/limit"
)

const (
	// requestWeight is how often a request is in memory while it is worked on.
	requestWeight = 4
	// arrivalTime is how long a request may take to arrive.
	arrivalTime = 10 * time.Second
)

// bounded takes room for a request before it is read: as much as it says that it has, or may
// have. It has its time to arrive.
func bounded(options *Options, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		most := options.MaxRequestBytes
		if req.ContentLength > most {
			http.Error(w, fmt.Sprintf("the request has %d bytes: limits.max_request_bytes allows %d", req.ContentLength, most), http.StatusRequestEntityTooLarge)
			return
		}
		if req.Method == http.MethodPost {
			if req.ContentLength >= 0 {
				most = req.ContentLength
			}
			var load limit.Load
			load.Of(options.Bytes)
			if !load.Take(requestWeight * most) {
				w.Header().Set("Retry-After", "1")
				http.Error(w, "OVERLOADED: there is no room for the request now (limits.max_held_bytes); nothing was started, send it again later", http.StatusServiceUnavailable)
				return
			}
			defer load.Release()
			body, code, err := arrived(w, req, options.MaxRequestBytes)
			if err != nil {
				http.Error(w, err.Error(), code)
				return
			}
			req.Body = io.NopCloser(bytes.NewReader(body))
		}
		next.ServeHTTP(w, req)
	})
}

// arrived reads the body of a request, which has its time for that: nobody else gets its room
// meanwhile.
func arrived(w http.ResponseWriter, req *http.Request, most int64) (body []byte, code int, err error) {
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(arrivalTime)); err != nil {
		return nil, http.StatusInternalServerError, err
	}
	body, err = io.ReadAll(http.MaxBytesReader(w, req.Body, most))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the request has more than %d bytes, which limits.max_request_bytes allows", most)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, http.StatusRequestTimeout, fmt.Errorf("the request did not arrive within %s; nothing was started", arrivalTime)
	case err != nil:
		return nil, http.StatusBadRequest, err
	}
	return body, http.StatusInternalServerError, control.SetReadDeadline(time.Time{})
}
