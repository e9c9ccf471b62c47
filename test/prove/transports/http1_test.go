//go:build prove

package transports

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/wire"
)

// rounds is how often each fault meets each tool.
func rounds() int { return proof.Runs(2, 60) }

// http1 answers /warm, and lets the first request of every other key meet the
// fault in its path: /do/TOOL/FAULT/KEY. Later ones succeed.
func (s *site) http1(t *testing.T) string {
	return wire.HTTP1(t, func(x *wire.Exchange) bool {
		part := strings.Split(strings.TrimPrefix(x.URL.Path, "/"), "/")
		if len(part) != 4 {
			return x.ReadBody() && x.OK("warm")
		}
		place, tool, fault, key := part[0], part[1], part[2], part[3]
		first := s.arrives(key)
		execute := func() { s.executes(t, key, x.Header.Get("Idempotency-Key"), tool == pay) }
		if !first || place != "do" {
			if !x.ReadBody() {
				return false
			}
			execute()
			return x.OK("done")
		}
		s.breaks(x.Nth)
		return breakHTTP1(x, fault, "/moved/"+tool+"/"+fault+"/"+key, execute)
	})
}

// breakHTTP1 does what a fault is named after.
func breakHTTP1(x *wire.Exchange, fault, elsewhere string, execute func()) bool {
	say := func(text string) { _, _ = io.WriteString(x.Conn, text) } // a client that left is not our concern
	if fault == "half-read" {                                        // not all of the request is there, and never will be
		_, _ = io.CopyN(io.Discard, x.Body, 1)
		return x.Reset()
	}
	if fault == "race" { // the connection closes as the request comes
		return false
	}
	if fault == "continue" {
		say("HTTP/1.1 100 Continue\r\n\r\n")
	}
	if !x.ReadBody() {
		return false
	}
	execute()
	switch fault {
	case "reset":
		return x.Reset()
	case "body-cut":
		say("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\nhalf")
	case "headers-cut":
		say("HTTP/1.1 200 OK\r\nContent-Le")
	case "early-hints":
		say("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
	case "503", "500", "502", "504", "408", "429":
		say("HTTP/1.1 " + fault + " Proxy\r\nContent-Length: 0\r\nRetry-After: 0\r\n\r\n")
		return true
	case "301", "302", "303", "307", "308":
		say("HTTP/1.1 " + fault + " Moved\r\nLocation: " + elsewhere + "\r\nContent-Length: 0\r\n\r\n")
		return true
	}
	return false // "close", "continue" and those that were cut
}

// http1Audit makes every call with every fault.
func http1Audit(t *testing.T, tools, faults []string, check func(a *audit, c trial)) *audit {
	t.Helper()
	s := newSite()
	a := &audit{Sidecar: harness.Start(t, config(s.http1(t), "")), t: t, site: s}
	for round := range rounds() {
		for _, fault := range faults {
			for _, tool := range tools {
				a.warm()
				check(a, newTrial(tool, fault, round))
			}
		}
	}
	if s.faults == 0 || s.reused < s.faults*9/10 {
		a.broken("of %d faults only %d met a connection that was reused", s.faults, s.reused)
	}
	return a
}

func TestHTTP1ExecutedThenBroken(t *testing.T) {
	a := http1Audit(t, tools, []string{"close", "reset", "headers-cut", "body-cut", "continue", "early-hints"}, func(a *audit, c trial) {
		res := a.makes(c)
		if !repeatable[c.tool] {
			a.unknown(c, res, 1)
		}
	})
	sent, executed := plainClient(t, "close")
	a.control("POST with Idempotency-Key", sent, executed)
	a.report("http/1.1: executed, then broken, connection reused", fmt.Sprintf("a plain client executes %d times, a keyed tool whose upstream ignores keys %d times",
		executed, a.runsAgain(ignored, "close")))
}

func TestHTTP1Redirects(t *testing.T) {
	a := http1Audit(t, []string{act, pay, put, actGet, drop}, []string{"301", "302", "303", "307", "308"}, func(a *audit, c trial) {
		res := a.makes(c)
		if asked := a.site.requests(c.key); !repeatable[c.tool] && (asked != 1 || !res.GetIsError()) {
			a.broken("%s: %d requests: %s", c.key, asked, res.GetContent())
		}
	})
	sent, executed := plainClient(t, "307")
	a.control("POST that is redirected", sent, executed)
	a.report("http/1.1: executed, then redirected (301 to 308)", fmt.Sprintf("a plain client executes %d times", executed))
}

func TestHTTP1NotAllArrived(t *testing.T) {
	pad := strings.Repeat("x", 200_000)
	a := http1Audit(t, []string{act, pay, put, look, actGet, drop}, []string{"half-read", "race"}, func(a *audit, c trial) {
		if c.fault == "half-read" && (c.tool == act || c.tool == pay || c.tool == put) {
			c.args["pad"] = pad
		}
		res := a.makes(c)
		if !repeatable[c.tool] {
			a.unknown(c, res, 0)
		}
	})
	a.report("http/1.1: request half written, keep-alive race", "unknown, never sent again")
}

func TestHTTP1StatusInTheMiddleOfTheWork(t *testing.T) {
	a := http1Audit(t, tools, []string{"503", "500", "502", "504", "408", "429"}, func(a *audit, c trial) {
		res := a.makes(c)
		if !repeatable[c.tool] {
			a.unknown(c, res, 1)
		}
	})
	twice := min(a.runsAgain(believes, "503"), a.runsAgain(believes, "429"))
	a.report("http/1.1: 408, 429 or 5xx in the middle of the work",
		fmt.Sprintf("unknown, never sent again; declared rejects_before_work all the same: %d executions", twice))
}

// runsAgain makes calls of a tool whose declaration is wrong, or whose server lies,
// until one of them is sent again, which the retry budget may refuse for a while.
// That it runs twice then is documented; the row fails when it is no longer so.
func (a *audit) runsAgain(tool, fault string) (executions int) {
	a.t.Helper()
	n := 0
	harness.WaitFor(a.t, "a second attempt", func() bool {
		n++
		a.warm()
		c := newTrial(tool, fault, n)
		a.Call(a.request(c))
		executions = a.site.ledger.Executions(c.key)
		return a.site.requests(c.key) > 1
	})
	a.control(tool+" that meets "+fault+", where somebody says what is not so", 2, executions)
	return executions
}

// plainClient is net/http as it ships, with what many payment services ask for:
// an Idempotency-Key. The upstream does not look at it.
func plainClient(t *testing.T, fault string) (sent, executed int) {
	t.Helper()
	s := newSite()
	url := s.http1(t)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	key := "control-" + fault
	for _, path := range []string{"/warm", "/do/" + act + "/" + fault + "/" + key} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", "k")
		resp, err := client.Do(req)
		if err != nil {
			continue // what it is told is not the point
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		if err != nil {
			t.Error(err)
		}
	}
	return s.requests(key), s.ledger.Executions(key)
}

// control fails the row when a client as it ships does not run a call twice: then
// the fault is none.
func (a *audit) control(what string, sent, executed int) {
	a.t.Helper()
	if sent < 2 || executed < 2 {
		a.broken("the control, %s, was sent %d times and executed %d times: nothing is proven", what, sent, executed)
	}
}

// report adds the row.
func (a *audit) report(fault, figure string) {
	a.t.Helper()
	if n := a.site.ledger.Total(); n > 0 {
		figure = fmt.Sprintf("%d executions, %s", n, figure)
	}
	proof.Report(a.t, proof.Row{Fault: fault, Store: "embedded", Runs: a.site.faults, Violations: a.violations, Figure: figure})
}
