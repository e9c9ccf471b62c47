package upstream_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/test/testkit/upstream"
)

func start(t *testing.T) *upstream.Server {
	t.Helper()
	s, err := upstream.Start(upstream.New(upstream.NewLedger()), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// call sends one request on a connection of its own.
func call(t *testing.T, url, body string, header ...string) (int, string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.GetBody = nil
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, string(text), err
}

func TestStepsAreTakenInOrderAndTheLastStays(t *testing.T) {
	s := start(t)
	s.Script("/a", append(upstream.Status(503).Times(2), upstream.JSON(`{"ok":true}`))...)
	for i, want := range []int{503, 503, 200, 200} {
		status, _, err := call(t, s.URL+"/a", `{"key":"k"}`)
		if err != nil || status != want {
			t.Errorf("request %d: %d %v, want %d", i, status, err, want)
		}
	}
	if n := s.Requests("/a"); n != 4 {
		t.Errorf("%d requests, want 4", n)
	}
	if n := s.Ledger.Executions("k"); n != 2 {
		t.Errorf("%d executions, want 2", n)
	}
}

func TestFaultsBreakWhatTheySayAndCountWhatTheyDid(t *testing.T) {
	s := start(t)
	for name, c := range map[string]struct {
		step       upstream.Step
		executions int
	}{
		"reset before": {upstream.ResetBefore(), 0},
		"reset after":  {upstream.ResetAfter(), 1},
		"close before": {upstream.CloseBefore(), 0},
		"close after":  {upstream.CloseAfter(), 1},
		"short body":   {upstream.ShortBody(), 1},
		"not HTTP":     {upstream.NotHTTP(), 1},
	} {
		t.Run(name, func(t *testing.T) {
			s.Script("/x", c.step)
			if status, text, err := call(t, s.URL+"/x", `{"key":"`+name+`"}`); err == nil {
				t.Errorf("got %d %q, want an error", status, text)
			}
			if n := s.Ledger.Executions(name); n != c.executions {
				t.Errorf("%d executions, want %d", n, c.executions)
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	s := start(t)
	for name, c := range map[string]struct {
		step   upstream.Step
		status int
		text   string
	}{
		"plain":        {upstream.Echo(), 200, `{"key":"plain","executions":1}`},
		"HTML":         {upstream.HTML(502), 502, "<title>502 Bad Gateway</title>"},
		"rate limit":   {upstream.RateLimited("3"), 429, "Too Many Requests"},
		"redirect":     {upstream.Redirect(307, "/b"), 307, ""},
		"late failure": {upstream.FailAfter(500), 500, "Internal"},
		"huge":         {upstream.HugeJSON(3), 200, `{"id":2,"name":"item number 2"}]}`},
		"bomb":         {upstream.GzipBomb(1000), 200, strings.Repeat(" ", 1000)},
		"delayed":      {upstream.JSON("1").After(time.Millisecond), 200, "1"},
		"endless":      {upstream.Endless(), 200, "dull boy"},
	} {
		t.Run(name, func(t *testing.T) {
			s.Script("/x", c.step)
			status, text, err := call(t, s.URL+"/x", `{"key":"`+name+`"}`)
			if err != nil || status != c.status || !strings.Contains(text, c.text) {
				t.Errorf("got %d %.80q %v, want %d with %q", status, text, err, c.status, c.text)
			}
		})
	}
}

func TestFaultsByName(t *testing.T) {
	s := start(t)
	if status, _, err := call(t, s.URL+"/fault/unavailable", ""); err != nil || status != 503 {
		t.Errorf("got %d %v, want 503", status, err)
	}
	if status, _, err := call(t, s.URL+"/fault/nope", ""); err != nil || status != 404 {
		t.Errorf("got %d %v, want 404", status, err)
	}
}

func TestHangingRequestsEndWithTheUpstream(t *testing.T) {
	s, err := upstream.Start(upstream.New(upstream.NewLedger()), "")
	if err != nil {
		t.Fatal(err)
	}
	s.Script("/hang", upstream.Hang())
	s.Script("/drip", upstream.Drip(time.Hour))
	ended := make(chan error, 2)
	for _, path := range []string{"/hang", "/drip"} {
		go func() {
			_, _, err := call(t, s.URL+path, "")
			ended <- err
		}()
	}
	for _, path := range []string{"/hang", "/drip"} {
		if err := s.Ledger.Await(t.Context(), path, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	<-ended
	<-ended
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := upstream.NewLedger().Await(ctx, "k", 1); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want canceled", err)
	}
}

func TestHonouredKeysExecuteOnce(t *testing.T) {
	s := start(t)
	s.HonourKeys("/pay")
	s.Script("/pay", upstream.CloseAfter(), upstream.JSON(`{"paid":true}`))
	for range 3 {
		_, _, _ = call(t, s.URL+"/pay", `{"key":"o1"}`, "Idempotency-Key", "abc") // the first one breaks
	}
	if n := s.Ledger.Executions("o1"); n != 1 {
		t.Errorf("%d executions, want 1", n)
	}
	if _, _, err := call(t, s.URL+"/pay", `{"key":"o1"}`, "Idempotency-Key", "def"); err != nil {
		t.Error(err)
	}
	if n := s.Ledger.Executions("o1"); n != 2 {
		t.Errorf("%d executions, want 2", n)
	}
}

func TestLedgerSurvivesAndForgetsATornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	open := func() *upstream.Ledger {
		l, err := upstream.OpenLedger(path)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := open()
	for _, key := range []string{"a", "b\n", "a"} {
		if err := l.Write(key); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`"torn`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	l = open()
	if err := l.Write("c"); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open()
	defer l.Close()
	if l.Executions("a") != 2 || l.Executions("b\n") != 1 || l.Executions("c") != 1 || l.Total() != 4 {
		t.Errorf("counts = %v", l.Counts())
	}
}
