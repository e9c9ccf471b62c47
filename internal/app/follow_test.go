package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/server"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// paper is a Source that a test writes on.
type paper struct {
	mu      sync.Mutex
	text    string
	changed bool
}

func (p *paper) write(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text, p.changed = text, true
}

// hide writes what no look finds.
func (p *paper) hide(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text
}

// Load implements Source.
func (p *paper) Load() (*config.Config, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed = false
	return config.Parse("test.yaml", []byte(p.text), nil)
}

// Changed implements Source.
func (p *paper) Changed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// following is a changing sidecar that follows a paper.
func following(t *testing.T, text string) (*changing, *paper) {
	t.Helper()
	on := &paper{}
	c := newChanging(t, text, on)
	return c, on
}

// readyz is what the admin address says.
func (c *changing) readyz() (int, server.Readiness) {
	c.t.Helper()
	w := httptest.NewRecorder()
	c.fronts.pages.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", http.NoBody))
	var body server.Readiness
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		c.t.Fatal(err)
	}
	return w.Code, body
}

// metric is a line of /metrics that begins so.
func (c *changing) metric(begins string) string {
	w := httptest.NewRecorder()
	c.parts.telemetry.Metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, begins) {
			return strings.TrimSpace(line[strings.LastIndex(line, " "):])
		}
	}
	return "none"
}

func TestWhatChangesTakesOver(t *testing.T) {
	t.Parallel()
	c, on := following(t, twoTools)
	on.write(c.text(edit(t, twoTools, "act:", "do:")))
	harness.WaitFor(t, "the new tool", func() bool { return slices.Contains(c.tools(), "do") })
	on.hide(c.text(edit(t, twoTools, "act:", "it:")))
	c.Reload() // a SIGHUP does not wait for a look
	harness.WaitFor(t, "the next one", func() bool { return slices.Contains(c.tools(), "it") })
	harness.WaitFor(t, "it to be counted", func() bool { return c.metric("sidecall_config_reloads_total") == "2" })
	if code, body := c.readyz(); code != http.StatusOK || body.Status != "ready" || body.ConfigRefused+body.ConfigWaiting != "" {
		t.Errorf("/readyz: %d %+v", code, body)
	}
}

// That the file is wrong keeps nobody from working with what was right: it is told with
// its place, to people and to programs, until it is mended.
func TestABadConfigIsToldAndTheOneBeforeStays(t *testing.T) {
	t.Parallel()
	c, on := following(t, twoTools)
	bad := c.text(edit(t, twoTools, "act: {", "act: {efect: keyed, ", "path: /held", "path: held"))
	on.write(bad)
	harness.WaitFor(t, "the refusal", func() bool { return c.follower.outcome.following().Refused != "" })
	const where = "test.yaml:8:51: tools.held.http.path: "
	code, body := c.readyz()
	if code != http.StatusOK || body.Status != "degraded" || !strings.HasPrefix(body.ConfigRefused, where) || !strings.HasSuffix(body.ConfigRefused, "(and 1 more: see the log)") {
		t.Errorf("/readyz: %d %+v", code, body)
	}
	for _, want := range []string{`level=ERROR msg="config refused" problem="` + where, "test.yaml:9:9: tools.act.efect: ", "the config before it stays in force"} {
		if !strings.Contains(c.log.String(), want) {
			t.Errorf("not in the log: %s\n%s", want, c.log.String())
		}
	}
	if got := c.metric(`sidecall_config_generations{sidecall_config_state="refused"}`); got != "1" || c.metric("sidecall_config_refusals_total") != "1" {
		t.Errorf("the metric says %s", got)
	}
	if res := c.call("1", "act"); res.GetIsError() {
		t.Errorf("a tool of the config before: %v", res)
	}
	on.write(c.text(twoTools))
	harness.WaitFor(t, "the mended one", func() bool { return c.metric("sidecall_config_reloads_total") == "1" })
	if code, body := c.readyz(); code != http.StatusOK || body.Status != "ready" || body.ConfigRefused != "" || c.metric(`sidecall_config_generations{sidecall_config_state="refused"}`) != "0" {
		t.Errorf("mended: /readyz: %d %+v", code, body)
	}
}

// What a config waits for that nobody wants any more is waited for no more.
func TestTheLastWishWins(t *testing.T) {
	t.Parallel()
	slow := newOffice(t, false, "write")
	c, on := following(t, twoTools)
	for n := range 3 {
		on.write(c.text(withOffice(slow, fmt.Sprintf("max_in_flight: %d,", n+1))))
		harness.WaitFor(t, "it to wait", func() bool { return c.follower.outcome.following().Waiting != "" && !on.Changed() })
		code, body := c.readyz()
		if code != http.StatusOK || body.Status != "ready" || !strings.Contains(body.ConfigWaiting, "backend office") {
			t.Errorf("/readyz: %d %+v", code, body)
		}
	}
	on.write(c.text(edit(t, twoTools, "act:", "do:")))
	harness.WaitFor(t, "the last one", func() bool { return slices.Contains(c.tools(), "do") })
	slow.open()
	on.write(c.text(withOffice(slow, "")))
	harness.WaitFor(t, "its backend", func() bool { return slices.Contains(c.tools(), "write") })
	if got := c.metric("sidecall_config_reloads_total"); got != "2" {
		t.Errorf("%s configs have taken over", got)
	}
}

// A sidecar ends while a config waits.
func TestAStopOvertakesAConfig(t *testing.T) {
	t.Parallel()
	c, on := following(t, twoTools)
	on.write(c.text(withOffice(newOffice(t, false, "write"), "")))
	harness.WaitFor(t, "it to wait", func() bool { return c.follower.outcome.following().Waiting != "" })
	// The end of the test stops the sidecar.
}
