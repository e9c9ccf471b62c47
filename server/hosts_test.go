package server

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// A page in a browser whose own name is made to resolve to 127.0.0.1 reaches the
// admin address, and may read what it answers: it is of the page's own origin.
// What it cannot change is the name that it asks for.
func TestOnlyKnownHostsAreServed(t *testing.T) {
	pages := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	handler := OnlyHosts(pages, "admin_hosts", "127.0.0.1:8471", "Metrics.internal", "[fd00::7]:9", "fd00::8", "off")
	for host, want := range map[string]int{
		"127.0.0.1:8471":         http.StatusOK,
		"127.0.0.1":              http.StatusOK,
		"127.9.9.9:80":           http.StatusOK,
		"localhost:8471":         http.StatusOK,
		"LOCALHOST.":             http.StatusOK,
		"[::1]:8471":             http.StatusOK,
		"[::1]":                  http.StatusOK,
		"[::ffff:127.0.0.1]:1":   http.StatusOK,
		"metrics.internal:8471":  http.StatusOK,
		"METRICS.internal":       http.StatusOK,
		"[fd00::7]:8471":         http.StatusOK,
		"[FD00::8]":              http.StatusOK,
		"":                       http.StatusMisdirectedRequest,
		":8471":                  http.StatusMisdirectedRequest,
		"rebind.example:8471":    http.StatusMisdirectedRequest,
		"localhost.example":      http.StatusMisdirectedRequest,
		"127.0.0.1.nip.example":  http.StatusMisdirectedRequest,
		"x.metrics.internal":     http.StatusMisdirectedRequest,
		"10.0.0.1:8471":          http.StatusMisdirectedRequest,
		"0.0.0.0:8471":           http.StatusMisdirectedRequest,
		"[::]:8471":              http.StatusMisdirectedRequest,
		"2130706433:8471":        http.StatusMisdirectedRequest,
		"localhost:8471:8471":    http.StatusMisdirectedRequest,
		"[127.0.0.1:8471":        http.StatusMisdirectedRequest,
		"user@localhost":         http.StatusMisdirectedRequest,
		"localhost rebind.local": http.StatusMisdirectedRequest,
	} {
		req := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		req.Host = host
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, req)
		if answer.Code != want {
			t.Errorf("host %q: %d, want %d", host, answer.Code, want)
		}
	}
}
