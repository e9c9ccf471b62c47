// Package server is the fronts of a sidecar, and nothing else: the gRPC services
// and their interceptors, listeners, and the admin pages. What a call goes
// through is package call.
package server

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/catalog"
)

// pingTimeout bounds the look at the store that /readyz takes.
const pingTimeout = 2 * time.Second

// Admin serves what operators and orchestrators ask for: /metrics, /healthz
// (the process answers) and /readyz (it can take calls, and what is amiss).
type Admin struct {
	Metrics http.Handler
	Dedupe  *dedupe.Dedupe
	Catalog *catalog.Catalog
	Drain   *Drain
	// Config says why the last config was refused, and what it waits for; empty when it
	// is in force. nil says nothing.
	Config func() (refused, waiting string)
	// Mask takes what must not be shown out of an error of the store.
	Mask func(text string) string
}

// Handler returns the routes.
func (a *Admin) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", a.Metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /readyz", a.ready)
	return mux
}

// Readiness is the body of /readyz.
type Readiness struct {
	// Status is ready, degraded (calls are taken, something is amiss), starting
	// (calls are taken, and tools that are to be there are not known yet), draining
	// or store_down (it is away, has failed or is full: only read_only tools run).
	Status string `json:"status"`
	// Store is why the store cannot be used; absent while it can.
	Store string `json:"store,omitempty"`
	Tools int    `json:"tools"`
	// Backends that cannot be reached, each with the reason. They fail only
	// their own tools, so they do not make the sidecar unready.
	BackendsDown map[string]string `json:"backends_down,omitempty"`
	// Undiscovered are backends whose tools have not been seen since the start, each
	// with the reason. Unless they are optional, the sidecar is not ready.
	Undiscovered map[string]string `json:"undiscovered,omitempty"`
	// Collisions are tools that are not registered because their name is taken.
	Collisions []string `json:"collisions,omitempty"`
	// ConfigRefused is why the config file as it is now is not in force; the one before
	// it is. ConfigWaiting is what it waits for before it takes over.
	ConfigRefused string `json:"config_refused,omitempty"`
	ConfigWaiting string `json:"config_waiting,omitempty"`
	// Journal says what is amiss with the settlements that the store did not
	// take in time; absent while nothing is.
	Journal *JournalReadiness `json:"journal,omitempty"`
}

func (a *Admin) ready(w http.ResponseWriter, req *http.Request) {
	ctx, cancel := context.WithTimeout(req.Context(), pingTimeout)
	defer cancel()
	snapshot := a.Catalog.Snapshot()
	body := Readiness{Status: "ready", Tools: len(snapshot.Names()), BackendsDown: snapshot.Down()}
	for _, c := range snapshot.Collisions() {
		body.Collisions = append(body.Collisions, c.String())
	}
	body.Undiscovered = undiscovered(snapshot)
	body.Journal = journalReadiness(a.Dedupe.Late())
	if a.Config != nil {
		body.ConfigRefused, body.ConfigWaiting = a.Config()
	}
	if err := a.Dedupe.Ping(ctx); err != nil {
		body.Store = a.Mask(err.Error())
	}
	code := http.StatusOK
	switch {
	case a.Drain.Draining():
		body.Status, code = "draining", http.StatusServiceUnavailable
	case body.Store != "":
		body.Status, code = "store_down", http.StatusServiceUnavailable
	case !snapshot.Discovered():
		body.Status, code = "starting", http.StatusServiceUnavailable
	case body.ConfigRefused != "" || len(body.BackendsDown) > 0 || len(body.Undiscovered) > 0 || len(body.Collisions) > 0 || body.Journal != nil:
		body.Status = "degraded"
	}
	writeJSON(w, code, body)
}

// undiscovered says of each backend whose tools are not known yet why; nil when there
// is none.
func undiscovered(snapshot *catalog.Snapshot) map[string]string {
	if len(snapshot.Undiscovered()) == 0 {
		return nil
	}
	reasons := make(map[string]string)
	for name, u := range snapshot.Undiscovered() {
		reasons[name] = u.Why()
	}
	return reasons
}

func writeJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	// The reader may have gone; there is nobody to tell.
	_ = json.NewEncoder(w).Encode(body)
}
