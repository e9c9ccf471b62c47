//go:build prove

package transports

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/wire"
)

// refused are the faults by which a server says that it did not process a
// request (RFC 9113 section 8.7): Sidecall itself may send it again.
var refused = map[string]func(*wire.Stream) bool{
	"refused":             func(s *wire.Stream) bool { return s.RST(http2.ErrCodeRefusedStream) },
	"goaway-before":       func(s *wire.Stream) bool { return s.GoAway(-1, http2.ErrCodeNo, "") },
	"goaway-before-error": func(s *wire.Stream) bool { return s.GoAway(-1, http2.ErrCodeEnhanceYourCalm, "") },
}

// lies are refusals after the work, which a server must not send.
var lies = map[string]func(*wire.Stream) bool{
	"refused-lie": refused["refused"],
	"goaway-lie":  refused["goaway-before"],
}

// broken are those that prove nothing: the request has been carried out.
func broken() map[string]func(*wire.Stream) bool {
	lie := "stream error: stream ID 1; REFUSED_STREAM; received from peer"
	faults := map[string]func(*wire.Stream) bool{
		"goaway-at":          func(s *wire.Stream) bool { return s.GoAway(0, http2.ErrCodeNo, lie) && false },
		"goaway-at-error":    func(s *wire.Stream) bool { return s.GoAway(0, http2.ErrCodeInternal, lie) && false },
		"goaway-after":       func(s *wire.Stream) bool { return s.GoAway(100, http2.ErrCodeNo, lie) && false },
		"close":              func(*wire.Stream) bool { return false },
		"headers-then-reset": func(s *wire.Stream) bool { return begin(s) && s.RST(http2.ErrCodeInternal) },
		// It has answered, so it has not refused.
		"headers-then-refused": func(s *wire.Stream) bool { return begin(s) && s.RST(http2.ErrCodeRefusedStream) },
		"headers-then-goaway":  func(s *wire.Stream) bool { return begin(s) && s.GoAway(-1, http2.ErrCodeNo, "") && false },
	}
	for code := http2.ErrCodeNo; code <= http2.ErrCodeHTTP11Required; code++ {
		if code != http2.ErrCodeRefusedStream {
			faults["rst-"+strings.ToLower(code.String())] = func(s *wire.Stream) bool { return s.RST(code) }
		}
	}
	return faults
}

// begin answers 200 and leaves the body to come.
func begin(s *wire.Stream) bool {
	return s.WriteHeaders(http2.HeadersFrameParam{StreamID: s.ID, BlockFragment: []byte{0x88}, EndHeaders: true}) == nil
}

// http2 is http1 over HTTP/2.
func (s *site) http2(t *testing.T) *wire.HTTP2 {
	faults := broken()
	maps.Copy(faults, lies)
	return wire.StartHTTP2(t, func(x *wire.Stream) bool {
		part := strings.Split(strings.TrimPrefix(x.Fields[":path"], "/"), "/")
		if len(part) != 4 {
			return x.OK()
		}
		tool, fault, key := part[1], part[2], part[3]
		first := s.arrives(key)
		if refuse := refused[fault]; refuse != nil && first {
			s.breaks(x.Nth)
			return refuse(x)
		}
		s.executes(t, key, x.Fields["idempotency-key"], tool == pay)
		if !first {
			return x.OK()
		}
		s.breaks(x.Nth)
		return faults[fault](x)
	})
}

func http2Audit(t *testing.T) *audit {
	t.Helper()
	s := newSite()
	server := s.http2(t)
	return &audit{Sidecar: harness.Start(t, config(server.URL, fmt.Sprintf(", tls: {ca: %q}", server.CAFile(t)))), t: t, site: s}
}

// What a server refused is sent again, by Sidecall and nobody else, and happens
// once: whatever the tool's effect.
func TestHTTP2RefusedBeforeTheWork(t *testing.T) {
	t.Parallel()
	a := http2Audit(t)
	repeated := 0
	for round := range proof.Runs(2, 60) {
		for fault := range refused {
			for _, tool := range tools {
				a.warm()
				c := newTrial(tool, fault, round)
				res := a.makes(c)
				asked, ran := a.site.requests(c.key), a.site.ledger.Executions(c.key)
				if asked == 2 {
					repeated++
				}
				// The retry budget may have kept it from being sent again.
				if code := res.GetError().GetCode(); ran != asked-1 || res.GetIsError() && code != "DEPENDENCY_UNAVAILABLE" {
					a.broken("%s: %d requests, %d executions: %s", c.key, asked, ran, res.GetContent())
				}
			}
		}
	}
	if repeated == 0 {
		a.broken("nothing was sent again, so nothing is proven")
	}
	twice := 0
	for lie := range lies {
		twice += a.runsAgain(act, lie) / 2
	}
	a.report("http/2: REFUSED_STREAM, GOAWAY under our stream",
		fmt.Sprintf("%d sent again, once each; %d of %d lies of a server that had done the work believed", repeated, twice, len(lies)))
}

// What may have been processed is unknown, and never sent again unless it may be
// repeated.
func TestHTTP2BrokenAfterTheWork(t *testing.T) {
	t.Parallel()
	a := http2Audit(t)
	for round := range proof.Runs(1, 20) {
		for fault := range broken() {
			for _, tool := range tools {
				a.warm()
				c := newTrial(tool, fault, round)
				res := a.makes(c)
				if !repeatable[c.tool] {
					a.unknown(c, res, 1)
				}
			}
		}
	}
	if a.site.faults == 0 || a.site.reused < a.site.faults*9/10 {
		a.broken("of %d faults only %d met a connection that was reused", a.site.faults, a.site.reused)
	}
	a.report("http/2: RST_STREAM of every code, GOAWAY at or above our stream, cut after the headers", "unknown, never sent again")
}
